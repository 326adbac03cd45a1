//! Rings of io_uring.

use core::sync::atomic::Ordering;

use syscalls::abi::errno::ENOSYS;

use crate::call::{self, Call, enter, exit};
use crate::context::Context;

/// io_uring_setup, which programs may not be given.
pub fn set_up(context: &Context, call: &Call) {
    if !are_refused(context) {
        return call::plain(context, call);
    }
    enter(context, call, 0);
    exit(context, call, -i64::from(ENOSYS));
}

fn are_refused(context: &Context) -> bool {
    let arena = context.arena.get();
    arena.is_some_and(|arena| arena.control().refuse_rings.load(Ordering::Relaxed) != 0)
}
