//! Assigns records to threads and processes. Records only have thread ids, which are reused after
//! an exit; the results of clone, fork and vfork give the parents.

use std::collections::{HashMap, VecDeque};

use syscalls::abi::tasks::{CLONE_THREAD, CLONE_VM};
use trace::event::StartHow;

use super::stream::Files;
use crate::calls::{CLONE, FORK, VFORK};
use crate::error::Error;
use crate::schema::SNIA;

/// Most tasks remembered until their first record.
const BIRTHS_MAX: usize = 1 << 20;
/// Most programs whose working directory is kept, and most bytes of a path.
const DIRECTORIES_MAX: usize = 1 << 12;
const PATH_BYTES_MAX: usize = 4096;
/// Flags that the C library uses to create a thread.
const USUAL_THREAD: i64 = 0x3d_0f00;
/// Flags that it uses to fork.
const USUAL_FORK: i64 = 0x120_0011;

/// The creation of a task.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Birth {
    parent: i64,
    how: StartHow,
}

/// A living task.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Task {
    /// Thread number in the trace.
    pub thread: u32,
    /// Process number in the trace.
    pub process: u32,
    /// Process id.
    pub pid: u32,
    /// Number of calls so far.
    pub calls: u64,
    /// The end of its last call, in ticks.
    pub last_tsc: u64,
}

/// The first appearance of a task.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Start {
    /// Thread id of the task.
    pub tid: i64,
    /// Kind of creation.
    pub how: StartHow,
    /// Thread number of its creator.
    pub parent: u32,
}

/// All tasks.
#[derive(Default)]
pub struct Lives {
    births: HashMap<i64, VecDeque<Birth>>,
    /// Initial working directories by thread id, from the variable PWD.
    directories: HashMap<i64, Vec<u8>>,
    tasks: HashMap<i64, Task>,
    /// Number of threads so far.
    pub threads: u32,
    /// Number of processes so far.
    pub processes: u32,
}

/// Returns the flags of clone, or likely ones: known traces do not have them.
pub fn clone_flags(told: Option<i64>, stack: Option<i64>) -> i64 {
    let usual = if stack.unwrap_or(0) != 0 { USUAL_THREAD } else { USUAL_FORK };
    told.unwrap_or(usual)
}

impl Lives {
    /// Collects the creations of tasks.
    pub fn new(files: &Files<'_, '_>) -> Result<Lives, Error> {
        let mut lives = Lives::default();
        let mut count = 0;
        for (name, how) in
            [(CLONE, None), (FORK, Some(StartHow::Fork)), (VFORK, Some(StartHow::Vfork))]
        {
            let mut stream = files.stream(&format!("{SNIA}{name}"))?;
            while let Some(record) = stream.record() {
                let int = |name| record.int(name);
                let parent = int("executing_tid").or_else(|| int("executing_pid"));
                if let (Some(child @ 1..), Some(parent)) = (int("return_value"), parent)
                    && count < BIRTHS_MAX
                {
                    let flags = clone_flags(int("flag_value"), int("child_stack_address"));
                    let how = how.unwrap_or(match flags {
                        flags if flags as u64 & CLONE_THREAD != 0 => StartHow::Thread,
                        flags if flags as u64 & CLONE_VM != 0 => StartHow::Vfork,
                        _ => StartHow::Fork,
                    });
                    lives.births.entry(child).or_default().push_back(Birth { parent, how });
                    count += 1;
                }
                stream.advance()?;
            }
        }
        let mut execs = files.stream(&format!("{SNIA}execve"))?;
        while let Some(record) = execs.record() {
            let directory = record.data("environment").and_then(|text| text.strip_prefix(b"PWD="));
            if let (Some(directory), Some(tid)) = (directory, record.int("executing_tid"))
                && directory.len() <= PATH_BYTES_MAX
                && lives.directories.len() < DIRECTORIES_MAX
            {
                let directory = directory.strip_suffix(&[0]).unwrap_or(directory).to_vec();
                lives.directories.entry(tid).or_insert(directory);
            }
            execs.advance()?;
        }
        files.count_again();
        Ok(lives)
    }

    /// Returns the task of a thread id, and its creation if it appears for the first time.
    pub fn task(&mut self, tid: i64) -> (&mut Task, Option<Start>) {
        let mut start = None;
        if !self.tasks.contains_key(&tid) {
            let birth = self.births.get_mut(&tid).and_then(VecDeque::pop_front);
            let maker = birth.and_then(|birth| self.tasks.get(&birth.parent).copied());
            let how = birth.map_or(StartHow::Launch, |birth| birth.how);
            self.threads += 1;
            let (process, pid) = match (how, maker) {
                (StartHow::Thread, Some(maker)) => (maker.process, maker.pid),
                _ => {
                    self.processes += 1;
                    (self.processes, tid as u32)
                }
            };
            let how = if maker.is_none() { StartHow::Launch } else { how };
            start = Some(Start { tid, how, parent: maker.map_or(0, |maker| maker.thread) });
            let last_tsc = 0;
            let task = Task { thread: self.threads, process, pid, calls: 0, last_tsc };
            self.tasks.insert(tid, task);
        }
        let empty = Task { thread: 0, process: 0, pid: 0, calls: 0, last_tsc: 0 };
        (self.tasks.entry(tid).or_insert(empty), start)
    }

    /// Returns the working directory from a program's environment; empty if unknown.
    pub fn directory(&self, tid: i64) -> Vec<u8> {
        self.directories.get(&tid).cloned().unwrap_or_default()
    }

    /// Removes a task. Returns whether it was the last one of its process.
    pub fn exit(&mut self, tid: i64) -> bool {
        let Some(gone) = self.tasks.remove(&tid) else { return false };
        !self.tasks.values().any(|task| task.process == gone.process)
    }

    /// Removes the other tasks of a process at an exec.
    pub fn exec(&mut self, tid: i64, process: u32) {
        self.tasks.retain(|other, task| *other == tid || task.process != process);
    }
}
