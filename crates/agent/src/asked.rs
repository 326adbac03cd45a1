//! Re-execution: what threads ask the supervisor, and the signals that it lets through.

use core::sync::atomic::Ordering;

use linux_raw_sys::general as raw;
use linux_raw_sys::prctl;
use ring::{REPLY_SIGNALS, Reply, answer, request};

use crate::actions::queue_to_self;
use crate::context::Context;
use crate::needs::Need;
use crate::signal::{Info, si_code, signal_bit};
use crate::{course, requests, sys, used};

/// Exit code of a program that cannot go on.
const GIVEN_UP: u64 = 125;

/// Sends this thread its signals, which are blocked.
pub fn raise(context: &Context, reply: &Reply) {
    let count = (reply.signals as usize).min(REPLY_SIGNALS);
    for info in &reply.infos[..count] {
        let signal = info[0] as u32;
        if (1..=64).contains(&signal) {
            context.raised.set(context.raised.get() | signal_bit(signal));
            queue_to_self(context, signal, info.as_ptr() as u64);
        }
    }
}

/// Whether a signal is to be delivered: a fault of the program, or one that was raised here.
pub fn is_due(context: &Context, signal: u32, info: &Info) -> bool {
    const OF_CODE: [u32; 5] = [raw::SIGSEGV, raw::SIGBUS, raw::SIGFPE, raw::SIGILL, raw::SIGTRAP];
    let raised = context.raised.get();
    context.raised.set(raised & !signal_bit(signal));
    raised & signal_bit(signal) != 0 || si_code(info) > 0 && OF_CODE.contains(&signal)
}

/// The first thing that a new task does.
pub fn begin(context: &Context) {
    let parent = context.slot.get().map_or(0, |slot| slot.parent.load(Ordering::Relaxed));
    let answer = ask(context, request::BEGIN, [parent.into(), 0, 0, 0, 0, 0], [0; 2]);
    goes_on(context, &answer);
}

/// The first thing that happens in a new image: the supervisor compares its stack.
pub fn image(context: &Context, stack: u64) {
    let answer = ask(context, request::IMAGE, [stack, 0, 0, 0, 0, 0], [0; 2]);
    goes_on(context, &answer);
}

/// The thread has run for its time slice: waits for its turn.
pub fn pause(context: &Context) {
    let since = used::now();
    let (word, ..) = ask(context, request::PAUSED, [0; 6], [0; 2]);
    if word != answer::DONE {
        give_up();
    }
    used::waited(context, since);
}

/// Goes on with the program. If it is debugged, who debugs it need not be its ancestor: some kernels
/// demand that otherwise.
fn goes_on(context: &Context, (word, args, _): &(u32, [u64; 6], u64)) {
    if *word != answer::DONE {
        give_up();
    }
    if args[0] != 0 {
        sys::call(Need::LetTrace, [prctl::PR_SET_PTRACER.into(), u64::MAX, 0, 0, 0, 0]);
    }
    used::go_on(context);
}

/// Asks the supervisor. Returns its answer, with the arguments and what is behind them.
pub fn ask(context: &Context, what: u32, args: [u64; 6], more: [u64; 2]) -> (u32, [u64; 6], u64) {
    let Some(slot) = context.slot.get() else { give_up() };
    for (to, from) in slot.request_more.iter().zip(more) {
        to.store(from, Ordering::Relaxed);
    }
    let word = requests::ask(context, what, args);
    let args = slot.request_args.each_ref().map(|arg| arg.load(Ordering::Relaxed));
    (word, args, slot.request_more[0].load(Ordering::Relaxed))
}

/// Ends the process: nobody answers its calls, and none of them may be made.
pub fn give_up() -> ! {
    loop {
        sys::call(Need::EndProcess, [GIVEN_UP, 0, 0, 0, 0, 0]);
    }
}

/// Whether the process must not go on unanswered.
pub fn ends_if_alone() {
    if course::is_answered() {
        give_up();
    }
}
