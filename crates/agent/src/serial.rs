//! In a serialised recording one thread of a process runs at a time: the one that has the baton.
//!
//! A thread gives it up when it begins a call, and takes it again before the program goes on. Calls that
//! a re-execution makes again are made with it. So calls begin in the order in which threads have run.
//! A thread that runs on and on is told by a signal to give it up; that is marked in the trace.

use core::sync::atomic::Ordering;

use linux_raw_sys::general as raw;
use syscalls::abi::signals::SI_QUEUE;
use syscalls::record::{Header, RecordKind};

use crate::arch::frames::UContext;
use crate::arch::places::in_agent_text;
use crate::baton::{Baton, NOBODY};
use crate::context::{Context, space};
use crate::needs::Need;
use crate::signal::{Info, VALUE_AT, si_code};
use crate::stream::Stream;
use crate::{asked, clock, course, lost_calls, sys};

/// How long a thread sleeps at a time.
const NAP_NS: u64 = 1_000_000;
/// Naps after which others let a thread go first.
const NAPS_TILL_URGENT: u32 = 2;
/// Naps for which the same thread has run, after which it is told to give it up: first, and once that was so for
/// many times. Threads that wait for each other without calls need it often.
const NAPS_OF_SLICE: u32 = 250;
const NAPS_OF_SHORT_SLICE: u32 = 20;
const SLICES_TILL_SHORT: u32 = 16;
/// Where others have the CPUs, it has so many times as long at most.
const STRETCH: u32 = 4;

/// Whether this thread takes part. A process that shares the memory of its maker, which waits for it,
/// does not.
fn takes_part(context: &Context) -> bool {
    course::is_serialised()
        && !context.silent.get()
        && !context.new_process.get()
        && !sys::is_quiet()
}

fn has(context: &Context, baton: &Baton) -> bool {
    baton.holder() == context.tid.get()
}

/// Waits until this thread has it.
#[inline]
pub fn take(context: &Context) {
    if takes_part(context) {
        take_over(context);
    }
}

#[cold]
fn take_over(context: &Context) {
    let (baton, tid) = (&space().baton, context.tid.get());
    if has(context, baton) {
        return;
    }
    let is_urgent = baton.urgent.load(Ordering::Relaxed) != NOBODY;
    if (is_urgent || !baton.take_free(tid)) && !wait(context, baton) {
        return;
    }
    baton.turn.fetch_add(1, Ordering::Relaxed);
    context.has_baton_since.set(clock::computed_ns(context).unwrap_or(0));
    let leaving = baton.leaving.swap(NOBODY, Ordering::Relaxed);
    // What the kernel does to its memory at its end is done before anybody goes on.
    while leaving != NOBODY && is_there(context, leaving) && !is_over(context) {
        sys::call(Need::Yield, [0; 6]);
    }
}

/// Waits. False if the recording is over.
fn wait(context: &Context, baton: &Baton) -> bool {
    let tid = context.tid.get();
    let urgent = baton.urgent.load(Ordering::Relaxed);
    if urgent != NOBODY {
        sys::futex_wait(&baton.urgent, urgent, NAP_NS);
    }
    let (mut naps, mut slice) = (0, Slice::begins(baton));
    loop {
        match baton.take_or_want(tid) {
            None => break,
            Some(wanted) => sys::futex_wait(&baton.word, wanted, NAP_NS),
        }
        if is_over(context) {
            return false;
        }
        naps += 1;
        if naps == NAPS_TILL_URGENT {
            baton.urgent.store(tid, Ordering::Relaxed);
        }
        if slice.is_over(context, baton) {
            slice = Slice::begins(baton);
            ask_for_it(context, baton);
        }
    }
    let mine = baton.urgent.compare_exchange(tid, NOBODY, Ordering::Relaxed, Ordering::Relaxed);
    if mine.is_ok() {
        sys::futex_wake(&baton.urgent);
    }
    true
}

/// What the same thread has run while another one waits.
struct Slice {
    turn: u32,
    naps: u32,
    /// What it had computed before, if that may be asked.
    computed_ns: Option<u64>,
}

impl Slice {
    fn begins(baton: &Baton) -> Slice {
        Slice { turn: baton.turn.load(Ordering::Relaxed), naps: 0, computed_ns: None }
    }

