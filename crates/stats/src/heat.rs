//! Calls over time: a heat map of latency per call, and for each step what `stat calls` sums up of it.

use model::file_use;
use trace::event::Outcome;

use crate::numbered::Numbered;
use crate::pass::{Fold, Occasion};

/// Limit for the time steps; later events count in the last one.
pub const STEPS_MAX: usize = 512;
/// Logarithms of the lowest and the highest latency with rows of their own, in nanoseconds.
const LOW_SHIFT: u32 = 4;
const HIGH_SHIFT: u32 = 40;
/// Number of rows of a picture, two per octave.
pub const ROWS: usize = 2 * (HIGH_SHIFT - LOW_SHIFT) as usize;

/// Errors of a step that are told apart; others count as 0.
const ERRORS_MAX: usize = 64;

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
    /// Time spent in them.
    pub total_ns: u64,
    /// The longest one.
    pub max_ns: u64,
    /// Number of calls that did not return.
    pub unfinished: u64,
    /// Bytes that they moved.
    pub bytes: u64,
    /// Number of calls that moved data: by nothing, 1 byte, 2 or 3, 4 to 7 and so on.
    pub sizes: Vec<u32>,
    /// Errors with their number.
    pub errors: Vec<(i32, u64)>,
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

/// Adds to the count of a row.
fn count(rows: &mut Vec<u32>, row: usize, more: u32) {
    if rows.len() <= row {
        rows.resize(row + 1, 0);
    }
    rows[row] = rows[row].saturating_add(more);
}

impl Step {
    fn merge(&mut self, other: Step) {
        self.calls += other.calls;
        self.total_ns = self.total_ns.saturating_add(other.total_ns);
        self.max_ns = self.max_ns.max(other.max_ns);
        self.unfinished += other.unfinished;
        self.bytes = self.bytes.saturating_add(other.bytes);
        for (mine, theirs) in [(&mut self.rows, other.rows), (&mut self.sizes, other.sizes)] {
            theirs.into_iter().enumerate().for_each(|(row, more)| count(mine, row, more));
        }
        other.errors.into_iter().for_each(|(errno, more)| self.failed(errno, more));
    }

    fn failed(&mut self, errno: i32, more: u64) {
        let known = self.errors.iter().position(|(of, _)| *of == errno);
        let is_full = known.is_none() && self.errors.len() >= ERRORS_MAX;
        let others = || self.errors.iter().position(|(of, _)| *of == 0);
        match known.or_else(|| others().filter(|_| is_full)) {
            Some(at) => self.errors[at].1 += more,
            None => self.errors.push((if is_full { 0 } else { errno }, more)),
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
        step.unfinished += u64::from(call.outcome == Outcome::Unfinished);
        if let Some(ns) = occasion.duration_ns() {
            picture.total_ns = picture.total_ns.saturating_add(ns);
            step.total_ns = step.total_ns.saturating_add(ns);
            step.max_ns = step.max_ns.max(ns);
            count(&mut step.rows, row(ns), 1);
        }
        if let Some(bytes) = file_use::of(call.nr).moved(call) {
            step.bytes = step.bytes.saturating_add(bytes);
            count(&mut step.sizes, bytes.checked_ilog2().map_or(0, |at| at as usize + 1), 1);
        }
        if let Some(errno) = call.error() {
            step.failed(errno, 1);
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
    fn steps_have_the_sums_of_calls() {
        let mut calls = vec![
            call("read", &[0, 0, 9], 9).lasts(100),
            call("read", &[0, 0, 9], 0).lasts(300),
            call("read", &[0, 0, 9], -4).never(),
        ];
        calls.extend((1..=100).map(|errno| call("read", &[0, 0, 9], -errno)));
        let mut all = fold(Heat::new(u64::MAX), &calls);
        all.merge(fold(Heat::new(u64::MAX), &calls));
        let step = &all.finish()[0].1.steps[0];
        assert_eq!((step.calls, step.bytes, step.unfinished), (206, 18, 2));
        assert_eq!((step.total_ns, step.max_ns, &step.sizes[..]), (800, 300, &[2, 0, 0, 0, 2][..]));
        assert_eq!(step.errors.iter().map(|(_, count)| count).sum::<u64>(), 200);
        assert!(step.errors.len() <= ERRORS_MAX + 1 && step.errors.contains(&(7, 2)));
    }

    #[test]
    fn hostile_times_are_bounded() {
        let calls = [call("read", &[0, 0, 1], 1).lasts(u64::MAX / 2), call("getppid", &[], 1)];
        let pictures = fold(Heat::new(1), &calls).finish();
        assert!(pictures.iter().all(|(_, picture)| picture.steps.len() == STEPS_MAX));
    }
}
