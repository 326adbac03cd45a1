//! The program's view of a ring of io_uring is a shadow: memory of the same layout, between which and
//! the real queues entries are copied, place by place, when the program enters the kernel
//! ([`queues`](crate::queues)). What is known of both stands here.

use core::sync::atomic::{AtomicU32, Ordering};

use syscalls::abi::rings::Params;
use syscalls::requests::Entry;

use crate::lock::SpinLock;
use crate::provided::Buffers;

/// Maximum number of rings that are shadowed.
pub const RINGS: usize = 64;
/// Numbers of descriptors that lead to one ring.
pub const NAMES: usize = 4;
/// Places of the table of files that are followed.
pub const FILES_FOLLOWED: usize = 1024;

/// All rings.
pub struct Rings {
    pub all: [Ring; RINGS],
}

/// A ring, or a free place for one.
pub struct Ring {
    /// Descriptors + 1; 0: none.
    pub names: [AtomicU32; NAMES],
    /// Number of numbers that threads have given it.
    pub registered: AtomicU32,
    /// Completions that other rings post here (MSG_RING), and that were not found yet.
    pub messages: AtomicU32,
    /// The process that has it; 0: a copy of that.
    pub process: AtomicU32,
    pub queues: SpinLock<Queues>,
    /// Buffers of which the kernel chooses.
    pub buffers: SpinLock<Buffers>,
}

/// An entry on its way to the queue.
pub struct Next {
    /// Its number in the call.
    pub order: u32,
    pub entry: Entry,
    pub found: Found,
    /// Where it goes, and from where.
    pub place: u32,
    pub index: u32,
}

/// What is known of an entry.
pub struct Found {
    /// Its address and length.
    pub at: u64,
    pub bytes: u64,
    /// The descriptor of its file, where the entry has another number for it, and of that which a splice
    /// reads from.
    pub file: Option<u32>,
    pub source: Option<u32>,
}

/// A piece of memory.
#[derive(Clone, Copy)]
pub struct Memory {
    pub at: u64,
    pub bytes: u64,
}

/// The queues of a ring; `real.at` is 0 where there is no ring.
pub struct Queues {
    pub params: Params,
    pub real: Memory,
    pub real_entries: Memory,
    pub shadow: Memory,
    pub shadow_entries: Memory,
    /// Memory of the program that it uses as queues and as entries, and to which the shadow is carried;
    /// 0: it has mapped the shadow.
    pub lent: [u64; 2],
    /// What operations in flight know it by.
    pub id: u64,
    /// Up to where submissions and completions were copied.
    pub submitted: u32,
    pub completed: u32,
    /// Threads between copying submissions and the kernel's answer.
    pub submitting: u32,
    /// Threads that are in the kernel with it, or about to be.
    pub entering: u32,
    /// It has no descriptors any more, and goes when the last of them returns.
    pub is_left: bool,
    /// The process is a copy: another one may have copied more.
    pub is_copy: bool,
    /// Another process has the ring as well, with operations that this one does not know.
    pub others: Others,
    /// The program has mapped the shadow.
    pub is_given: bool,
    /// Descriptors + 1 of the files in the ring's table; 0: unknown.
    pub files: [u32; FILES_FOLLOWED],
}

/// Time that a completion of which this process knows nothing is left to others, in ticks: some 100 ms.
const PATIENCE: u64 = 1 << 28;

/// Other processes that have a ring as well: the same queues, and operations of their own.
pub struct Others {
    are_some: bool,
    /// This process asks for completions as well; otherwise nothing is taken from the others.
    is_used: bool,
    /// Since when a completion waits for them; 0: none does.
    since: u64,
    /// How long it will. Less, each time that nobody has taken one.
    patience: u64,
}

impl Others {
    pub const fn none() -> Others {
        Others { are_some: false, is_used: true, since: 0, patience: 0 }
    }

    /// The process was forked, or has forked and goes on.
    pub fn are_there(&mut self, is_used: bool) {
        *self = Others { are_some: true, is_used, since: 0, patience: PATIENCE };
    }

    /// The process waits for completions, or seems to.
    pub fn are_not_alone(&mut self) {
        if !self.is_used {
            (self.is_used, self.since) = (true, 0);
        }
    }

    /// One of them has shown completions.
    pub fn are_there_still(&mut self) {
        if self.are_some {
            (self.since, self.patience) = (0, PATIENCE);
        }
    }

    pub fn is_any(&self) -> bool {
        self.are_some
    }

    /// Returns true if what is not known is left to them now.
    pub fn are_waited_for(&self, now: u64) -> bool {
        let is_early = self.since == 0 || now.wrapping_sub(self.since) < self.patience;
        self.are_some && (!self.is_used || is_early)
    }

    /// Something was left to them, or is not any more.
    pub fn leave(&mut self, is_left: bool, has_waited: bool, now: u64) {
        if is_left && self.since == 0 {
            self.since = now;
        } else if !is_left && self.since != 0 {
            self.since = 0;
            self.patience /= if has_waited { 2 } else { 1 };
        }
    }
}

impl Ring {
    /// Returns a descriptor, if one is known.
    pub fn some_name(&self) -> Option<u64> {
        let mut names = self.names.iter().map(|name| name.load(Ordering::Acquire));
        names.find(|name| *name != 0).map(|name| u64::from(name) - 1)
    }

    /// Whether it is a ring of this process, and not of one that waits until this one leaves its
    /// memory.
    pub fn is_of(&self, process: u32) -> bool {
        matches!(self.process.load(Ordering::Relaxed), of if of == 0 || of == process)
    }

    pub fn has_name(&self, fd: u64) -> bool {
        let wanted = (fd as u32).wrapping_add(1);
        wanted != 0 && self.names.iter().any(|name| name.load(Ordering::Acquire) == wanted)
    }

    /// Adds a descriptor. If there are too many, one is forgotten.
    pub fn add_name(&self, fd: u64) {
        let free = self.names.iter().find(|name| name.load(Ordering::Relaxed) == 0);
        free.unwrap_or(&self.names[NAMES - 1]).store(fd as u32 + 1, Ordering::Release);
    }

    /// Removes descriptors. Returns true if one was removed and the ring has none left.
    pub fn remove_names(&self, from: u64, to: u64) -> bool {
        let mut removed = false;
        for name in &self.names {
            let fd = u64::from(name.load(Ordering::Relaxed)).checked_sub(1);
            if fd.is_some_and(|fd| from <= fd && fd <= to) {
                name.store(0, Ordering::Release);
                removed = true;
            }
        }
        removed && !self.is_known()
    }

    /// Whether the program can still name it.
    pub fn is_known(&self) -> bool {
        let named = self.names.iter().any(|name| name.load(Ordering::Relaxed) != 0);
        named || self.registered.load(Ordering::Relaxed) != 0
    }
}
