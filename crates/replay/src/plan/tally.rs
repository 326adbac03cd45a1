//! Counts calls that are not replayed, and logs them if wanted.

use std::collections::HashMap;
use std::time::Duration;

use model::{Moment, Step, Stored};
use trace::event::{Call, Event, Outcome};

use super::Planner;
use crate::latency::ByCall;
use crate::log::{About, Came, Describe, Line};
use crate::outcome::{self, shown};

/// Most kinds of unsupported features that are counted separately.
const UNSUPPORTED_MAX: usize = 100;

/// Counters of the planner.
#[derive(Default)]
pub struct Tally {
    simulated: u64,
    skipped: HashMap<(u16, &'static str), u64>,
    withheld: HashMap<&'static str, u64>,
    unsupported: HashMap<String, u64>,
    /// Gaps in the recording.
    pub gaps: u64,
    /// Events that this version does not know.
    pub unknown_events: u64,
    /// Recorded durations of calls.
    pub recorded: ByCall,
}

/// The current call, if calls are logged.
pub struct AtHand<'a> {
    describe: Option<&'a Describe<'a>>,
    /// Taken by the action if a task makes the call: then the task logs it.
    about: Option<Box<About>>,
    /// Its outcome and the reason.
    came: (Came, &'static str),
}

impl<'a> AtHand<'a> {
    /// State before the first call.
    pub fn new(describe: Option<&'a Describe<'a>>) -> AtHand<'a> {
        AtHand { describe, about: None, came: (Came::Simulated, "") }
    }
}

fn name_of(nr: u16) -> &'static str {
    syscalls::by_number(u64::from(nr)).map_or("unknown", |row| row.name)
}

impl Tally {
    /// Adds the counts to the outcome.
    pub fn count_into(self, outcome: &mut outcome::Outcome) {
        outcome.simulated += self.simulated;
        outcome.gaps += self.gaps;
        outcome.unknown_events += self.unknown_events;
        for ((nr, why), count) in self.skipped {
            let what = format!("{}: {why}", name_of(nr));
            outcome::Outcome::count(&mut outcome.skipped, &what, count);
        }
        for (what, count) in self.withheld {
            outcome::Outcome::count(&mut outcome.withheld, what, count);
        }
        for (what, count) in self.unsupported {
            outcome::Outcome::count(&mut outcome.unsupported_here, &what, count);
        }
        for (nr, latencies) in self.recorded.into_calls() {
            let pair = outcome.latencies.entry(name_of(nr).to_string()).or_default();
            pair.recorded.add(&latencies);
        }
    }
}

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
