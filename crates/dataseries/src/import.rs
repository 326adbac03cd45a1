//! Imports a file into a trace.
//!
//! A file exported from a trace holds all of it (`exact`). For other files, the rows of `calls`
//! make calls from records (`foreign`), and the results of clone and fork give the lives of threads
//! (`lives`).

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

/// Most types named if a file holds no calls.
const TYPES_TOLD: usize = 5;

/// Result of an import.
#[derive(Clone, Debug, Default)]
pub struct Imported {
    /// Number of calls.
    pub calls: u64,
    /// Number of records read.
    pub records: u64,
    /// The file was exported from a trace, so that nothing had to be guessed.
    pub exact: bool,
    /// Damage found in the file; everything else was imported.
    pub damage: Vec<Error>,
    /// Number of extents.
    pub extents: u64,
    /// Number of extents that could not be read.
    pub extents_lost: u64,
    /// Data missing in the file, one line of text for the user each.
    pub not_told: Vec<String>,
    /// Size of the trace in bytes.
    pub bytes: u64,
}

/// Imports `bytes` into a trace. `sink` is called once it is clear that there are calls.
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

/// Makes the error for a file without calls: what it holds instead, and what of it is readable.
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

/// Ends a trace, with a gap that names its origin.
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
    writer.event(&Event::new(RECORDER, totals.end_tsc, kind))?;
    totals.gaps += 1;
    writer.flush()?;
    totals.stored_bytes = writer.stored_bytes();
    imported.calls = writer.calls_written();
    imported.bytes = writer.finish(&totals)?.trace_bytes;
    Ok(())
}
