//! execve and execveat: asks the supervisor to follow the thread into the new program.

use core::sync::atomic::Ordering;

use linux_raw_sys::general as raw;
use linux_raw_sys::prctl;
use ring::{answer, exec_state, request};
use syscalls::abi::errno;
use syscalls::record::{GapWhy, Header, RecordKind, enter_flag, unfollowed};

use crate::call::{Call, count_early, enter, exit, made_late, uncount};
use crate::context::Context;
use crate::needs::Need;
use crate::signal::{real_mask, signal_bit};
use crate::stream::Stream;
use crate::{actions, asked, clock, mapped, requests, rights, sys};

/// Handles execve and execveat.
pub fn exec(context: &Context, call: &Call) {
    mapped::settle_last(context);
    let began = clock::now(context);
    enter(context, call, enter_flag::NO_RETURN);
    if !context.silent.get() {
        let mut gap = if sys::is_quiet() {
            Some(unfollowed::FILTER)
        } else {
            rights::unfollowed(context, call)
                .or_else(|| refuses_code().then_some(unfollowed::NO_CODE))
        };
        if gap.is_none() {
            if let Some(slot) = context.slot.get() {
                let sigsys = context.mask.get() & signal_bit(raw::SIGSYS);
                slot.exec_blocked.store(sigsys, Ordering::Relaxed);
                let ignored = actions::ignored_by_program(context);
                slot.exec_ignored.store(ignored, Ordering::Relaxed);
                slot.exec_state.store(state_of(context), Ordering::Relaxed);
            }
            context.exec_announced.set(true);
            let reply = requests::ask(
                context,
                request::EXEC,
                [u64::from(context.tid.get()), 0, 0, 0, 0, 0],
            );
            context.exec_announced.set(reply == answer::DONE);
            // The supervisor may not attach.
            gap = (reply == answer::NOT_ATTACHED).then_some(errno::EPERM as u64);
        }
        // If the call fails, the recorder drops this gap.
        if let Some(why) = gap {
            asked::ends_if_alone();
            let head = Header::new(RecordKind::Gap, GapWhy::NotFollowed as u8, 0, 0).to_word();
            Stream::record(context, &[head, clock::now(context), why]);
            Stream::publish(context);
        }
        // Counted now: a call that succeeds does not return.
        count_early(context);
        made_late(context, clock::now(context).saturating_sub(began));
        Stream::publish(context);
    }
    let alone = !context.exec_announced.get();
    let blocked = alone && context.mask.get() & signal_bit(raw::SIGSYS) != 0;
    if alone {
        actions::hand_over_ignored(context, true);
    }
    if blocked {
        sys::set_mask(context.mask.get());
    }
    let ret = call.make();
    if blocked {
        sys::set_mask(real_mask(context.mask.get()));
    }
    if alone {
        actions::hand_over_ignored(context, false);
    } else {
        requests::cancel_exec(context);
    }
    if context.counted_early.take() {
        uncount(context);
    }
    exit(context, call, ret);
}

/// State that the next image cannot query: [`exec_state`] bits.
fn state_of(context: &Context) -> u64 {
    let filtered = context.process().filtered.get();
    let filtered = if filtered { exec_state::FILTERED } else { 0 };
    let clockless = if context.clockless.get() { exec_state::CLOCKLESS } else { 0 };
    let denied = context.process().denied.bits.load(Ordering::Relaxed);
    filtered | clockless | u64::from(denied) << exec_state::DENIED_AT
}

/// Returns true if the process may not make memory executable: the agent could not be placed.
fn refuses_code() -> bool {
    sys::call(Need::RefusesCode, [u64::from(prctl::PR_GET_MDWE), 0, 0, 0, 0, 0]) > 0
}
