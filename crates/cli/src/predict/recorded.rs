//! What the recorded run itself took: what predictions are compared with.

use std::collections::HashMap;

use model::Conditions;
use stats::activity::{Activities, Activity};
use stats::pass::{Fold, Occasion, Visit, Watch, fold_and_watch};
use stats::same_device::SameDevice;
use trace::Trace;
use trace::event::EventKind;

/// Where more than this share of the time is not known, the CPU time of a program is not told.
const UNKNOWN_TOLD: f64 = 0.1;
/// Where more than this is not known, a replay says nothing.
const UNKNOWN_MAX: f64 = 0.5;

/// What a replay leaves out: no call that it makes again waits for these.
const OUTSIDE: [Activity; 4] =
    [Activity::Network, Activity::Events, Activity::Device, Activity::Sleep];

/// The recorded run.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Recorded {
    /// How long it took from its first call on, in seconds.
    pub seconds: f64,
    /// What the program computed between its calls, if that is known.
    pub user_s: Option<f64>,
    /// How long its threads were between calls of which it is not known what they computed, in seconds.
    pub unknown_s: f64,
    /// Enough is known for a replay that computes as long as the program did.
    pub tells_computing: bool,
    /// Its recorder was told to leave it out.
    pub leaves_out_computing: bool,
    /// How much of the time was spent being recorded.
    pub recording_s: f64,
    /// How much of it went to waiting for time to pass, peers and terminals.
    pub waited_s: f64,
    /// True if the trace was written to a device with files of the program.
    pub same_device: bool,
}

impl Recorded {
    /// Reads a trace through.
    pub fn of(trace: &Trace) -> Recorded {
        let (activities, device) = (Activities::default(), SameDevice::of(trace));
        let mut beside = Beside { activities, device };
        let (computed, _) =
            fold_and_watch(trace, &Conditions::default(), Computed::default(), &mut beside);
        let wall = beside.activities.finish();
        let seconds = |ns: u64| ns as f64 / 1e9;
        let unknown_share = computed.unknown_share();
        Recorded {
            seconds: seconds(computed.lasted_ns()),
            user_s: (unknown_share <= UNKNOWN_TOLD).then(|| seconds(computed.user_ns)),
            unknown_s: seconds(computed.all_unknown_ns()),
            tells_computing: unknown_share <= UNKNOWN_MAX,
            leaves_out_computing: trace.preamble().has_option("--no-cpu-time"),
            recording_s: seconds(wall.of(Activity::Recording)),
            waited_s: OUTSIDE.iter().map(|of| seconds(wall.of(*of))).sum(),
            same_device: beside.device.is_so(),
        }
    }
}

/// What threads computed between their calls.
#[derive(Default)]
struct Computed {
    begin_ns: Option<u64>,
    end_ns: u64,
    known: u64,
    user_ns: u64,
    /// Time between calls of which it is not known what was computed in it.
    unknown_ns: u64,
    threads: HashMap<u32, Thread>,
}

/// What is known of a thread and its program.
#[derive(Default)]
struct Thread {
    returned_ns: Option<u64>,
    /// How long it was between calls before anything was known: a program begins so.
    at_first_ns: u64,
    is_known: bool,
}

impl Computed {
    fn lasted_ns(&self) -> u64 {
        self.end_ns.saturating_sub(self.begin_ns.unwrap_or(0))
    }

    fn all_unknown_ns(&self) -> u64 {
        let never_known = self.threads.values().filter(|thread| !thread.is_known);
        self.unknown_ns.saturating_add(never_known.map(|thread| thread.at_first_ns).sum())
    }

    /// The share that is not known. The number of calls is no measure: one may follow on hours.
    fn unknown_share(&self) -> f64 {
        if self.known == 0 {
            return 1.0;
        }
        let unknown_ns = self.all_unknown_ns();
        let whole_ns = self.lasted_ns().max(self.user_ns.saturating_add(unknown_ns));
        unknown_ns as f64 / whole_ns.max(1) as f64
    }

    fn call(&mut self, thread: u32, (enter_ns, exit_ns): (u64, Option<u64>), user_ns: Option<u64>) {
        self.begin_ns.get_or_insert(enter_ns);
        let thread = self.threads.entry(thread).or_default();
        // A call that begins a new program does not return.
        let before_ns = std::mem::replace(&mut thread.returned_ns, exit_ns);
        let between_ns = before_ns.map_or(0, |before_ns| enter_ns.saturating_sub(before_ns));
        match user_ns {
            Some(ns) => {
                thread.is_known = true;
                self.known += 1;
                self.user_ns = self.user_ns.saturating_add(ns);
            }
            None if thread.is_known => {
                self.unknown_ns = self.unknown_ns.saturating_add(between_ns);
            }
            None => thread.at_first_ns = thread.at_first_ns.saturating_add(between_ns),
        }
    }

    fn image(&mut self, thread: u32) {
        let before = self.threads.insert(thread, Thread::default()).unwrap_or_default();
        if !before.is_known {
            self.unknown_ns = self.unknown_ns.saturating_add(before.at_first_ns);
        }
    }
}

impl Fold for Computed {
    fn add(&mut self, occasion: &Occasion<'_>) {
        self.end_ns = self.end_ns.max(occasion.exit_ns.unwrap_or(occasion.enter_ns));
        let thread = occasion.event.thread;
        match &occasion.event.kind {
            EventKind::Image { .. } => self.image(thread),
            EventKind::Call(_) if occasion.submitted_ns.is_none() => {
                self.call(thread, (occasion.enter_ns, occasion.exit_ns), occasion.user_ns);
            }
            _ => {}
        }
    }

    fn merge(&mut self, other: Computed) {
        self.begin_ns = self.begin_ns.into_iter().chain(other.begin_ns).min();
        self.end_ns = self.end_ns.max(other.end_ns);
        self.known += other.known;
        self.user_ns = self.user_ns.saturating_add(other.user_ns);
        self.unknown_ns = self.unknown_ns.saturating_add(other.all_unknown_ns());
    }
}

struct Beside {
    activities: Activities,
    device: SameDevice,
}

impl Watch for Beside {
    fn add(&mut self, visit: &mut Visit<'_>) {
        self.activities.add(visit);
        self.device.add(visit.moment);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: u64 = 1_000_000;

    #[test]
    fn what_is_not_known_is_measured_by_its_time() {
        let mut computed = Computed::default();
        assert!(computed.unknown_share() > UNKNOWN_MAX, "nothing is known");
        // Until its program has begun, not much is known.
        computed.call(1, (0, Some(MS)), None);
        computed.call(1, (11 * MS, Some(12 * MS)), None);
        assert_eq!(computed.unknown_share(), 1.0);
        computed.call(1, (22 * MS, Some(100 * MS)), Some(10 * MS));
        assert_eq!(computed.unknown_share(), 0.0);
        computed.call(1, (130 * MS, Some(200 * MS)), None);
        computed.end_ns = 200 * MS;
        assert_eq!((computed.unknown_share(), computed.user_ns), (0.15, 10 * MS));
        // A program of which nothing is ever known.
        computed.call(1, (200 * MS, None), Some(0));
        computed.image(1);
        computed.call(1, (210 * MS, Some(211 * MS)), None);
        computed.call(1, (411 * MS, Some(460 * MS)), None);
        computed.end_ns = 460 * MS;
        assert_eq!(computed.unknown_share(), 0.5);
        assert_eq!(computed.all_unknown_ns(), 230 * MS);
    }
}
