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

mod kernel;
mod process;
mod terms;

use std::collections::HashMap;
use std::io;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::time::{Duration, Instant};

use kin::start_thread;
use ring::{Mapped, answer};

use crate::mailbox::Mailbox;

use self::process::Process;
pub use self::terms::Every;
pub(crate) use self::terms::Terms;

/// Maximum number of processes whose memory is watched at the same time.
const PROCESSES_MAX: usize = 4096;

/// A thread that asks, and waits for the answer.
#[derive(Clone, Copy, Debug)]
pub struct Who {
    /// Process id.
    pub pid: i32,
    /// Thread id.
    pub tid: i32,
    /// Number of the process in the recording.
    pub process: u32,
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
    },
    /// Collect what was stored, and do not watch this memory any more.
    Collect {
        /// Address of the memory.
        start: u64,
        /// Its length; 0: all stays watched.
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
/// Such collections, and the faults by which the kernel then notices the next stores, take at most
/// one part in this many of the time.
const COST_PART: u32 = 10;
/// What such a fault takes on a slow file system.
const FAULT: Duration = Duration::from_micros(10);

/// Starts the thread. It ends when nobody can ask any more.
pub(crate) fn start(mailbox: Arc<Mailbox>, terms: Terms) -> io::Result<Sender<Asked>> {
    let (ask, asked) = channel();
    let watch = move || Watch { mailbox, terms, processes: HashMap::new() }.serve(&asked);
    start_thread("mapped", watch)?;
    Ok(ask)
}

struct Watch {
    mailbox: Arc<Mailbox>,
    terms: Terms,
    /// By number.
    processes: HashMap<u32, Process>,
}

impl Watch {
    fn serve(mut self, asked: &Receiver<Asked>) {
        let mut due = Instant::now();
        loop {
            let request = match self.processes.is_empty() {
                true => asked.recv().map_err(|_| RecvTimeoutError::Disconnected),
                false => asked.recv_timeout(due.saturating_duration_since(Instant::now())),
            };
            match request {
                Ok(request) => {
                    if self.processes.is_empty() {
                        due = Instant::now() + self.rest(Duration::ZERO);
                    }
                    self.answer(request);
                }
                Err(RecvTimeoutError::Timeout) => {
                    let cost = self.look();
                    due = Instant::now() + self.rest(cost);
                }
                Err(RecvTimeoutError::Disconnected) => return,
            }
        }
    }

    /// The time until the next look, after one that has cost so much.
    fn rest(&self, cost: Duration) -> Duration {
        match self.terms.every {
            Every::Auto => REST_MIN.max(cost * COST_PART),
            Every::Time(time) => time.clamp(TIME_MIN, TIME_MAX),
        }
    }

    /// Collects what all processes have stored, unasked. Returns what that costs.
    fn look(&mut self) -> Duration {
        let began = Instant::now();
        let mut pages = 0;
        self.processes.retain(|_, process| {
            pages += process.collect(None, &self.terms, &mut |stored| self.mailbox.store(stored));
            process.is_there()
        });
        began.elapsed() + FAULT * u32::try_from(pages).unwrap_or(u32::MAX)
    }

    fn answer(&mut self, Asked { who, wish, answer: give }: Asked) {
        let reply = match wish {
            Wish::Watch { by, what, start, length } => {
                match self.watch(who, by, what, start, length) {
                    Some(()) => answer::DONE,
                    None if self.processes.contains_key(&who.process) => answer::NOT_THIS,
                    None => answer::REFUSED,
                }
            }
            Wish::Collect { start, length, next } => {
                self.collect(who, start, length, next);
                answer::DONE
            }
        };
        if let Some(process) = self.processes.get(&who.process) {
            self.mailbox.leaves(who.process, process.files());
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
    ) -> Option<()> {
        let ranges = match what {
            Mapped::LikeProcess(parent) => Some(self.processes.get(&parent)?.ranges().to_vec()),
            _ => None,
        };
        if let Some((helper, fd)) = by {
            self.processes.retain(|_, process| process.is_there());
            if self.processes.len() >= PROCESSES_MAX {
                return None;
            }
            let process = Process::open(who.pid, who.process, helper, fd).ok()?;
            self.processes.insert(who.process, process);
        }
        let process = self.processes.get_mut(&who.process)?;
        if let Some(ranges) = ranges {
            return ranges.into_iter().try_for_each(|range| process.add(range).ok());
        }
        let end = start.checked_add(length)?;
        let range = match what {
            Mapped::File { fd, offset } => {
                process.range_of(who.tid, fd, start..end, offset).ok()?
            }
            Mapped::FormerlyAt(address) => process.range_like(address, start..end)?,
            Mapped::LikeProcess(_) => return None,
        };
        process.add(range).ok()
    }

    /// Collects what a process has stored.
    fn collect(&mut self, who: Who, start: u64, length: u64, next: u64) {
        let Some(process) = self.processes.get_mut(&who.process) else { return };
        let mailbox = &self.mailbox;
        process.collect(Some(who.thread), &self.terms, &mut |stored| mailbox.store(stored));
        process.drop(start..start.saturating_add(length));
        process.ends = next == ring::next::ENDS;
        if next == ring::next::UNWATCHED {
            self.processes.remove(&who.process);
            self.mailbox.leaves(who.process, Vec::new());
        }
    }
}
