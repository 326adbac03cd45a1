//! Collects what programs store to mapped files.
//!
//! ```text
//!   agent: mmap  ──> supervisor ──> watch: registers the memory, all of it unwritten
//!   agent: msync ──> supervisor ──> collect: which pages were written to, and what is in them
//!                                      |
//!                                      └──> mailbox ──> drain ──> mmap_write events
//! ```
//!
//! From time to time it collects unasked: then less is missing if a program is killed, and what its
//! stores are replayed among is closer to what they were among.
//!
//! One thread does all of this. It waits for programs: for their memory maps, and for the files
//! behind their memory. Agents wait for it with a limit, and nobody else does.

mod holes;
mod kernel;
mod process;
mod range;
mod terms;
mod times;

use std::collections::HashMap;
use std::io;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::time::{Duration, Instant};

use kin::start_thread;
use ring::{Mapped, about, answer};

use crate::host;
use crate::mailbox::Mailbox;

use self::process::Process;
use self::range::{Scope, Watched};
pub use self::terms::Every;
pub(crate) use self::terms::Terms;
use self::times::Times;

/// Bytes of memory whose pages are marked at the same time, in all processes together: marks take
/// eight bytes for each page.
const MARKED_BYTES_MAX: u64 = 64 << 30;
/// Maximum number of processes whose memory is watched at the same time.
const PROCESSES_MAX: usize = 4096;

/// A thread that asks, and waits for the answer.
#[derive(Clone, Copy, Debug)]
pub struct Who {
    /// Process id.
    pub pid: i32,
    /// Thread id.
    pub tid: i32,
    /// Number of the process whose memory it is, in the recording.
    pub owner: u32,
    /// Number of the thread in the recording.
    pub thread: u32,
}

/// What it asks.
pub enum Wish {
    /// Watch memory.
    Watch {
        /// A thread of the process, and its descriptor by which to watch; `None`: as before.
        by: Option<(i32, i32)>,
        /// The file that is mapped there.
        what: Mapped,
        /// Address of the memory.
        start: u64,
        /// Its length.
        length: u64,
        /// When: a [`ring::when`].
        when: u32,
    },
    /// Collect what was stored.
    Collect {
        /// What it is about: a [`ring::about`].
        about: u64,
        /// Address of the memory, or a descriptor.
        start: u64,
        /// Its length.
        length: u64,
        /// What comes after it: a [`ring::next`].
        next: u64,
    },
}

/// A request and what to do with the answer.
pub struct Asked {
    /// Who asks.
    pub who: Who,
    /// What it asks.
    pub wish: Wish,
    /// Is given one of [`ring::answer`].
    pub answer: Box<dyn FnOnce(u32) + Send>,
}

/// Shortest time between two collections that nobody asked for.
const REST_MIN: Duration = Duration::from_millis(200);
/// Bounds of the time that a user may choose.
const TIME_MIN: Duration = Duration::from_millis(1);
const TIME_MAX: Duration = Duration::from_secs(365 * 86_400);
/// How often it is asked whether page faults tell of much.
const TOUCHES_LOOK: Duration = Duration::from_millis(50);
/// Such collections, and the faults by which the kernel then notices the next stores, take at most
/// one part in this many of the time.
const COST_PART: u32 = 10;
/// What such a fault takes on a slow file system.
const FAULT: Duration = Duration::from_micros(10);

/// Starts the thread. It ends when nobody can ask any more.
pub(crate) fn start(mailbox: Arc<Mailbox>, terms: Terms) -> io::Result<Sender<Asked>> {
    let (ask, asked) = channel();
    let watch = move || {
        Watch { mailbox, terms, looked_tsc: 0, processes: HashMap::new(), times: None }
            .serve(&asked)
    };
    start_thread("mapped", watch)?;
    Ok(ask)
}

struct Watch {
    mailbox: Arc<Mailbox>,
    terms: Terms,
    /// When the last look of all began.
    looked_tsc: u64,
    /// By number.
    processes: HashMap<u32, Process>,
    /// Where page faults come in, or why they do not, once that was tried.
    times: Option<Result<Arc<Times>, String>>,
}

impl Watch {
    fn serve(mut self, asked: &Receiver<Asked>) {
        let mut due = Instant::now();
        let mut rest = Duration::ZERO;
        loop {
            let request = match self.processes.is_empty() {
                true => asked.recv().map_err(|_| RecvTimeoutError::Disconnected),
                false => asked.recv_timeout(self.until(due)),
            };
            match request {
                Ok(request) => {
                    if self.processes.is_empty() {
                        rest = self.rest(Duration::ZERO);
                        due = Instant::now() + rest;
                    }
                    self.answer(request);
                }
                Err(RecvTimeoutError::Timeout) if self.looks_for_reads(due) => {}
                Err(RecvTimeoutError::Timeout) => {
                    let cost = self.look(Instant::now().checked_sub(rest));
                    rest = self.rest(cost);
                    due = Instant::now() + rest;
                }
                Err(RecvTimeoutError::Disconnected) => return,
            }
        }
    }

