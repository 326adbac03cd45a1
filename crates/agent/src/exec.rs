//! execve and execveat: asks the supervisor to follow the thread into the new program.

use core::sync::atomic::Ordering;

use linux_raw_sys::general as raw;
use ring::{answer, exec_state, request};
use syscalls::record::{GapWhy, Header, RecordKind, enter_flag, unfollowed};

use crate::call::{self, enter, exit};
use crate::context::{Context, Frame, real_mask, signal_bit};
use crate::stream::{self, Stream};
use crate::{clock, rights, signals, sys};

/// Longest wait before checking whether the supervisor still lives.
const ANSWER_WAIT_NS: u64 = 20_000_000;

/// Error recorded if the supervisor cannot attach.
const EPERM: u64 = 1;

/// From linux/prctl.h: asks whether writable memory may become executable.
pub const PR_GET_MDWE: u64 = 66;

/// Handles execve and execveat.
pub fn exec(context: &mut Context, frame: &mut Frame) -> i64 {
    let args = frame.args();
    let nr = frame.rax;
    let row = enter(context, nr, &args, enter_flag::NO_RETURN);
    if !context.silent {
        let mut gap = if sys::is_quiet() {
            Some(unfollowed::FILTER)
        } else if rights::are_gained(context, nr as u32, &args) {
            Some(unfollowed::GAINS_RIGHTS)
        } else {
            refuses_code().then_some(unfollowed::NO_CODE)
        };
        if gap.is_none() {
            if let Some(slot) = context.slot {
                let sigsys = context.mask & signal_bit(raw::SIGSYS);
                slot.exec_blocked.store(sigsys, Ordering::Relaxed);
                let ignored = signals::ignored_by_program(context);
                slot.exec_ignored.store(ignored, Ordering::Relaxed);
                slot.exec_state.store(state_of(context), Ordering::Relaxed);
            }
            context.exec_announced = true;
            let reply = ask(context, request::EXEC, [u64::from(context.tid), 0, 0, 0, 0, 0]);
            context.exec_announced = reply == answer::DONE;
            gap = (reply == answer::NOT_ATTACHED).then_some(EPERM);
        }
        // If the call fails, the recorder drops this gap.
        if let Some(why) = gap {
            let head = Header::new(RecordKind::Gap, GapWhy::NotFollowed as u8, 0, 0).to_word();
            Stream::record(context, &[head, clock::now(context), why]);
            Stream::publish(context);
        }
        // Counted now: a call that succeeds does not return.
        call::count(context);
        context.counted_early = true;
    }
    let alone = !context.exec_announced;
    let blocked = alone && context.mask & signal_bit(raw::SIGSYS) != 0;
    if alone {
        signals::hand_over_ignored(context, true);
    }
    if blocked {
        sys::set_mask(context.mask);
    }
    let ret = call::make(context, nr, &args);
    if blocked {
        sys::set_mask(real_mask(context.mask));
    }
    if alone {
        signals::hand_over_ignored(context, false);
    } else {
        cancel(context);
    }
    if core::mem::take(&mut context.counted_early) {
        call::uncount(context);
    }
    exit(context, row, &args, ret);
    ret
}

/// State that the next image cannot query: [`exec_state`] bits.
fn state_of(context: &Context) -> u64 {
    let filtered = context.process().filtered.load(Ordering::Relaxed);
    let filtered = if filtered { exec_state::FILTERED } else { 0 };
    filtered | if context.clockless { exec_state::CLOCKLESS } else { 0 }
}

/// Returns true if the process may not make memory executable: the agent could not be placed.
fn refuses_code() -> bool {
    sys::call(raw::__NR_prctl, [PR_GET_MDWE, 0, 0, 0, 0, 0]) > 0
}

/// Cancels an announced exec: the supervisor detaches from the thread.
#[cold]
pub fn cancel(context: &mut Context) {
    context.exec_announced = false;
    ask(context, request::EXEC_CANCEL, [u64::from(context.tid), 0, 0, 0, 0, 0]);
}

/// Sends a request to the supervisor and waits for its answer: an [`answer`].
pub fn ask(context: &mut Context, what: u32, args: [u64; 6]) -> u32 {
    let (Some(arena), Some(slot)) = (context.arena, context.slot) else { return answer::REFUSED };
    let Some(number) = tell(context, what, args) else { return answer::REFUSED };
    loop {
        let now = slot.answer.load(Ordering::Acquire);
        let (of, reply) = ring::number_and_word(now);
        if of == number && reply != answer::PENDING {
            return reply;
        }
        if arena.recorder_lost() || stream::is_disowned(context) {
            return answer::REFUSED;
        }
        sys::futex_wait(&slot.answer, now, ANSWER_WAIT_NS);
    }
}

/// Sends a request to the supervisor. Returns its number; `None` if the supervisor is gone.
pub fn tell(context: &mut Context, what: u32, args: [u64; 6]) -> Option<u32> {
    let (arena, slot) = (context.arena?, context.slot?);
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
    let index = context.slot_index;
    control.request_bits[index / 64].fetch_or(1 << (index % 64), Ordering::SeqCst);
    control.requests.word.fetch_add(1, Ordering::SeqCst);
    if control.requests.sleeping.load(Ordering::SeqCst) != 0 {
        sys::futex_wake(&control.requests.word);
    }
    Some(number)
}
