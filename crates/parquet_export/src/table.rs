//! A table: its columns, its unwritten rows, and its files.

use std::path::PathBuf;
use std::sync::Arc;

use crate::batch::Batch;
use crate::error::Error;
use crate::output::{self, Format, Writers};
use crate::place::RunPlace;
use crate::schema::Field;

/// Memory of unwritten rows at which a table is written to a file.
const BATCH_BYTES: usize = 24 << 20;

/// One table of a run.
pub struct Table {
    name: String,
    columns: Vec<Field>,
    format: Arc<Format>,
    folder: Option<PathBuf>,
    parts: u32,
    /// Number of rows in files.
    pub rows: u64,
    /// Rows that are not written yet.
    pub batch: Batch,
    /// Memory of those rows at the last count.
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

impl Table {
    /// Makes an empty table. Its directory is created with its first file.
    pub fn new(name: impl Into<String>, columns: Vec<Field>) -> Result<Table, Error> {
        let name = name.into();
        let fail = |source| Error::Parquet { path: PathBuf::from(&name), source };
        let format = Arc::new(Format::new(&columns).map_err(fail)?);
        let batch = Batch::new(&columns);
        Ok(Table { name, columns, format, folder: None, parts: 0, rows: 0, batch, held: 0 })
    }

    /// Counts the memory of the unwritten rows, and writes them if it is large.
    pub fn settle(&mut self, sink: &mut Sink) -> Result<(), Error> {
        let held = self.batch.held_bytes();
        sink.held = sink.held - self.held + held;
        self.held = held;
        if held < BATCH_BYTES { Ok(()) } else { self.write(sink) }
    }

    /// Memory of the unwritten rows at the last count.
    pub fn held_bytes(&self) -> usize {
        self.held
    }

    /// Writes the remaining rows, if there are any.
    pub fn flush(&mut self, sink: &mut Sink) -> Result<(), Error> {
        if self.batch.rows == 0 { Ok(()) } else { self.write(sink) }
    }

    /// Writes the remaining rows. An empty table gets a file as well, so that its columns are
    /// known.
    pub fn finish(&mut self, sink: &mut Sink) -> Result<(), Error> {
        if self.parts == 0 { self.write(sink) } else { self.flush(sink) }
    }

    fn write(&mut self, sink: &mut Sink) -> Result<(), Error> {
        let folder = match self.folder.take() {
            Some(folder) => folder,
            None => sink.place.table(&self.name)?,
        };
        sink.held -= self.held;
        self.held = 0;
        let batch = std::mem::replace(&mut self.batch, Batch::new(&self.columns));
        self.rows += batch.rows;
        let path = output::part(&folder, self.parts);
        self.parts += 1;
        self.folder = Some(folder);
        sink.writers.write(path, &self.format, batch)
    }
}
