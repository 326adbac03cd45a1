//! One event together with what the world was when it began.

use trace::event::{Event, EventKind, Outcome, RECORDER};

use crate::effects::Step;
use crate::world::{View, World};

/// What everybody who looks at events one by one is given.
pub struct Moment<'a> {
    /// Place of a call in the order of entry.
    pub seq: Option<u64>,
    /// What happened.
    pub event: &'a Event,
    /// The process it happened to, when known.
    pub pid: Option<u32>,
    /// The thread it happened to, when known.
    pub tid: Option<u32>,
    /// When it began, from the start of the trace.
    pub enter_ns: u64,
    /// When a call returned, from the start of the trace.
    pub exit_ns: Option<u64>,
    /// All processes as the event began.
    pub world: &'a World,
    /// What the event changes.
    pub step: &'a Step,
}

impl<'a> Moment<'a> {
    /// Puts an event into its place. `step` must not be finished yet.
    pub fn new(
        seq: Option<u64>,
        event: &'a Event,
        world: &'a World,
        step: &'a Step,
        clock: &dyn Fn(u64) -> u64,
    ) -> Moment<'a> {
        let enter_ns = clock(event.tsc);
        let exit_ns = match &event.kind {
            EventKind::Call(call) => match call.outcome {
                Outcome::Returned { exit_tsc, .. } => Some(clock(exit_tsc).max(enter_ns)),
                Outcome::Unfinished => None,
            },
            _ => None,
        };
        let process = match &event.kind {
            EventKind::Exit { process, .. } => Some(*process),
            EventKind::State(state) => Some(state.process),
            _ => None,
        };
        let (pid, tid) = match process.and_then(|number| world.process(number)) {
            Some(process) => (Some(process.pid), Some(process.pid)),
            None if let EventKind::State(state) = &event.kind => (Some(state.pid), Some(state.pid)),
            None if event.thread == RECORDER => (None, None),
            None => match world.ids(event.thread) {
                Some((pid, tid)) => (Some(pid), Some(tid)),
                None => (None, None),
            },
        };
        Moment { seq, event, pid, tid, enter_ns, exit_ns, world, step }
    }

    /// The descriptors of the event's thread.
    pub fn view(&self) -> View<'a> {
        View::new(self.world, self.step)
    }

    /// Whether the event's thread is the last of its process.
    pub fn is_last_thread(&self) -> bool {
        let thread = self.world.thread(self.event.thread);
        let process = thread.and_then(|thread| self.world.process(thread.process));
        process.is_none_or(|process| process.threads() <= 1)
    }
}
