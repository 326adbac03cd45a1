//! Messages from other threads to the drain thread, and waking it.

use std::collections::{BTreeSet, HashMap, HashSet, VecDeque};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::mpsc::Sender;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use ring::Arena;
use rustix::thread::futex;
use syscalls::record::GapWhy;
use trace::event::{Event, EventKind, ProcessState, RECORDER};

use crate::host;
use crate::stacks::SeenMaps;
use crate::stored::{Spare, Stored};
use crate::watched::Watched;

/// Most files of which stores are collected that are remembered.
const WATCHED_MAX: usize = 1 << 16;
/// Bytes stored to mapped files that may wait in the queue; beyond it, their collector waits.
const STORED_BYTES_MAX: usize = 32 << 20;
/// The same for bytes of events.
const BYTES_MAX: usize = 256 << 20;
const STORED_PAUSE: Duration = Duration::from_millis(1);

/// A message to the drain thread.
pub(crate) enum Message {
    /// Write this event.
    Event(Event),
    /// A process was noticed before its own records arrived.
    Seen(Watched),
    /// A process has died.
    Died {
        /// Its number.
        process: u32,
        /// When its death was noticed.
        tsc: u64,
        /// Its wait status, if known.
        status: Option<i32>,
        /// A later message may bring the status.
        more: bool,
    },
    /// A stopped thread continues in another slot, possibly in a new arena.
    Moved {
        /// The slot that it used.
        from: usize,
        /// The slot that it will use.
        to: usize,
        /// The arena of slot `to`.
        arena: Arena,
        /// The user that owns the arena.
        user: u32,
        /// Notified when all records in the former slot are read.
        done: Sender<()>,
    },
    /// The launched program has ended, as its parent reports.
    ProgramEnded {
        /// Its process id.
        pid: u32,
        /// Its wait status.
        status: i32,
    },
    /// The agent was placed into a new image of a process.
    Placed {
        /// The process's number.
        process: u32,
        /// Time stamp of that.
        tsc: u64,
    },
    /// A process runs a program unrecorded; a gap says so.
    Unrecorded(u32),
    /// A process has stored to a mapped file, as was found at this time.
    Stored(Box<Stored>, u64),
    /// All mapped files of a process were looked at.
    Looked {
        /// Its number.
        process: u32,
        /// When the look began.
        since: u64,
        /// How many pages were found.
        pages: u64,
        /// When it had ended.
        tsc: u64,
    },
    /// Where the times of what a process reads of mapped files come from.
    Times {
        /// Its number.
        process: u32,
        /// They come from page faults.
        by_faults: bool,
        /// How many of these were lost.
        lost: u64,
        /// Why they do not.
        why: String,
        /// When it was found.
        tsc: u64,
    },
    /// An event with bytes to be stored.
    WithBytes(Box<Event>, Vec<u8>),
    /// Asks whether a process with this id is or was recorded.
    IsRecorded {
        /// The id.
        pid: u32,
        /// There is no process with that id any more.
        is_gone: bool,
        /// Receives the answer once all records published before are read.
        answer: Sender<bool>,
    },
    /// Keep events of the kernel that are about this process and those that it makes.
    Follow {
        /// Its id.
        pid: u32,
        /// Since when.
        tsc: u64,
    },
    /// Stop recording.
    Stop(GapWhy, String),
}

/// A queue of messages that can wake the drain thread.
pub(crate) struct Mailbox {
    /// What processes had mapped as they began programs.
    pub maps: SeenMaps,
    arena: Arena,
    queue: Mutex<VecDeque<Message>>,
    /// Bytes stored to mapped files that are in the queue.
    stored_bytes: AtomicUsize,
    spare: Arc<Spare>,
    /// Files to which processes may have stored what was not collected.
    uncollected: Mutex<HashMap<u32, Vec<Vec<u8>>>>,
    /// All files of which stores were ever collected, by process.
    watched: Mutex<BTreeSet<(u32, Vec<u8>)>>,
    filled: AtomicBool,
    /// Set when messages are no longer read.
    closed: AtomicBool,
    /// Processes that the drain thread knows: reports of them can be omitted.
    known: Mutex<HashSet<u32>>,
}

impl Mailbox {
    pub fn new(arena: Arena) -> Mailbox {
        let (filled, closed) = (AtomicBool::new(false), AtomicBool::new(false));
        let stored_bytes = AtomicUsize::new(0);
        let (queue, known, uncollected, watched, spare) = <_>::default();
        let maps = SeenMaps::default();
        Mailbox {
            maps,
            arena,
            queue,
            stored_bytes,
            spare,
            uncollected,
            watched,
            filled,
            closed,
            known,
        }
    }

