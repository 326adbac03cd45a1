//! Up to when a trace has what moves beside calls: stores to mapped files, which are collected from
//! time to time, and operations that were under way when a process or the recorder was lost.

use std::collections::BTreeMap;

use model::operations::{operations_of, submitted};
use model::{Moment, mapped};
use syscalls::record::unwatched;
use trace::event::{EventKind, GapWhy, Outcome};

/// Limit for the processes that are followed.
const PROCESSES_MAX: usize = 64 << 10;

/// Why nothing more is there of what a process has stored to mapped files.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum End {
    /// The process was killed.
    Killed,
    /// The recorder ended before the process.
    RecorderEnded,
}

/// A process whose stores to mapped files are not all there.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Loss {
    /// Id of the process.
    pub pid: u32,
    /// Time up to which all of them are there.
    pub until_ns: u64,
    /// What came then.
    pub end: End,
}

/// Up to when a trace has what moves beside calls.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub struct UpTo {
    /// Processes whose stores to mapped files end early.
    pub mapped: Vec<Loss>,
    /// Operations of which it is not known whether they were completed.
    pub under_way: u64,
    /// When the first of those was submitted.
    pub under_way_since_ns: Option<u64>,
    /// Operations that were submitted and are not in the trace.
    pub missing: u64,
}

/// Follows a trace.
#[derive(Default)]
pub(super) struct Following {
    found: UpTo,
    /// Processes with mapped files that are watched: their ids, and the last look.
    watched: BTreeMap<u32, (u32, u64)>,
    submitted: u64,
    seen: u64,
}

impl Following {
    /// Takes the next event; `at` is the time of a time stamp.
    pub fn event(&mut self, moment: &Moment<'_>, at: &impl Fn(u64) -> u64) {
        let event = moment.event;
        let process = || moment.world.thread(event.thread).map(|thread| thread.process);
        match &event.kind {
            EventKind::Call(call) => {
                self.submitted += operations_of(event);
                if let Some(since) = submitted(event) {
                    self.seen += 1;
                    if call.outcome == Outcome::Unfinished {
                        self.found.under_way += 1;
                        let since = at(since);
                        let first = self.found.under_way_since_ns.get_or_insert(since);
                        *first = since.min(*first);
                    }
                }
                if mapped::is_watched(event)
                    && let (Some(process), Some(exit_ns)) = (process(), moment.exit_ns)
                {
                    self.watch(process, moment.pid.unwrap_or(0), exit_ns);
                }
            }
            EventKind::Start { process, parent, pid, .. } => {
                let parent = moment.world.thread(*parent).map(|thread| thread.process);
                let is_child = parent.is_some_and(|parent| self.watched.contains_key(&parent));
                if is_child && parent != Some(*process) {
                    self.watch(*process, *pid, moment.enter_ns);
                }
            }
            EventKind::Image { .. } => {
                process().iter().for_each(|process| _ = self.watched.remove(process));
            }
            EventKind::Exit { process, .. } => _ = self.watched.remove(process),
            EventKind::Gap { why: GapWhy::Unwatched, detail: unwatched::KILLED, .. } => {
                let known = mapped::process_of(event).and_then(|it| self.watched.remove(&it));
                if let Some((pid, until_ns)) = known {
                    self.found.mapped.push(Loss { pid, until_ns, end: End::Killed });
                }
            }
            kind if mapped::is_look(kind) => {
                let process = mapped::process_of(event).unwrap_or(0);
                if let (Some(known), Some(since)) =
                    (self.watched.get_mut(&process), submitted(event))
                {
                    known.1 = known.1.max(at(since));
                }
            }
            _ => {}
        }
    }

    fn watch(&mut self, process: u32, pid: u32, now_ns: u64) {
        if self.watched.len() < PROCESSES_MAX {
            self.watched.entry(process).or_insert((pid, now_ns));
        }
    }

    /// The result; `is_ended` says whether the trace has its end.
    pub fn finish(mut self, is_ended: bool) -> UpTo {
        let end = End::RecorderEnded;
        let left = self.watched.into_values();
        self.found.mapped.extend(left.map(|(pid, until_ns)| Loss { pid, until_ns, end }));
        if !is_ended {
            self.found.missing = self.submitted.saturating_sub(self.seen);
        }
        self.found
    }
}
