//! Collects all numbers of a page.

use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::panic::resume_unwind;
use std::thread;

use model::mounts::Mounts;
use model::{Conditions, Stored, Unread};
use stats::activity::WallTime;
use stats::calls::{self, Calls};
use stats::durability::{self, Durability};
use stats::files::{self, Files};
use stats::flame::{Flame, Shown};
use stats::heat::{Heat, Picture};
use stats::lanes::{Lane, Lanes};
use stats::network::{Connections, Network};
use stats::offsets::{Offsets, Plot};
use stats::pass::{self, Fold, Occasion, Visit, Watch};
use stats::patterns::{Finding, Patterns};
use stats::slowest::{Slow, Slowest};
use stats::spread::{self, Of, Spread};
use stats::steps;
use stats::tasks::{self, Tasks};
use stats::timeline::{self, Timeline};
use trace::Trace;

use crate::kernel::{self, KernelNumbers, KernelPass};

/// Limit for the time steps of charts.
const STEPS: u64 = 240;
/// Limit for the files with an access plot; those with most bytes are chosen.
const PLOTS_MAX: usize = 120;
/// Number of calls that are shown one by one: those that took longest.
const SLOWEST: usize = 1000;
/// Limit for the counting threads: each has its own statistics in memory.
const WORKERS_MAX: usize = 4;

/// All numbers of a page.
pub struct Gathered {
    /// Time from the start to the last known event.
    pub span_ns: u64,
    /// Width of a time step.
    pub interval_ns: u64,
    /// View of `stat calls`.
    pub calls: calls::CallCounts,
    /// View of `stat sizes`.
    pub sizes: spread::Spreads,
    /// View of `stat latency`.
    pub latency: spread::Spreads,
    /// View of `stat time`.
    pub time: timeline::Steps,
    /// View of `stat processes` and `stat threads`.
    pub tasks: tasks::TaskCounts,
    /// View of `stat files`.
    pub files: files::FileCounts,
    /// View of `stat durability`.
    pub durability: durability::SafetyOfFiles,
    /// What the time of the run went to.
    pub wall: WallTime,
    /// Findings of `stat patterns`, in order.
    pub findings: Vec<Finding>,
    /// How to learn more of them, if there is more.
    pub hint: Option<&'static str>,
    /// Latency over time, by call number.
    pub heat: Vec<(u16, Picture)>,
    /// Activity of threads over time, by thread number.
    pub lanes: BTreeMap<u32, Lane>,
    /// Access plots, each with the index of its file in `files`.
    pub plots: Vec<(usize, Plot)>,
    /// What the kernel's events tell, if there are any.
    pub kernel: Option<KernelNumbers>,
    /// The calls that took longest.
    pub slowest: Vec<Slow>,
    /// View of `stat network`.
    pub network: Connections,
    /// Name of the trace in commands to paste.
    pub name: String,
    /// Time in calls by their callers, if those were recorded.
    pub flame: Option<Shown>,
    /// Blocks that could not be read.
    pub unread: Unread,
}

