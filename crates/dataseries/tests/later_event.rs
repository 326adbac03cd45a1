//! One row is enough for a kind of event: it has a type of its own, and comes back. In a test binary
//! of its own, as the row is there for all of a process.

#[path = "files/sample.rs"]
#[allow(dead_code, reason = "every test file uses its own part")]
mod sample;

use dataseries::Codec;
use dataseries::file::reader::FileReader;
use trace::event::FieldValue;
use trace::event::{Event, EventKind, OtherEvent, Preamble, Totals};
use trace::event_table::{self, EventClass, EventRow, Field, FieldType};
use trace::{Writer, WriterOptions};

const fn field(name: &'static str, ty: FieldType) -> Field {
    Field { name, ty, about: "of a test", since: 2 }
}

static LATER: [EventRow; 1] = [EventRow {
    number: 61,
    name: "page_fault",
    json_type: "page_fault",
    class: EventClass::Task,
    producer: "a test",
    about: "a page was missing",
    fields: &[
        field("code", FieldType::U8),
        field("pages", FieldType::U32),
        field("address", FieldType::U64),
        field("offset", FieldType::I64),
        field("path", FieldType::Bytes),
        field("note", FieldType::Text),
    ],
}];

#[test]
fn one_row_is_enough() {
    event_table::add_for_test(&LATER);
    let values = vec![
        FieldValue::Unsigned(255),
        FieldValue::Unsigned(u32::MAX.into()),
        FieldValue::Unsigned(u64::MAX),
        FieldValue::Signed(i64::MIN),
        FieldValue::Bytes(b"\xff\0".to_vec()),
        FieldValue::Text("\u{e4}".into()),
    ];
    let event = Event::new(3, 500, EventKind::Other(OtherEvent { row: &LATER[0], values }));
    let memory = sample::Memory::default();
    let options = WriterOptions { workers: 0, ..WriterOptions::default() };
    let mut writer = Writer::new(Box::new(memory.clone()), &Preamble::default(), options).unwrap();
    writer.event(&event).unwrap();
    writer.finish(&Totals::default()).unwrap();

    let file = sample::export(&sample::open(memory.bytes()), Codec::None);
    let bytes = &file[..];
    let reader = FileReader::open(&bytes).unwrap();
    let of = reader.find("Reenact::Trace::PageFault").unwrap();
    let names: Vec<&str> = of.fields.iter().map(|field| field.name.as_str()).collect();
    let expected =
        ["event", "thread", "ticks", "code", "pages", "address", "offset", "path", "note"];
    assert!(expected.iter().all(|name| names.contains(name)), "{names:?}");

    let (imported, back) = sample::import(&file).unwrap();
    assert!(imported.exact && imported.damage.is_empty(), "{imported:?}");
    assert!(sample::events(&sample::open(back)).contains(&event));
}
