//! From a file to a trace.
//!
//! A file that was exported from a trace has all that the trace had (`exact`). Of the records of
//! others, calls are made by the rows of `calls` (`foreign`), and lives of threads by who was made by
//! whom (`lives`).

mod exact;
mod foreign;
mod lives;
mod stream;
mod unmake;

use std::io::Write;

use trace::event::{Event, Totals};
use trace::event::{EventKind, GapWhy, RECORDER};
use trace::{Writer, WriterOptions};

use crate::columns;
use crate::error::Error;
use crate::file::reader::{Bytes, FileReader};
use crate::schema::SNIA;
use stream::Files;

/// Types that are named when a file holds no calls.
const TYPES_TOLD: usize = 5;

/// What was made of a file.
#[derive(Clone, Debug, Default)]
pub struct Imported {
    /// Calls.
    pub calls: u64,
    /// Records that were read.
    pub records: u64,
    /// The file was exported from a trace: nothing had to be guessed.
    pub exact: bool,
    /// What is damaged in the file; what else is in it was imported.
    pub damage: Vec<Error>,
    /// Extents, and those that could not be read.
    pub extents: u64,
    /// See `extents`.
    pub extents_lost: u64,
    /// What the file did not tell, for people: one line each.
    pub not_told: Vec<String>,
    /// Bytes of the trace.
    pub bytes: u64,
}

/// Writes a trace of what `bytes` hold. `sink` is asked for once it is clear that there are calls.
pub fn import(
    bytes: &dyn Bytes,
    sink: impl FnOnce() -> std::io::Result<Box<dyn Write + Send>>,
    options: WriterOptions,
) -> Result<Imported, Error> {
    let reader = FileReader::open(bytes)?;
    let has = |name: &str| reader.extents().iter().any(|head| head.name.starts_with(name));
    let exact = has(columns::RECORDING);
    if !exact && !has(SNIA) {
        return Err(no_calls(&reader));
    }
    let files = Files::new(&reader);
    let sink = sink().map_err(|error| Error::io(0, error))?;
    let mut imported = match exact {
        true => exact::import(&files, sink, options)?,
        false => foreign::import(&files, sink, options)?,
    };
    imported.exact = exact;
    imported.extents = reader.extents().len() as u64;
    files.tell(&mut imported);
    Ok(imported)
}

/// Says what a file holds instead of calls, and what of it can be read.
fn no_calls(reader: &FileReader<'_>) -> Error {
    let mut names: Vec<&str> = reader.type_names().take(TYPES_TOLD + 1).collect();
    if names.len() > TYPES_TOLD {
        names[TYPES_TOLD] = "...";
    }
    let types = names.join(", ").escape_debug().to_string();
    let mut damage = reader.damage.first().map(Error::to_string);
    let (mut extents, mut records) = (0, 0);
    for head in reader.extents() {
        match reader.read(head) {
            Ok(extent) => {
                extents += 1;
                records += extent.records;
            }
            Err(error) => damage = damage.or_else(|| Some(error.to_string())),
        }
    }
    let damage = damage.map(|damage| format!("{damage}; in what can be read "));
    Error::NoCalls { damage: damage.unwrap_or_default(), extents, records, types }
}

/// Ends a trace, with a gap that says where it comes from.
fn finish(
    mut writer: Writer,
    mut totals: Totals,
    files: &Files<'_, '_>,
    imported: &mut Imported,
) -> Result<(), Error> {
    let damage = files.damage_count();
    let damage =
        if damage > 0 { format!("; {damage} stretches of it are damaged") } else { String::new() };
    let text = format!("imported from a DataSeries file{damage}");
    let kind = EventKind::Gap { why: GapWhy::Imported, detail: 0, text };
    writer.event(&Event { thread: RECORDER, tsc: totals.end_tsc, kind })?;
    totals.gaps += 1;
    writer.flush()?;
    totals.stored_bytes = writer.stored_bytes();
    imported.calls = writer.calls_written();
    imported.bytes = writer.finish(&totals)?.trace_bytes;
    Ok(())
}
