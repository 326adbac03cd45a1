//! rseq: the area by which the agent knows that a thread was without a CPU.

use syscalls::abi::errno::is_error;

use crate::call::{Call, enter, exit};
use crate::context::Context;
use crate::memory;

/// Place of `rseq_cs` in the area.
const WORD_AT: u64 = 8;
/// Flag of a call that takes the area away.
const UNREGISTER: u64 = 1;

/// The program registers the area of this thread, or takes it away.
pub fn register(context: &Context, call: &Call) {
    let [area, _, flags, signature, ..] = *call.args;
    enter(context, call, 0);
    let ret = call.make();
    exit(context, call, ret);
    if is_error(ret) {
        return;
    }
    let word = area.wrapping_add(WORD_AT);
    let wanted = || context.arena.get().is_some_and(|arena| arena.control().times_cpu());
    let is_there = || memory::readable(context, word, size_of::<u64>() as u64);
    if flags & UNREGISTER == 0 && !context.silent.get() && wanted() && is_there() {
        context.cpu_time.watch(word, signature as u32);
    } else {
        context.cpu_time.reset();
    }
}
