//! The recorded processes: their ids, and which of them are dead.

use std::collections::{HashMap, VecDeque};
use std::time::{Duration, Instant};

use kin::status::began;
use kin::{Clue, Found, Kin, Namespace, Relation};
use rustix::time::{ClockId, clock_gettime};
use syscalls::record::Start;

use crate::host::{self, TscClock};
use crate::slots::Birth;
use crate::watch::Watch;
use crate::watched::{ProcessHandle, Watched};

/// How long to wait for the status of a dead process.
const STATUS_WAIT: Duration = Duration::from_millis(300);
/// How long to look for a process in another pid namespace, and for how many at a time.
const UNFOUND_WAIT: Duration = Duration::from_secs(1);
const LOOKS_MAX: usize = 8;
/// Number of recorded processes that may be said to be the same living one.
const CLAIMS_MAX: usize = 16;
/// Age of a START from which its process id may have been reused.
const REUSE_NS: u64 = 50_000_000;
/// Resolution of times in /proc ...
const TICK_NS: u64 = 10_000_000;
/// ... doubled.
const BEGAN_SLACK_NS: u64 = 2 * TICK_NS;

/// A process that is alive, or whose death was not handled yet.
struct Process {
    /// Id in our namespace; 0 if it was not found.
    pid: u32,
    /// Number of the thread whose START was read first; 0 until then.
    thread: u32,
    /// Set while the process is still looked for.
    unfound: Option<Unfound>,
    /// Set if `pid` may be that of another process.
    guess: Option<Unfound>,
    /// Its pid namespace, if known.
    namespace: Option<Namespace>,
    /// Set if its death is noticed by polling: its start time, if known.
    polled: Option<Option<u64>>,
    dead: Option<Death>,
    /// When the agent was last placed into it ...
    placed: Option<(u64, Instant)>,
    /// ... and the time stamp of its last IMAGE.
    image_tsc: u64,
    /// END records or a gap explain how it ended.
    accounted: bool,
}

/// Time after which a missing IMAGE is reported even if the process was killed.
const START_WAIT: Duration = Duration::from_secs(1);

/// What is known of a process in another pid namespace that was not found yet.
#[derive(Clone, Copy)]
struct Unfound {
    clue: Clue,
    start_tsc: u64,
    since: Instant,
}

impl Process {
    /// Arranges that the process's death is noticed.
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

/// A dead process.
struct Buried {
    number: u32,
    thread: u32,
    pid: u32,
    namespace: Option<Namespace>,
}

/// A death that was noticed.
#[derive(Clone, Copy)]
struct Death {
    tsc: u64,
    status: Option<i32>,
    noticed: Instant,
    /// A later message may bring the status.
    more: bool,
}

impl Death {
    fn now() -> Death {
        Death { tsc: host::tsc(), status: None, noticed: Instant::now(), more: false }
    }

