//! Exports a recording as tables.

use std::path::PathBuf;

use model::decode::shape::shape_of;
use model::decode::{self, Limits};
use model::{Contents, Moment};
use render::{json, objects};
use trace::Trace;
use trace::event::{Call, EventKind};

use crate::batch::Batch;
use crate::calls::{self, OwnTables, Seen};
use crate::data::{Carried, Known};
use crate::error::Error;
use crate::files;
use crate::kernel::KernelTables;
use crate::output::Writers;
use crate::place::RunPlace;
use crate::processes::{self, Processes, wall_us};
use crate::schema::{Field, Type};
use crate::table::{Sink, Table};

/// Limit for the bytes of a string.
pub const STRING_BYTES_MAX: usize = 128 << 10;
/// Limit for the items of a list.
pub const ITEMS_MAX: usize = 64 << 10;

/// Limits for decoding calls; the bytes of data are written to their own table.
const LIMITS: Limits = Limits { strings: STRING_BYTES_MAX, data: 0, items: ITEMS_MAX };

/// Limit for the memory of all unwritten rows.
const HELD_BYTES_MAX: usize = 64 << 20;

/// Limit for the estimated memory of rows before the real memory is counted again.
const UNCOUNTED_BYTES_MAX: u64 = 256 << 10;
/// Estimated memory of a call's rows without its captured data.
const ROW_BYTES: u64 = 1 << 10;

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
}

/// Result of an export.
#[derive(Clone, Debug, Default)]
pub struct Summary {
    /// Number of calls.
    pub calls: u64,
    /// Number of distinct buffers.
    pub buffers: u64,
    /// Number of buffers without content: longer than [`crate::data::CONTENT_BYTES_MAX`], or not
    /// captured completely.
    pub without_content: u64,
    /// True if buffers may have been written twice, for lack of memory.
    pub repeated: bool,
}

impl Summary {
    fn count(&mut self, content: Option<&[u8]>) {
        self.buffers += 1;
        self.without_content += u64::from(content.is_none());
    }
}

/// An export in progress.
pub struct Export<'a> {
    trace: &'a Trace,
    options: Options,
    epoch_ns: u64,
    sink: Sink,
    lives: Processes,
    known: Known,
    carried: Vec<Carried>,
    calls: Table,
    own: OwnTables,
    processes: Table,
    files: Table,
    data: Table,
    events: Table,
    kernel: KernelTables,
    summary: Summary,
    /// Estimated memory of the rows added since the last count.
    uncounted: u64,
}

