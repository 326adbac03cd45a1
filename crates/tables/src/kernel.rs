//! The tables `kernel`, with a row per event of the kernel, and `states`, with what each thread did from when
//! to when.

use model::scheduling::{Piece, Scheduling, Sink, Thread, Waker};
use model::{Conditions, Moment};
use render::json::{self, Json};
use trace::event::{EventKind, KernelEvent};
use trace::kernel::{KernelLayouts, KernelValue};

use crate::batch::Batch;
use crate::processes::wall_us;
use crate::schema::{Field, Type};
use crate::table::{Kind, Table};

/// Bytes of memory that a row takes.
const ROW_BYTES: u64 = 128;

/// Both tables.
pub struct KernelTables {
    events: Option<Table>,
    states: Option<Table>,
    scheduling: Scheduling,
    /// Which threads and times have states.
    conditions: Conditions,
    epoch_ns: u64,
}

impl KernelTables {
    /// Makes them empty, those that are wanted, by `make`.
    pub fn new(
        layouts: &KernelLayouts,
        epoch_ns: u64,
        conditions: Conditions,
        mut make: impl FnMut(Kind) -> Option<Table>,
    ) -> KernelTables {
        KernelTables {
            events: make(Kind::Kernel),
            states: make(Kind::States),
            scheduling: Scheduling::new(layouts),
            conditions,
            epoch_ns,
        }
    }

    /// Processes an event. Returns an estimate of the memory of the rows that it adds.
    pub fn add(&mut self, moment: &Moment<'_>, wanted: bool) -> u64 {
        if self.events.is_none() && self.states.is_none() {
            return 0;
        }
        let mut bytes = 0;
        if let (EventKind::Kernel(event), true) = (&moment.event.kind, wanted) {
            bytes += ROW_BYTES + event.values.len() as u64;
            self.event(moment, event);
        }
        let mut rows = Rows {
            batch: self.states.as_mut().map(|table| &mut table.batch),
            epoch_ns: self.epoch_ns,
            conditions: &self.conditions,
            is_whole: self.scheduling.scope().is_none_or(|scope| scope.is_whole),
            count: 0,
        };
        let (tid, exit) = (moment.tid, moment.exit_ns);
        self.scheduling.event(moment.event, moment.enter_ns, exit, tid, &mut rows);
        bytes + rows.count * ROW_BYTES
    }

    fn event(&mut self, moment: &Moment<'_>, event: &KernelEvent) {
        let Some(table) = &mut self.events else { return };
        let layout = moment.world.kernel_layouts().get(event.layout);
        let fields = json::text(|json: &mut Json<'_>| {
            json.object(|json| {
                for (field, value) in layout.iter().flat_map(|layout| layout.values(&event.values))
                {
                    json.key(&field.name);
                    match value {
                        KernelValue::Unsigned(number) => json.uint(number),
                        KernelValue::Signed(number) => json.int(number),
                        KernelValue::Text(bytes) | KernelValue::Bytes(bytes) => json.bytes(bytes),
                    }
                }
            });
        });
        let pid = self.scheduling.thread(event.task).and_then(|thread| thread.pid);
        let mut row = table.batch.row();
        row.number(moment.event.cpu().map(i64::from));
        row.number(i64::from(event.task));
        row.number(pid.map(i64::from));
        row.text(layout.map(|layout| layout.system.as_bytes()));
        row.text(layout.map(|layout| layout.name.as_bytes()));
        row.number(wall_us(self.epoch_ns, moment.enter_ns));
        row.number(moment.enter_ns as i64);
        row.number(i64::from(event.flags));
        row.text(fields.as_bytes());
        row.end();
    }

    /// Adds what threads were doing at the end.
    pub fn end(&mut self) {
        let mut rows = Rows {
            batch: self.states.as_mut().map(|table| &mut table.batch),
            epoch_ns: self.epoch_ns,
            conditions: &self.conditions,
            is_whole: self.scheduling.scope().is_none_or(|scope| scope.is_whole),
            count: 0,
        };
        self.scheduling.finish(&mut rows);
    }

    /// The tables.
    pub fn tables(&mut self) -> impl Iterator<Item = &mut Table> {
        [&mut self.events, &mut self.states].into_iter().flatten()
    }
}

/// Adds a row for each stretch of time.
struct Rows<'a> {
    batch: Option<&'a mut Batch>,
    epoch_ns: u64,
    conditions: &'a Conditions,
    is_whole: bool,
    count: u64,
}

impl Sink for Rows<'_> {
    fn piece(&mut self, thread: &Thread, piece: Piece) {
        let Some(batch) = &mut self.batch else { return };
        if !self.is_whole && !thread.is_followed {
            return;
        }
        let Conditions { pids, tids, since_ns, .. } = self.conditions;
        let since = since_ns.unwrap_or(0);
        let is_chosen = |all: &[u32], id: u32| all.is_empty() || all.contains(&id);
        if !is_chosen(pids, thread.pid.unwrap_or(thread.id)) || !is_chosen(tids, thread.id) {
            return;
        }
        if piece.to < since || (piece.to == since && piece.from < since) {
            return;
        }
        let from = piece.from.max(since);
        self.count += 1;
        let (waker, by) = match piece.waker {
            Waker::Thread(id) | Waker::KernelThread(id) => (Some(id), Some("thread")),
            Waker::Disk(_) => (None, Some("disk")),
            Waker::Timer => (None, Some("timer")),
            Waker::Network => (None, Some("network")),
            Waker::Interrupt => (None, Some("interrupt")),
            Waker::Nobody => (None, None),
        };
        let call = thread.call_at(piece.from).map(|call| call.nr);
        let call = call.and_then(|nr| syscalls::table::by_number(nr.into()));
        let mut row = batch.row();
        row.number(i64::from(thread.id));
        row.number(thread.pid.map(i64::from));
        row.text(thread.name.as_slice());
        row.text(piece.doing.name().as_bytes());
        row.number(wall_us(self.epoch_ns, from));
        row.number(from as i64);
        row.number(piece.to as i64);
        row.number(i64::from(piece.cpu));
        row.text(call.map(|row| row.name.as_bytes()));
        row.text(by.map(str::as_bytes));
        row.number(waker.map(i64::from));
        row.number(piece.lock.map(|lock| lock as i64));
        row.end();
    }
}

/// Returns the columns of the table `kernel`.
pub fn event_columns() -> Vec<Field> {
    [
        ("cpu", Type::Int),
        ("tid", Type::Int),
        ("pid", Type::Int),
        ("system", Type::Text),
        ("event", Type::Text),
        ("time", Type::Time),
        ("time_ns", Type::Long),
        ("flags", Type::Long),
        ("fields", Type::Text),
    ]
    .map(|(name, ty)| Field::new(name, ty))
    .into()
}

/// Returns the columns of the table `states`.
pub fn state_columns() -> Vec<Field> {
    [
        ("tid", Type::Int),
        ("pid", Type::Int),
        ("name", Type::Text),
        ("state", Type::Text),
        ("start", Type::Time),
        ("start_ns", Type::Long),
        ("end_ns", Type::Long),
        ("cpu", Type::Int),
        ("call", Type::Text),
        ("ended_by", Type::Text),
        ("waker", Type::Int),
        ("lock", Type::Long),
    ]
    .map(|(name, ty)| Field::new(name, ty))
    .into()
}
