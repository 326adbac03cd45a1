//! Calls that a program makes once more, or once less, by chance: they are not compared.

use model::{Moment, file_use};
use stats::activity::Activity;
use syscalls::Act;
use syscalls::abi::memory::MAP_ANONYMOUS;
use syscalls::shape::Classes;
use trace::event::Call;

/// Returns true if whether a thread makes a call depends on how threads, signals and processes happen to
/// meet, or on addresses, and not on what the program does:
///
/// - waits for words in memory;
/// - waits for children: a shell that is told of an end by a signal waits no more;
/// - reads of pipes and sockets: what is written in one piece may come in two. What is written is compared;
/// - memory without a file, of which how much is asked for depends on where the first of it lies.
pub fn decides(moment: &Moment<'_>, call: &Call) -> bool {
    let Some(row) = syscalls::by_number(call.nr.into()) else { return false };
    let used = file_use::of(call.nr);
    match row.act_of(&call.args) {
        Act::Map => return call.args[3] & MAP_ANONYMOUS != 0,
        Act::Reap => return true,
        _ if row.acts().any(|act| act == Act::WaitOnWord) => return true,
        _ => {}
    }
    if used.is(Classes::MEMORY) {
        return !used.is(Classes::DESC) && !used.is(Classes::SYNC);
    }
    used.from.is_some() && matches!(Activity::of(call, moment), Activity::Pipe | Activity::Network)
}
