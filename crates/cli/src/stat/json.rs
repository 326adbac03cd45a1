//! Views as one JSON object.

use std::io::{self, Write};

use render::json::Json;
use stats::sheet::{Cell, Sheet, Table};

/// Writes a view.
pub fn write(out: &mut impl Write, view: &str, sheet: &Sheet) -> io::Result<()> {
    let mut json = Json::new(out);
    json.object(|json| {
        json.key("view").str(view);
        for fact in sheet.facts.iter().filter(|fact| !fact.key.is_empty()) {
            cell(json.key(fact.key), &fact.value);
        }
        for table in sheet.tables.iter().filter(|table| !table.one_of_many) {
            rows(json.key(table.key), table);
        }
        let many = sheet.tables.iter().filter(|table| table.one_of_many);
        if let Some(first) = many.clone().next() {
            json.key(first.key).array(|json| {
                for table in many {
                    json.object(|json| {
                        json.key("of").str(&table.title);
                        rows(json.key("rows"), table);
                    });
                }
            });
        }
    });
    json.finish()?;
    out.write_all(b"\n")
}

fn rows(json: &mut Json<'_>, table: &Table) {
    json.array(|json| {
        for row in &table.rows {
            json.object(|json| {
                let named = table.columns.iter().zip(row).filter(|(c, _)| !c.key.is_empty());
                named.for_each(|(column, value)| cell(json.key(column.key), value));
            });
        }
    });
}

fn cell(json: &mut Json<'_>, value: &Cell) {
    match value {
        Cell::Nothing => json.null(),
        Cell::Count(n) | Cell::Id(n) | Cell::Bytes(n) | Cell::Ns(n) | Cell::At(n) => json.uint(*n),
        Cell::Share(n) | Cell::Number(n) | Cell::Bar(n) | Cell::ChangeShare(n) => json.number(*n),
        Cell::Change(_, n) => json.int(*n),
        Cell::Name(name) | Cell::Branch(_, name) => json.bytes(name),
        Cell::Word(word) => json.str(word),
        Cell::Line(line) => json.str(line),
        Cell::Counts(counts) => json.object(|json| {
            counts.iter().for_each(|(word, count)| json.key(word).uint(*count));
        }),
    }
}
