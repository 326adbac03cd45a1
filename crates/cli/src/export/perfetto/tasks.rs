//! Threads as tracks: which is shown where, and which call made which.

use std::collections::{BTreeMap, HashMap, VecDeque};

use model::Moment;

/// Tasks of one maker that may be on their way.
const SPAWNED_MAX: usize = 256;
/// Makers that ended while tasks of theirs were on their way.
const LATE_MAX: usize = 1024;

/// Numbers of tracks: threads, processes and their counters are told apart by the lowest bits.
pub mod track {
    pub const BYTES_READ: u64 = 4;
    pub const BYTES_WRITTEN: u64 = 8;

    pub fn process(number: u32) -> u64 {
        u64::from(number) << 2 | 1
    }

    pub fn thread(number: u32) -> u64 {
        u64::from(number) << 2 | 2
    }

    pub fn descriptors(process: u32) -> u64 {
        u64::from(process) << 2 | 3
    }

    /// The track of a thread that goes on under another id: the `change`th of all.
    pub fn changed(change: u64) -> u64 {
        (1 << 33 | change) << 2 | 2
    }
}

/// Thread ids and flows of tasks that a thread made and that have not shown up yet.
type Spawned = VecDeque<(Option<i64>, u64)>;

/// A thread that lives.
#[derive(Default)]
pub struct Task {
    /// Its process, once known.
    pub process: Option<u32>,
    /// Its track.
    pub track: u64,
    /// Its id, as it was when its track was shown.
    pub tid: Option<u32>,
    /// The reader knows its track.
    pub shown: bool,
    /// A slice of it has begun and nothing tells when it ends.
    pub unfinished: bool,
    /// When its last call returns, while that is under way.
    pub returns_ns: Option<u64>,
    spawned: Spawned,
}

impl Task {
    /// It made a task, to which a flow leads.
    pub fn spawn(&mut self, tid: Option<i64>, flow: u64) {
        if self.spawned.len() == SPAWNED_MAX {
            self.spawned.pop_front();
        }
        self.spawned.push_back((tid, flow));
    }
}

/// All threads.
#[derive(Default)]
pub struct Tasks {
    living: HashMap<u32, Task>,
    /// Of threads that ended, what they made and what has not shown up yet.
    late: BTreeMap<u32, Spawned>,
    changes: u64,
}

impl Tasks {
    /// What an event's thread is known to be.
    pub fn of(&mut self, moment: &Moment<'_>, thread: u32) -> &mut Task {
        let task = self
            .living
            .entry(thread)
            .or_insert_with(|| Task { track: track::thread(thread), ..Task::default() });
        task.process = moment.world.thread(thread).map(|known| known.process).or(task.process);
        task
    }

    /// The flow that leads to a new task.
    pub fn claim(&mut self, parent: u32, tid: u32) -> Option<u64> {
        let spawned = match self.living.get_mut(&parent) {
            Some(task) => &mut task.spawned,
            None => self.late.get_mut(&parent)?,
        };
        let same = spawned.iter().position(|(made, _)| *made == Some(tid.into()));
        // In another pid namespace ids differ: the order must do.
        spawned.remove(same.unwrap_or(0)).map(|(_, flow)| flow)
    }

    /// A thread that begins a program takes its process's id.
    pub fn goes_on_as(&mut self, thread: u32, tid: u32) {
        let Some(task) = self.living.get_mut(&thread) else { return };
        if task.tid.is_some_and(|before| before != tid) {
            self.changes += 1;
            task.track = track::changed(self.changes);
            task.shown = false;
        }
    }

    /// A thread has ended.
    pub fn forget(&mut self, thread: u32) {
        let Some(task) = self.living.remove(&thread) else { return };
        if !task.spawned.is_empty() {
            self.late.insert(thread, task.spawned);
            if self.late.len() > LATE_MAX {
                self.late.pop_first();
            }
        }
    }

    /// A thread that lives.
    pub fn get_mut(&mut self, thread: u32) -> Option<&mut Task> {
        self.living.get_mut(&thread)
    }

    /// A process has ended, with threads that may not have said so.
    pub fn exit(&mut self, process: u32) {
        self.living.retain(|_, task| task.process != Some(process));
    }
}
