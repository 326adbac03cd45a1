//! A table: its columns, the rows that wait, and the files that were written.

use std::path::PathBuf;
use std::sync::Arc;

use crate::batch::Batch;
use crate::error::Error;
use crate::output::{self, Format, Writers};
use crate::place::RunPlace;
use crate::schema::Field;

/// Memory that the rows of one table may take before they become a file.
const BATCH_BYTES: usize = 24 << 20;

/// One table of a run.
pub struct Table {
    name: String,
    columns: Vec<Field>,
    format: Arc<Format>,
    folder: Option<PathBuf>,
    parts: u32,
    /// Rows that were added.
    pub rows: u64,
    /// The rows that wait.
    pub batch: Batch,
    /// Memory that they took when last looked at.
    held: usize,
}

/// Where tables go.
pub struct Sink {
    /// Who writes their files: they stop before the folders of a run that failed are taken away.
    pub writers: Writers,
    /// Their folders.
    pub place: RunPlace,
    /// Memory of all rows that wait.
    pub held: usize,
}

impl Table {
    /// A table without rows; its folder is made with its first file.
    pub fn new(name: impl Into<String>, columns: Vec<Field>) -> Result<Table, Error> {
        let name = name.into();
        let fail = |source| Error::Parquet { path: PathBuf::from(&name), source };
        let format = Arc::new(Format::new(&columns).map_err(fail)?);
        let batch = Batch::new(&columns);
        Ok(Table { name, columns, format, folder: None, parts: 0, rows: 0, batch, held: 0 })
    }

    /// Looks at the rows that wait after some were added.
    pub fn settle(&mut self, sink: &mut Sink) -> Result<(), Error> {
        let held = self.batch.held_bytes();
        sink.held = sink.held - self.held + held;
        self.held = held;
        if held < BATCH_BYTES { Ok(()) } else { self.write(sink) }
    }

    /// Memory of the rows that wait.
    pub fn held_bytes(&self) -> usize {
        self.held
    }

    /// Writes the rows that wait, if there are any.
    pub fn flush(&mut self, sink: &mut Sink) -> Result<(), Error> {
        if self.batch.rows == 0 { Ok(()) } else { self.write(sink) }
    }

    /// Writes the last rows. A table that has none gets a file all the same, so that whoever looks
    /// for it finds its columns.
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
