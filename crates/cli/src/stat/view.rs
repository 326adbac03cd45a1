//! The views of `reenact stat`.

use clap::ValueEnum;
use model::mounts::Mounts;
use model::{Conditions, Stored, Unread};
use render::amounts::show_time;
use stats::cache::Cache;
use stats::calls::Calls;
use stats::durability::Durability;
use stats::files::Files;
use stats::pass::{self, Fold};
use stats::patterns::Patterns;
use stats::sheet::Sheet;
use stats::spread::{Of, Spread};
use stats::tasks::Tasks;
use stats::timeline::{self, Timeline};
use stats::tracker::Tracker;
use trace::Trace;

use crate::failure::Failure;

/// What can be looked at.
#[derive(clap::ValueEnum, Clone, Copy, PartialEq, Eq, Debug)]
pub enum View {
    /// Each call: how often, errors, time, data
    Calls,
    /// Each file: opens, reads, writes, what was touched again, syncs; and directories and mounts
    Files,
    /// How much data a call moves, with a picture of each call
    Sizes,
    /// How long a call takes, with a picture of each call
    Latency,
    /// Calls, bytes and latency over time
    Time,
    /// The tree of processes: life, calls, data, time in calls and between
    Processes,
    /// The same of each thread
    Threads,
    /// Bytes written and not yet synced, per file and over time; renames without a sync
    Durability,
    /// What a performance consultant would look at first: findings with evidence and reasons
    Patterns,
    /// Working set over time, how soon data is used again, and what a cache of each size would miss
    Cache,
}

impl View {
    /// Parses the name of a view.
    pub fn parse(name: &str) -> Result<View, String> {
        View::from_str(name, false).map_err(|_| {
            let views = View::value_variants().iter().map(|view| view.name());
            let views: Vec<String> = views.collect();
            format!("'{}' is no view; there are {}", name.escape_debug(), views.join(", "))
        })
    }

    /// Returns the name.
    pub fn name(self) -> String {
        let value = self.to_possible_value();
        value.map(|value| value.get_name().to_string()).unwrap_or_default()
    }

    /// Returns the help text of the positional arguments.
    pub fn help() -> String {
        let mut text = String::from(
            "What to look at, if it is not `calls`, and the trace; `-` for standard input. Views:\n",
        );
        for value in View::value_variants().iter().filter_map(View::to_possible_value) {
            let about = value.get_help().map(ToString::to_string).unwrap_or_default();
            text.push_str(&format!("\n- {:<11} {about}", value.get_name()));
        }
        text
    }
}

/// Makes a pass over the trace and returns the view.
pub fn look(
    view: View,
    trace: &Trace,
    conditions: &Conditions,
    interval_ns: Option<u64>,
) -> Result<(Sheet, Unread), Failure> {
    let pass = Pass { trace, conditions };
    let mut stored = Stored(trace);
    Ok(match view {
        View::Calls => pass.fold(Calls::default, |fold| fold.finish().sheet()),
        View::Files => {
            let files = Files::new(Mounts::parse(&trace.preamble().mounts));
            pass.watch(files, |fold, files| fold.finish(files).sheet())
        }
        View::Sizes => pass.fold(|| Spread::new(Of::Sizes), |fold| fold.finish().sheet()),
        View::Latency => pass.fold(|| Spread::new(Of::Latency), |fold| fold.finish().sheet()),
        View::Time => {
            let interval_ns = interval(trace, interval_ns)?;
            pass.fold(|| Timeline::new(interval_ns), |fold| fold.finish().sheet())
        }
        View::Processes => {
            pass.fold(Tasks::default, |fold| fold.finish(&mut stored).processes_sheet())
        }
        View::Threads => pass.fold(Tasks::default, |fold| fold.finish(&mut stored).threads_sheet()),
        View::Durability => {
            let durability = Durability::new(interval(trace, interval_ns)?);
            pass.watch(durability, |fold, files| fold.finish(files).sheet())
        }
        View::Patterns => pass
            .watch(Patterns::default(), |fold, files| stats::patterns::sheet(&fold.finish(files))),
        View::Cache => {
            let cache = Cache::new(interval(trace, interval_ns)?);
            pass.watch(cache, |fold, _| fold.finish().sheet())
        }
    })
}

/// Returns the requested width of steps, or a fitting one. Fails if there would be too many steps.
fn interval(trace: &Trace, wanted_ns: Option<u64>) -> Result<u64, Failure> {
    let clock = model::clock(trace);
    let heads = trace.blocks().iter().map(|head| head.first_tsc);
    let ends = trace.totals().map(|totals| totals.end_tsc);
    let span_ns = clock(heads.chain(ends).max().unwrap_or(0));
    let Some(wanted) = wanted_ns else { return Ok(timeline::fitting_interval(span_ns)) };
    if wanted == 0 || span_ns / wanted >= timeline::STEPS_MAX {
        return Err(Failure::Usage(format!(
            "--interval {}: the recording lasts {}, which would be more than {} steps",
            show_time(wanted),
            show_time(span_ns),
            timeline::STEPS_MAX
        )));
    }
    Ok(wanted)
}

struct Pass<'a> {
    trace: &'a Trace,
    conditions: &'a Conditions,
}

impl Pass<'_> {
    /// Makes a parallel pass, or an ordered one if the filter needs it.
    fn fold<F: Fold>(
        &self,
        make: impl Fn() -> F + Sync,
        finish: impl FnOnce(F) -> Sheet,
    ) -> (Sheet, Unread) {
        if self.conditions.needs_world() {
            let (fold, unread) = pass::fold_in_order(self.trace, self.conditions, make());
            return (finish(fold), unread);
        }
        let workers = std::thread::available_parallelism().map_or(1, usize::from);
        let accept = |occasion: &pass::Occasion<'_>| {
            self.conditions.accepts_time(occasion.enter_ns)
                && occasion.call().is_none_or(|call| {
                    self.conditions.accepts_alone(call, occasion.enter_ns, occasion.exit_ns)
                })
        };
        let (fold, unread) = pass::in_parallel(self.trace, workers, &make, &accept);
        (finish(fold), unread)
    }

    /// Makes a pass in order.
    fn watch<W: pass::Watch>(
        &self,
        mut watch: W,
        finish: impl FnOnce(W, &Tracker) -> Sheet,
    ) -> (Sheet, Unread) {
        let (files, unread) = pass::in_order(self.trace, self.conditions, &mut watch);
        (finish(watch, &files), unread)
    }
}