    /// How long to wait for requests if the next look is due then.
    fn until(&self, due: Instant) -> Duration {
        let until = due.saturating_duration_since(Instant::now());
        if matches!(self.times, Some(Ok(_))) { until.min(TOUCHES_LOOK) } else { until }
    }

    /// Before the next look is due, looks only at what page faults tell, if that is much.
    fn looks_for_reads(&mut self, due: Instant) -> bool {
        if Instant::now() >= due {
            return false;
        }
        if let Some(Ok(times)) = &self.times
            && times.has_many()
        {
            for process in self.processes.values_mut() {
                let mut tell = |stored| self.mailbox.store(stored);
                process.collect(&Scope::Touched, None, &self.terms, &mut tell);
            }
        }
        true
    }

    /// Has page faults tell when pages of a process are touched, and says whether they do.
    fn time(&mut self, who: Who, maker: Option<u32>) {
        let Some(process) = self.processes.get(&who.owner) else { return };
        if !self.terms.reads || process.timed().is_some() {
            return;
        }
        let by_faults = self.terms.by_faults;
        let times = self.times.get_or_insert_with(|| match by_faults {
            true => Times::start().map_err(|error| format!("perf_event_open: {error}")),
            false => Err("--mmap-times looks".to_string()),
        });
        let maker = maker.and_then(|maker| self.processes.get(&maker)?.timed());
        let timed = match times {
            Ok(times) => {
                times.follow(who.pid, maker).map_err(|error| format!("perf_event_open: {error}"))
            }
            Err(error) => Err(error.clone()),
        };
        match timed {
            Ok(timed) => {
                self.mailbox.times(who.owner, true, 0, String::new());
                if let Some(process) = self.processes.get_mut(&who.owner) {
                    process.set_timed(timed);
                }
            }
            Err(why) => self.mailbox.times(who.owner, false, 0, why),
        }
    }

    /// The time until the next look, after one that has cost so much.
    fn rest(&self, cost: Duration) -> Duration {
        match self.terms.every {
            Every::Auto => REST_MIN.max(cost * COST_PART),
            Every::Time(time) => time.clamp(TIME_MIN, TIME_MAX),
        }
    }

    /// Collects what all processes have stored, unasked, but for memory that was collected later
    /// than that. Returns what that costs.
    fn look(&mut self, until: Option<Instant>) -> Duration {
        let began = Instant::now();
        let mut pages = 0;
        let now = host::tsc();
        // What this look leaves out was collected after the one before had begun.
        let since = if until.is_some() { self.looked_tsc } else { now };
        self.looked_tsc = now;
        self.processes.retain(|number, process| {
            let mut tell = |stored| self.mailbox.store(stored);
            let found = process.collect(&Scope::Until(until), None, &self.terms, &mut tell);
            pages += found;
            // Of one that is gone, not all was found.
            let is_there = process.is_there();
            process.forget_taken();
            tell_lost(&self.mailbox, *number, process);
            if is_there {
                self.mailbox.looked(*number, since, found);
            }
            is_there
        });
        began.elapsed() + FAULT * u32::try_from(pages).unwrap_or(u32::MAX)
    }

    fn answer(&mut self, Asked { who, wish, answer: give }: Asked) {
        let reply = match wish {
            Wish::Watch { by, what, start, length, when } => {
                match self.watch(who, by, what, start, length, when) {
                    Some(answer) => answer,
                    None if self.processes.contains_key(&who.owner) => answer::NOT_THIS,
                    None => answer::REFUSED,
                }
            }
            Wish::Collect { about, start, length, next } => {
                match self.collect(who, about, start, length, next) {
                    true => answer::DONE,
                    false => answer::NOT_THIS,
                }
            }
        };
        if let Some(process) = self.processes.get_mut(&who.owner)
            && process.has_changed()
        {
            self.mailbox.leaves(who.owner, process.files());
        }
        if let Some(process) = self.processes.get(&who.owner) {
            process.says_what_is_watched();
        }
        give(reply);
    }

