//! Calls that have begun and not yet returned, and whose they are.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, HashMap};

use trace::event::{Call, EventKind, Outcome};

/// A call that is not written yet.
pub struct Held {
    /// The thread's number.
    pub thread: u32,
    /// When it began.
    pub tsc: u64,
    /// The call.
    pub call: Call,
}

#[derive(Default)]
struct Task {
    process: u32,
    pid: Option<u32>,
    tid: Option<u32>,
    held: Option<Held>,
}

/// The threads that live, each with one call at most.
#[derive(Default)]
pub struct Tasks {
    threads: HashMap<u32, Task>,
    returns: BinaryHeap<Reverse<(u64, u32)>>,
}

impl Tasks {
    /// Takes note of a thread's life.
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

    /// Process id and thread id, where they are known.
    pub fn ids(&self, thread: u32) -> (Option<u32>, Option<u32>) {
        self.threads.get(&thread).map_or((None, None), |task| (task.pid, task.tid))
    }

    /// Keeps a call until it has returned.
    pub fn hold(&mut self, held: Held) {
        if let Outcome::Returned { exit_tsc, .. } = held.call.outcome {
            self.returns.push(Reverse((exit_tsc, held.thread)));
        }
        let task = self.threads.entry(held.thread).or_default();
        task.held = Some(held);
    }

    /// The call of a thread that does something else.
    pub fn take(&mut self, thread: u32) -> Option<Held> {
        self.threads.get_mut(&thread)?.held.take()
    }

    /// The next call that had returned at a time.
    pub fn returned(&mut self, now: u64) -> Option<Held> {
        loop {
            let Reverse((tsc, thread)) = *self.returns.peek()?;
            if tsc > now {
                return None;
            }
            self.returns.pop();
            // Some were taken before their time.
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

    /// The calls that a process has left unfinished.
    pub fn exit(&mut self, process: u32) -> Vec<Held> {
        let of_process = |task: &&mut Task| task.process == process;
        self.threads.values_mut().filter(of_process).filter_map(|task| task.held.take()).collect()
    }

    /// All that never returned.
    pub fn rest(&mut self) -> Vec<Held> {
        let mut rest: Vec<Held> =
            self.threads.values_mut().filter_map(|task| task.held.take()).collect();
        rest.sort_by_key(|held| held.tsc);
        rest
    }
}
