//! Calls with long input that signals interrupt before they are made. After the signal such a call is begun again,
//! and so is the copy of its input: with a timer, for ever. So the next time it is made first, and what went in
//! is copied behind it, where signals wait until that is recorded.

use core::cell::Cell;

use crate::hurry::Where;

/// So much is copied in less than signals take to arrive.
pub const LONG_BYTES: u64 = 64 << 10;
/// No call is made from there.
const NOWHERE: Where = [0, 0];
/// Calls that the signal's handler may make before it has returned, if it does.
const CALLS_MAX: u32 = 1000;

/// What is known of such a call. Fresh memory is zero.
pub struct LateInput {
    place: Cell<Where>,
    calls_left: Cell<u32>,
    is_open: Cell<bool>,
}

impl LateInput {
    /// The call that is made there is given up.
    pub fn expect(&self, place: Where) {
        self.place.set(place);
        self.calls_left.set(CALLS_MAX);
    }

    pub fn forget(&self) {
        self.place.set(NOWHERE);
        self.is_open.set(false);
    }

    /// Such a call is to come, or open.
    pub fn is_expected(&self) -> bool {
        self.place.get() != NOWHERE
    }

    /// A call begins there, while one is expected.
    pub fn begin(&self, place: Where) {
        self.is_open.set(self.place.get() == place);
        match self.calls_left.get() {
            0 => self.forget(),
            left => self.calls_left.set(left - 1),
        }
    }

    /// The input of the open call is copied when it has returned.
    pub fn is_open(&self) -> bool {
        self.is_open.get()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_call_is_known_when_it_is_begun_again() {
        let late = LateInput {
            place: Cell::new(NOWHERE),
            calls_left: Cell::new(0),
            is_open: Cell::new(false),
        };
        assert!(!late.is_open() && !late.is_expected());
        late.expect([1, 2]);
        late.begin([1, 3]);
        assert!(!late.is_open() && late.is_expected());
        late.begin([1, 2]);
        assert!(late.is_open() && late.is_expected(), "it may be given up again");
        late.forget();
        assert!(!late.is_open() && !late.is_expected());
        late.expect([1, 2]);
        (0..=CALLS_MAX).for_each(|_| late.begin([1, 3]));
        assert!(!late.is_expected(), "the handler has jumped elsewhere");
    }
}
