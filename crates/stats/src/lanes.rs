//! Time that each thread spent in groups of calls, over time. Whatever waits is in the group of waits: a
//! write to a full pipe too.

use std::collections::BTreeMap;

use crate::activity::Activity;
use crate::group;
use crate::pass::{Occasion, Visit, Watch};

/// Limit for the threads; only the first ones seen are followed.
pub const LANES_MAX: usize = 2_000;
/// Limit for the time steps; later events count in the last one.
const STEPS_MAX: u64 = 512;

/// Nanoseconds in calls, by group.
pub type Busy = [f32; group::COUNT];

/// Activity of a thread.
#[derive(Clone, Debug, Default)]
pub struct Lane {
    /// Index of the step of its first call.
    pub first: usize,
    /// Time in calls for each step from `first` on.
    pub steps: Vec<Busy>,
}

/// The fold that tracks threads.
#[derive(Clone, Debug)]
pub struct Lanes {
    interval_ns: u64,
    by_thread: BTreeMap<u32, Lane>,
}

impl Lanes {
    /// Makes an empty fold with time steps of this width.
    pub fn new(interval_ns: u64) -> Lanes {
        Lanes { interval_ns: interval_ns.max(1), by_thread: BTreeMap::new() }
    }

    /// Returns the lanes by thread number.
    pub fn finish(self) -> BTreeMap<u32, Lane> {
        self.by_thread
    }

    fn index(&self, ns: u64) -> u64 {
        (ns / self.interval_ns).min(STEPS_MAX - 1)
    }
}

impl Lane {
    fn busy(&mut self, step: usize, group: usize, ns: u64) {
        let Some(place) = step.checked_sub(self.first) else { return };
        if self.steps.len() <= place {
            self.steps.resize(place + 1, Busy::default());
        }
        self.steps[place][group] += ns as f32;
    }
}

impl Watch for Lanes {
    fn add(&mut self, visit: &mut Visit<'_>) {
        let occasion = Occasion::from(visit.moment);
        let Some(call) = occasion.call().filter(|_| visit.wanted) else { return };
        let thread = occasion.event.thread;
        if self.by_thread.len() >= LANES_MAX && !self.by_thread.contains_key(&thread) {
            return;
        }
        let from_ns = occasion.enter_ns;
        let to_ns = occasion.exit_ns.unwrap_or(from_ns);
        let (first, last) = (self.index(from_ns), self.index(to_ns));
        let waits = Activity::of(call, visit.moment).is_wait();
        let group = if waits { group::WAIT } else { group::of(call.nr) };
        let interval_ns = self.interval_ns;
        let fresh = || Lane { first: first as usize, steps: Vec::new() };
        let lane = self.by_thread.entry(thread).or_insert_with(fresh);
        for step in first..=last {
            // The last step has no end.
            let end_ns = if step == last { to_ns } else { (step + 1) * interval_ns };
            let ns = end_ns.saturating_sub(from_ns.max(step * interval_ns));
            lane.busy(step as usize, group, ns);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sample::{call, watch};

    #[test]
    fn long_calls_are_busy_in_every_step_that_they_touch() {
        // The calls begin at 1000, 5500 and 6500 ns.
        let calls = [
            call("read", &[0, 0, 1], 1).lasts(3500),
            call("fsync", &[0], 0).by(2),
            call("futex", &[0], 0).never(),
        ];
        let lanes = watch(Lanes::new(2000), &calls).0.finish();
        let reads: Vec<f32> = lanes[&1].steps.iter().map(|step| step[0]).collect();
        assert_eq!(reads, [1000.0, 2000.0, 500.0, 0.0]);
        assert_eq!((lanes[&2].first, lanes[&2].steps.len()), (2, 1));
    }

    #[test]
    fn hostile_threads_and_times_are_bounded() {
        let mut calls = vec![call("read", &[0, 0, 1], 1).lasts(u64::MAX / 2)];
        calls.extend((0..3 * LANES_MAX as u32).map(|thread| call("getppid", &[], 1).by(thread)));
        let lanes = watch(Lanes::new(1), &calls).0.finish();
        assert_eq!(lanes.len(), LANES_MAX);
        assert!(lanes.values().all(|lane| lane.steps.len() as u64 <= STEPS_MAX));
    }
}
