//! The tables `data`, with each distinct buffer, and `events`, with what is no call.

use model::Moment;
use trace::event::EventKind;

use crate::batch::Batch;
use crate::processes::wall_us;
use crate::schema::{Field, Type};
use crate::table::Table;

/// Returns the columns of the table `data`.
pub fn data_columns() -> Vec<Field> {
    [("hash", Type::Hash), ("length", Type::Long), ("content", Type::Bytes)]
        .map(|(name, ty)| Field::new(name, ty))
        .into()
}

/// Adds a row to the table `data`, if it is wanted.
pub fn data_row(table: &mut Option<Table>, hash: u128, length: u64, bytes: Option<&[u8]>) {
    let Some(table) = table else { return };
    let mut row = table.batch.row();
    row.hash(Some(hash));
    row.number(length as i64);
    row.bytes(bytes);
    row.end();
}

/// Returns the columns of the table `events`.
pub fn event_columns() -> Vec<Field> {
    [
        ("type", Type::Text),
        ("pid", Type::Int),
        ("tid", Type::Int),
        ("time", Type::Time),
        ("time_ns", Type::Long),
        ("json", Type::Text),
    ]
    .map(|(name, ty)| Field::new(name, ty))
    .into()
}

/// Adds a row to the table `events`.
pub fn event_row(batch: &mut Batch, moment: &Moment<'_>, epoch_ns: u64, object: &str) {
    let mut row = batch.row();
    row.text(json_type(&moment.event.kind).as_bytes());
    row.number(moment.pid.map(i64::from));
    row.number(moment.tid.map(i64::from));
    row.number(wall_us(epoch_ns, moment.enter_ns));
    row.number(moment.enter_ns as i64);
    row.text(object.as_bytes());
    row.end();
}

/// Returns the type of an event as in `show --json`.
fn json_type(kind: &EventKind) -> &'static str {
    kind.row().map_or("unknown", |row| row.json_type)
}
