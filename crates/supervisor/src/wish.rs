//! What agents ask about memory in which files are mapped.

use ring::{Slot, answer};

use crate::request::{Request, reply_to};

/// A request about mapped files, by a thread that waits for the answer.
pub struct Mapped {
    /// Process id of the thread that asks.
    pub pid: i32,
    /// Its own id.
    pub tid: i32,
    /// Number of the process whose memory it is, in the recording.
    pub owner: u32,
    /// Number of the thread in the recording.
    pub thread: u32,
    /// What it asks.
    pub wish: Wish,
    /// To be given when it is done.
    pub answer: Answer,
}

/// What is asked.
pub enum Wish {
    /// Watch memory.
    Watch {
        /// A thread of the process and its descriptor by which to watch; `None`: as before.
        by: Option<(i32, i32)>,
        /// The file that is mapped there.
        what: ring::Mapped,
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

/// What a thread asks of a program that is recorded for a re-execution, or re-executed.
pub struct Asked {
    /// Process id of the thread.
    pub pid: i32,
    /// Its own id.
    pub tid: i32,
    /// Its number.
    pub thread: u32,
    /// The number of its process.
    pub process: u32,
    /// What it asks: a [`ring::request`].
    pub what: u32,
    /// The arguments of the request.
    pub args: [u64; 6],
    /// What stands behind them.
    pub more: [u64; 2],
    /// To be given when it is known.
    pub answer: Answer,
}

/// The answer to a request. If it is dropped, the request is refused.
pub struct Answer {
    slot: &'static Slot,
    request: Option<Request>,
}

impl Answer {
    pub(crate) fn to(slot: &'static Slot, request: Request) -> Answer {
        Answer { slot, request: Some(request) }
    }

    /// Gives one of [`ring::answer`], with arguments and what stands behind them.
    pub fn give_with(self, reply: u32, args: [u64; 6], more: u64) {
        for (to, from) in self.slot.request_args.iter().zip(args) {
            to.store(from, std::sync::atomic::Ordering::Relaxed);
        }
        self.slot.request_more[0].store(more, std::sync::atomic::Ordering::Relaxed);
        self.give(reply);
    }

    /// Gives one of [`ring::answer`].
    pub fn give(mut self, reply: u32) {
        if let Some(request) = self.request.take() {
            reply_to(self.slot, request, reply);
        }
    }
}

impl Drop for Answer {
    fn drop(&mut self) {
        if let Some(request) = self.request.take() {
            reply_to(self.slot, request, answer::REFUSED);
        }
    }
}
