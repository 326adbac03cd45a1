//! Imports a file into a trace.
//!
//! A file exported from a trace holds all of it (`exact`). For other files, the rows of `calls`
//! make calls from records (`foreign`), and the results of clone and fork give the lives of threads
//! (`lives`).

mod end;
mod exact;
mod foreign;
mod imported;
mod lives;
mod stream;
mod unmake;

use std::io::Write;

use trace::WriterOptions;

use crate::columns;
use crate::error::Error;
use crate::file::reader::{Bytes, FileReader};
use crate::schema::SNIA;
use stream::Files;

pub use imported::Imported;

/// Most types named if a file holds no calls.
const TYPES_TOLD: usize = 5;

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
