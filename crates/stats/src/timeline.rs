//! Activity over time, in steps of equal width.

use model::file_use;
use syscalls::shape::Classes;

use crate::histogram::Histogram;
use crate::pass::{Fold, Occasion};
use crate::sheet::{Cell, Fact, Sheet, Table, ratio};
use crate::steps::STEPS_MAX;
use crate::view::ViewRow;

/// Characters of a line that shows a shape.
const SPARKS_MAX: usize = 60;

/// The view.
pub static VIEW: ViewRow = ViewRow {
    name: "time",
    about: "Calls, bytes and latency over time",
    look: |look| {
        let interval_ns = look.interval()?;
        Ok(look.fold(|| Timeline::new(interval_ns), |fold| fold.finish().sheet()))
    },
};

/// Activity within one step. Calls count in the step in which they begin.
#[derive(Clone, Debug, Default)]
pub struct Step {
    /// Number of calls.
    pub calls: u64,
    /// Number of failed calls.
    pub errors: u64,
    /// Bytes read.
    pub read_bytes: u64,
    /// Bytes written.
    pub write_bytes: u64,
    /// Durations of the calls.
    pub latency: Histogram,
    /// Time within the step spent in calls, summed over all threads.
    pub busy_ns: u64,
    /// Change of the number of calls that are in flight for a whole step, from the previous step to
    /// this one.
    whole: i64,
}

/// The fold that collects steps.
#[derive(Clone, Debug)]
pub struct Timeline {
    interval_ns: u64,
    steps: Vec<Step>,
}

impl Timeline {
    /// Makes steps of this width. Events after [`STEPS_MAX`] steps count in the last one.
    pub fn new(interval_ns: u64) -> Timeline {
        Timeline { interval_ns: interval_ns.max(1), steps: Vec::new() }
    }

    fn index(&self, ns: u64) -> usize {
        (ns / self.interval_ns).min(STEPS_MAX - 1) as usize
    }

    fn step(&mut self, index: usize) -> &mut Step {
        if index >= self.steps.len() {
            self.steps.resize_with(index + 1, Step::default);
        }
        &mut self.steps[index]
    }

    /// Distributes the duration of a call over the steps that it overlaps.
    fn busy(&mut self, from_ns: u64, to_ns: u64) {
        let (first, last) = (self.index(from_ns), self.index(to_ns));
        let start_of = |index: usize| index as u64 * self.interval_ns;
        if first == last {
            let step = self.step(last);
            step.busy_ns = step.busy_ns.saturating_add(to_ns - from_ns);
            return;
        }
        let (head_ns, tail_ns) = (start_of(first + 1) - from_ns, to_ns - start_of(last));
        for (index, ns) in [(last, tail_ns), (first, head_ns)] {
            let step = self.step(index);
            step.busy_ns = step.busy_ns.saturating_add(ns);
        }
        // The steps between are busy all the time: record only where they begin and end.
        self.step(first + 1).whole += 1;
        self.step(last).whole -= 1;
    }

    /// Returns the result.
    pub fn finish(mut self) -> Steps {
        let mut whole = 0;
        for step in &mut self.steps {
            whole += std::mem::take(&mut step.whole);
            let ns = whole.unsigned_abs().saturating_mul(self.interval_ns);
            step.busy_ns = step.busy_ns.saturating_add(ns);
        }
        Steps { interval_ns: self.interval_ns, steps: self.steps }
    }
}

impl Fold for Timeline {
    fn add(&mut self, occasion: &Occasion<'_>) {
        let Some(call) = occasion.call() else { return };
        let index = self.index(occasion.enter_ns);
        let used = file_use::of(call.nr);
        let bytes = used.moved(call).unwrap_or(0);
        let step = self.step(index);
        step.calls += 1;
        step.errors += u64::from(call.error().is_some());
        if used.is(Classes::READ) {
            step.read_bytes = step.read_bytes.saturating_add(bytes);
        }
        if used.is(Classes::WRITE) {
            step.write_bytes = step.write_bytes.saturating_add(bytes);
        }
        if let Some(ns) = occasion.duration_ns() {
            step.latency.add(ns);
            let from_ns = occasion.submitted_ns.unwrap_or(occasion.enter_ns);
            self.busy(from_ns, from_ns.saturating_add(ns));
        }
    }

    fn merge(&mut self, other: Timeline) {
        for (index, theirs) in other.steps.into_iter().enumerate() {
            let mine = self.step(index);
            mine.calls += theirs.calls;
            mine.errors += theirs.errors;
            mine.read_bytes = mine.read_bytes.saturating_add(theirs.read_bytes);
            mine.write_bytes = mine.write_bytes.saturating_add(theirs.write_bytes);
            mine.latency.merge(&theirs.latency);
            mine.busy_ns = mine.busy_ns.saturating_add(theirs.busy_ns);
            mine.whole += theirs.whole;
        }
    }
}

/// Activity over time.
#[derive(Clone, Debug)]
pub struct Steps {
    /// Width of a step.
    pub interval_ns: u64,
    /// Consecutive steps from the start of the recording.
    pub steps: Vec<Step>,
}

