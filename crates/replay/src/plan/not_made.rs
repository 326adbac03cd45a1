//! Counts calls that are not replayed, and logs them if wanted.

use std::time::Duration;

use model::{Moment, Step, Stored};
use trace::event::{Call, Event, Outcome};

use super::Planner;
use super::tally::{UNSUPPORTED_MAX, name_of};
use crate::log::{About, Came, Line};
use crate::outcome::shown;

impl Planner<'_> {
    /// The current call's result is taken from the trace.
    pub(super) fn count_simulated(&mut self) {
        self.tally.simulated += 1;
        self.at_hand.came = (Came::Simulated, "");
    }

    /// The current call was answered by a seccomp filter of the program, and never made.
    pub(super) fn count_answered(&mut self) {
        self.tally.simulated += 1;
        self.at_hand.came = (Came::Simulated, "answered by the program's seccomp filter");
    }

    /// The current call needs a feature that a replay does not have.
    pub(super) fn count_unsupported(&mut self, what: String) {
        let is_new = !self.tally.unsupported.contains_key(&what);
        let many = is_new && self.tally.unsupported.len() >= UNSUPPORTED_MAX;
        let what = if many { "other mounts".to_string() } else { what };
        *self.tally.unsupported.entry(what).or_default() += 1;
        self.at_hand.came = (Came::Unsupported, "in a mount that is not followed");
    }

    /// The current call is left out.
    pub(super) fn count_skipped(&mut self, nr: u16, why: &'static str) {
        *self.tally.skipped.entry((nr, why)).or_default() += 1;
        self.at_hand.came = (Came::Skipped, why);
    }

    /// The current call would create something harmful.
    pub(super) fn count_withheld(&mut self, what: &'static str) {
        *self.tally.withheld.entry(what).or_default() += 1;
        self.at_hand.came = (Came::Withheld, what);
    }

    /// Describes a call before it is planned; returns `None` if calls are not logged.
    pub(super) fn look_at(&mut self, event: &Event, call: &Call) -> Option<Step> {
        let describe = self.at_hand.describe?;
        let mut stored = Stored(self.trace);
        let step = self.world.step(event, &mut stored);
        let clock = |tsc| self.trace.ticks_to_ns(tsc).max(0) as u64;
        let moment = Moment::new(Some(self.seq), event, &self.world, &step, &clock);
        let about = About {
            seq: self.seq,
            pid: moment.pid,
            tid: moment.tid,
            name: name_of(call.nr),
            text: describe(&moment, &mut stored),
        };
        self.at_hand.about = Some(Box::new(about));
        Some(step)
    }

    /// A task will make the current call, and log it.
    pub(super) fn give_away(&mut self) -> Option<Box<About>> {
        self.at_hand.about.take()
    }

    /// Logs the current call, unless a task does.
    pub(super) fn tell(&mut self, call: &Call) {
        let Some(about) = self.at_hand.about.take() else { return };
        let (came, why) = self.at_hand.came;
        let expected = match call.outcome {
            Outcome::Returned { ret, .. } => shown(ret),
            Outcome::Unfinished => "no result".into(),
        };
        self.shared.tell(None, came, || {
            let (about, at) = (*about, Duration::ZERO);
            Some(Line { about, came, what: why.into(), expected, found: String::new(), at })
        });
    }
}
