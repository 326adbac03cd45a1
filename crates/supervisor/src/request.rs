//! What agents ask for, and the answer.

use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Instant;

use ring::{Slot, answer};

/// What an agent asks for.
#[derive(Clone, Copy)]
pub(crate) struct Request {
    /// The slot through which it asks, counted across arenas.
    pub(crate) index: usize,
    /// One of [`ring::request`].
    pub(crate) what: u32,
    /// Its number in that slot.
    pub(crate) number: u32,
}

/// A request that cannot be answered yet: the thread is in another pid namespace, and its process
/// was not found there; or its process cannot be attached to at the moment.
#[derive(Clone, Copy)]
pub(crate) struct Waiting {
    pub(crate) request: Request,
    pub(crate) since: Instant,
}

/// Answers a request through its slot.
pub(crate) fn reply_to(slot: &Slot, request: Request, reply: u32) {
    put(&slot.answer, request.number, reply);
    // SAFETY: FUTEX_WAKE does not access memory, and the arena stays mapped.
    unsafe {
        libc::syscall(libc::SYS_futex, slot.answer.as_ptr(), libc::FUTEX_WAKE, i32::MAX);
    }
}

/// Stores the answer, unless the thread has given the request up and asks for something else: that has
/// another answer.
fn put(answer: &AtomicU32, number: u32, reply: u32) {
    let (from, to) = (ring::numbered(number, answer::PENDING), ring::numbered(number, reply));
    let _ = answer.compare_exchange(from, to, Ordering::Release, Ordering::Relaxed);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_has_given_up_gets_no_answer_to_what_it_asks_next() {
        let word = AtomicU32::new(ring::numbered(2, answer::PENDING));
        let found = || ring::number_and_word(word.load(Ordering::Relaxed));
        put(&word, 1, answer::DONE);
        assert_eq!(found(), (2, answer::PENDING));
        put(&word, 2, answer::DONE);
        assert_eq!(found(), (2, answer::DONE));
        put(&word, 2, answer::REFUSED);
        assert_eq!(found(), (2, answer::DONE));
    }
}
