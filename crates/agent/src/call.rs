//! One system call of the program: its beginning, the call, its end.

use core::sync::atomic::{Ordering, compiler_fence};

use syscalls::capture::{self, Row};
use syscalls::record::{Header, RecordKind, enter_flag, watched};

use crate::arch::entry;
use crate::arch::processor::time_stamp;
use crate::context::{Context, NO_CALL};
use crate::stream::Stream;
use crate::{between_calls, capture as data, clock, serial};

/// To copy this many bytes takes long enough to be told apart from the call.
const MUCH_INPUT: u64 = 512;

/// A call of the program.
#[derive(Clone, Copy)]
pub struct Call<'a> {
    pub number: u64,
    /// Where they were first stored. A copy would be made with wider loads, which wait for the
    /// store buffer.
    pub args: &'a [u64; 6],
    pub row: &'static Row,
    /// The row has variants, and none fits the arguments.
    is_unknown: bool,
}

impl Call<'_> {
    #[inline(always)]
    pub fn new(number: u64, args: &[u64; 6]) -> Call<'_> {
        let (row, is_unknown) = capture::row(number, args);
        Call { number, args, row, is_unknown }
    }

    /// Makes the call, recorded or not.
    #[inline(always)]
    pub fn make(&self) -> i64 {
        self.make_with(self.args)
    }

    /// Makes the call with other arguments.
    #[inline(always)]
    pub fn make_with(&self, args: &[u64; 6]) -> i64 {
        // SAFETY: the program asked for this call.
        unsafe { entry::reenact_call(self.number, args) }
    }
}

/// Makes a call that is nothing special.
#[inline(always)]
pub fn plain(context: &Context, call: &Call) {
    enter(context, call, 0);
    let ret = call.make();
    exit(context, call, ret);
}

/// Records the beginning of a call, with its input memory. Returns when that was.
#[inline(always)]
pub fn enter(context: &Context, call: &Call, flags: u8) -> u64 {
    // One test for all that is rare.
    if context.silent.get() | context.unusual.get() {
        return match context.silent.get() {
            true => 0,
            false => enter_unusually(context, call, flags),
        };
    }
    let now = time_stamp();
    let stayed = between_calls::before_call(context, now);
    enter_at::<false>(context, call, flags | stayed, now);
    now
}

/// By another clock, with the stack, serialised, or perhaps without contents.
#[cold]
#[inline(never)]
fn enter_unusually(context: &Context, call: &Call, flags: u8) -> u64 {
    if context.chooses.get() {
        let skips = |arena: ring::Arena| arena.control().skips(call.number);
        context.skips_contents.set(context.arena.get().is_some_and(skips));
    }
    if context.late_input.is_expected() {
        context.late_input.begin(context.open_place());
        context.update_unusual();
    }
    let (now, stayed) = if context.clockless.get() {
        (clock::without_counter(context), 0)
    } else {
        let now = time_stamp();
        (now, between_calls::before_call(context, now))
    };
    enter_at::<true>(context, call, flags | stayed, now);
    now
}

#[inline(always)]
fn enter_at<const IS_UNUSUAL: bool>(context: &Context, call: &Call, flags: u8, now: u64) {
    if context.chunk.has_stalls() {
        Stream::tell_stalls(context);
    }
    let start = context.chunk.position();
    context.call_start.store(start, Ordering::Relaxed);
    compiler_fence(Ordering::SeqCst);
    let mut flags = flags;
    if context.slow.get() != 0 {
        flags |= enter_flag::SLOW;
    }
    if call.is_unknown {
        flags |= enter_flag::UNKNOWN_VARIANT;
    }
    let nargs = usize::from(call.row.nargs);
    let number = capture::recorded_number(call.number);
    let head = Header::new(RecordKind::Enter, flags, number, nargs as u32).to_word();
    Stream::enter_record(context, head, now, call.args, nargs);
    if call.row.has_in {
        match IS_UNUSUAL && context.late_input.is_open() {
            true => data::copy_in_but_contents(context, call.row, call.args),
            false => data::copy_in(context, call.row, call.args),
        }
        // Of an exec it is said later, with all that we do before it.
        let is_much = context.chunk.position() - start >= MUCH_INPUT;
        if is_much && flags & enter_flag::NO_RETURN == 0 {
            let now_copied = if IS_UNUSUAL { clock::now(context) } else { time_stamp() };
            made_late(context, now_copied.saturating_sub(now));
        }
    }
    if IS_UNUSUAL {
        data::copy_stack(context);
    }
    // Published together with the input memory: a visible record is complete.
    Stream::publish(context);
    if IS_UNUSUAL && call.row.is_given {
        serial::leave(context);
    }
}

/// Says how much later than it was asked for the open call is made: our part of its time. What was said
/// before counts no more.
#[inline(never)]
pub fn made_late(context: &Context, ticks: u64) {
    let ticks = ticks.min(u32::MAX.into()) as u32;
    Stream::record(context, &[Header::new(RecordKind::Copied, 0, 0, ticks).to_word()]);
}

/// Counts the call and records its result with the output memory.
#[inline(always)]
pub fn exit(context: &Context, call: &Call, ret: i64) {
    exit_saying(context, call, ret, watched::UNASKED);
}