    fn watch(
        &mut self,
        who: Who,
        by: Option<(i32, i32)>,
        what: Mapped,
        start: u64,
        length: u64,
        when: u32,
    ) -> Option<u32> {
        let end = start.checked_add(length)?;
        let mut ranges = None;
        if let Mapped::LikeProcess(parent) = what {
            let files = self.processes.get(&parent)?.files_with_holes();
            files.into_iter().for_each(|file| self.share(file));
            ranges = Some(self.processes.get(&parent)?.inherited(who.pid).ok()?);
        }
        if let Mapped::Noted = what {
            let files = self.processes.get(&who.owner)?.files_in(&(start..end));
            files.into_iter().for_each(|file| self.share(file));
        }
        let known = self.processes.get(&who.owner);
        // Two threads may map their first files at the same time.
        if let Some((helper, fd)) = by
            && known.is_none_or(Process::has_ended)
        {
            self.processes.retain(|_, process| process.is_there());
            if self.processes.len() >= PROCESSES_MAX {
                return None;
            }
            let process = Process::open(who.pid, who.owner, helper, fd, self.terms.reads).ok()?;
            self.processes.insert(who.owner, process);
            let maker = if let Mapped::LikeProcess(parent) = what { Some(parent) } else { None };
            self.time(who, maker);
        }
        let room = MARKED_BYTES_MAX.saturating_sub(self.marked_bytes());
        let process = self.processes.get_mut(&who.owner)?;
        if let Some(ranges) = ranges {
            let added =
                ranges.into_iter().try_for_each(|range| process.add(range, room, false).ok());
            return added.map(|()| answer::DONE);
        }
        let added = match what {
            Mapped::File { fd, offset } => {
                let range = process.range_of(who.tid, fd, start..end, offset, when).ok()?;
                return self.add(who.owner, range, room).ok().map(|()| answer::DONE);
            }
            Mapped::FormerlyAt(from) => {
                let moved = process.moved(who.thread, from, &(start..end), room);
                let (ranges, _) = moved.ok().filter(|(_, some)| *some)?;
                ranges.into_iter().try_for_each(|range| self.add(who.owner, range, room))
            }
            Mapped::Restored => return process.restore(who.thread).then_some(answer::DONE),
            Mapped::CopyOf(address) => {
                let range = process.copy_of(address, start..end)?;
                self.add(who.owner, range, room)
            }
            Mapped::Reordered(page) => {
                let range = process.reordered(who.thread, start..end, page)?;
                self.add(who.owner, range, room)
            }
            Mapped::Noted => process.becomes_writable(start..end, room),
            Mapped::LikeProcess(_) => return None,
        };
        Some(if added.is_ok() { answer::DONE } else { answer::REFUSED })
    }

    /// Watches memory of a process, in which nobody else, or others as well have a file mapped.
    fn add(&mut self, owner: u32, range: Watched, room: u64) -> io::Result<()> {
        let is_alone = range.is_noted || !self.processes.values().any(|its| its.has(range.id));
        if !is_alone {
            self.share(range.id);
        }
        let process = self.processes.get_mut(&owner).ok_or(io::ErrorKind::NotFound)?;
        process.add(range, room, is_alone)
    }

    fn marked_bytes(&self) -> u64 {
        self.processes.values().map(Process::marked_bytes).sum()
    }

    /// A file is about to be mapped by others as well.
    fn share(&mut self, file: (u64, u64)) {
        let mut tell = |stored| self.mailbox.store(stored);
        let room = MARKED_BYTES_MAX.saturating_sub(self.marked_bytes());
        for process in self.processes.values_mut() {
            process.share(file, room, &self.terms, &mut tell);
        }
    }

    /// Collects what a process has stored. Returns false if that is to go away and was not watched.
    fn collect(&mut self, who: Who, what: u64, start: u64, length: u64, next: u64) -> bool {
        let Some(process) = self.processes.get_mut(&who.owner) else { return false };
        let mailbox = &self.mailbox;
        let memory = start..start.saturating_add(length);
        let scope = match what {
            about::MEMORY | about::GONE | about::ALSO_GONE => Scope::Memory(memory.clone()),
            about::FILE => Scope::of_file(who.tid, start as i32),
            _ => Scope::All,
        };
        let tell = &mut |stored| mailbox.store(stored);
        process.collect(&scope, Some(who.thread), &self.terms, tell);
        let some = match what {
            about::GONE | about::ALSO_GONE => {
                process.take_away(who.thread, memory, what == about::ALSO_GONE)
            }
            _ => true,
        };
        process.ends(next == ring::next::ENDS);
        if next != ring::next::GOES_ON {
            tell_lost(&self.mailbox, who.owner, process);
        }
        if next == ring::next::UNWATCHED {
            self.processes.remove(&who.owner);
            self.mailbox.leaves(who.owner, Vec::new());
        }
        some
    }
}

/// Says how many page faults of a process are not known, if that was not said yet.
fn tell_lost(mailbox: &Mailbox, number: u32, process: &Process) {
    let lost = process.timed().map_or(0, times::Timed::lost);
    if lost != 0 {
        mailbox.times(number, true, lost, String::new());
    }
}
