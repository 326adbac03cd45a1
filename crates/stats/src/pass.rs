//! Passes over a trace: in parallel if the order of events does not matter, else in order.

use std::convert::Infallible;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

use model::{Conditions, Contents, Moment, Namespace, Unread, clock, walk, walk_files};
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
    /// How long its thread has computed since its call before, if a pass in order knows.
    pub user_ns: Option<u64>,
    /// When an operation was submitted.
    pub submitted_ns: Option<u64>,
}

impl<'a> Occasion<'a> {
    /// Returns the event's call, if it is one.
    pub fn call(&self) -> Option<&'a Call> {
        match &self.event.kind {
            EventKind::Call(call) => Some(call),
            _ => None,
        }
    }

    /// Returns the duration of a call, of an operation from its submission on; `None` if it did not
    /// return.
    pub fn duration_ns(&self) -> Option<u64> {
        model::duration_ns((self.enter_ns, self.exit_ns), self.submitted_ns)
    }

    /// Returns how long the thread was in the call: in none while an operation was in flight.
    pub fn in_call_ns(&self) -> u64 {
        self.exit_ns.map_or(0, |exit| exit.saturating_sub(self.enter_ns))
    }
}

impl<'a> From<&Moment<'a>> for Occasion<'a> {
    fn from(moment: &Moment<'a>) -> Occasion<'a> {
        let &Moment { event, enter_ns, exit_ns, submitted_ns, user_ns, .. } = moment;
        Occasion { event, enter_ns, exit_ns, submitted_ns, user_ns }
    }
}

/// Statistics that do not depend on the order of events.
pub trait Fold: Send {
    /// Adds an event.
    fn add(&mut self, occasion: &Occasion<'_>);
    /// Adds the statistics of another fold.
    fn merge(&mut self, other: Self);
}

/// An event in an ordered pass, with all that is known as it begins.
pub struct Visit<'a> {
    /// The event and the world around it.
    pub moment: &'a Moment<'a>,
    /// False if the event only updates tracked state, and is not to be counted.
    pub wanted: bool,
    /// The stored bytes.
    pub contents: &'a mut dyn Contents,
}

/// Statistics that depend on the order of events and on the state of processes.
pub trait Watch {
    /// Processes an event.
    fn add(&mut self, visit: &mut Visit<'_>);
}

fn occasion<'a>(trace: &Trace, event: &'a Event) -> Occasion<'a> {
    let clock = clock(trace);
    let enter_ns = clock(event.tsc);
    let exit_ns = match &event.kind {
        EventKind::Call(Call { outcome: Outcome::Returned { exit_tsc, .. }, .. }) => {
            Some(clock(*exit_tsc).max(enter_ns))
        }
        _ => None,
    };
    let submitted_ns = match &event.kind {
        EventKind::Call(_) => model::operations::submitted(event).map(clock),
        _ => None,
    };
    Occasion { event, enter_ns, exit_ns, submitted_ns, user_ns: None }
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

/// Passes every event, in order, to `watch`, up to the last one that may be wanted. Also returns
/// the files.
pub fn in_order(
    trace: &Trace,
    conditions: &Conditions,
    watch: &mut dyn Watch,
) -> (Namespace, Unread) {
    let Ok(walked) = walk_files(trace, conditions, &mut |moment, wanted, contents| {
        watch.add(&mut Visit { moment, wanted, contents });
        Ok::<_, Infallible>(())
    });
    walked
}

/// Passes events, in order, those that are wanted to `fold` and all to `watch`, without what is known of
/// files.
pub fn fold_and_watch<F: Fold>(
    trace: &Trace,
    conditions: &Conditions,
    mut fold: F,
    watch: &mut dyn Watch,
) -> (F, Unread) {
    let Ok(unread) = walk(trace, conditions, &mut |moment, wanted, contents| {
        if wanted {
            fold.add(&Occasion::from(moment));
        }
        watch.add(&mut Visit { moment, wanted, contents });
        Ok::<_, Infallible>(())
    });
    (fold, unread)
}

/// Folds all events in order, for conditions that need the world.
pub fn fold_in_order<F: Fold>(trace: &Trace, conditions: &Conditions, mut fold: F) -> (F, Unread) {
    let Ok(unread) = walk(trace, conditions, &mut |moment, wanted, _| {
        if wanted {
            fold.add(&Occasion::from(moment));
        }
        Ok::<_, Infallible>(())
    });
    (fold, unread)
}
