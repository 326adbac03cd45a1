//! Calls with long input that signals interrupt before they are made. After the signal such a call is begun again,
//! and so is the copy of its input: with a timer, for ever. So the next time it is made first, and what went in
//! is copied behind it, where signals wait until that is recorded.

use core::cell::Cell;
use core::sync::atomic::Ordering;

use crate::call::Call;
use crate::capture as data;
use crate::context::{Context, NO_CALL};
use crate::hurry::Where;

/// So much is copied in less than signals take to arrive.
const LONG_BYTES: u64 = 64 << 10;
/// No call is made from there.
const NOWHERE: Where = [0, 0];

/// Calls that the signal's handler may make before it has returned, if it does.
const CALLS_MAX: u32 = 1000;

/// What is known of the call. Fresh memory is zero.
pub struct LateInput {
    /// Where it is made.
    place: Cell<Where>,
    calls_left: Cell<u32>,
    /// It is open.
    is_open: Cell<bool>,
}

impl LateInput {
    pub fn forget(&self) {
        self.place.set(NOWHERE);
        self.is_open.set(false);
    }

    /// Such a call is to come.
    pub fn is_expected(&self) -> bool {
        self.place.get() != NOWHERE
    }

    /// The input of the open call is copied when it has returned.
    pub fn is_open(&self) -> bool {
        self.is_open.get()
    }
}

fn here(context: &Context) -> Where {
    [context.site.get(), context.frame().rsp.get()]
}

/// The open call is given up, of which this may have been copied in vain.
#[cold]
pub fn note_given_up(context: &Context) {
    let start = context.call_start.load(Ordering::Relaxed);
    let is_long = context.chunk.position().saturating_sub(start) >= LONG_BYTES;
    if start != NO_CALL && (is_long || data::hashes(context)) {
        context.late_input.place.set(here(context));
        context.late_input.calls_left.set(CALLS_MAX);
        context.update_unusual();
    }
}

/// A call begins.
pub fn begin(context: &Context) {
    let late = &context.late_input;
    late.is_open.set(late.is_expected() && late.place.get() == here(context));
    if late.is_open.get() || !late.is_expected() {
        return;
    }
    match late.calls_left.get() {
        0 => {
            late.forget();
            context.update_unusual();
        }
        left => late.calls_left.set(left - 1),
    }
}

/// The open call has returned this: what went in is copied now.
#[cold]
pub fn end(context: &Context, call: &Call, ret: i64) {
    data::copy_contents(context, call.row, call.args, ret.max(0) as u64);
    context.late_input.forget();
    context.update_unusual();
}
