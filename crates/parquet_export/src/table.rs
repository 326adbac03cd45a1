//! The files of a table.

use std::path::PathBuf;
use std::sync::Arc;

use tables::Table;

use crate::error::Error;
use crate::output::{self, Format, Writers};
use crate::place::RunPlace;

/// Memory of unwritten rows at which a table is written to a file.
const BATCH_BYTES: usize = 24 << 20;

/// What is written of one table of a run.
#[derive(Default)]
pub struct Written {
    format: Option<Arc<Format>>,
    folder: Option<PathBuf>,
    parts: u32,
    /// Memory of its unwritten rows at the last count.
    held: usize,
}

/// Destination of all tables.
pub struct Sink {
    /// The writer threads. Dropped first, so that they stop before a failed run is removed.
    pub writers: Writers,
    /// The directories.
    pub place: RunPlace,
    /// Memory of all unwritten rows.
    pub held: usize,
}

impl Written {
    /// Counts the memory of the unwritten rows, and writes them if it is large.
    pub fn settle(&mut self, table: &mut Table, sink: &mut Sink) -> Result<(), Error> {
        let held = table.batch.held_bytes();
        sink.held = sink.held - self.held + held;
        self.held = held;
        if held < BATCH_BYTES { Ok(()) } else { self.write(table, sink) }
    }

    /// Memory of the unwritten rows at the last count.
    pub fn held_bytes(&self) -> usize {
        self.held
    }

    /// Writes the remaining rows, if there are any.
    pub fn flush(&mut self, table: &mut Table, sink: &mut Sink) -> Result<(), Error> {
        if table.batch.rows == 0 { Ok(()) } else { self.write(table, sink) }
    }

    /// Writes the remaining rows. An empty table gets a file as well, so that its columns are
    /// known.
    pub fn finish(&mut self, table: &mut Table, sink: &mut Sink) -> Result<(), Error> {
        if self.parts == 0 { self.write(table, sink) } else { self.flush(table, sink) }
    }

    /// The directory of the table is created with its first file.
    fn write(&mut self, table: &mut Table, sink: &mut Sink) -> Result<(), Error> {
        let name = table.kind.name();
        let fail = |source| Error::Parquet { path: PathBuf::from(&name), source };
        let format = match self.format.take() {
            Some(format) => format,
            None => Arc::new(Format::new(&table.columns).map_err(fail)?),
        };
        let folder = match self.folder.take() {
            Some(folder) => folder,
            None => sink.place.table(&name)?,
        };
        sink.held -= self.held;
        self.held = 0;
        let path = output::part(&folder, self.parts);
        self.parts += 1;
        self.folder = Some(folder);
        let format = self.format.insert(format);
        sink.writers.write(path, format, table.take())
    }
}
