//! Waits for the outside, which take as long as they did.

use std::time::{Duration, Instant};

use super::Actor;
use crate::lane::Mood;

/// How long to sleep before looking whether the replay goes on.
const LOOK_EVERY: Duration = Duration::from_millis(50);

impl Actor<'_> {
    /// Waits for so long.
    pub(super) fn rest(&self, ns: u64) {
        let (since, wanted) = (Instant::now(), Duration::from_nanos(ns));
        self.lane.set_mood(Mood::Rests);
        while let Some(left) = wanted.checked_sub(since.elapsed())
            && !left.is_zero()
            && !self.shared.stopping()
        {
            std::thread::sleep(left.min(LOOK_EVERY));
        }
        self.lane.set_mood(Mood::Busy);
    }
}
