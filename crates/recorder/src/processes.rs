//! The recorded processes: which there are, under which ids, and which are dead.

use std::collections::{HashMap, VecDeque};
use std::time::{Duration, Instant};

use events::record::Start;
use kin::status::began;
use kin::{Clue, Found, Kin, Relation};
use rustix::time::{ClockId, clock_gettime};

use crate::host::{self, TscClock};
use crate::slots::Birth;
use crate::watch::{ProcessHandle, Watch, Watched};

/// How long a dead process's status is waited for.
const STATUS_WAIT: Duration = Duration::from_millis(300);
/// How long a process is looked for that was not found in its pid namespace, and how many at a time.
const UNFOUND_WAIT: Duration = Duration::from_secs(1);
const LOOKS_MAX: usize = 8;
/// A START that was read later than this could speak of a process whose id is in use again.
const REUSE_NS: u64 = 50_000_000;
/// Resolution of the times that /proc tells ...
const TICK_NS: u64 = 10_000_000;
/// ... doubled.
const BEGAN_SLACK_NS: u64 = 2 * TICK_NS;

/// One that is alive, or was until a moment ago.
struct Process {
    /// In our namespace; 0 when it could not be found.
    pid: u32,
    /// It was not found yet.
    unfound: Option<Unfound>,
    /// Its death is noticed by looking; then, when it began.
    polled: Option<Option<u64>>,
    dead: Option<Death>,
    /// When the agent was last placed into it ...
    placed: Option<(u64, Instant)>,
    /// ... and the last IMAGE that was read.
    image_tsc: u64,
    /// How it ended is told by a thread, or by a gap.
    accounted: bool,
}

/// How long an agent may take to start when its process is killed meanwhile.
const START_WAIT: Duration = Duration::from_secs(1);

/// What is known of a process in another pid namespace that was not found there.
#[derive(Clone, Copy)]
struct Unfound {
    clue: Clue,
    start_tsc: u64,
    since: Instant,
}

impl Process {
    /// Has its death noticed.
    fn watch(&mut self, process: u32, handle: ProcessHandle, watch: &Watch) {
        let is_watched = match handle {
            ProcessHandle::Pidfd(pidfd) => watch.add(process, self.pid, pidfd).is_ok(),
            ProcessHandle::Poll => false,
            ProcessHandle::Gone => {
                self.dead = Some(Death::now());
                true
            }
            ProcessHandle::Unfound => true,
        };
        if !is_watched {
            self.polled = Some(began(self.pid.cast_signed()).ok().flatten());
        }
    }
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
    kin: Kin,
    /// When recording began, in hundredths of a second since the machine was started.
    since: u64,
    watch: Watch,
    clock: TscClock,
    /// Processes so far.
    pub seen: u32,
    /// The launched program's id and wait status, once it has ended.
    program: Option<(u32, i32)>,
    /// Numbers and ids of those taken leave of last: word of them may still be on its way.
    buried: VecDeque<(u32, u32)>,
}

const NO_START: &str = "the agent did not start in the program that it executed, which is not \
                        recorded (is there no room for it, by ulimit -v?)";
const HIDDEN: &str = "it exited by a call that is not recorded: it hid that and perhaps others, or \
                      its records were written over";

/// How many of these are remembered.
const BURIED_MAX: usize = 4096;

/// Since the machine was started.
fn now_ns() -> u64 {
    let now = clock_gettime(ClockId::Boottime);
    now.tv_sec as u64 * 1_000_000_000 + now.tv_nsec as u64
}

impl Processes {
    pub fn new(watch: Watch, clock: TscClock, kin: Kin) -> Processes {
        Processes {
            table: HashMap::new(),
            kin,
            since: now_ns() / TICK_NS,
            watch,
            clock,
            seen: 0,
            program: None,
            buried: VecDeque::new(),
        }
    }

    /// Learns from a thread's first record which process it belongs to. Ids are what the thread
    /// says: the kernel is asked whether there is such a process of ours.
    pub fn started(&mut self, birth: &Birth, maker: Option<u32>) {
        let Start { process, tsc, pid, .. } = birth.start;
        if self.table.contains_key(&process) {
            return;
        }
        let pid = i32::try_from(pid).unwrap_or(-1);
        if !birth.foreign {
            let found = self.kin.find(pid).map(|found| self.watched(process, found, tsc));
            let gone = Watched { process, pid: 0, handle: ProcessHandle::Gone };
            return self.insert(found.unwrap_or(gone));
        }
        let maker = maker.and_then(|number| self.table.get(&number));
        let maker = maker.map(|maker| maker.pid.cast_signed()).filter(|&pid| pid != 0);
        let told = i32::try_from(birth.told).ok().filter(|&told| told != 0);
        let clue = Clue { inner: pid, maker, told };
        match self.find_inside(process, &clue, tsc) {
            Some(watched) => self.insert(watched),
            None => self.insert(Watched { process, pid: 0, handle: ProcessHandle::Unfound }),
        }
        if let Some(entry) = self.table.get_mut(&process).filter(|entry| entry.pid == 0) {
            entry.unfound = Some(Unfound { clue, start_tsc: tsc, since: Instant::now() });
        }
    }

    /// Finds a process that has another id in our namespace.
    fn find_inside(&self, process: u32, clue: &Clue, start_tsc: u64) -> Option<Watched> {
        let taken = |pid| self.table.values().any(|process| process.pid.cast_signed() == pid);
        let watched = self.watched(process, self.kin.find_inside(clue, taken)?, start_tsc);
        if matches!(watched.handle, ProcessHandle::Gone) {
            return None;
        }
        self.kin.place(process, watched.pid.cast_signed());
        Some(watched)
    }

