//! Passes over a trace: in parallel if the order of events does not matter, else in order.

use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

use model::{Contents, Moment, World};
use trace::event::{Call, Event, EventKind, Outcome};
use trace::format::kind;
use trace::{ReadError, Trace};

/// An event with its times since the start of the trace.
#[derive(Clone, Copy)]
pub struct Occasion<'a> {
    /// The event.
    pub event: &'a Event,
    /// Start time.
    pub enter_ns: u64,
    /// Return time of a call.
    pub exit_ns: Option<u64>,
}

impl<'a> Occasion<'a> {
    /// Returns the event's call, if it is one.
    pub fn call(&self) -> Option<&'a Call> {
        match &self.event.kind {
            EventKind::Call(call) => Some(call),
            _ => None,
        }
    }

    /// Returns the duration of a call, `None` if it did not return.
    pub fn duration_ns(&self) -> Option<u64> {
        Some(self.exit_ns?.saturating_sub(self.enter_ns))
    }
}

impl<'a> From<&Moment<'a>> for Occasion<'a> {
    fn from(moment: &Moment<'a>) -> Occasion<'a> {
        Occasion { event: moment.event, enter_ns: moment.enter_ns, exit_ns: moment.exit_ns }
    }
}

/// Statistics that do not depend on the order of events.
pub trait Fold: Send {
    /// Adds an event.
    fn add(&mut self, occasion: &Occasion<'_>);
    /// Adds the statistics of another fold.
    fn merge(&mut self, other: Self);
}

/// Statistics that depend on the order of events and on the state of processes.
pub trait Watch {
    /// Processes an event. It always updates tracked state, but counts only if `wanted`.
    fn add(&mut self, moment: &Moment<'_>, wanted: bool, contents: &mut dyn Contents);
}

/// Limit for the errors that are kept.
const ERRORS_MAX: usize = 100;

/// Blocks that could not be read.
#[derive(Debug, Default)]
pub struct Unread {
    /// Number of blocks.
    pub count: u64,
    /// The first errors.
    pub errors: Vec<ReadError>,
    /// Number of descriptors and tasks not tracked, see [`World::left_out`].
    pub left_out: u64,
}

impl Unread {
    /// Records an error.
    pub fn note(&mut self, error: ReadError) {
        self.count += 1;
        if self.errors.len() < ERRORS_MAX {
            self.errors.push(error);
        }
    }
}

/// Nanoseconds from a trace's start; 0 for earlier times.
pub fn clock(trace: &Trace, tsc: u64) -> u64 {
    trace.ticks_to_ns(tsc).max(0).unsigned_abs()
}

fn occasion<'a>(trace: &Trace, event: &'a Event) -> Occasion<'a> {
    let enter_ns = clock(trace, event.tsc);
    let exit_ns = match &event.kind {
        EventKind::Call(Call { outcome: Outcome::Returned { exit_tsc, .. }, .. }) => {
            Some(clock(trace, *exit_tsc).max(enter_ns))
        }
        _ => None,
    };
    Occasion { event, enter_ns, exit_ns }
}

/// Limit for the workers: each has its own statistics in memory.
const WORKERS_MAX: usize = 16;

/// Folds all blocks, distributed over free workers. Each worker has one block in memory.
pub fn in_parallel<F: Fold>(
    trace: &Trace,
    workers: usize,
    make: &(dyn Fn() -> F + Sync),
    accept: &(dyn Fn(&Occasion<'_>) -> bool + Sync),
) -> (F, Unread) {
    let next = AtomicUsize::new(0);
    let unread = Mutex::new(Unread::default());
    let work = || {
        let mut fold = make();
        while let Some(head) = trace.blocks().get(next.fetch_add(1, Ordering::Relaxed)) {
            if head.kind != kind::EVENTS {
                continue;
            }
            let failed = block(trace, head, &mut fold, accept);
            if let (Err(error), Ok(mut unread)) = (failed, unread.lock()) {
                unread.note(error);
            }
        }
        fold
    };
    let mut all = make();
    thread::scope(|scope| {
        let others: Vec<_> =
            (1..workers.clamp(1, WORKERS_MAX)).map(|_| scope.spawn(work)).collect();
        all.merge(work());
        for other in others {
            match other.join() {
                Ok(fold) => all.merge(fold),
                Err(panic) => std::panic::resume_unwind(panic),
            }
        }
    });
    (all, unread.into_inner().unwrap_or_default())
}

fn block<F: Fold>(
    trace: &Trace,
    head: &trace::format::Head,
    fold: &mut F,
    accept: &(dyn Fn(&Occasion<'_>) -> bool + Sync),
) -> Result<(), ReadError> {
    for event in trace.decode_block(head)? {
        let event = event?;
        let occasion = occasion(trace, &event);
        if accept(&occasion) {
            fold.add(&occasion);
        }
    }
    Ok(())
}

/// Passes every event, in order, to `watch`. `accept` selects the wanted events, and the pass stops
/// at a time for which `over` returns true.
pub fn in_order(
    trace: &Trace,
    contents: &mut dyn Contents,
    watch: &mut dyn Watch,
    accept: &dyn Fn(&Moment<'_>) -> bool,
    over: &dyn Fn(u64) -> bool,
) -> Unread {
    let mut world = World::new();
    let mut unread = Unread::default();
    for next in trace.events() {
        let next = match next {
            Ok(next) => next,
            Err(error) => {
                unread.note(error);
                continue;
            }
        };
        if over(clock(trace, next.event.tsc)) {
            break;
        }
        let step = world.step(&next.event, contents);
        let moment = Moment::new(next.seq, &next.event, &world, &step, &|tsc| clock(trace, tsc));
        watch.add(&moment, accept(&moment), contents);
        world.finish(step);
    }
    unread.left_out = world.left_out();
    unread
}

/// Runs a [`Fold`] over events in order.
pub struct Ordered<F>(pub F);

impl<F: Fold> Watch for Ordered<F> {
    fn add(&mut self, moment: &Moment<'_>, wanted: bool, _: &mut dyn Contents) {
        if wanted {
            self.0.add(&Occasion::from(moment));
        }
    }
}
