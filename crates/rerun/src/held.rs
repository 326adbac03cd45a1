//! Answers that are given later.

use std::time::Duration;

use trace::event::{Event, EventKind, FieldValue};
use trace::format::event_number;

/// An answer that is given later.
pub(crate) struct Held {
    pub until: Until,
    pub word: u32,
    pub args: [u64; 6],
    pub answer: Box<dyn FnOnce(u32, [u64; 6], u64) + Send>,
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