    /// Looks again for processes that were not found at first. Who has no threads left, or is not
    /// found for long, is dead.
    pub fn look_again(&mut self, has_threads: impl Fn(u32) -> bool) {
        let unfound = |(&process, entry): (&u32, &Process)| {
            entry.unfound.filter(|_| entry.dead.is_none()).map(|unfound| (process, unfound))
        };
        let unfound: Vec<(u32, Unfound)> = self.table.iter().filter_map(unfound).collect();
        for (n, (process, Unfound { clue, start_tsc, since })) in unfound.into_iter().enumerate() {
            // Rings may tell of any number of processes that never were.
            let found = match n < LOOKS_MAX {
                true => self.find_inside(process, &clue, start_tsc),
                false => None,
            };
            let Some(entry) = self.table.get_mut(&process) else { continue };
            if let Some(Watched { pid, handle, .. }) = found {
                entry.pid = pid;
                entry.unfound = None;
                entry.watch(process, handle, &self.watch);
            } else if since.elapsed() >= UNFOUND_WAIT || !has_threads(process) {
                entry.dead = Some(Death::now());
            }
        }
    }

    /// A process that was found under the id that one of ours is said to have.
    fn watched(&self, process: u32, found: Found, start_tsc: u64) -> Watched {
        let Found { relation, pid, handle } = found;
        let pid = pid.cast_unsigned();
        let is_it = match relation {
            Relation::Ours => !self.is_another(start_tsc, pid),
            Relation::Stranger | Relation::Gone => false,
            // It hides, or descriptors are short.
            Relation::Unproven => !self.is_another(start_tsc, pid) && self.may_be_ours(pid),
        };
        let handle = match handle {
            _ if !is_it => ProcessHandle::Gone,
            Some(pidfd) => ProcessHandle::Pidfd(pidfd),
            None => ProcessHandle::Poll,
        };
        Watched { process, pid, handle }
    }

    /// Whether nothing speaks against it: it began while we recorded.
    fn may_be_ours(&self, pid: u32) -> bool {
        began(pid.cast_signed()).map_or(true, |began| began >= Some(self.since))
    }

    /// Learns of a process from somebody who has it in his hands.
    pub fn add(&mut self, watched: Watched) {
        let process = watched.process;
        if !self.table.contains_key(&process)
            && self.buried.iter().all(|&(buried, _)| buried != process)
        {
            self.insert(watched);
        }
    }

    /// Whether the process that has this id now began after our process's START.
    fn is_another(&self, start_tsc: u64, pid: u32) -> bool {
        let age = self.clock.ns(host::tsc().saturating_sub(start_tsc));
        if age < REUSE_NS {
            return false;
        }
        let Ok(Some(began)) = began(pid.cast_signed()) else { return false };
        now_ns().saturating_sub(began * TICK_NS) + BEGAN_SLACK_NS < age
    }

    fn insert(&mut self, watched: Watched) {
        let Watched { process, pid, handle } = watched;
        let is_program = self.seen == 0;
        self.seen += 1;
        let mut entry = Process {
            pid,
            unfound: None,
            polled: None,
            dead: None,
            placed: None,
            image_tsc: 0,
            accounted: false,
        };
        entry.watch(process, handle, &self.watch);
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
            let Some(before) = process.polled else { continue };
            // Where that cannot be told now, it can later.
            let Ok(now) = began(process.pid.cast_signed()) else { continue };
            if process.dead.is_none() && (now.is_none() || now != before) {
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
        let Process { pid, .. } = self.table.remove(&process)?;
        self.kin.forget(process, pid.cast_signed());
        if self.buried.len() == BURIED_MAX {
            self.buried.pop_front();
        }
        self.buried.push_back((process, pid));
        Some((death.tsc, death.status))
    }

    /// Whether one of ours has this id, or had.
    pub fn have_had(&self, pid: u32) -> bool {
        self.table.values().any(|process| process.pid == pid)
            || self.buried.iter().any(|&(_, buried)| buried == pid)
    }

    /// The agent was placed into a new image of a process.
    pub fn placed(&mut self, process: u32, tsc: u64) {
        if let Some(entry) = self.table.get_mut(&process) {
            entry.placed = Some((tsc, Instant::now()));
            // What was read already may tell of the new image.
            entry.accounted &= entry.image_tsc >= tsc;
        }
    }

    /// A process has said that it runs a new image.
    pub fn has_image(&mut self, process: u32, tsc: u64) {
        if let Some(entry) = self.table.get_mut(&process) {
            entry.image_tsc = entry.image_tsc.max(tsc);
        }
    }

    /// The end of a process will be no surprise.
    pub fn account(&mut self, process: u32) {
        if let Some(entry) = self.table.get_mut(&process) {
            entry.accounted = true;
        }
    }

    /// What a dead process has kept from us, by what the kernel says of its end. Its id comes with it.
    pub fn silence(&self, process: u32) -> Option<(u32, &'static str)> {
        let entry = self.table.get(&process)?;
        let status = entry.dead?.status;
        let exited = status.is_some_and(|status| libc::WIFEXITED(status));
        if entry.accounted {
            return None;
        }
        let awaited = entry.placed.filter(|&(tsc, _)| tsc > entry.image_tsc);
        match awaited {
            // Killed before it could start, nothing ran.
            Some((_, since)) if exited || since.elapsed() >= START_WAIT => {
                Some((entry.pid, NO_START))
            }
            // Nobody can exit without a call.
            None if exited => Some((entry.pid, HIDDEN)),
            _ => None,
        }
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
