//! What calls cost of a run: their part of what its time went to.
//!
//! Calls of several threads at a time, or that wait while others work, take more time in sum than they
//! cost the run. The bar tells what each activity cost; its calls share that by how long they took. So
//! no cost is above that of its activity, and none above the run.

use crate::activity::{Activity, COUNT, WallTime};
use crate::sheet::ratio;

/// Prices of a run.
pub struct Prices {
    run_ns: u64,
    /// By activity: its part of the run, and the sum of its calls.
    parts: [(u64, u64); COUNT],
}

impl Prices {
    /// Makes them: `calls_ns` is the sum of the calls of each activity.
    pub fn new(wall: &WallTime, calls_ns: &[u64; COUNT]) -> Prices {
        let parts = std::array::from_fn(|at| (wall.parts[at].1, calls_ns[at]));
        Prices { run_ns: wall.run_ns, parts }
    }

    /// Returns how long the run took: what shares are of, as those of the bar.
    pub fn run_ns(&self) -> u64 {
        self.run_ns
    }

    /// Returns what calls of an activity cost that took so long in sum.
    pub fn of(&self, activity: Activity, calls_ns: u64) -> u64 {
        let (wall_ns, all_ns) = self.parts[activity as usize];
        let part = ratio(calls_ns.min(all_ns), all_ns);
        // What never returned is in no sum, and may have taken most.
        ((wall_ns as f64 * part) as u64).min(calls_ns)
    }

    /// Returns what all chosen calls of an activity cost, which is all of it if none was left out.
    pub fn of_chosen(&self, activity: Activity, calls_ns: u64) -> u64 {
        let (wall_ns, all_ns) = self.parts[activity as usize];
        if calls_ns >= all_ns { wall_ns } else { self.of(activity, calls_ns) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::activity::ACTIVITIES;

    #[test]
    fn calls_cost_their_part_of_the_activity_and_never_more_than_it_or_than_they_took() {
        let mut parts = std::array::from_fn(|at| (ACTIVITIES[at].0, 0));
        parts[Activity::Lock as usize].1 = 250;
        let wall = WallTime {
            run_ns: 300,
            parts,
            most: Default::default(),
            working_ns: 0,
            alone_ns: 0,
            held_up_ns: 0,
        };
        let mut calls = [0; COUNT];
        calls[Activity::Lock as usize] = 500;
        let prices = Prices::new(&wall, &calls);
        assert_eq!(prices.of(Activity::Lock, 100), 50);
        assert_eq!(prices.of(Activity::Lock, 900), 250);
        assert_eq!((prices.of(Activity::Read, 10), prices.of_chosen(Activity::Read, 0)), (0, 0));
        assert_eq!(prices.of_chosen(Activity::Lock, 500), 250);
        calls[Activity::Lock as usize] = 10;
        assert_eq!(Prices::new(&wall, &calls).of(Activity::Lock, 10), 10);
    }
}
