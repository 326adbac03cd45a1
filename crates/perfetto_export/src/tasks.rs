//! Threads as tracks, and the flows from creating calls to new tasks.

use std::collections::{BTreeMap, HashMap, VecDeque};

use model::Moment;

/// Limit for the new tasks of a thread that had no event yet.
const SPAWNED_MAX: usize = 256;
/// Limit for the ended threads with new tasks that had no event yet.
const LATE_MAX: usize = 1024;

/// Ids of tracks: the lowest bits tell threads, processes and their counters apart.
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

    /// Returns the track of a process for its operations in flight with this number.
    pub fn in_flight(process: u32, number: usize) -> u64 {
        ((number as u64 + 1) << 34 | u64::from(process)) << 2 | 3
    }

    /// Returns the track of a thread with a new id; `change` counts such threads.
    pub fn changed(change: u64) -> u64 {
        (1 << 33 | change) << 2 | 2
    }
}

/// Thread ids and flows of new tasks that had no event yet.
type Spawned = VecDeque<(Option<i64>, u64)>;

/// A live thread.
#[derive(Default)]
pub struct Task {
    /// Number of its process, once known.
    pub process: Option<u32>,
    /// Id of its track.
    pub track: u64,
    /// Its thread id when its track was written.
    pub tid: Option<u32>,
    /// True if its track was written.
    pub shown: bool,
    /// True if its current slice belongs to a call without a return.
    pub unfinished: bool,
    /// Return time of its call in flight.
    pub returns_ns: Option<u64>,
    spawned: Spawned,
}

impl Task {
    /// Records a new task and the flow that leads to it.
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
    /// New tasks of ended threads that had no event yet.
    late: BTreeMap<u32, Spawned>,
    changes: u64,
}

impl Tasks {
    /// Returns the event's thread, with its process if known.
    pub fn of(&mut self, moment: &Moment<'_>, thread: u32) -> &mut Task {
        let task = self
            .living
            .entry(thread)
            .or_insert_with(|| Task { track: track::thread(thread), ..Task::default() });
        task.process = moment.world.thread(thread).map(|known| known.process).or(task.process);
        task
    }

    /// Returns the flow that leads to a new task.
    pub fn claim(&mut self, parent: u32, tid: u32) -> Option<u64> {
        let spawned = match self.living.get_mut(&parent) {
            Some(task) => &mut task.spawned,
            None => self.late.get_mut(&parent)?,
        };
        let same = spawned.iter().position(|(made, _)| *made == Some(tid.into()));
        // Ids differ in another pid namespace: take the oldest task.
        spawned.remove(same.unwrap_or(0)).map(|(_, flow)| flow)
    }

    /// Moves a thread to a new track if an exec changes its id to its process's.
    pub fn goes_on_as(&mut self, thread: u32, tid: u32) {
        let Some(task) = self.living.get_mut(&thread) else { return };
        if task.tid.is_some_and(|before| before != tid) {
            self.changes += 1;
            task.track = track::changed(self.changes);
            task.shown = false;
        }
    }

    /// Forgets a thread that ended.
    pub fn forget(&mut self, thread: u32) {
        let Some(task) = self.living.remove(&thread) else { return };
        if !task.spawned.is_empty() {
            self.late.insert(thread, task.spawned);
            if self.late.len() > LATE_MAX {
                self.late.pop_first();
            }
        }
    }

    /// Returns a live thread.
    pub fn get_mut(&mut self, thread: u32) -> Option<&mut Task> {
        self.living.get_mut(&thread)
    }

    /// Forgets the threads of a process that ended; some may have no end event.
    pub fn exit(&mut self, process: u32) {
        self.living.retain(|_, task| task.process != Some(process));
    }
}
