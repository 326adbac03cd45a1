//! What agents ask for, and the answer.

use std::sync::atomic::Ordering;
use std::time::Instant;

use ring::Slot;

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
    slot.answer.store(ring::numbered(request.number, reply), Ordering::Release);
    // SAFETY: FUTEX_WAKE does not access memory, and the arena stays mapped.
    unsafe {
        libc::syscall(libc::SYS_futex, slot.answer.as_ptr(), libc::FUTEX_WAKE, i32::MAX);
    }
}
