//! Answers that are given later.

use std::time::Duration;

use syscalls::Syscall;
use trace::event::{Call, Event, EventKind, FieldValue};
use trace::format::event_number;

use crate::live::Answer;

/// An answer that is given later.
pub(crate) struct Held {
    pub until: Until,
    pub word: u32,
    pub args: [u64; 6],
    pub answer: Answer,
    /// What is made on a real socket before it is given.
    pub accepts: Option<Box<Accepts>>,
}

/// A connection that is accepted when it was accepted in the recording: a server with several processes waits for
/// the next one in one of them, while others still serve those before.
pub(crate) struct Accepts {
    /// When it was accepted in the recording.
    pub due: u64,
    pub pid: i32,
    pub tid: i32,
    pub thread: u32,
    pub recorded: u32,
    pub reply_at: u64,
    pub seq: Option<u64>,
    pub call: Call,
    pub row: &'static Syscall,
}

/// When it is given.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Until {
    /// At this time of the recording.
    Time(u64),
    /// When this thread comes next, by its number in the re-execution: it runs one at a time with others.
    Turn(u32),
}

/// For how long a thread had run that was told to let others run.
pub(crate) fn slice_of(event: &Event) -> Option<Duration> {
    let EventKind::Other(other) = &event.kind else { return None };
    match other.values.first() {
        Some(FieldValue::Unsigned(ns)) if other.row.number == event_number::TIME_SLICE => {
            Some(Duration::from_nanos(*ns))
        }
        _ => None,
    }
}
