//! Which thread of the recording has an id of the kernel's: where page faults tell of threads.

use std::collections::HashMap;

use syscalls::record::Start;

/// Maximum number of processes, and of threads of one, that are remembered.
const PROCESSES_MAX: usize = 4096;
const THREADS_MAX: usize = 16 << 10;

/// Threads of processes.
#[derive(Default)]
pub(crate) struct Tids(HashMap<u32, Process>);

struct Process {
    pid: u32,
    /// Numbers by id, and when they began. Those that have ended stay until another one gets the id.
    threads: HashMap<u32, (u32, u64)>,
}

impl Tids {
    /// A thread has begun; `foreign`: its ids are from another namespace.
    pub fn started(&mut self, start: &Start, foreign: bool) {
        // Ids of another namespace are not those that the kernel tells us.
        if foreign || (self.0.len() >= PROCESSES_MAX && !self.0.contains_key(&start.process)) {
            return;
        }
        let new = || Process { pid: start.pid, threads: HashMap::new() };
        let threads = &mut self.0.entry(start.process).or_insert_with(new).threads;
        if threads.len() < THREADS_MAX || threads.contains_key(&start.tid) {
            threads.insert(start.tid, (start.thread, start.tsc));
        }
    }

    /// A thread begins a program: it is the only one of its process then, and has its id. Threads that
    /// the program has made since may be known already.
    pub fn began_program(&mut self, process: u32, thread: u32, tsc: u64) {
        if let Some(Process { pid, threads }) = self.0.get_mut(&process) {
            threads.retain(|_, (_, began)| *began > tsc);
            threads.insert(*pid, (thread, tsc));
        }
    }

    /// A process has ended.
    pub fn ended(&mut self, process: u32) {
        self.0.remove(&process);
    }

    /// The number of a thread.
    pub fn number(&self, process: u32, tid: u32) -> Option<u32> {
        self.0.get(&process)?.threads.get(&tid).map(|(thread, _)| *thread)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_lead_to_threads_until_a_program_begins() {
        let mut tids = Tids::default();
        let at = |tsc, thread, tid| Start { tsc, thread, process: 7, parent: 0, pid: 100, tid };
        let start = |thread, tid| at(1, thread, tid);
        tids.started(&start(1, 100), false);
        tids.started(&start(2, 101), false);
        tids.started(&start(3, 102), true);
        assert_eq!([100, 101, 102].map(|tid| tids.number(7, tid)), [Some(1), Some(2), None]);
        tids.started(&start(4, 101), false);
        assert_eq!((tids.number(7, 101), tids.number(8, 101)), (Some(4), None));
        // A thread of the program is told of before the program is.
        tids.started(&at(3, 5, 103), false);
        tids.began_program(7, 4, 2);
        assert_eq!([100, 101, 103].map(|tid| tids.number(7, tid)), [Some(4), None, Some(5)]);
        tids.ended(7);
        assert_eq!(tids.number(7, 100), None);
    }
}
