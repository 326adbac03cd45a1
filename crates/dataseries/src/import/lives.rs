//! Which thread and process a record belongs to. Records tell thread ids alone; ids are used again
//! after an exit, and who made whom is told by what clone, fork and vfork returned.

use std::collections::{HashMap, VecDeque};

use trace::event::StartHow;

use super::stream::Files;
use crate::error::Error;
use crate::schema::SNIA;

/// Tasks that are remembered until they show up.
const BIRTHS_MAX: usize = 1 << 20;
/// Programs whose working directories are looked up, and bytes of a path.
const DIRECTORIES_MAX: usize = 1 << 12;
const PATH_BYTES_MAX: usize = 4096;
const CLONE_VM: i64 = 0x100;
const CLONE_THREAD: i64 = 0x10000;
/// What the C library asks for when it makes a thread.
const USUAL_THREAD: i64 = 0x3d_0f00;
/// What it asks for when it forks.
const USUAL_FORK: i64 = 0x120_0011;

/// A task that was made.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Birth {
    parent: i64,
    how: StartHow,
}

/// A task that lives.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Task {
    /// Its number in the trace.
    pub thread: u32,
    /// Its process's number.
    pub process: u32,
    /// Process id.
    pub pid: u32,
    /// Calls so far.
    pub calls: u64,
    /// The end of its last call, in ticks.
    pub last_tsc: u64,
}

/// A task that has just been seen for the first time.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Start {
    /// The task's thread id.
    pub tid: i64,
    /// How it came to be.
    pub how: StartHow,
    /// The number of its maker.
    pub parent: u32,
}

/// All tasks.
#[derive(Default)]
pub struct Lives {
    births: HashMap<i64, VecDeque<Birth>>,
    /// The working directories of programs, as their environments tell.
    directories: HashMap<i64, Vec<u8>>,
    tasks: HashMap<i64, Task>,
    /// Numbers given so far.
    pub threads: u32,
    /// See `threads`.
    pub processes: u32,
}

/// What clone was asked for, or is likely to have been: known traces do not have the flags.
pub fn clone_flags(told: Option<i64>, stack: Option<i64>) -> i64 {
    let usual = if stack.unwrap_or(0) != 0 { USUAL_THREAD } else { USUAL_FORK };
    told.unwrap_or(usual)
}

impl Lives {
    /// Looks for the tasks that were made.
    pub fn new(files: &Files<'_, '_>) -> Result<Lives, Error> {
        let mut lives = Lives::default();
        let mut count = 0;
        for (name, how) in
            [("clone", None), ("fork", Some(StartHow::Fork)), ("vfork", Some(StartHow::Vfork))]
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
                        flags if flags & CLONE_THREAD != 0 => StartHow::Thread,
                        flags if flags & CLONE_VM != 0 => StartHow::Vfork,
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

    /// The task of this thread id, and how it came to be if this is the first that is heard of it.
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

    /// The working directory that a program was told of; empty when it was told of none.
    pub fn directory(&self, tid: i64) -> Vec<u8> {
        self.directories.get(&tid).cloned().unwrap_or_default()
    }

    /// The task is no more. Tells whether it was the last of its process.
    pub fn exit(&mut self, tid: i64) -> bool {
        let Some(gone) = self.tasks.remove(&tid) else { return false };
        !self.tasks.values().any(|task| task.process == gone.process)
    }

    /// The task begins a new program: others of its process are no more.
    pub fn exec(&mut self, tid: i64, process: u32) {
        self.tasks.retain(|other, task| *other == tid || task.process != process);
    }
}
