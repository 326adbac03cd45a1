//! A call before which signals have arrived that had hit the program's code. In their place the program has
//! perhaps looked whether they had come, found that they had not, and waits for them now. Had they come a
//! moment later, they had ended that wait. So it ends, unless it is over soon anyhow.

use core::cell::Cell;

use linux_raw_sys::general as raw;

use crate::arch::frames::UContext;
use crate::arch::places::fail_restarted;

/// Calls that the handlers of those signals may make before they have returned.
const CALLS_MAX: u32 = 1000;

/// A handler's stack is at least so far below what it has interrupted.
const FRAME_MIN: u64 = 1024;

/// Where in the program a call is made: its address, and the stack.
pub type Where = [u64; 2];

#[derive(Clone, Copy, PartialEq, Eq)]
enum State {
    // Fresh memory is zero.
    None = 0,
    /// The signals arrive; then the call is begun again.
    Before,
    /// They arrive in the program's code, as no call had begun for long: the next one is it.
    Overdue,
    /// It is made, with a timer.
    In,
}

/// What is known of the call.
pub struct Hurry {
    state: Cell<State>,
    place: Cell<Where>,
    calls_left: Cell<u32>,
    /// The handlers of all these signals want calls to be restarted.
    restarts: Cell<bool>,
}

impl Hurry {
    /// A signal waits for the next call; `flags` are those of its action.
    pub fn add(&self, is_first: bool, flags: u64) {
        self.state.set(State::None);
        let restarts = flags & u64::from(raw::SA_RESTART) != 0;
        self.restarts.set(restarts && (is_first || self.restarts.get()));
    }

    /// They arrive before this call.
    pub fn begin(&self, place: Where) {
        self.state.set(State::Before);
        self.place.set(place);
        self.calls_left.set(CALLS_MAX);
    }

    /// They arrive in the program's code, whose stack is there.
    pub fn overdue(&self, stack: u64) {
        self.state.set(State::Overdue);
        self.place.set([0, stack]);
        self.calls_left.set(CALLS_MAX);
    }

    pub fn end(&self) {
        self.state.set(State::None);
    }

    pub fn is_there(&self) -> bool {
        self.state.get() != State::None
    }

    /// A wait of it that the kernel can go on with does not end.
    pub fn restarts(&self) -> bool {
        self.restarts.get()
    }

    /// It is begun again, and made.
    pub fn is_made(&self) -> bool {
        self.state.get() == State::In
    }

    /// A call begins. Returns true if that is the one, and false also if it has ended.
    pub fn is_it(&self, place: Where) -> bool {
        match self.state.get() {
            State::Before if self.place.get() == place => {
                self.state.set(State::In);
                return true;
            }
            State::Overdue if place[1].saturating_add(FRAME_MIN) > self.place.get()[1] => {
                self.state.set(State::In);
                return true;
            }
            // A handler makes it.
            State::Before | State::Overdue if self.calls_left.get() > 0 => {
                self.calls_left.set(self.calls_left.get() - 1);
            }
            _ => self.end(),
        }
        false
    }

    /// The time is over. A wait that the kernel would go on with fails instead.
    pub fn ends_wait(&self, uc: &mut UContext) {
        if self.state.replace(State::None) == State::In && !self.restarts.get() {
            fail_restarted(uc);
        }
    }
}