    /// Discards all present and future messages.
    pub fn close(&self) {
        let mut queue = self.queue.lock().unwrap_or_else(PoisonError::into_inner);
        self.closed.store(true, Ordering::SeqCst);
        queue.clear();
    }

    /// Queues a message that can wait until the drain thread wakes by itself.
    pub fn leave(&self, message: Message) {
        let mut queue = self.queue.lock().unwrap_or_else(PoisonError::into_inner);
        if self.closed.load(Ordering::SeqCst) {
            return;
        }
        queue.push_back(message);
        self.filled.store(true, Ordering::SeqCst);
    }

    /// Queues an event with the current time, taken under the lock: such events are in order.
    pub fn tell(&self, kind: EventKind) {
        let mut queue = self.queue.lock().unwrap_or_else(PoisonError::into_inner);
        if self.closed.load(Ordering::SeqCst) {
            return;
        }
        queue.push_back(Message::Event(Event::new(RECORDER, host::tsc(), kind)));
        self.filled.store(true, Ordering::SeqCst);
    }

    /// Queues what was stored to a mapped file, with the current time, as [`Mailbox::tell`] does.
    /// Waits while there is too much.
    pub fn store(&self, stored: Stored) {
        self.wait_for_room(STORED_BYTES_MAX);
        let mut queue = self.queue.lock().unwrap_or_else(PoisonError::into_inner);
        if self.closed.load(Ordering::SeqCst) {
            return;
        }
        self.stored_bytes.fetch_add(stored.bytes.len(), Ordering::Relaxed);
        queue.push_back(Message::Stored(Box::new(stored), host::tsc()));
        self.filled.store(true, Ordering::SeqCst);
    }

    /// Waits while more bytes than these are in the queue.
    fn wait_for_room(&self, max: usize) {
        let mut hurried = false;
        while self.stored_bytes.load(Ordering::Relaxed) > max && !self.closed.load(Ordering::SeqCst)
        {
            if !std::mem::replace(&mut hurried, true) {
                self.wake();
            }
            std::thread::sleep(STORED_PAUSE);
        }
    }

    /// Queues where times of what a process reads come from.
    pub fn times(&self, process: u32, by_faults: bool, lost: u64, why: String) {
        self.leave(Message::Times { process, by_faults, lost, why, tsc: host::tsc() });
    }

    /// Queues that all mapped files of a process were looked at, from this time on.
    pub fn looked(&self, process: u32, since: u64, pages: u64) {
        self.leave(Message::Looked { process, since, pages, tsc: host::tsc() });
    }

    /// Queues an event with bytes. Waits while there is too much.
    pub fn leave_with_bytes(&self, event: Event, bytes: Vec<u8>) {
        self.wait_for_room(BYTES_MAX);
        let mut queue = self.queue.lock().unwrap_or_else(PoisonError::into_inner);
        self.stored_bytes.fetch_add(bytes.len(), Ordering::Relaxed);
        queue.push_back(Message::WithBytes(Box::new(event), bytes));
        self.filled.store(true, Ordering::SeqCst);
    }

    /// Notes the files to which a process may store from now on.
    pub fn leaves(&self, process: u32, files: Vec<Vec<u8>>) {
        let mut watched = self.watched.lock().unwrap_or_else(PoisonError::into_inner);
        for file in files.iter().take(WATCHED_MAX.saturating_sub(watched.len())) {
            watched.insert((process, file.clone()));
        }
        drop(watched);
        let mut all = self.uncollected.lock().unwrap_or_else(PoisonError::into_inner);
        if files.is_empty() {
            all.remove(&process);
        } else {
            all.insert(process, files);
        }
    }

    /// The files to which a process could ever store; `None` if there were too many to know.
    pub fn ever_watched(&self, process: u32) -> Option<Vec<Vec<u8>>> {
        let watched = self.watched.lock().unwrap_or_else(PoisonError::into_inner);
        let its = watched.range((process, Vec::new())..).take_while(|(of, _)| *of == process);
        (watched.len() < WATCHED_MAX).then(|| its.map(|(_, file)| file.clone()).collect())
    }

    /// The files to which a process that is gone may have stored what was not collected.
    pub fn left(&self, process: u32) -> Vec<Vec<u8>> {
        let mut all = self.uncollected.lock().unwrap_or_else(PoisonError::into_inner);
        all.remove(&process).unwrap_or_default()
    }

