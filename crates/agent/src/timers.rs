//! Timers that tell a thread something by a signal.

use core::cell::Cell;

use linux_raw_sys::general as raw;
use syscalls::abi::signals::{SI_TIMER, SIGEV_THREAD_ID};

use crate::cells::OptionalWord;
use crate::needs::{Need, needed};
use crate::signal::{Info, VALUE_AT, si_code};
use crate::sys;

/// Words of a `struct sigevent`.
const EVENT_WORDS: usize = 8;

/// Which clock a timer has, the id of the thread that it tells, and by which signal. A pending SIGSYS
/// swallows that of a call from a place that is not patched; a fault that is swallowed comes again.
#[derive(Clone, Copy)]
pub struct Whose {
    pub clock: u64,
    pub tid: u32,
    pub signal: u32,
}

/// A timer of one thread, made when it is set for the first time.
pub struct Timer {
    number: OptionalWord,
    /// The kernel gave none.
    is_refused: Cell<bool>,
}

/// What is known of a thread that may look for completions in memory.
pub struct Looking {
    /// A timer of its own time, and a finer one between two calls.
    pub ticks: Timer,
    pub fine: Timer,
    /// The last tick has found something.
    pub found_before: Cell<bool>,
    /// Calls after which the finer timer is set.
    pub credit: Cell<u32>,
    /// It is set, to so much.
    pub is_set: Cell<bool>,
    /// The ticks are off during a call.
    pub is_paused: Cell<bool>,
    /// A tick came in a call.
    pub hit_a_call: Cell<bool>,
    pub wait_ns: Cell<i64>,
}

impl Looking {
    /// Before a call that a tick could end, and that could not go on: there are none until it has ended.
    pub fn pause(&self) {
        if self.ticks.stop() {
            self.is_paused.set(true);
        }
    }

    /// It was another thread.
    pub fn forget(&self) {
        let Looking { ticks, fine, found_before, credit, is_set, is_paused, hit_a_call, wait_ns } =
            self;
        ticks.forget();
        fine.forget();
        found_before.set(false);
        credit.set(0);
        is_set.set(false);
        is_paused.set(false);
        hit_a_call.set(false);
        wait_ns.set(0);
    }
}

impl Timer {
    /// Sets it: to tell this value once after so many nanoseconds, or every
    /// time that so many have passed. Returns false if there is no timer.
    pub fn set(&self, whose: Whose, value: u64, ns: i64, again: bool) -> bool {
        if sys::denies(needed::TIMERS) {
            return false;
        }
        let Some(number) = self.number.get().or_else(|| self.make(whose, value)) else {
            return false;
        };
        let wanted = [0i64, if again { ns } else { 0 }, 0, ns];
        sys::call(Need::SetTimer, [number, 0, wanted.as_ptr() as u64, 0, 0, 0]) == 0
    }

    fn make(&self, whose: Whose, value: u64) -> Option<u64> {
        if self.is_refused.get() {
            return None;
        }
        let mut number = 0i32;
        let mut event = [0u64; EVENT_WORDS];
        event[0] = value;
        event[1] = u64::from(whose.signal) | SIGEV_THREAD_ID << 32;
        event[2] = u64::from(whose.tid);
        let args = [whose.clock, event.as_ptr() as u64, &raw mut number as u64, 0, 0, 0];
        if sys::call(Need::MakeTimer, args) != 0 {
            self.is_refused.set(true);
            return None;
        }
        self.number.set(Some(u64::from(number as u32)));
        self.number.get()
    }

    /// Turns it off. Returns false if there is none.
    pub fn stop(&self) -> bool {
        if let Some(number) = self.number.get()
            && !sys::denies(needed::TIMERS)
        {
            let off = [0i64; 4];
            return sys::call(Need::SetTimer, [number, 0, off.as_ptr() as u64, 0, 0, 0]) == 0;
        }
        false
    }

    /// Gives it back.
    pub fn end(&self) {
        if let Some(number) = self.number.take()
            && !sys::denies(needed::TIMERS)
        {
            sys::call(Need::EndTimer, [number, 0, 0, 0, 0, 0]);
        }
    }

    /// Whether it was asked for.
    pub fn is_known(&self) -> bool {
        self.is_refused.get() || self.number.get().is_some()
    }

    /// It was that of another thread.
    pub fn forget(&self) {
        self.number.set(None);
        self.is_refused.set(false);
    }
}

/// Returns the value that a timer tells by a signal.
pub fn told(signal: u32, info: &Info) -> Option<u64> {
    let value = u64::from_ne_bytes(*info[VALUE_AT..].first_chunk()?);
    let is_ours = signal == raw::SIGSYS || signal == raw::SIGBUS;
    (is_ours && si_code(info) == SI_TIMER).then_some(value)
}