impl Steps {
    /// Returns the result as a table.
    pub fn sheet(&self) -> Sheet {
        let mut table = Table::new(
            "steps",
            "Over time",
            &[
                ("start_ns", "from"),
                ("calls", "calls"),
                ("calls_per_s", "calls/s"),
                ("", " "),
                ("errors", "errors"),
                ("read_bytes", "read"),
                ("write_bytes", "written"),
                ("read_bytes_per_s", "read/s"),
                ("write_bytes_per_s", "written/s"),
                ("in_flight", "in flight"),
                ("p50_ns", "p50"),
                ("p99_ns", "p99"),
                ("max_ns", "max"),
            ],
        )
        .further(&[
            "calls_per_s",
            "errors",
            "read_bytes_per_s",
            "write_bytes_per_s",
            "p50_ns",
            "max_ns",
        ]);
        table.fixed = true;
        let seconds = self.interval_ns as f64 / 1e9;
        let per_second = |n: u64| n as f64 / seconds;
        let most = self.steps.iter().map(|step| step.calls).max().unwrap_or(0);
        for (index, step) in self.steps.iter().enumerate() {
            table.row(vec![
                Cell::At(index as u64 * self.interval_ns),
                Cell::Count(step.calls),
                Cell::Count(per_second(step.calls).round() as u64),
                Cell::Bar(ratio(step.calls, most)),
                Cell::Count(step.errors),
                Cell::Bytes(step.read_bytes),
                Cell::Bytes(step.write_bytes),
                Cell::Bytes(per_second(step.read_bytes).round() as u64),
                Cell::Bytes(per_second(step.write_bytes).round() as u64),
                Cell::Number(ratio(step.busy_ns, self.interval_ns)),
                step.latency.ns(|latency| latency.quantile(0.5)),
                step.latency.ns(|latency| latency.quantile(0.99)),
                step.latency.ns(|latency| latency.max),
            ]);
        }
        let calls = self.steps.iter().map(|step| step.calls).sum();
        let fact = |key, title, value| Fact { key, title, value };
        let mut facts = vec![
            fact("count", "calls", Cell::Count(calls)),
            fact("interval_ns", "each row", Cell::Ns(self.interval_ns)),
        ];
        let mut line = |title, of: fn(&Step) -> u64| {
            let values: Vec<u64> = self.steps.iter().map(of).collect();
            // A line alone shows a shape; the numbers of JSON are in the rows.
            facts.extend(sparkline(&values).map(|line| fact("", title, Cell::Word(line.into()))));
        };
        line("calls/s", |step| step.calls);
        line("read/s", |step| step.read_bytes);
        line("written/s", |step| step.write_bytes);
        line("longest call", |step| step.latency.max);
        let notes = vec![
            "Calls, bytes and times count where the call began; in flight is the mean number of \
             calls in flight."
                .into(),
        ];
        Sheet { facts, tables: vec![table], notes }
    }
}

/// Draws values as a line of blocks, each as high as the greatest of its values; none for a flat line.
fn sparkline(values: &[u64]) -> Option<String> {
    const BLOCKS: [char; 9] = [' ', '▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];
    let most = *values.iter().max()?;
    if most == 0 || values.len() < 2 {
        return None;
    }
    let each = values.len().div_ceil(SPARKS_MAX);
    let height = |part: &[u64]| {
        let value = part.iter().copied().max().unwrap_or(0);
        // What is more than nothing is seen.
        let height = (ratio(value, most) * (BLOCKS.len() - 1) as f64).round() as usize;
        BLOCKS[if value > 0 { height.max(1) } else { 0 }]
    };
    Some(values.chunks(each).map(height).collect())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sample::{call, fold};

    #[test]
    fn calls_count_where_they_begin_and_are_busy_where_they_last() {
        // The calls begin at 1000, 2000 and 7500 ns.
        let calls = [
            call("write", &[1, 0, 10], 10),
            call("read", &[1, 0, 10], 5).lasts(4500),
            call("read", &[1, 0, 10], -4).never(),
        ];
        let view = fold(Timeline::new(2000), &calls).finish();
        let counts: Vec<u64> = view.steps.iter().map(|step| step.calls).collect();
        assert_eq!(counts, [1, 1, 0, 1]);
        let busy: Vec<u64> = view.steps.iter().map(|step| step.busy_ns).collect();
        assert_eq!(busy, [0, 2000, 2000, 500]);
        assert_eq!((view.steps[0].write_bytes, view.steps[1].read_bytes), (10, 5));
    }

    #[test]
    fn a_line_shows_the_shape() {
        assert_eq!(sparkline(&[0, 1, 50, 100]).as_deref(), Some(" ▁▄█"));
        assert_eq!(sparkline(&[0, 0]), None);
        assert_eq!(sparkline(&[7]), None);
        let long: Vec<u64> = (0..10_000).collect();
        assert!(sparkline(&long).is_some_and(|line| line.chars().count() <= SPARKS_MAX));
    }

    #[test]
    fn hostile_times_are_bounded() {
        let calls = [call("read", &[0, 0, 1], 1).lasts(u64::MAX / 2), call("getppid", &[], 1)];
        let view = fold(Timeline::new(1), &calls).finish();
        assert_eq!(view.steps.len() as u64, STEPS_MAX);
        assert_eq!(view.steps.iter().map(|step| step.calls).sum::<u64>(), 2);
    }
}