    /// The other one has slept once more.
    fn is_over(&mut self, context: &Context, baton: &Baton) -> bool {
        if baton.turn.load(Ordering::Relaxed) != self.turn {
            *self = Slice::begins(baton);
        }
        self.naps += 1;
        let is_short = baton.slices.load(Ordering::Relaxed) >= SLICES_TILL_SHORT;
        let naps = if is_short { NAPS_OF_SHORT_SLICE } else { NAPS_OF_SLICE };
        if self.naps > 1 && self.naps < naps {
            return false;
        }
        let now = clock::computed_by(context, baton.holder());
        if self.naps == 1 {
            self.computed_ns = now;
            return false;
        }
        let computed = now.zip(self.computed_ns).map(|(now, before)| now.saturating_sub(before));
        let is_early = computed.is_some_and(|ns| ns < u64::from(naps) * NAP_NS / 10 * 9);
        !is_early || self.naps >= naps * STRETCH
    }
}

/// A call begins, in which others may run.
#[cold]
pub fn leave(context: &Context) {
    if takes_part(context) {
        give_up(context);
    }
}

fn give_up(context: &Context) {
    let baton = &space().baton;
    if has(context, baton) && baton.free() {
        sys::futex_wake_one(&baton.word);
    }
}

/// The thread is about to end: who goes on waits until it is gone.
pub fn leave_for_ever(context: &Context) {
    let baton = &space().baton;
    if course::is_serialised() && has(context, baton) {
        let tid = context.tid.get();
        // The first thread of a process stays until all others are gone.
        if tid != context.process().pid.get() {
            baton.leaving.store(tid, Ordering::Relaxed);
        }
        if baton.free() {
            sys::futex_wake_one(&baton.word);
        }
    }
}

/// Whether a thread of this process is there.
fn is_there(context: &Context, tid: u32) -> bool {
    let pid = u64::from(context.process().pid.get());
    sys::call(Need::SendSignal, [pid, tid.into(), 0, 0, 0, 0]) == 0
}

/// Whether nobody waits for anybody any more.
fn is_over(context: &Context) -> bool {
    let over = |arena: ring::Arena| {
        arena.recorder_lost() || arena.control().stopped.load(Ordering::Relaxed) != 0
    };
    context.silent.get() || sys::is_quiet() || context.arena.get().is_none_or(over)
}

/// Tells the thread that has it to give it up.
fn ask_for_it(context: &Context, baton: &Baton) {
    let holder = baton.holder();
    if holder == NOBODY {
        return;
    }
    let mut info = [0u64; 16];
    info[0] = raw::SIGSYS.into();
    info[1] = SI_QUEUE as u32 as u64;
    info[VALUE_AT / 8] = ring::PAUSE;
    let pid = u64::from(context.process().pid.get());
    let args = [pid, holder.into(), raw::SIGSYS.into(), info.as_ptr() as u64, 0, 0];
    sys::call(Need::QueueSignal, args);
}

/// Handles a signal by which the thread is told to let others run.
pub fn is_asked_for(context: &Context, signal: u32, info: &Info, uc: &mut UContext) -> bool {
    let value = u64::from_ne_bytes(*info[VALUE_AT..].first_chunk().unwrap_or(&[0; 8]));
    let ours = signal == raw::SIGSYS && si_code(info) == SI_QUEUE && value == ring::PAUSE;
    if !ours || !(course::is_serialised() || course::is_answered()) {
        return false;
    }
    lost_calls::restore_lost(context, uc);
    // In the agent a call begins or ends, and others run anyhow.
    if in_agent_text(uc.address()) {
        return true;
    }
    let baton = &space().baton;
    if course::is_answered() {
        asked::pause(context);
    } else if takes_part(context) && has(context, baton) {
        let computed = clock::computed_ns(context).unwrap_or(0);
        let ran = computed.saturating_sub(context.has_baton_since.get());
        let head = Header::new(RecordKind::TimeSlice, 0, 0, 0).to_word();
        Stream::record(context, &[head, clock::now(context), ran]);
        Stream::publish(context);
        baton.slices.fetch_add(1, Ordering::Relaxed);
        give_up(context);
        take_over(context);
    }
    true
}
