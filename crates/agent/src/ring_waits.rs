//! Waits of rings, which no timer of ours may end. The kernel does in their midst what its ticks have
//! left for the end of a call, so that a thread may be told to look at its rings just then; it does not
//! say whether a wait was ended by that.

use syscalls::abi::errno::{EINTR, result};
use syscalls::abi::rings::{ENTER_EXT_ARG, ENTER_EXT_ARG_REG, ENTER_GETEVENTS};

use crate::call::Call;
use crate::context::Context;
use crate::needs::{Need, needed};
use crate::sys;

const MASK_BYTES: u64 = 8;

/// Makes a call of io_uring_enter.
pub fn make(context: &Context, call: &Call) -> i64 {
    let [_, _, least, flags, ..] = *call.args;
    if flags & ENTER_GETEVENTS == 0 || least == 0 {
        return call.make();
    }
    if flags & (ENTER_EXT_ARG | ENTER_EXT_ARG_REG) != 0 {
        // Its time would begin again.
        context.looking.pause();
        return call.make();
    }
    context.looking.hit_a_call.set(false);
    let ret = call.make();
    match context.looking.hit_a_call.get() {
        true => wait_again(context, call, ret),
        false => ret,
    }
}

/// Waits once more, which is nothing if all has come. A signal of the program ends that.
#[cold]
fn wait_again(context: &Context, call: &Call, ret: i64) -> i64 {
    let [fd, count, least, flags, mask_at, mask_bytes] = *call.args;
    let (count, interrupted) = (i64::from(count as u32), result(EINTR));
    let mut waited = if ret == count { 0 } else { ret };
    while (waited == 0 || waited == interrupted) && context.looking.hit_a_call.take() {
        if sys::denies(needed::TIMERS) {
            break;
        }
        // From here on a signal waits, or is let in by the wait itself.
        let is_masked = !sys::denies(needed::MASKS);
        let mask = sys::set_mask(u64::MAX);
        let (at, bytes) = match is_masked && mask_at == 0 {
            true => (&raw const mask as u64, MASK_BYTES),
            false => (mask_at, mask_bytes),
        };
        let is_free = context.held_frame.get() == 0;
        if is_free {
            waited = sys::call(Need::WaitAgain, [fd, 0, least, flags, at, bytes]);
        }
        // Who holds a signal has masked the others.
        if is_masked && context.held_frame.get() == 0 {
            sys::set_mask(mask);
        }
        if !is_free {
            break;
        }
    }
    // As in the kernel: that something was submitted is more than how the wait has ended.
    if ret == count && count != 0 { ret } else { waited }
}