impl<'a> Export<'a> {
    /// Creates the directory.
    pub fn new(trace: &'a Trace, options: Options) -> Result<Export<'a>, Error> {
        let epoch_ns = trace.preamble().epoch_ns;
        let place = RunPlace::new(&options.root, &options.run, options.force)?;
        let writers = Writers::new().map_err(Error::Threads)?;
        let sink = Sink { place, writers, held: 0 };
        Ok(Export {
            trace,
            epoch_ns,
            sink,
            lives: Processes::new(epoch_ns),
            known: Known::default(),
            carried: Vec::new(),
            calls: Table::new("calls", calls::columns())?,
            own: OwnTables::new(),
            processes: Table::new("processes", processes::columns())?,
            files: Table::new("files", files::columns())?,
            data: Table::new("data", data_columns())?,
            events: Table::new("events", event_columns())?,
            kernel: KernelTables::new(&model::kernel_layouts(trace), epoch_ns)?,
            summary: Summary::default(),
            uncounted: 0,
            options,
        })
    }

    /// Processes the next event of a walk that follows files. It always updates tracked state, but is written only if `wanted`.
    pub fn add(
        &mut self,
        moment: &Moment<'_>,
        wanted: bool,
        contents: &mut dyn Contents,
    ) -> Result<(), Error> {
        if let EventKind::Call(call) = &moment.event.kind {
            self.call(moment, call, wanted, contents)?;
        } else {
            self.lives.look(moment, &mut self.processes.batch);
            // Those of the kernel have a table of their own.
            if wanted && !is_kernel(&moment.event.kind) {
                let object = json::text(|json| {
                    objects::event(json, moment, contents, objects::Detail::default())
                });
                event_row(&mut self.events.batch, moment, self.epoch_ns, &object);
                self.uncounted += object.len() as u64;
            }
        }
        self.uncounted += self.kernel.add(moment, wanted);
        if self.uncounted < UNCOUNTED_BYTES_MAX { Ok(()) } else { self.count() }
    }

    fn call(
        &mut self,
        moment: &Moment<'_>,
        call: &Call,
        wanted: bool,
        contents: &mut dyn Contents,
    ) -> Result<(), Error> {
        if !wanted {
            return Ok(());
        }
        let shape = shape_of(call);
        let Export { known, carried, data, summary, options, .. } = self;
        known.all(self.trace, call, &shape, carried, &mut |hash, length, bytes| {
            summary.count(bytes);
            data_row(&mut data.batch, hash, length, bytes.filter(|_| options.content));
        });
        let decoded = decode::decode(call, &moment.view(), contents, LIMITS);
        let seen = Seen {
            moment,
            call,
            decoded: &decoded,
            carried: &self.carried,
            epoch_ns: self.epoch_ns,
        };
        seen.add(&mut self.calls.batch);
        self.own.add(&seen, &shape)?;
        files::add(&mut self.files.batch, moment, call, &decoded);
        self.summary.calls += 1;
        let captured = call.data.iter().map(|data| data.content.len());
        self.uncounted = captured.fold(self.uncounted + ROW_BYTES, u64::saturating_add);
        Ok(())
    }

    /// Counts the memory of unwritten rows, and writes tables that are large enough.
    fn count(&mut self) -> Result<(), Error> {
        self.uncounted = 0;
        let Export { calls, processes, files, data, events, kernel, own, sink, .. } = self;
        let fixed = [calls, processes, files, data, events];
        let fixed = fixed.into_iter().chain(kernel.tables());
        fixed.chain(own.tables()).try_for_each(|table| table.settle(sink))?;
        if self.sink.held > HELD_BYTES_MAX { self.relieve() } else { Ok(()) }
    }

    /// Writes the rows of the table with most memory.
    fn relieve(&mut self) -> Result<(), Error> {
        let Export { calls, processes, files, data, events, kernel, own, sink, .. } = self;
        let fixed = [calls, processes, files, data, events];
        let fixed = fixed.into_iter().chain(kernel.tables());
        let largest = fixed.chain(own.tables()).max_by_key(|table| table.held_bytes());
        largest.map_or(Ok(()), |table| table.flush(sink))
    }

    /// Writes the remaining rows, and waits until all files are complete.
    pub fn finish(mut self) -> Result<Summary, Error> {
        let lives = std::mem::take(&mut self.lives);
        lives.finish(&mut self.processes.batch);
        let Export { known, data, summary, options, .. } = &mut self;
        known.settle(&mut |hash, length, bytes| {
            summary.count(bytes);
            data_row(&mut data.batch, hash, length, bytes.filter(|_| options.content));
        });
        self.kernel.end();
        let Export { calls, processes, files, data, events, kernel, own, sink, .. } = &mut self;
        for table in [calls, processes, files, data, events] {
            table.finish(sink)?;
        }
        for table in own.tables().chain(kernel.tables()) {
            table.flush(sink)?;
        }
        let Sink { place, writers, .. } = self.sink;
        writers.finish()?;
        place.keep();
        let mut summary = self.summary;
        summary.repeated = self.known.overflowed;
        Ok(summary)
    }
}

fn data_columns() -> Vec<Field> {
    [("hash", Type::Hash), ("length", Type::Long), ("content", Type::Bytes)]
        .map(|(name, ty)| Field::new(name, ty))
        .into()
}

fn data_row(batch: &mut Batch, hash: u128, length: u64, bytes: Option<&[u8]>) {
    let mut row = batch.row();
    row.hash(Some(hash));
    row.number(length as i64);
    row.bytes(bytes);
    row.end();
}

fn event_columns() -> Vec<Field> {
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

fn event_row(batch: &mut Batch, moment: &Moment<'_>, epoch_ns: u64, object: &str) {
    let mut row = batch.row();
    row.text(json_type(&moment.event.kind).as_bytes());
    row.number(moment.pid.map(i64::from));
    row.number(moment.tid.map(i64::from));
    row.number(wall_us(epoch_ns, moment.enter_ns));
    row.number(moment.enter_ns as i64);
    row.text(object.as_bytes());
    row.end();
}

fn is_kernel(kind: &EventKind) -> bool {
    matches!(kind, EventKind::Kernel(_))
}

/// Returns the type of an event as in `show --json`.
fn json_type(kind: &EventKind) -> &'static str {
    kind.row().map_or("unknown", |row| row.json_type)
}
