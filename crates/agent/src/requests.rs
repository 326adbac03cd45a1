//! Requests to the supervisor.

use core::sync::atomic::Ordering;

use ring::{answer, request};

use crate::context::Context;
use crate::{stream, sys};

/// Longest wait before checking whether the supervisor still lives.
const ANSWER_WAIT_NS: u64 = 20_000_000;

/// Cancels an announced exec: the supervisor detaches from the thread.
#[cold]
pub fn cancel_exec(context: &Context) {
    context.exec_announced.set(false);
    ask(context, request::EXEC_CANCEL, [u64::from(context.tid.get()), 0, 0, 0, 0, 0]);
}

/// Sends a request to the supervisor and waits for its answer: an [`answer`].
pub fn ask(context: &Context, what: u32, args: [u64; 6]) -> u32 {
    ask_patiently(context, what, args, u32::MAX).unwrap_or(answer::REFUSED)
}

/// The same with a limit for the number of waits. `None`: not answered until then.
pub fn ask_patiently(context: &Context, what: u32, args: [u64; 6], waits: u32) -> Option<u32> {
    let (Some(arena), Some(slot)) = (context.arena.get(), context.slot.get()) else {
        return Some(answer::REFUSED);
    };
    let Some(number) = send(context, what, args) else { return Some(answer::REFUSED) };
    for _ in 0..waits {
        let now = slot.answer.load(Ordering::Acquire);
        let (of, reply) = ring::number_and_word(now);
        if of == number && reply != answer::PENDING {
            return Some(reply);
        }
        if arena.recorder_lost() || stream::is_disowned(context) {
            return Some(answer::REFUSED);
        }
        sys::futex_wait(&slot.answer, now, ANSWER_WAIT_NS);
    }
    None
}

/// Sends a request to the supervisor. Returns its number; `None` if the supervisor is gone.
pub fn send(context: &Context, what: u32, args: [u64; 6]) -> Option<u32> {
    let (arena, slot) = (context.arena.get()?, context.slot.get()?);
    if arena.recorder_lost() {
        return None;
    }
    let requests = slot.requests.load(Ordering::Relaxed).wrapping_add(1);
    slot.requests.store(requests, Ordering::Relaxed);
    let (number, _) = ring::number_and_word(ring::numbered(requests, what));
    let control = arena.control();
    for (to, from) in slot.request_args.iter().zip(args) {
        to.store(from, Ordering::Relaxed);
    }
    slot.answer.store(ring::numbered(number, answer::PENDING), Ordering::Relaxed);
    slot.request.store(ring::numbered(number, what), Ordering::Release);
    let index = context.slot_index.get();
    control.request_bits[index / 64].fetch_or(1 << (index % 64), Ordering::SeqCst);
    if control.requests.ring() {
        sys::futex_wake(&control.requests.word);
    }
    Some(number)
}
