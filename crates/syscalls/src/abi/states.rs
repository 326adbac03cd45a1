//! States of threads, as the kernel's event of a switch tells them.

/// Why a thread has no CPU any more.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Stopping {
    /// It could have gone on.
    Runnable,
    /// It waits, and signals do not wake it.
    Blocked,
    /// It waits.
    Asleep,
    /// A signal or a debugger has stopped it.
    Stopped,
    /// It is no more.
    Ended,
}

/// Bits of `prev_state` of a switch, the same since Linux 4.14.
const ASLEEP_BITS: i64 = 0x01;
const BLOCKED_BITS: i64 = 0x02;
const STOPPED_BITS: i64 = 0x04 | 0x08;
const ENDED_BITS: i64 = 0x10 | 0x20;
/// Parked, or a thread of the kernel without work.
const IDLE_BITS: i64 = 0x40 | 0x80;

/// The state that a switch tells. A bit above those known says that the thread was preempted.
pub const fn of_switch(state: i64) -> Stopping {
    match state {
        state if state & ENDED_BITS != 0 => Stopping::Ended,
        state if state & STOPPED_BITS != 0 => Stopping::Stopped,
        // Of both bits, one only says that the wait counts as no load.
        state if state & IDLE_BITS != 0 => Stopping::Asleep,
        state if state & BLOCKED_BITS != 0 => Stopping::Blocked,
        state if state & ASLEEP_BITS != 0 => Stopping::Asleep,
        _ => Stopping::Runnable,
    }
}

/// The state that /proc shows by a letter.
pub const fn by_letter(letter: u8) -> Stopping {
    match letter {
        b'R' => Stopping::Runnable,
        b'D' => Stopping::Blocked,
        b'T' | b't' => Stopping::Stopped,
        b'Z' | b'X' | b'x' => Stopping::Ended,
        _ => Stopping::Asleep,
    }
}
