//! Heat maps of latency over time: one picture per call, time to the right, latency upwards.

use crate::numbered::Numbered;
use crate::pass::{Fold, Occasion};

/// Limit for the time steps; later events count in the last one.
pub const STEPS_MAX: usize = 512;
/// Logarithms of the lowest and the highest latency with rows of their own, in nanoseconds.
const LOW_SHIFT: u32 = 4;
const HIGH_SHIFT: u32 = 40;
/// Number of rows of a picture, two per octave.
pub const ROWS: usize = 2 * (HIGH_SHIFT - LOW_SHIFT) as usize;

/// Returns the row of a latency.
fn row(ns: u64) -> usize {
    let Some(shift) = ns.checked_ilog2().filter(|shift| *shift >= LOW_SHIFT) else { return 0 };
    let upper_half = ns >> (shift - 1) & 1;
    (2 * (shift - LOW_SHIFT) as usize + upper_half as usize).min(ROWS - 1)
}

/// Returns the lowest latency of a row.
pub fn from_ns(row: usize) -> u64 {
    if row == 0 {
        return 0;
    }
    let octave = 1u64 << (LOW_SHIFT as usize + row / 2);
    octave + if row % 2 == 1 { octave / 2 } else { 0 }
}

/// Calls with one number that began within a time step.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Step {
    /// Number of calls.
    pub calls: u64,
    /// Number of calls that returned, by row up to the highest row in use.
    pub rows: Vec<u32>,
}

/// All calls with one number.
#[derive(Clone, Debug, Default)]
pub struct Picture {
    /// Time steps up to the last call.
    pub steps: Vec<Step>,
    /// Time spent in these calls.
    pub total_ns: u64,
}

/// The fold that draws a picture per call.
#[derive(Clone, Debug)]
pub struct Heat {
    interval_ns: u64,
    by_number: Numbered<Picture>,
}

impl Step {
    fn merge(&mut self, other: Step) {
        self.calls += other.calls;
        if self.rows.len() < other.rows.len() {
            self.rows.resize(other.rows.len(), 0);
        }
        for (mine, theirs) in self.rows.iter_mut().zip(other.rows) {
            *mine = mine.saturating_add(theirs);
        }
    }
}

impl Heat {
    /// Makes an empty fold with time steps of this width.
    pub fn new(interval_ns: u64) -> Heat {
        Heat { interval_ns: interval_ns.max(1), by_number: Numbered::default() }
    }

    /// Returns a picture per call, most time in calls first.
    pub fn finish(self) -> Vec<(u16, Picture)> {
        let mut calls: Vec<(u16, Picture)> = self.by_number.into_each().collect();
        calls.sort_by(|(a, of_a), (b, of_b)| of_b.total_ns.cmp(&of_a.total_ns).then(a.cmp(b)));
        calls
    }
}

impl Fold for Heat {
    fn add(&mut self, occasion: &Occasion<'_>) {
        let Some(call) = occasion.call() else { return };
        let index = (occasion.enter_ns / self.interval_ns).min(STEPS_MAX as u64 - 1) as usize;
        let picture = self.by_number.at(call.nr);
        if picture.steps.len() <= index {
            picture.steps.resize_with(index + 1, Step::default);
        }
        let step = &mut picture.steps[index];
        step.calls += 1;
        if let Some(ns) = occasion.duration_ns() {
            picture.total_ns = picture.total_ns.saturating_add(ns);
            let row = row(ns);
            if step.rows.len() <= row {
                step.rows.resize(row + 1, 0);
            }
            step.rows[row] = step.rows[row].saturating_add(1);
        }
    }

    fn merge(&mut self, other: Heat) {
        self.by_number.merge(other.by_number, |mine, theirs| {
            mine.total_ns = mine.total_ns.saturating_add(theirs.total_ns);
            if mine.steps.len() < theirs.steps.len() {
                mine.steps.resize_with(theirs.steps.len(), Step::default);
            }
            for (mine, theirs) in mine.steps.iter_mut().zip(theirs.steps) {
                mine.merge(theirs);
            }
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sample::{call, fold};

    #[test]
    fn rows_cover_all_latencies() {
        assert_eq!((row(0), row(15), row(16), row(23), row(24)), (0, 0, 0, 0, 1));
        assert_eq!(row(u64::MAX), ROWS - 1);
        for place in 1..ROWS {
            assert_eq!(row(from_ns(place)), place);
            assert_eq!(row(from_ns(place) - 1), place - 1);
        }
    }

    #[test]
    fn calls_stand_where_they_began() {
        let calls = [
            call("read", &[0, 0, 1], 1).lasts(100),
            call("fsync", &[0], 0).lasts(5000),
            call("read", &[0, 0, 1], 1).lasts(100),
            call("read", &[0, 0, 1], 1).never(),
        ];
        let whole = fold(Heat::new(1000), &calls).finish();
        let mut apart = fold(Heat::new(1000), &calls[..0]);
        apart.merge(fold(Heat::new(1000), &calls));
        let (fsync, reads) = (&whole[0].1, &whole[1].1);
        assert_eq!(fsync.steps[2].rows[row(5000)], 1);
        let began: Vec<u64> = reads.steps.iter().map(|step| step.calls).collect();
        assert_eq!(began, [0, 1, 0, 0, 0, 0, 0, 0, 1, 1]);
        assert_eq!(reads.steps[9].rows.len(), 0);
        assert_eq!(apart.finish()[1].1.steps, reads.steps);
    }

    #[test]
    fn hostile_times_are_bounded() {
        let calls = [call("read", &[0, 0, 1], 1).lasts(u64::MAX / 2), call("getppid", &[], 1)];
        let pictures = fold(Heat::new(1), &calls).finish();
        assert!(pictures.iter().all(|(_, picture)| picture.steps.len() == STEPS_MAX));
    }
}
