//! rseq: the area by which the agent knows that a thread was without a CPU.

use syscalls::abi::errno::{self, is_error};

use crate::call::{Call, enter, exit};
use crate::context::Context;
use crate::cpu_time::{AREA_BYTES, WORD_AT};
use crate::needs::{Need, needed};
use crate::{course, memory, sys};

/// Flag of a call that takes the area away.
const UNREGISTER: u64 = 1;
/// What stands before the code that the kernel goes on with in a section of ours: none is ever left.
const SIGNATURE: u32 = 0x5265_656e;

/// The program registers the area of this thread, or takes it away.
pub fn register(context: &Context, call: &Call) {
    let [area, _, flags, signature, ..] = *call.args;
    enter(context, call, 0);
    if course::is_repeatable() {
        // The area would tell it the number of its CPU, which no call does then.
        return exit(context, call, errno::result(errno::ENOSYS));
    }
    let ret = call.make();
    exit(context, call, ret);
    if is_error(ret) {
        return;
    }
    let word = area.wrapping_add(WORD_AT);
    let is_there = || memory::readable(context, word, size_of::<u64>() as u64);
    if flags & UNREGISTER == 0 && wants(context) && is_there() {
        context.cpu_time.watch(word, signature as u32);
    } else {
        context.cpu_time.reset();
    }
}

fn wants(context: &Context) -> bool {
    let wanted = || context.arena.get().is_some_and(|arena| arena.control().times_cpu());
    !context.silent.get() && wanted()
}

/// A thread or an image begins. A program that gets no area stops asking for one, so each of its threads gets
/// one of ours at once.
pub fn begin(context: &Context) {
    if course::is_repeatable() {
        use_own(context);
    }
}

fn use_own(context: &Context) {
    if sys::denies(needed::CPU_AREAS) || !wants(context) || context.cpu_time.is_watching() {
        return;
    }
    let area = context.cpu_time.own_area();
    if sys::call(Need::WatchCpu, [area, AREA_BYTES, 0, SIGNATURE.into(), 0, 0]) == 0 {
        context.cpu_time.watch(area + WORD_AT, SIGNATURE);
    }
}
