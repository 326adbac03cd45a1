//! Collects all numbers of a report in a few passes over the trace.

use std::collections::BTreeMap;
use std::thread;

use model::mounts::Mounts;
use stats::calls::{self, Calls};
use stats::durability::{self, Durability};
use stats::files::{self, Files};
use stats::heat::{Heat, Picture};
use stats::lanes::{Lane, Lanes};
use stats::offsets::{Offsets, Plot};
use stats::pass::{self, Fold, Occasion, Unread, Watch};
use stats::patterns::{Finding, Patterns};
use stats::spread::{self, Of, Spread};
use stats::tasks::{self, Tasks};
use stats::timeline::{self, Timeline};
use trace::Trace;

use crate::source;

/// Limit for the time steps of charts.
const STEPS: u64 = 240;
/// Limit for the files with an access plot; those with most bytes are chosen.
const PLOTS_MAX: usize = 120;
/// Limit for the counting threads: each has its own statistics in memory.
const WORKERS_MAX: usize = 4;

/// All numbers of a report.
pub struct Gathered {
    /// Time from the start to the last known event.
    pub span_ns: u64,
    /// Width of a time step.
    pub interval_ns: u64,
    /// View of `stat calls`.
    pub calls: calls::View,
    /// View of `stat sizes`.
    pub sizes: spread::View,
    /// View of `stat latency`.
    pub latency: spread::View,
    /// View of `stat time`.
    pub time: timeline::View,
    /// View of `stat processes` and `stat threads`.
    pub tasks: tasks::View,
    /// View of `stat files`.
    pub files: files::View,
    /// View of `stat durability`.
    pub durability: durability::View,
    /// Findings of `stat patterns`.
    pub findings: Vec<Finding>,
    /// Latency over time, by call number.
    pub heat: Vec<(u16, Picture)>,
    /// Activity of threads over time, by thread number.
    pub lanes: BTreeMap<u32, Lane>,
    /// Access plots, each with the index of its file in `files`.
    pub plots: Vec<(usize, Plot)>,
    /// Blocks that could not be read.
    pub unread: Unread,
}

impl Gathered {
    /// Returns the number of calls in the trace.
    pub fn calls(&self) -> u64 {
        self.calls.calls.iter().map(|(_, of)| of.count).sum()
    }
}

/// All statistics that do not depend on the order of events.
struct Counts {
    calls: Calls,
    sizes: Spread,
    latency: Spread,
    time: Timeline,
    tasks: Tasks,
    heat: Heat,
}

impl Counts {
    fn new(interval_ns: u64) -> Counts {
        Counts {
            calls: Calls::default(),
            sizes: Spread::new(Of::Sizes),
            latency: Spread::new(Of::Latency),
            time: Timeline::new(interval_ns),
            tasks: Tasks::default(),
            heat: Heat::new(interval_ns),
        }
    }
}

impl Fold for Counts {
    fn add(&mut self, occasion: &Occasion<'_>) {
        self.calls.add(occasion);
        self.sizes.add(occasion);
        self.latency.add(occasion);
        self.time.add(occasion);
        self.tasks.add(occasion);
        self.heat.add(occasion);
    }

    fn merge(&mut self, other: Counts) {
        self.calls.merge(other.calls);
        self.sizes.merge(other.sizes);
        self.latency.merge(other.latency);
        self.time.merge(other.time);
        self.tasks.merge(other.tasks);
        self.heat.merge(other.heat);
    }
}

/// Statistics collected in the same ordered pass: access plots and thread activity.
struct Places {
    offsets: Offsets,
    lanes: Lanes,
}

impl Watch for Places {
    fn add(
        &mut self,
        moment: &model::Moment<'_>,
        wanted: bool,
        contents: &mut dyn model::Contents,
    ) {
        self.offsets.add(moment, wanted, contents);
        self.lanes.add(moment, wanted, contents);
    }
}

/// Makes several passes over the trace, two of the ordered ones at a time.
pub fn gather(trace: &Trace) -> Gathered {
    let span_ns = span_ns(trace);
    let interval_ns = timeline::interval_for(span_ns, STEPS);
    let (about_files, safety) = thread::scope(|scope| {
        let about_files = scope.spawn(|| about_files(trace, interval_ns));
        let safety = scope.spawn(|| {
            let durability = watch(trace, Durability::new(interval_ns)).finish();
            (durability, watch(trace, Patterns::default()).finish())
        });
        (join(about_files), join(safety))
    });
    let AboutFiles { files, plots, lanes, left_out } = about_files;
    let (durability, findings) = safety;
    let workers = thread::available_parallelism().map_or(1, usize::from).min(WORKERS_MAX);
    let (counts, mut unread) =
        pass::in_parallel(trace, workers, &|| Counts::new(interval_ns), &|_| true);
    unread.left_out = left_out;
    Gathered {
        span_ns,
        interval_ns,
        calls: counts.calls.finish(),
        sizes: counts.sizes.finish(),
        latency: counts.latency.finish(),
        time: counts.time.finish(),
        tasks: counts.tasks.finish(&mut source::Stored(trace)),
        files,
        durability,
        findings,
        heat: counts.heat.finish(),
        lanes,
        plots,
        unread,
    }
}

fn join<T>(handle: thread::ScopedJoinHandle<'_, T>) -> T {
    handle.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
}

fn watch<W: Watch>(trace: &Trace, watch: W) -> W {
    watch_all(trace, watch).0
}

/// Makes an ordered pass. Also returns the number of descriptors and tasks not tracked.
fn watch_all<W: Watch>(trace: &Trace, mut watch: W) -> (W, u64) {
    let mut stored = source::Stored(trace);
    // Unreadable blocks are counted in the pass over all blocks.
    let unread = pass::in_order(trace, &mut stored, &mut watch, &|_| true, &|_| false);
    (watch, unread.left_out)
}

/// Results of two passes, the second of which depends on the first.
struct AboutFiles {
    files: files::View,
    plots: Vec<(usize, Plot)>,
    lanes: BTreeMap<u32, Lane>,
    /// Number of descriptors and tasks not tracked.
    left_out: u64,
}

/// Collects the files, and then the access plots of the busiest ones.
fn about_files(trace: &Trace, interval_ns: u64) -> AboutFiles {
    let files = Files::new(Mounts::parse(&trace.preamble().mounts));
    let (files, left_out) = watch_all(trace, files);
    let files = files.finish();
    let mut busiest: Vec<usize> =
        (0..files.files.len()).filter(|place| files.files[*place].0.is_stored).collect();
    busiest.sort_by_key(|place| std::cmp::Reverse(moved_bytes(&files, *place)));
    busiest.retain(|place| moved_bytes(&files, *place) > 0);
    busiest.truncate(PLOTS_MAX);
    let paths = busiest.iter().map(|place| files.files[*place].0.path.clone()).collect();
    let offsets = Offsets::new(interval_ns, paths);
    let places = watch(trace, Places { offsets, lanes: Lanes::new(interval_ns) });
    let plots = busiest.into_iter().zip(places.offsets.finish()).collect();
    AboutFiles { files, plots, lanes: places.lanes.finish(), left_out }
}

/// Returns the number of bytes read from and written to a file.
pub fn moved_bytes(files: &files::View, place: usize) -> u64 {
    let used = &files.files[place].1;
    used.read_bytes.saturating_add(used.write_bytes)
}

fn span_ns(trace: &Trace) -> u64 {
    let clock = source::clock(trace);
    let heads = trace.blocks().iter().map(|head| head.last_tsc);
    let ends = trace.totals().map(|totals| totals.end_tsc);
    clock(heads.chain(ends).max().unwrap_or(0))
}