/// The same with one of [`watched`].
#[inline(always)]
pub fn exit_saying(context: &Context, call: &Call, ret: i64, word: u8) {
    // SAFETY: set by the entry code to the frame of the call that is ending.
    unsafe { (*context.frame.get()).set_result(ret as u64) };
    if context.silent.get() | context.unusual.get() {
        if !context.silent.get() {
            exit_unusually(context, call, ret, word);
        }
        context.phase.set(context.running.get());
        return;
    }
    between_calls::after_call(context);
    exit_at(context, call, ret, word, time_stamp());
}

/// A call has returned now, and what it has done is recorded before its result, by [`exit_behind`].
pub fn returned(context: &Context) -> Option<u64> {
    (!(context.silent.get() | context.unusual.get())).then(time_stamp)
}

/// Like `exit`, for a call that had [`returned`] before: what was done since is no part of its time, nor
/// of the program's.
pub fn exit_behind(context: &Context, call: &Call, ret: i64, returned: Option<u64>) {
    let is_usual = !(context.silent.get() | context.unusual.get());
    let Some(returned) = returned.filter(|_| is_usual) else {
        return exit(context, call, ret);
    };
    // SAFETY: set by the entry code to the frame of the call that is ending.
    unsafe { (*context.frame.get()).set_result(ret as u64) };
    between_calls::after_call(context);
    record_exit::<false>(context, call, ret, watched::UNASKED, (returned, true));
    context.phase.set(context.running.get());
}

#[cold]
#[inline(never)]
fn exit_unusually(context: &Context, call: &Call, ret: i64, word: u8) {
    serial::take(context);
    let now = if context.clockless.get() {
        clock::without_counter(context)
    } else {
        between_calls::after_call(context);
        time_stamp()
    };
    if context.late_input.is_open() {
        record_exit::<true>(context, call, ret, word, (now, true));
        return context.phase.set(context.running.get());
    }
    exit_at(context, call, ret, word, now);
}

/// Copies the input of the open call, which has returned this.
#[cold]
fn copy_late_input(context: &Context, call: &Call, ret: i64) {
    data::copy_contents(context, call.row, call.args, ret.max(0) as u64);
    context.late_input.forget();
    context.update_unusual();
}

#[inline(always)]
fn exit_at(context: &Context, call: &Call, ret: i64, word: u8, tsc: u64) {
    record_exit::<false>(context, call, ret, word, (tsc, false));
    context.phase.set(context.running.get());
}

/// Records the result of a call and then what `more` has to tell, before a signal is delivered.
pub fn exit_with(context: &Context, call: &Call, ret: i64, more: impl FnOnce()) {
    // SAFETY: set by the entry code to the frame of the call that is ending.
    unsafe { (*context.frame.get()).set_result(ret as u64) };
    if !context.silent.get() {
        serial::take(context);
        between_calls::after_call(context);
        let now = clock::now(context);
        match context.late_input.is_open() {
            true => record_exit::<true>(context, call, ret, watched::UNASKED, (now, true)),
            false => record_exit::<false>(context, call, ret, watched::UNASKED, (now, false)),
        }
    }
    more();
    compiler_fence(Ordering::SeqCst);
    context.phase.set(context.running.get());
}

/// Records the result of a call that has returned at a time, and whether that was a while ago.
#[inline(always)]
fn record_exit<const IS_LATE: bool>(
    context: &Context,
    call: &Call,
    ret: i64,
    word: u8,
    (tsc, is_past): (u64, bool),
) {
    if IS_LATE {
        copy_late_input(context, call, ret);
    }
    if call.row.has_out {
        data::copy_out(context, call.row, call.args, ret);
    }
    let since = between_calls::recorded(context, tsc, is_past || call.row.has_out);
    let head = Header::new(RecordKind::Exit, word, 0, since).to_word();
    Stream::short_record(context, head, tsc, ret as u64);
    count(context);
    Stream::publish(context);
    context.call_start.store(NO_CALL, Ordering::Relaxed);
    compiler_fence(Ordering::SeqCst);
}

/// Undoes the count of a call that was not made after all.
pub fn uncount(context: &Context) {
    context.calls.set(context.calls.get() - 1);
    context.slow_calls.set(context.slow_calls.get() - u64::from(context.slow.get()));
    if let Some(slot) = context.slot.get() {
        slot.calls.store(context.calls.get(), Ordering::Relaxed);
        slot.slow_calls.store(context.slow_calls.get(), Ordering::Relaxed);
    }
}

/// Counts a call before it is made, and remembers that, as if in one step: a signal in between would
/// undo the call and leave it counted.
pub fn count_early(context: &Context) {
    Stream::while_busy(context, || {
        count(context);
        context.counted_early.set(true);
    });
}

/// Counts a call, in the slot too, so that the calls of a killed thread are known.
#[inline(always)]
pub fn count(context: &Context) {
    count_some(context, 1);
}

/// Counts so many calls.
#[inline(always)]
pub fn count_some(context: &Context, calls: u64) {
    context.calls.set(context.calls.get() + calls);
    context.slow_calls.set(context.slow_calls.get() + calls * u64::from(context.slow.get()));
    if let Some(slot) = context.slot.get() {
        slot.calls.store(context.calls.get(), Ordering::Relaxed);
        slot.slow_calls.store(context.slow_calls.get(), Ordering::Relaxed);
    }
}
