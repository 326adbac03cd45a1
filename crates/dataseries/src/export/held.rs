//! Calls that have not returned yet, and the threads that made them.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, HashMap};

use trace::event::{Call, EventKind, Outcome};
use trace::parts::Part;

use super::Caller;

/// A call that is not written yet.
pub struct Held {
    /// Thread number.
    pub thread: u32,
    /// Time of the call, in ticks.
    pub tsc: u64,
    /// The call.
    pub call: Call,
    /// Who made it.
    pub caller: Caller,
    /// Its optional parts.
    pub parts: Vec<Part>,
}

#[derive(Default)]
struct Task {
    process: u32,
    pid: Option<u32>,
    tid: Option<u32>,
    held: Option<Held>,
}

/// The living threads, each with at most one call.
#[derive(Default)]
pub struct Tasks {
    threads: HashMap<u32, Task>,
    returns: BinaryHeap<Reverse<(u64, u32)>>,
}

impl Tasks {
    /// Tracks threads by their events.
    pub fn follow(&mut self, thread: u32, kind: &EventKind) {
        match kind {
            EventKind::Start { process, pid, tid, .. } => {
                let task = Task { process: *process, pid: Some(*pid), tid: Some(*tid), held: None };
                self.threads.insert(thread, task);
            }
            EventKind::Image { tid, .. } => {
                self.threads.entry(thread).or_default().tid = Some(*tid);
            }
            EventKind::End { .. } => {
                self.threads.remove(&thread);
            }
            _ => {}
        }
    }

    /// Number of the process of a thread.
    pub fn process(&self, thread: u32) -> Option<u32> {
        self.threads.get(&thread).map(|task| task.process)
    }

    /// Returns the id of a process, if known.
    pub fn id_of(&self, process: u32) -> Option<u32> {
        self.threads.values().find(|task| task.process == process)?.pid
    }

    /// Returns process id and thread id, if known.
    pub fn ids(&self, thread: u32) -> (Option<u32>, Option<u32>) {
        self.threads.get(&thread).map_or((None, None), |task| (task.pid, task.tid))
    }

    /// Holds a call until it returns.
    pub fn hold(&mut self, held: Held) {
        if let Outcome::Returned { exit_tsc, .. } = held.call.outcome {
            self.returns.push(Reverse((exit_tsc, held.thread)));
        }
        let task = self.threads.entry(held.thread).or_default();
        task.held = Some(held);
    }

    /// Takes the call of a thread that makes another event.
    pub fn take(&mut self, thread: u32) -> Option<Held> {
        self.threads.get_mut(&thread)?.held.take()
    }

    /// Takes the next call that returned by `now`.
    pub fn returned(&mut self, now: u64) -> Option<Held> {
        loop {
            let Reverse((tsc, thread)) = *self.returns.peek()?;
            if tsc > now {
                return None;
            }
            self.returns.pop();
            // `take` may have removed it already.
            let held = self.threads.get_mut(&thread).and_then(|task| {
                let same = |held: &mut Held| match held.call.outcome {
                    Outcome::Returned { exit_tsc, .. } => exit_tsc == tsc,
                    Outcome::Unfinished => false,
                };
                task.held.take_if(same)
            });
            if held.is_some() {
                return held;
            }
        }
    }

    /// Takes the unfinished calls of a process.
    pub fn exit(&mut self, process: u32) -> Vec<Held> {
        let of_process = |task: &&mut Task| task.process == process;
        self.threads.values_mut().filter(of_process).filter_map(|task| task.held.take()).collect()
    }

    /// Takes all calls that never returned.
    pub fn rest(&mut self) -> Vec<Held> {
        let mut rest: Vec<Held> =
            self.threads.values_mut().filter_map(|task| task.held.take()).collect();
        rest.sort_by_key(|held| held.tsc);
        rest
    }
}
