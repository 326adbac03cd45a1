//! Exports a recording as Parquet tables.

use std::path::PathBuf;

use model::{Conditions, Contents, Moment};
use tables::{Choice, Kind, Summary, Table, Tables};
use trace::Trace;

use crate::error::Error;
use crate::output::Writers;
use crate::place::{RunPlace, TABLES};
use crate::table::{Sink, Written};

/// Limit for the memory of all unwritten rows.
const HELD_BYTES_MAX: usize = 64 << 20;

/// Limit for the estimated memory of rows before the real memory is counted again.
const UNCOUNTED_BYTES_MAX: u64 = 256 << 10;

/// Options of an export.
pub struct Options {
    /// The directory, which may contain other runs.
    pub root: PathBuf,
    /// Name of the run.
    pub run: String,
    /// True if existing rows of this run are replaced.
    pub force: bool,
    /// True if the bytes of buffers are written.
    pub content: bool,
    /// Which events are written; those of `states` are not events.
    pub conditions: Conditions,
}

/// An export in progress.
pub struct Export<'a> {
    sink: Sink,
    tables: Tables<'a>,
    /// What is written of each table, by its id.
    written: Vec<Written>,
    /// Estimated memory of the rows added since the last count.
    uncounted: u64,
}

impl<'a> Export<'a> {
    /// Creates the directory.
    pub fn new(trace: &'a Trace, options: Options) -> Result<Export<'a>, Error> {
        let place = RunPlace::new(&options.root, &options.run, options.force)?;
        let writers = Writers::new().map_err(Error::Threads)?;
        let sink = Sink { place, writers, held: 0 };
        let Options { content, conditions: states, .. } = options;
        let choice = Choice { content, states, ..Choice::default() };
        let tables = Tables::new(trace, choice);
        Ok(Export { sink, tables, written: Vec::new(), uncounted: 0 })
    }

    /// Processes the next event of a walk that follows files. It always updates tracked state, but is written only if `wanted`.
    pub fn add(
        &mut self,
        moment: &Moment<'_>,
        wanted: bool,
        contents: &mut dyn Contents,
    ) -> Result<(), Error> {
        self.uncounted = self.uncounted.saturating_add(self.tables.add(moment, wanted, contents));
        if self.uncounted < UNCOUNTED_BYTES_MAX { Ok(()) } else { self.count() }
    }

    /// Counts the memory of unwritten rows, and writes tables that are large enough.
    fn count(&mut self) -> Result<(), Error> {
        self.uncounted = 0;
        self.each(|table, written, sink| written.settle(table, sink))?;
        if self.sink.held > HELD_BYTES_MAX { self.relieve() } else { Ok(()) }
    }

    /// Writes the rows of the table with most memory.
    fn relieve(&mut self) -> Result<(), Error> {
        let most = self.written.iter().map(Written::held_bytes).max().unwrap_or_default();
        let mut is_done = false;
        self.each(|table, written, sink| {
            if is_done || written.held_bytes() < most {
                return Ok(());
            }
            is_done = true;
            written.flush(table, sink)
        })
    }

    /// Calls `act` with each table and what is written of it.
    fn each(
        &mut self,
        mut act: impl FnMut(&mut Table, &mut Written, &mut Sink) -> Result<(), Error>,
    ) -> Result<(), Error> {
        let Export { sink, tables, written, .. } = self;
        for table in tables.each() {
            if written.len() <= table.id {
                written.resize_with(table.id + 1, Written::default);
            }
            act(table, &mut written[table.id], sink)?;
        }
        Ok(())
    }

    /// Writes the remaining rows, and waits until all files are complete.
    pub fn finish(mut self) -> Result<Summary, Error> {
        self.tables.finish();
        self.each(|table, written, sink| match is_always_there(table.kind) {
            true => written.finish(table, sink),
            false => written.flush(table, sink),
        })?;
        let Sink { place, writers, .. } = self.sink;
        writers.finish()?;
        place.keep();
        Ok(self.tables.summary().clone())
    }
}

/// Returns true for tables that every run has.
fn is_always_there(kind: Kind) -> bool {
    TABLES.contains(&kind.name().as_str())
}
