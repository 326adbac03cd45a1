//! One event with the state of the world at its beginning.

use std::sync::LazyLock;

use trace::event::{Event, EventKind, Outcome, RECORDER};
use trace::parts::{PartValue, part_id};

use crate::mapped::is_store;
use crate::namespace::Namespace;
use crate::operations::submitted;
use crate::step::Step;
use crate::touch::Touch;
use crate::user_time::{asked_at, recorded_at};
use crate::world::{Credentials, Surroundings, Ties, World};

/// For walks that do not follow files.
static NOTHING: LazyLock<(Touch, Namespace)> = LazyLock::new(Default::default);

/// The input of code that processes events one by one.
pub struct Moment<'a> {
    /// Number of a call in order of entry.
    pub seq: Option<u64>,
    /// The event.
    pub event: &'a Event,
    /// Id of the event's process, if known.
    pub pid: Option<u32>,
    /// Id of the event's thread, if known.
    pub tid: Option<u32>,
    /// Start of the event, in nanoseconds since the start of the trace.
    pub enter_ns: u64,
    /// End of a call, in nanoseconds since the start of the trace.
    pub exit_ns: Option<u64>,
    /// When the program asked for a call: earlier, if what goes in was copied first.
    pub asked_ns: u64,
    /// When the agent had recorded a call, and the program went on, if that is known and took time.
    pub left_ns: Option<u64>,
    /// How long the thread of a call has computed since its call before, if a walk knows.
    pub user_ns: Option<u64>,
    /// When an operation was submitted, likewise.
    pub submitted_ns: Option<u64>,
    /// Since when something was stored to a mapped file, or read there.
    pub since_ns: Option<u64>,
    /// State of all processes when the event began.
    pub world: &'a World,
    /// Changes made by the event.
    pub step: &'a Step,
    /// What the event did to files: nothing in a walk that does not follow them.
    pub touch: &'a Touch,
    /// The files, after the event.
    pub files: &'a Namespace,
}

/// Returns how long a call took that began and ended then, or that was submitted before.
pub fn duration_ns(
    (enter_ns, exit_ns): (u64, Option<u64>),
    submitted_ns: Option<u64>,
) -> Option<u64> {
    let exit_ns = exit_ns?;
    Some(match submitted_ns {
        Some(submitted_ns) => enter_ns.saturating_sub(submitted_ns),
        None => exit_ns.saturating_sub(enter_ns),
    })
}

/// The number in a part of an event.
fn named(event: &Event, id: u64) -> Option<u32> {
    let part = event.parts().iter().find(|part| part.id == id)?;
    match part.value {
        PartValue::Number(number) => u32::try_from(number).ok(),
        PartValue::Bytes(_) => None,
    }
}

impl<'a> Moment<'a> {
    /// Combines an event with its ids and times. Must be called before `World::finish(step)`.
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
        let submitted_ns = match &event.kind {
            EventKind::Call(_) => submitted(event).map(clock),
            _ => None,
        };
        let since_ns = match is_store(&event.kind) {
            true => submitted(event).map(clock),
            false => None,
        };
        let asked_ns = match &event.kind {
            EventKind::Call(_) if !event.parts().is_empty() => clock(asked_at(event)),
            _ => enter_ns,
        };
        let left_ns = match &event.kind {
            EventKind::Call(call) => recorded_at(event, call).map(clock),
            _ => None,
        };
        let process = match &event.kind {
            EventKind::Exit { process, .. } => Some(*process),
            EventKind::State(state) => Some(state.process),
            EventKind::Other(_) => named(event, part_id::PROCESS),
            _ => None,
        };
        let (pid, tid) = match process.and_then(|number| world.process(number)) {
            Some(process) => {
                let thread = named(event, part_id::THREAD);
                let tid = thread.and_then(|thread| {
                    world.ids(thread).map(|(_, tid)| tid).or_else(|| process.former_tid(thread))
                });
                (Some(process.pid), Some(tid.unwrap_or(process.pid)))
            }
            None if let EventKind::State(state) = &event.kind => (Some(state.pid), Some(state.pid)),
            None if let EventKind::Kernel(kernel) = &event.kind => {
                (world.kernel_pid(kernel.task), Some(kernel.task))
            }
            None if event.thread == RECORDER => (None, None),
            None => match world.ids(event.thread) {
                Some((pid, tid)) => (Some(pid), Some(tid)),
                None => (None, None),
            },
        };
        let (touch, files) = &*NOTHING;
        let user_ns = None;
        Moment {
            seq,
            event,
            pid,
            tid,
            enter_ns,
            exit_ns,
            asked_ns,
            left_ns,
            submitted_ns,
            since_ns,
            user_ns,
            world,
            step,
            touch,
            files,
        }
    }

    /// Returns how long a call took; of an operation, from its submission to where it was found
    /// completed. `None` if it did not return.
    pub fn duration_ns(&self) -> Option<u64> {
        duration_ns((self.enter_ns, self.exit_ns), self.submitted_ns)
    }

    /// Returns the number of the event's process, if known.
    pub fn process(&self) -> Option<u32> {
        match &self.event.kind {
            EventKind::Exit { process, .. } => Some(*process),
            EventKind::State(state) => Some(state.process),
            EventKind::Other(_) if self.event.thread == RECORDER => {
                named(self.event, part_id::PROCESS)
            }
            _ => self.world.thread(self.event.thread).map(|thread| thread.process),
        }
    }

    /// Returns parent, process group and session of the event's process.
    pub fn ties(&self) -> Ties {
        self.process().and_then(|process| self.world.ties(process)).unwrap_or_default()
    }

    /// Returns user and group ids of the event's thread, or of the first one of its process.
    pub fn credentials(&self) -> Option<&'a Credentials> {
        let of_process = || self.world.credentials_of_process(self.process()?);
        self.world.credentials(self.event.thread).or_else(of_process)
    }

    /// Returns the descriptors of the event's thread.
    pub fn view(&self) -> Surroundings<'a> {
        Surroundings::new(self.world, self.step)
    }

    /// Returns true if the event's thread is the last one of its process.
    pub fn is_last_thread(&self) -> bool {
        let thread = self.world.thread(self.event.thread);
        let process = thread.and_then(|thread| self.world.process(thread.process));
        process.is_none_or(|process| process.threads() <= 1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_operation_takes_from_its_submission_to_where_it_was_found() {
        assert_eq!(duration_ns((100, Some(110)), None), Some(10));
        assert_eq!(duration_ns((100, Some(110)), Some(40)), Some(60));
        assert_eq!(duration_ns((100, None), Some(40)), None, "nobody knows when it ended");
    }
}
