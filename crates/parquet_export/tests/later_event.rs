//! One row is enough for a kind of event: it is in the table of events.

use model::{Conditions, InlineOnly, Moment, World};
use parquet::file::reader::{FileReader, SerializedFileReader};
use parquet_export::{Export, Options};
use trace::event::FieldValue;
use trace::event::{Event, EventKind, OtherEvent, Preamble};
use trace::event_table::{EventClass, EventRow, Field, FieldType};
use trace::{Trace, Writer, WriterOptions};

static LATER: EventRow = EventRow {
    number: 61,
    name: "page_fault",
    json_type: "page_fault",
    class: EventClass::Task,
    producer: "a test",
    about: "a page was missing",
    fields: &[Field { name: "address", ty: FieldType::U64, about: "of a test", since: 2 }],
};

#[test]
fn one_row_is_enough() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("empty.rnt");
    let sink = Box::new(std::fs::File::create(&path).unwrap());
    let options = WriterOptions { workers: 0, ..WriterOptions::default() };
    drop(Writer::new(sink, &Preamble::default(), options).unwrap());
    let trace = Trace::open(&path).unwrap();

    let root = dir.path().join("tables");
    let run = "run".to_string();
    let conditions = Conditions::default();
    let options = Options { root: root.clone(), run, force: false, content: true, conditions };
    let mut export = Export::new(&trace, options).unwrap();
    let values = vec![FieldValue::Unsigned(4096)];
    let event = Event::new(1, 5, EventKind::Other(OtherEvent { row: &LATER, values }));
    let mut world = World::new();
    let step = world.step(&event, &mut InlineOnly);
    let moment = Moment::new(None, &event, &world, &step, &|tsc| tsc);
    export.add(&moment, true, &mut InlineOnly).unwrap();
    export.finish().unwrap();

    let run = std::fs::read_dir(root.join("events")).unwrap().next().unwrap().unwrap().path();
    let file = std::fs::read_dir(run).unwrap().next().unwrap().unwrap().path();
    let reader = SerializedFileReader::new(std::fs::File::open(file).unwrap()).unwrap();
    let rows: Vec<String> =
        reader.get_row_iter(None).unwrap().map(|row| row.unwrap().to_string()).collect();
    assert_eq!(rows.len(), 1);
    assert!(rows[0].contains("type: \"page_fault\""), "{rows:?}");
    assert!(rows[0].contains("address") && rows[0].contains("4096"), "{rows:?}");
}