    /// Whether its status may still arrive.
    fn waits_for_status(&self) -> bool {
        self.more && self.status.is_none() && self.noticed.elapsed() < STATUS_WAIT
    }
}

/// All processes of the recording.
pub(crate) struct Processes {
    table: HashMap<u32, Process>,
    kin: Kin,
    /// Start of the recording, in hundredths of a second since boot.
    since: u64,
    watch: Watch,
    clock: TscClock,
    /// Number of processes so far.
    pub seen: u32,
    /// The launched program's id and wait status, once it has ended.
    program: Option<(u32, i32)>,
    /// The processes buried last: late messages and their children may mention them.
    buried: VecDeque<Buried>,
    /// Ids, by the word of agents, of processes that were gone when their first record was read.
    gone: VecDeque<u32>,
}

const NO_START: &str = "the agent did not start in the program that it executed, which is not \
                        recorded (is there no room for it, by ulimit -v?)";
const HIDDEN: &str = "it exited by a call that is not recorded: it hid that and perhaps others, or \
                      its records were written over";

/// Maximum length of `buried` and `gone`.
const BURIED_MAX: usize = 4096;

/// Adds the latest, and forgets the oldest if there are many.
fn remember<T>(list: &mut VecDeque<T>, latest: T) {
    if list.len() == BURIED_MAX {
        list.pop_front();
    }
    list.push_back(latest);
}

/// Time since boot.
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
            gone: VecDeque::new(),
        }
    }

    /// Adds the process of a thread's START, unless it is known. Its ids are the thread's claim:
    /// the kernel is asked whether one of our processes has them.
    pub fn started(&mut self, birth: &Birth, maker: Option<u32>) {
        let Start { process, tsc, pid, .. } = birth.start;
        if let Some(known) = self.table.get_mut(&process) {
            if known.thread == 0 {
                known.thread = birth.start.thread;
            }
            known.namespace = known.namespace.or((!birth.foreign).then_some(Namespace::OURS));
            return;
        }
        let pid = i32::try_from(pid).unwrap_or(-1);
        if !birth.foreign {
            let found = self.kin.find(pid).filter(|_| self.claims(pid) < CLAIMS_MAX);
            let found = found.map(|found| self.watched(process, found, tsc));
            if found.is_none() {
                remember(&mut self.gone, pid.cast_unsigned());
            }
            let gone = Watched { process, pid: 0, handle: ProcessHandle::Gone };
            return self.insert(found.unwrap_or(gone), birth.start.thread, Some(Namespace::OURS));
        }
        // Of a creator that is dead, no thread has a slot.
        let parent = birth.start.parent;
        let alive = match maker {
            Some(number) => self.table.get(&number),
            None => self.table.values().find(|entry| entry.thread == parent),
        };
        let buried = self.buried.iter().rfind(|buried| buried.thread == parent);
        let certain = alive.filter(|maker| maker.pid != 0 && maker.guess.is_none());
        let at = certain.map(|maker| maker.pid.cast_signed());
        let known = alive.map_or_else(|| buried?.namespace, |maker| maker.namespace);
        let clue = Clue {
            inner: pid,
            maker: at,
            home: known.or_else(|| Namespace::of(at?)),
            told: i32::try_from(birth.told).ok().filter(|&told| told != 0),
        };
        self.insert(
            Watched { process, pid: 0, handle: ProcessHandle::Unfound },
            birth.start.thread,
            None,
        );
        self.look_for(process, Unfound { clue, start_tsc: tsc, since: Instant::now() });
    }

    /// Number of recorded processes that are said to be the living one with this id. Another one may
    /// have got it before the death of the first was noticed, but no crowd.
    fn claims(&self, pid: i32) -> usize {
        let is_it = |entry: &&Process| entry.pid.cast_signed() == pid && entry.dead.is_none();
        self.table.values().filter(is_it).count()
    }

    /// Looks for a process that has another id in our namespace.
    fn look_for(&mut self, process: u32, unfound: Unfound) {
        let taken = |pid| self.table.values().any(|process| process.pid.cast_signed() == pid);
        let found = self.kin.find_inside(&unfound.clue, taken);
        let is_guess = found.as_ref().is_some_and(|found| found.is_guess);
        let watched = found.map(|found| self.watched(process, found, unfound.start_tsc));
        let Some(entry) = self.table.get_mut(&process) else { return };
        entry.unfound = Some(unfound);
        match watched {
            Some(Watched { pid, handle, .. }) if !matches!(handle, ProcessHandle::Gone) => {
                self.kin.place(process, pid.cast_signed(), is_guess);
                entry.pid = pid;
                entry.guess = entry.unfound.take().filter(|_| is_guess);
                entry.namespace = Namespace::of(pid.cast_signed()).filter(|_| !is_guess);
                entry.watch(process, handle, &self.watch);
            }
            _ => {}
        }
    }

    /// Looks again for processes that were not found. One that has no threads left, or was not
    /// found for `UNFOUND_WAIT`, is dead.
    pub fn look_again(&mut self, has_threads: impl Fn(u32) -> bool) {
        for (&process, entry) in &mut self.table {
            let is_wrong = entry.dead.is_none() && !self.kin.is_placed(process);
            if let Some(guess) = entry.guess.take_if(|_| is_wrong) {
                self.watch.forget(process);
                entry.unfound = Some(Unfound { since: Instant::now(), ..guess });
                (entry.pid, entry.polled) = (0, None);
            }
        }
        let unfound = |(&process, entry): (&u32, &Process)| {
            entry.unfound.filter(|_| entry.dead.is_none()).map(|unfound| (process, unfound))
        };
        let unfound: Vec<(u32, Unfound)> = self.table.iter().filter_map(unfound).collect();
        for (n, (process, unfound)) in unfound.into_iter().enumerate() {
            // Rings can claim any number of processes that never existed.
            if n < LOOKS_MAX {
                self.look_for(process, unfound);
            }
            let Some(entry) = self.table.get_mut(&process) else { continue };
            let is_over = || unfound.since.elapsed() >= UNFOUND_WAIT || !has_threads(process);
            if entry.pid == 0 && is_over() {
                entry.dead = Some(Death::now());
            }
        }
    }

    /// Returns a process found under a claimed id; its handle is `Gone` if it is another one.
    fn watched(&self, process: u32, found: Found, start_tsc: u64) -> Watched {
        let Found { relation, pid, handle, .. } = found;
        let pid = pid.cast_unsigned();
        let is_it = match relation {
            Relation::Ours => !self.is_another(start_tsc, pid),
            Relation::Stranger | Relation::Gone => false,
            // Descriptors are short, or /proc may not be read.
            Relation::Unproven => !self.is_another(start_tsc, pid) && self.may_be_ours(pid),
        };
        let handle = match handle {
            _ if !is_it => ProcessHandle::Gone,
            Some(pidfd) => ProcessHandle::Pidfd(pidfd),
            None => ProcessHandle::Poll,
        };
        Watched { process, pid, handle }
    }

    /// Whether one of our processes has one of these ids, in whichever pid namespace its maker lives.
    pub fn has_living(&self, ids: &[u32]) -> bool {
        self.kin.all_with(ids).any(|found| {
            found.relation == Relation::Ours || self.may_be_ours(found.pid.cast_unsigned())
        })
    }

    /// Whether the process began during the recording, or its start time cannot be read.
    fn may_be_ours(&self, pid: u32) -> bool {
        began(pid.cast_signed()).map_or(true, |began| began >= Some(self.since))
    }

    /// Adds a process that was noticed while it was alive.
    pub fn add(&mut self, watched: Watched) {
        let process = watched.process;
        if !self.table.contains_key(&process)
            && self.buried.iter().all(|buried| buried.number != process)
        {
            self.insert(watched, 0, None);
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

    fn insert(&mut self, watched: Watched, thread: u32, namespace: Option<Namespace>) {
        let Watched { process, pid, handle } = watched;
        let is_program = self.seen == 0;
        self.seen += 1;
        let mut entry = Process {
            pid,
            thread,
            unfound: None,
            guess: None,
            namespace,
            polled: None,
            dead: None,
            placed: None,
            image_tsc: 0,
            accounted: false,
        };
        entry.watch(process, handle, &self.watch);
        if is_program {
            // The status of the launched program comes from its parent, or has come already.
            if let Some((_, status)) = self.program.filter(|&(program, _)| program == pid) {
                entry.dead.get_or_insert_with(Death::now).status = Some(status);
            } else if let Some(dead) = &mut entry.dead {
                dead.more = true;
            }
        }
        self.table.insert(process, entry);
    }

    /// Notes a death, or its status. `more`: a later message may bring the status.
    pub fn died(&mut self, process: u32, tsc: u64, status: Option<i32>, more: bool) {
        let Some(entry) = self.table.get_mut(&process) else { return };
        let death = entry.dead.get_or_insert(Death { tsc, more: true, ..Death::now() });
        death.status = death.status.or(status);
        death.more &= more;
    }

    /// Notes that the launched program has ended, as its parent reports.
    pub fn program_ended(&mut self, pid: u32, status: i32) {
        self.program = Some((pid, status));
        let found = self.table.iter_mut().filter(|(_, process)| process.pid == pid);
        let Some((_, entry)) = found.min_by_key(|(number, _)| **number) else { return };
        entry.dead.get_or_insert_with(Death::now).status = Some(status);
    }

    /// Polls the processes that have no pidfd.
    pub fn poll(&mut self) {
        for process in self.table.values_mut() {
            let Some(before) = process.polled else { continue };
            // The start time cannot be read now, but may be later.
            let Ok(now) = began(process.pid.cast_signed()) else { continue };
            if process.dead.is_none() && (now.is_none() || now != before) {
                process.dead = Some(Death::now());
            }
        }
    }

    /// Dead processes whose threads are to be closed, and when they died. No process exits without a
    /// call: where another one may have died, and did so, the right one is looked for.
    pub fn dead(&mut self) -> Vec<(u32, u64)> {
        for entry in self.table.values_mut().filter(|entry| !entry.accounted) {
            let exited = entry
                .dead
                .and_then(|death| death.status)
                .is_some_and(|status| libc::WIFEXITED(status));
            if let Some(guess) = entry.guess.take_if(|_| exited) {
                entry.unfound = Some(Unfound { since: Instant::now(), ..guess });
                (entry.pid, entry.dead, entry.polled) = (0, None, None);
            }
        }
        let is_open = |entry: &Process| entry.guess.is_some() && !entry.accounted;
        let waits = |entry: &Process, death: &Death| is_open(entry) && death.waits_for_status();
        let died = |(&process, entry): (&u32, &Process)| {
            Some((process, entry.dead.filter(|death| !waits(entry, death))?.tsc))
        };
        self.table.iter().filter_map(died).collect()
    }

    /// Removes a dead process; returns when it died, and its status. `None` while `wait` is set and
    /// the status may still arrive.
    pub fn bury(&mut self, process: u32, wait: bool) -> Option<(u64, Option<i32>)> {
        let death = self.table.get(&process)?.dead?;
        if wait && death.waits_for_status() {
            return None;
        }
        let Process { pid, thread, namespace, .. } = self.table.remove(&process)?;
        self.kin.forget(process, pid.cast_signed());
        remember(&mut self.buried, Buried { number: process, thread, pid, namespace });
        Some((death.tsc, death.status))
    }

    /// Whether a process of the recording has or had this id. `is_gone`: no process has it now.
    fn have_had(&self, pid: u32, is_gone: bool) -> bool {
        self.table.values().any(|process| process.pid == pid)
            || self.buried.iter().any(|buried| buried.pid == pid)
            || is_gone && self.gone.contains(&pid)
    }

    /// The same of a process that was there or not when the question was asked, and may have ended since.
    pub fn knows(&self, pid: u32, was_gone: bool) -> bool {
        let is_gone = || self.kin.relation(pid.cast_signed()) == Relation::Gone;
        self.have_had(pid, was_gone) || self.gone.contains(&pid) && is_gone()
    }

    /// Notes that the agent was placed into a new image of a process.
    pub fn placed(&mut self, process: u32, tsc: u64) {
        if let Some(entry) = self.table.get_mut(&process) {
            entry.placed = Some((tsc, Instant::now()));
            // Records read already may belong to the new image.
            entry.accounted &= entry.image_tsc >= tsc;
        }
    }

    /// Notes an IMAGE of a process.
    pub fn has_image(&mut self, process: u32, tsc: u64) {
        if let Some(entry) = self.table.get_mut(&process) {
            entry.image_tsc = entry.image_tsc.max(tsc);
        }
    }

    /// Notes that a process's end is explained.
    pub fn account(&mut self, process: u32) {
        if let Some(entry) = self.table.get_mut(&process) {
            entry.accounted = true;
        }
    }

    /// The process's id and a text, if it ended in a way that the records do not explain.
    pub fn silence(&self, process: u32) -> Option<(u32, &'static str)> {
        let entry = self.table.get(&process)?;
        let status = entry.dead?.status;
        let exited = status.is_some_and(|status| libc::WIFEXITED(status));
        if entry.accounted {
            return None;
        }
        let awaited = entry.placed.filter(|&(tsc, _)| tsc > entry.image_tsc);
        match awaited {
            // If it was killed before the agent started, nothing ran.
            Some((_, since)) if exited || since.elapsed() >= START_WAIT => {
                Some((entry.pid, NO_START))
            }
            // A process cannot exit without a call.
            None if exited => Some((entry.pid, HIDDEN)),
            _ => None,
        }
    }

    /// Number of processes that are alive, or dead and not buried yet.
    pub fn count(&self) -> usize {
        self.table.len()
    }

    /// Number of processes that are alive.
    pub fn alive(&self) -> usize {
        self.table.values().filter(|entry| entry.dead.is_none()).count()
    }
}

#[cfg(test)]
mod tests {
    use std::process::Command;

    use syscalls::record::Start;

    use super::*;
    use crate::mailbox::tests::test_mailbox;

    #[test]
    fn a_process_that_was_gone_before_it_was_read_of_is_known_while_nobody_has_its_id() {
        let watch = Watch::start(test_mailbox()).unwrap();
        let mut processes = Processes::new(watch, TscClock::start(1_000_000_000), Kin::default());
        let mut child = Command::new("true").spawn().unwrap();
        let pid = child.id();
        child.wait().unwrap();
        let start = Start { tsc: 1, thread: 1, process: 1, parent: 0, pid, tid: pid };
        processes.started(&Birth { start, foreign: false, told: 0 }, None);
        assert!(processes.have_had(pid, true), "who sent the signal is gone, as the process is");
        assert!(!processes.have_had(pid, false), "somebody else has the id now");
        assert!(processes.knows(pid, false), "nobody has it any more");
        assert!(!processes.have_had(pid + 1, true));
    }

    #[test]
    fn a_crowd_that_is_said_to_be_one_living_process_is_not_watched() {
        let watch = Watch::start(test_mailbox()).unwrap();
        let kin = Kin::default();
        kin.add(std::process::id().cast_signed());
        let mut processes = Processes::new(watch, TscClock::start(1_000_000_000), kin);
        let mut child = Command::new("sleep").arg("60").spawn().unwrap();
        let pid = child.id();
        for process in 1..=1000 {
            let start =
                Start { tsc: host::tsc(), thread: process, process, parent: 0, pid, tid: pid };
            processes.started(&Birth { start, foreign: false, told: 0 }, None);
        }
        assert_eq!(processes.alive(), CLAIMS_MAX);
        child.kill().unwrap();
        child.wait().unwrap();
    }
}
