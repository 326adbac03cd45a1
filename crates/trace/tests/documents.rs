//! docs/events.md is made from the table of events. To update it:
//! `REENACT_UPDATE_DOCS=1 cargo test -p trace --test documents`.

use std::fmt::Write;
use std::path::Path;

use trace::event_table::{self, EventClass, EventRow, Field, FieldType};
use trace::parts::PART_ROWS;

const HEAD: &str = "\
# Events

Events of a trace other than calls, with their fields in the order of the file ([format.md](format.md)).
Exports that make columns of them use the same names. This page is made from
`crates/trace/src/event_table.rs` and `parts.rs`; a test keeps it current.
";

const PARTS: &str = "
## Parts

What any event, also a call, may have besides.

| id | name | meaning |
|---|---|---|
";

fn page(rows: impl Iterator<Item = &'static EventRow>) -> String {
    let mut page = HEAD.to_string();
    for row in rows {
        let EventRow { number, name, class, producer, about, fields, .. } = row;
        let class = class.name();
        let _ = write!(
            page,
            "\n## {name}\n\nKind {number}, class `%{class}`, by {producer}: {about}.\n\n\
             | field | type | meaning |\n|---|---|---|\n"
        );
        for field in *fields {
            let since = match field.since {
                1 => String::new(),
                since => format!(" (from version {since})"),
            };
            let _ = writeln!(
                page,
                "| `{}` | {} | {}{since} |",
                field.name,
                field.ty.name(),
                field.about
            );
        }
    }
    page.push_str(PARTS);
    for part in &PART_ROWS {
        let _ = writeln!(page, "| {} | `{}` | {} |", part.id, part.name, part.about);
    }
    page
}

#[test]
fn the_page_is_the_table() {
    let page = page(event_table::ROWS.iter());
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/events.md");
    if std::env::var_os("REENACT_UPDATE_DOCS").is_some() {
        std::fs::write(&file, &page).unwrap();
    }
    assert!(
        std::fs::read_to_string(&file).unwrap_or_default() == page,
        "docs/events.md is not what the table says; run this test with REENACT_UPDATE_DOCS=1"
    );
}

#[test]
fn one_row_is_enough() {
    static LATER: [EventRow; 1] = [EventRow {
        number: 61,
        name: "page_fault",
        json_type: "page_fault",
        class: EventClass::Task,
        producer: "a test",
        about: "a page was missing",
        fields: &[Field { name: "address", ty: FieldType::U64, about: "of it", since: 2 }],
    }];
    event_table::add_for_test(&LATER);
    let page = page(event_table::rows());
    assert!(
        page.contains("## page_fault\n\nKind 61, class `%task`, by a test: a page was missing.\n")
    );
    assert!(page.contains("| `address` | number | of it (from version 2) |"));
}