/// What a page is to have besides what every page has.
#[derive(Clone, Debug, Default)]
pub struct Wanted {
    /// Ranges of time in detail.
    pub details: Vec<(u64, u64)>,
    /// Name of the trace in commands to paste.
    pub name: String,
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

/// All statistics that need the events in order.
struct InOrder {
    files: Files,
    durability: Durability,
    patterns: Patterns,
    offsets: Offsets,
    lanes: Lanes,
    kernel: Option<KernelPass>,
    slowest: Slowest,
    network: Network,
    flame: Flame,
}

impl InOrder {
    fn new(trace: &Trace, span_ns: u64, interval_ns: u64) -> InOrder {
        InOrder {
            files: Files::over_time(Mounts::parse(&trace.preamble().mounts), interval_ns),
            durability: Durability::new(interval_ns),
            patterns: Patterns::of_chosen(&Conditions::default(), trace),
            offsets: Offsets::of_all(interval_ns),
            lanes: Lanes::new(interval_ns),
            kernel: KernelPass::new(trace, span_ns),
            slowest: Slowest::new(SLOWEST),
            network: Network::default(),
            flame: Flame::default(),
        }
    }
}

impl Watch for InOrder {
    fn add(&mut self, visit: &mut Visit<'_>) {
        self.files.add(visit);
        self.durability.add(visit);
        self.patterns.add(visit);
        self.offsets.add(visit);
        self.lanes.add(visit);
        self.slowest.add(visit);
        self.network.add(visit);
        self.flame.add(visit.moment, visit.wanted, visit.contents);
        if let Some(kernel) = &mut self.kernel {
            kernel.add(visit);
        }
    }
}

/// Makes two passes over the trace at the same time: one in order, one over all blocks. Where there are
/// events of the kernel, another one follows, for what is shown in detail.
pub fn gather(trace: &Trace, wanted: &Wanted) -> Gathered {
    let span_ns = span_ns(trace);
    let interval_ns = steps::interval_for(span_ns, STEPS);
    // One core is for the pass in order.
    let cores = thread::available_parallelism().map_or(1, usize::from);
    let workers = cores.saturating_sub(1).clamp(1, WORKERS_MAX);
    let mut in_order = InOrder::new(trace, span_ns, interval_ns);
    let (counted, (namespace, unread)) = thread::scope(|scope| {
        let count = || pass::in_parallel(trace, workers, &|| Counts::new(interval_ns), &|_| true);
        let counting = scope.spawn(count);
        let passed = pass::in_order(trace, &Conditions::default(), &mut in_order);
        (counting.join().unwrap_or_else(|panic| resume_unwind(panic)), passed)
    });
    let (counts, mut all_unread) = counted;
    all_unread.left_out = unread.left_out;
    let files = in_order.files.finish(&namespace);
    let durability = in_order.durability.finish(&namespace);
    let (wall, findings, hint) = in_order.patterns.finish(&namespace, &durability);
    let plots = plots(trace, interval_ns, &files, in_order.offsets);
    let kernel = kernel::finish(trace, in_order.kernel, &wanted.details, &wanted.name);
    Gathered {
        span_ns,
        interval_ns,
        calls: counts.calls.finish(),
        sizes: counts.sizes.finish(),
        latency: counts.latency.finish(),
        time: counts.time.finish(),
        tasks: counts.tasks.finish(&mut Stored(trace)),
        files,
        durability,
        wall,
        findings,
        hint,
        heat: counts.heat.finish(),
        lanes: in_order.lanes.finish(),
        plots,
        kernel,
        slowest: in_order.slowest.finish(&namespace),
        network: in_order.network.finish(),
        name: if wanted.name.is_empty() { "TRACE".into() } else { wanted.name.clone() },
        flame: in_order.flame.finish(),
        unread: all_unread,
    }
}

/// Returns the access plots of the busiest files, each with the index of its file. Where there is
/// too much of all files to keep it, the trace is read again for these alone.
fn plots(
    trace: &Trace,
    interval_ns: u64,
    files: &files::FileCounts,
    offsets: Offsets,
) -> Vec<(usize, Plot)> {
    let mut busiest: Vec<usize> =
        (0..files.files.len()).filter(|place| files.files[*place].0.is_stored).collect();
    busiest.sort_by_key(|place| Reverse(moved_bytes(files, *place)));
    busiest.retain(|place| moved_bytes(files, *place) > 0);
    busiest.truncate(PLOTS_MAX);
    let ids = |place: usize| files.files[place].0.ids();
    let mut plots = offsets.finish().unwrap_or_else(|| {
        let wanted = busiest.iter().flat_map(|place| ids(*place));
        let mut offsets = Offsets::of(interval_ns, wanted);
        pass::in_order(trace, &Conditions::default(), &mut offsets);
        offsets.finish().unwrap_or_default()
    });
    busiest.into_iter().map(|place| (place, plots.take(ids(place)))).collect()
}

/// Returns the number of bytes read from and written to a file.
pub fn moved_bytes(files: &files::FileCounts, place: usize) -> u64 {
    let used = &files.files[place].1;
    used.read_bytes.saturating_add(used.write_bytes)
}

fn span_ns(trace: &Trace) -> u64 {
    let heads = trace.blocks().iter().map(|head| head.last_tsc);
    let ends = trace.totals().map(|totals| totals.end_tsc);
    model::clock(trace)(heads.chain(ends).max().unwrap_or(0))
}