    /// Takes back a buffer that was taken from the queue and is not needed any more.
    pub fn stored(&self, bytes: Vec<u8>) {
        self.stored_bytes.fetch_sub(bytes.len(), Ordering::Relaxed);
        self.spare.give(bytes);
    }

    /// Buffers for what is stored.
    pub fn spare(&self) -> Arc<Spare> {
        Arc::clone(&self.spare)
    }

    /// Queues a message and wakes the drain thread.
    pub fn send(&self, message: Message) {
        self.leave(message);
        self.wake();
    }

    fn wake(&self) {
        let bell = &self.arena.control().doorbell;
        if bell.ring() {
            wake(&bell.word);
        }
    }

    /// Whether messages are queued.
    pub fn is_filled(&self) -> bool {
        self.filled.load(Ordering::SeqCst)
    }

    /// The latest queued state of a process, and its time stamp.
    pub fn state_of(&self, process: u32) -> Option<(u64, ProcessState)> {
        let queue = self.queue.lock().unwrap_or_else(PoisonError::into_inner);
        queue.iter().rev().find_map(|message| match message {
            Message::Event(Event { tsc, kind: EventKind::State(state), .. }) => {
                (state.process == process).then(|| (*tsc, ProcessState::clone(state)))
            }
            _ => None,
        })
    }

    /// Whether the drain thread knows a process.
    pub fn is_known(&self, process: u32) -> bool {
        self.known.lock().unwrap_or_else(PoisonError::into_inner).contains(&process)
    }

    /// Sets whether the drain thread knows a process.
    pub fn set_known(&self, process: u32, is_known: bool) {
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        if is_known {
            known.insert(process);
        } else {
            known.remove(&process);
        }
    }

    /// Removes and returns the queued report of a process.
    pub fn seen(&self, process: u32) -> Option<Watched> {
        let mut queue = self.queue.lock().unwrap_or_else(PoisonError::into_inner);
        let is_it = |message: &Message| matches!(message, Message::Seen(w) if w.process == process);
        let at = queue.iter().position(is_it)?;
        match queue.remove(at) {
            Some(Message::Seen(watched)) => Some(watched),
            _ => None,
        }
    }

    /// Takes all queued messages.
    pub fn take(&self) -> VecDeque<Message> {
        let mut queue = self.queue.lock().unwrap_or_else(PoisonError::into_inner);
        self.filled.store(false, Ordering::SeqCst);
        std::mem::take(&mut *queue)
    }
}

/// Wakes all waiters of a futex shared between processes.
pub(crate) fn wake(word: &std::sync::atomic::AtomicU32) {
    // Fails only for an unmapped address, which this is not.
    let _ = futex::wake(word, futex::Flags::empty(), i32::MAX as u32);
}

#[cfg(test)]
pub(crate) mod tests {
    use std::sync::Arc;

    use super::*;

    /// Returns a mailbox with its own arena, which is never unmapped.
    pub fn test_mailbox() -> Arc<Mailbox> {
        Arc::new(Mailbox::new(crate::test_arena(1)))
    }

    #[test]
    fn who_waits_for_an_answer_is_told_that_there_is_none() {
        let mailbox = test_mailbox();
        let arena = crate::test_arena(1);
        let ask = || {
            let (done, answer) = std::sync::mpsc::channel();
            mailbox.send(Message::Moved { from: 0, to: 1, arena, user: 0, done });
            answer
        };
        let before = ask();
        mailbox.close();
        assert!(before.recv().is_err());
        assert!(ask().recv().is_err());
    }

    #[test]
    fn messages_arrive_in_order_and_ring_the_bell() {
        let mailbox = test_mailbox();
        assert!(!mailbox.is_filled() && mailbox.take().is_empty());
        mailbox.send(Message::ProgramEnded { pid: 1, status: 0 });
        mailbox.send(Message::ProgramEnded { pid: 2, status: 0 });
        assert!(mailbox.is_filled());
        let taken = mailbox.take();
        let pids: Vec<u32> = taken
            .iter()
            .map(|message| match message {
                Message::ProgramEnded { pid, .. } => *pid,
                _ => 0,
            })
            .collect();
        assert_eq!(pids, [1, 2]);
        assert_eq!(mailbox.arena.control().doorbell.word.load(Ordering::SeqCst), 2);
        assert!(!mailbox.is_filled());
    }
}
