//! The recorded processes: which there are, under which ids, and which are dead.

use std::collections::{HashMap, VecDeque};
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use events::record::Start;
use ring::Slot;
use rustix::time::{ClockId, clock_gettime};

use crate::host::{self, TscClock};
use crate::namespaces;
use crate::watch::{ProcessHandle, Watch, Watched, process_began};

/// How long a dead process's status is waited for.
const STATUS_WAIT: Duration = Duration::from_millis(300);
/// A START that was read later than this could speak of a process whose id is in use again.
const REUSE_NS: u64 = 50_000_000;
/// Resolution of the times that /proc tells, doubled.
const BEGAN_SLACK_NS: u64 = 20_000_000;

/// One that is alive, or was until a moment ago.
struct Process {
    /// In our namespace; 0 when it could not be found.
    pid: u32,
    /// Its own namespace is another one.
    foreign: bool,
    /// Its death is noticed by looking; then, when it began.
    polled: Option<Option<u64>>,
    dead: Option<Death>,
}

/// A death that was noticed.
#[derive(Clone, Copy)]
struct Death {
    tsc: u64,
    status: Option<i32>,
    noticed: Instant,
    /// Somebody may tell its status yet.
    more: bool,
}

impl Death {
    fn now() -> Death {
        Death { tsc: host::tsc(), status: None, noticed: Instant::now(), more: false }
    }
}

/// All of them.
pub(crate) struct Processes {
    table: HashMap<u32, Process>,
    watch: Watch,
    clock: TscClock,
    /// Processes so far.
    pub seen: u32,
    /// The launched program's id and wait status, once it has ended.
    program: Option<(u32, i32)>,
    /// Those taken leave of last: word of them may still be on its way.
    buried: VecDeque<u32>,
}

/// How many of these are remembered.
const BURIED_MAX: usize = 4096;

impl Processes {
    pub fn new(watch: Watch, clock: TscClock) -> Processes {
        Processes {
            table: HashMap::new(),
            watch,
            clock,
            seen: 0,
            program: None,
            buried: VecDeque::new(),
        }
    }

    /// Learns from a thread's first record which process it belongs to.
    pub fn started(&mut self, start: &Start, slot: &Slot, parent_process: Option<u32>) {
        if self.table.contains_key(&start.process) {
            return;
        }
        let foreign = slot.foreign_pid.load(Ordering::Relaxed) != 0;
        let parent = parent_process.and_then(|number| self.table.get(&number));
        let pid = if !foreign {
            start.pid
        } else if let (Some(Process { foreign: false, .. }), seen @ 1..) =
            (parent, slot.pid_seen.load(Ordering::Relaxed))
        {
            // The maker lives in our namespace, so what it was told is the id that we need.
            seen
        } else {
            let parent_pid = parent.map_or(0, |parent| parent.pid);
            let taken = |pid| self.table.values().any(|process| process.pid == pid);
            namespaces::find_process(start.pid, parent_pid, taken).unwrap_or(0)
        };
        if foreign {
            slot.global_pid.store(pid, Ordering::Relaxed);
        }
        let mut watched = Watched::open(start.process, pid);
        if self.is_another(start.tsc, pid) {
            watched.handle = ProcessHandle::Gone;
        }
        self.insert(watched, foreign);
    }

    /// Learns of a process from somebody who has it in his hands.
    pub fn add(&mut self, watched: Watched) {
        let process = watched.process;
        if !self.table.contains_key(&process) && !self.buried.contains(&process) {
            self.insert(watched, false);
        }
    }

    /// Whether the process that has this id now began after our process's START.
    fn is_another(&self, start_tsc: u64, pid: u32) -> bool {
        let age = self.clock.ns(host::tsc().saturating_sub(start_tsc));
        if age < REUSE_NS {
            return false;
        }
        let Some(began) = process_began(pid) else { return false };
        let now = clock_gettime(ClockId::Boottime);
        let now = now.tv_sec as u64 * 1_000_000_000 + now.tv_nsec as u64;
        now.saturating_sub(began * 10_000_000) + BEGAN_SLACK_NS < age
    }

    fn insert(&mut self, watched: Watched, foreign: bool) {
        let Watched { process, pid, handle } = watched;
        let is_program = self.seen == 0;
        self.seen += 1;
        let mut entry = Process { pid, foreign, polled: None, dead: None };
        if let ProcessHandle::Pidfd(pidfd) = handle {
            if self.watch.add(process, pid, pidfd).is_err() {
                entry.polled = Some(process_began(pid));
            }
        } else if matches!(handle, ProcessHandle::Poll) {
            entry.polled = Some(process_began(pid));
        } else {
            entry.dead = Some(Death::now());
        }
        if is_program {
            // Its parent will tell its status, or has told already.
            if let Some((_, status)) = self.program.filter(|&(program, _)| program == pid) {
                entry.dead.get_or_insert_with(Death::now).status = Some(status);
            } else if let Some(dead) = &mut entry.dead {
                dead.more = true;
            }
        }
        self.table.insert(process, entry);
    }

    /// A death was noticed, or more is known about it. `more`: its status may be told yet.
    pub fn died(&mut self, process: u32, tsc: u64, status: Option<i32>, more: bool) {
        let Some(entry) = self.table.get_mut(&process) else { return };
        let death = entry.dead.get_or_insert(Death { tsc, more: true, ..Death::now() });
        death.status = death.status.or(status);
        death.more &= more;
    }

    /// The launched program has ended, says its parent.
    pub fn program_ended(&mut self, pid: u32, status: i32) {
        self.program = Some((pid, status));
        let found = self.table.iter_mut().filter(|(_, process)| process.pid == pid);
        let Some((_, entry)) = found.min_by_key(|(number, _)| **number) else { return };
        entry.dead.get_or_insert_with(Death::now).status = Some(status);
    }

    /// Looks after those that have no pidfd.
    pub fn poll(&mut self) {
        for process in self.table.values_mut() {
            let Some(began) = process.polled else { continue };
            let now = process_began(process.pid);
            if process.dead.is_none() && (now.is_none() || now != began) {
                process.dead = Some(Death::now());
            }
        }
    }

    /// The dead whose threads are to be taken leave of, and when they died.
    pub fn dead(&self) -> Vec<(u32, u64)> {
        let died = |(&process, entry): (&u32, &Process)| Some((process, entry.dead?.tsc));
        self.table.iter().filter_map(died).collect()
    }

    /// Takes leave of a dead process: when it died and how. `None` while `wait` is set and its
    /// status may still arrive.
    pub fn bury(&mut self, process: u32, wait: bool) -> Option<(u64, Option<i32>)> {
        let death = self.table.get(&process)?.dead?;
        if wait && death.more && death.status.is_none() && death.noticed.elapsed() < STATUS_WAIT {
            return None;
        }
        self.table.remove(&process);
        if self.buried.len() == BURIED_MAX {
            self.buried.pop_front();
        }
        self.buried.push_back(process);
        Some((death.tsc, death.status))
    }

    /// Processes that are alive, and dead ones not yet taken leave of.
    pub fn count(&self) -> usize {
        self.table.len()
    }

    /// Those that are alive.
    pub fn alive(&self) -> usize {
        self.table.values().filter(|entry| entry.dead.is_none()).count()
    }
}
