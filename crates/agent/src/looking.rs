//! Programs that look for completions of a ring in memory alone, without a call that would bring them
//! there. A timer of the time that a thread spends in its own code has the agent look: hardly ever in a
//! call, which a signal would end ([`ring_waits`](crate::ring_waits) has the exceptions). Where that
//! finds something again and again, a finer timer runs between two calls; it is off while the thread is
//! in one.

use linux_raw_sys::general as raw;

use crate::arch::frames::UContext;
use crate::arch::head::phase;
use crate::arch::places::{Place, place_of};
use crate::context::{Context, space};
use crate::interrupted::on_own_stack;
use crate::signal::{Info, signal_bit};
use crate::timers::{Whose, told};
use crate::{rings, sys};

/// The clock of the time that the calling thread spends in its own code (CPUCLOCK_VIRT).
const OWN_TIME: u64 = -3i64 as u64;
/// How often a thread's queues are looked at, in its own time; the kernel does that by its ticks.
const TICK_NS: i64 = 2_000_000;
/// The finer timer: after the end of a call, and longer each time that nothing is found.
const FIRST_NS: i64 = 20_000;
const LAST_NS: i64 = 1_000_000;
/// Calls after which the finer timer is set although it finds nothing.
const CREDIT: u32 = 64;
/// Values that the timers tell: behind the address of the thread's state.
const TICK: u64 = 1;
const FINE: u64 = 2;

/// After any call: shows what was completed meanwhile. The program may have been told of it, or look
/// without a call.
#[inline(always)]
pub fn after_call(context: &Context) {
    if space().has_rings.get() {
        look_after_call(context);
    }
}

#[cold]
#[inline(never)]
fn look_after_call(context: &Context) {
    rings::look(context);
    let looking = &context.looking;
    if sys::is_quiet() {
        return;
    }
    if looking.is_paused.take() || !looking.ticks.is_known() {
        // Delivered as soon as it is sent: no call comes in between.
        let whose = Whose { clock: OWN_TIME, tid: context.tid.get(), signal: raw::SIGSYS };
        looking.ticks.set(whose, context.this.get() as u64 + TICK, TICK_NS, true);
    }
    if looking.credit.get() != 0 && context.mask.get() & signal_bit(raw::SIGBUS) == 0 {
        looking.credit.set(looking.credit.get() - 1);
        looking.wait_ns.set(FIRST_NS);
        looking.is_set.set(true);
        context.attention.set(true);
        set_fine(context);
    }
}

fn set_fine(context: &Context) {
    let clock = u64::from(raw::CLOCK_MONOTONIC);
    let whose = Whose { clock, tid: context.tid.get(), signal: raw::SIGBUS };
    let looking = &context.looking;
    looking.fine.set(whose, context.this.get() as u64 + FINE, looking.wait_ns.get(), false);
}

/// Before a call that does not take the usual way: no signal may end it.
pub fn before_call(context: &Context) {
    if context.looking.is_set.take() {
        context.attention.set(context.dispatch.get().is_some());
        context.looking.fine.stop();
    }
}

/// Handles a signal of these timers. `open`: other handlers may have been interrupted.
pub fn is_alarm(context: &Context, signal: u32, info: &Info, uc: &UContext, open: bool) -> bool {
    let which = told(signal, info).map(|value| value.wrapping_sub(context.this.get() as u64));
    let Some(which @ (TICK | FINE)) = which else { return false };
    let looking = &context.looking;
    if context.running.get() == phase::LEFT_ALONE {
        // Who traces it is not to see any more of them.
        end(context);
    } else if open || on_own_stack(context, uc) || place_of(uc) != Place::Program {
        // A call begins, is made or ends. If it has just ended, the timer is still wanted.
        looking.hit_a_call.set(true);
        if which == FINE && looking.is_set.get() && !open {
            set_fine(context);
        }
    } else if which == TICK {
        let found = rings::look_for(context);
        if looking.found_before.replace(found) && found {
            looking.credit.set(CREDIT);
        }
    } else if rings::look(context) {
        looking.credit.set(CREDIT);
        looking.wait_ns.set(FIRST_NS);
        set_fine(context);
    } else if looking.wait_ns.get() < LAST_NS {
        looking.wait_ns.set(2 * looking.wait_ns.get());
        set_fine(context);
    }
    true
}

/// The thread ends, or is left alone.
pub fn end(context: &Context) {
    before_call(context);
    context.looking.ticks.end();
    context.looking.fine.end();
}
