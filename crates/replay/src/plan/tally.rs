//! Counters of the planner, and what is known of the call at hand.

use std::collections::HashMap;

use crate::latency::ByCall;
use crate::log::{About, Came, Describe};
use crate::outcome::{self, Computed};

/// Most kinds of unsupported features that are counted separately.
pub const UNSUPPORTED_MAX: usize = 100;

/// Counters of the planner.
#[derive(Default)]
pub struct Tally {
    /// Calls whose recorded result was used.
    pub simulated: u64,
    /// Calls left out, by number and reason.
    pub skipped: HashMap<(u16, &'static str), u64>,
    /// Things withheld.
    pub withheld: HashMap<&'static str, u64>,
    /// Calls in need of features that a replay does not have.
    pub unsupported: HashMap<String, u64>,
    /// Gaps in the recording.
    pub gaps: u64,
    /// Events that this version does not know.
    pub unknown_events: u64,
    /// What threads did where tasks only compute as long.
    pub computed: Computed,
    /// Waits of all threads for the outside, in nanoseconds.
    pub outside_ns: u64,
    /// Recorded durations of calls.
    pub recorded: ByCall,
}

/// The current call, if calls are logged.
pub struct AtHand<'a> {
    /// Makes the text of a call.
    pub describe: Option<&'a Describe<'a>>,
    /// Taken by the action if a task makes the call: then the task logs it.
    pub about: Option<Box<About>>,
    /// Its outcome and the reason.
    pub came: (Came, &'static str),
}

impl<'a> AtHand<'a> {
    /// State before the first call.
    pub fn new(describe: Option<&'a Describe<'a>>) -> AtHand<'a> {
        AtHand { describe, about: None, came: (Came::Simulated, "") }
    }
}

/// Name of a call, for messages.
pub fn name_of(nr: u16) -> &'static str {
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
