//! Makes rows of events.

use model::decode::shape::shape_of;
use model::decode::{self, Limits};
use model::{Contents, Moment};
use render::{json, objects};
use trace::Trace;
use trace::event::{Call, EventKind};

use crate::calls::{self, OwnTables, Seen};
use crate::columns::columns_with;
use crate::data::{self, Carried, Known};
use crate::files;
use crate::kernel::KernelTables;
use crate::plain::{data_row, event_row};
use crate::processes::Processes;
use crate::table::{Choice, Kind, Table};

/// Limit for the bytes of a string.
pub const STRING_BYTES_MAX: usize = 128 << 10;
/// Limit for the items of a list.
pub const ITEMS_MAX: usize = 64 << 10;

/// Limits for decoding calls; the bytes of data have a table of their own.
const LIMITS: Limits = Limits { strings: STRING_BYTES_MAX, data: 0, items: ITEMS_MAX };

/// Estimated memory of a call's rows without its captured data.
const ROW_BYTES: u64 = 1 << 10;

/// What all rows together have.
#[derive(Clone, Debug, Default)]
pub struct Summary {
    /// Number of calls.
    pub calls: u64,
    /// Number of distinct buffers.
    pub buffers: u64,
    /// Number of buffers without content: longer than [`crate::data::CONTENT_BYTES_MAX`], or not
    /// captured completely.
    pub without_content: u64,
    /// True if buffers may stand twice in `data`, for lack of memory.
    pub repeated: bool,
}

impl Summary {
    fn count(&mut self, content: Option<&[u8]>) {
        self.buffers += 1;
        self.without_content += u64::from(content.is_none());
    }
}

/// The tables of a recording, of which rows are taken from time to time.
pub struct Tables<'a> {
    trace: &'a Trace,
    choice: Choice,
    epoch_ns: u64,
    lives: Processes,
    known: Option<Known>,
    carried: Vec<Carried>,
    calls: Option<Table>,
    own: OwnTables,
    processes: Option<Table>,
    files: Option<Table>,
    data: Option<Table>,
    events: Option<Table>,
    kernel: KernelTables,
    summary: Summary,
    /// Number of tables made so far.
    made: usize,
}

impl<'a> Tables<'a> {
    /// Makes empty tables, those that are wanted.
    pub fn new(trace: &'a Trace, choice: Choice) -> Tables<'a> {
        let epoch_ns = trace.preamble().epoch_ns;
        let mut made = 0;
        let mut table = |kind| {
            choice.has(kind).then(|| {
                made += 1;
                Table::new(kind, made - 1, columns_with(kind, &choice), &choice)
            })
        };
        let [calls, processes, files, data, events] =
            [Kind::Calls, Kind::Processes, Kind::Files, Kind::Data, Kind::Events].map(&mut table);
        let kernel = KernelTables::new(
            &model::kernel_layouts(trace),
            epoch_ns,
            choice.states.clone(),
            table,
        );
        Tables {
            trace,
            epoch_ns,
            lives: Processes::new(epoch_ns),
            known: known(&choice),
            carried: Vec::new(),
            calls,
            own: OwnTables::new(&choice, &mut made),
            processes,
            files,
            data,
            events,
            kernel,
            summary: Summary::default(),
            choice,
            made,
        }
    }

    /// Processes the next event of a walk that follows files. It always updates tracked state, but adds rows only
    /// if `wanted`. Returns an estimate of their memory.
    pub fn add(&mut self, moment: &Moment<'_>, wanted: bool, contents: &mut dyn Contents) -> u64 {
        let mut bytes = 0;
        if let EventKind::Call(call) = &moment.event.kind {
            if wanted {
                bytes += self.call(moment, call, contents);
            }
        } else {
            if let Some(processes) = &mut self.processes {
                self.lives.look(moment, &mut processes.batch);
            }
            // Those of the kernel have a table of their own.
            let events = self.events.as_mut().filter(|_| wanted && !is_kernel(&moment.event.kind));
            if let Some(events) = events {
                let object = json::text(|json| {
                    objects::event(json, moment, contents, objects::Detail::default())
                });
                event_row(&mut events.batch, moment, self.epoch_ns, &object);
                bytes += object.len() as u64;
            }
        }
        bytes + self.kernel.add(moment, wanted)
    }

    /// Adds the rows of a call. Returns an estimate of their memory.
    fn call(&mut self, moment: &Moment<'_>, call: &Call, contents: &mut dyn Contents) -> u64 {
        self.summary.calls += 1;
        let is_of_calls = |kind: Kind| matches!(kind, Kind::Calls | Kind::Call(_) | Kind::Files);
        let is_decoded = self.choice.table.is_none_or(is_of_calls);
        if !is_decoded && !self.choice.has(Kind::Data) {
            return 0;
        }
        let shape = shape_of(call);
        let Tables { trace, known, carried, data, summary, choice, .. } = self;
        if let Some(known) = known {
            known.all(trace, call, &shape, carried, &mut |hash, length, bytes| {
                summary.count(bytes);
                data_row(data, hash, length, bytes.filter(|_| choice.content));
            });
        }
        let captured = call.data.iter().map(|data| data.content.len());
        let bytes = captured.fold(ROW_BYTES, u64::saturating_add);
        if !is_decoded {
            return bytes;
        }
        // The tables of single calls alone show what the arguments point to.
        let decoded = match choice.table {
            Some(Kind::Calls | Kind::Files) => decode::decode_registers(call, &moment.view()),
            _ => decode::decode(call, &moment.view(), contents, LIMITS),
        };
        let seen = Seen {
            moment,
            call,
            decoded: &decoded,
            carried: &self.carried,
            epoch_ns: self.epoch_ns,
        };
        if let Some(calls) = &mut self.calls {
            let has_data = self.choice.data;
            let content = has_data.then(|| data::first_content(self.trace, call, &shape));
            seen.add(&mut calls.batch, content.as_ref().map(Option::as_deref));
        }
        self.own.add(&seen, &shape, &mut self.made);
        if let Some(files) = &mut self.files {
            files::add(&mut files.batch, moment, call, &decoded);
        }
        bytes
    }

    /// Adds the rows that come last.
    pub fn finish(&mut self) {
        if let Some(processes) = &mut self.processes {
            std::mem::take(&mut self.lives).finish(&mut processes.batch);
        }
        let Tables { known, data, summary, choice, .. } = self;
        if let Some(known) = known {
            known.settle(&mut |hash, length, bytes| {
                summary.count(bytes);
                data_row(data, hash, length, bytes.filter(|_| choice.content));
            });
            summary.repeated = known.overflowed;
        }
        self.kernel.end();
    }

    /// Returns all tables that are there, of calls those that occurred.
    pub fn each(&mut self) -> impl Iterator<Item = &mut Table> {
        let Tables { calls, processes, files, data, events, kernel, own, .. } = self;
        let fixed = [calls, processes, files, data, events].into_iter().flatten();
        fixed.chain(kernel.tables()).chain(own.tables())
    }

    /// What all rows together have.
    pub fn summary(&self) -> &Summary {
        &self.summary
    }
}

/// What finds the hashes of data, and which data is new, if anybody wants to know.
fn known(choice: &Choice) -> Option<Known> {
    match choice.table {
        None | Some(Kind::Data) => Some(Known::default()),
        Some(kind) => calls::tells_data(kind, choice).then(Known::of_hashes),
    }
}

fn is_kernel(kind: &EventKind) -> bool {
    matches!(kind, EventKind::Kernel(_))
}
