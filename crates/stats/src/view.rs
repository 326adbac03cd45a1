//! Vocabulary of the table of views: what a view is, and what it may do to look at a trace.

use model::kernel_tasks::Missing;
use model::scheduling::Scheduling;
use model::{Conditions, Namespace, Unread, clock};
use trace::Trace;

use crate::pass::{self, Fold, Watch};
use crate::sheet::{Cell, Fact, Sheet};
pub use crate::steps::STEPS_MAX;
use crate::steps::fitting_interval;

/// Key of the fact that says what a view needs and the recording does not have.
pub const MISSING: &str = "missing";
const NO_KERNEL_EVENTS: &str =
    "This recording has no events of the kernel: `reenact record --kernel` has them.";

/// A view of `reenact stat`: a row of the table.
pub struct ViewRow {
    /// Its name.
    pub name: &'static str,
    /// What it shows, for the list of views.
    pub about: &'static str,
    /// Makes a pass over a trace and lays out what it found.
    pub look: fn(&Look<'_>) -> Result<(Sheet, Unread), TooManySteps>,
}

/// A trace, and what is wanted of it.
pub struct Look<'a> {
    /// The trace.
    pub trace: &'a Trace,
    /// What events count.
    pub conditions: &'a Conditions,
    /// Requested width of the steps in which time is cut.
    pub interval_ns: Option<u64>,
}

/// The requested steps are none, or too many for the recording.
#[derive(Clone, Copy, Debug)]
pub struct TooManySteps {
    /// Requested width.
    pub interval_ns: u64,
    /// Length of the recording.
    pub span_ns: u64,
}

impl Look<'_> {
    /// Returns the requested width of steps, or a fitting one.
    pub fn interval(&self) -> Result<u64, TooManySteps> {
        let clock = clock(self.trace);
        let heads = self.trace.blocks().iter().map(|head| head.first_tsc);
        let ends = self.trace.totals().map(|totals| totals.end_tsc);
        let span_ns = clock(heads.chain(ends).max().unwrap_or(0));
        match self.interval_ns {
            None => Ok(fitting_interval(span_ns)),
            Some(interval_ns) if interval_ns == 0 || span_ns / interval_ns >= STEPS_MAX => {
                Err(TooManySteps { interval_ns, span_ns })
            }
            Some(interval_ns) => Ok(interval_ns),
        }
    }

    /// Makes a parallel pass, or an ordered one if the conditions need it.
    pub fn fold<F: Fold>(
        &self,
        make: impl Fn() -> F + Sync,
        finish: impl FnOnce(F) -> Sheet,
    ) -> (Sheet, Unread) {
        let (fold, unread) = self.folded(make);
        (finish(fold), unread)
    }

    fn folded<F: Fold>(&self, make: impl Fn() -> F + Sync) -> (F, Unread) {
        if self.conditions.needs_world() {
            return pass::fold_in_order(self.trace, self.conditions, make());
        }
        let accept = |occasion: &pass::Occasion<'_>| self.accepts_alone(occasion);
        pass::in_parallel(self.trace, workers(), &make, &accept)
    }

    /// Checks the conditions that can be told without the world.
    fn accepts_alone(&self, occasion: &pass::Occasion<'_>) -> bool {
        self.conditions.accepts_time(occasion.enter_ns)
            && occasion
                .call()
                .is_none_or(|call| self.conditions.accepts_alone(call, occasion.duration_ns()))
    }

    /// Makes a pass, in order if `watch` is to see all events too: it does where the conditions choose
    /// whole processes and threads, or there are none.
    pub fn fold_and_watch<F: Fold, W: Watch>(
        &self,
        make: impl Fn() -> F + Sync,
        mut watch: W,
    ) -> ((F, Unread), Option<W>) {
        if !self.conditions.only_choose_tasks() {
            return (self.folded(make), None);
        }
        let folded = pass::fold_and_watch(self.trace, self.conditions, make(), &mut watch);
        (folded, Some(watch))
    }

    /// Makes an ordered pass: then what threads computed between calls is known.
    pub fn fold_in_order<F: Fold>(
        &self,
        fold: F,
        finish: impl FnOnce(F) -> Sheet,
    ) -> (Sheet, Unread) {
        let (fold, unread) = pass::fold_in_order(self.trace, self.conditions, fold);
        (finish(fold), unread)
    }

    /// Says so where what was found is of the kernel's events, and there are none: then the numbers are
    /// not known, which is not zero.
    pub fn of_kernel(&self, (mut sheet, unread): (Sheet, Unread)) -> (Sheet, Unread) {
        if model::kernel_layouts(self.trace).iter().next().is_none() {
            for fact in &mut sheet.facts {
                (fact.title, fact.value) = ("", Cell::Nothing);
            }
            sheet.tables.iter_mut().for_each(|table| table.rows.clear());
            sheet.facts.push(Fact { key: MISSING, title: "", value: Cell::word(NO_KERNEL_EVENTS) });
            sheet.notes = vec![NO_KERNEL_EVENTS.into()];
        }
        (sheet, unread)
    }

    /// Makes a pass in order.
    pub fn watch<W: Watch>(
        &self,
        mut watch: W,
        finish: impl FnOnce(W, &Namespace) -> Sheet,
    ) -> (Sheet, Unread) {
        let (files, unread) = pass::in_order(self.trace, self.conditions, &mut watch);
        (finish(watch, &files), unread)
    }
}

/// Says so where what threads did is not known.
pub fn without_switches(scheduling: &Scheduling) -> Option<String> {
    // Where there is nothing at all, that is said instead.
    scheduling.scope()?;
    match scheduling.missing() {
        Missing::Nothing => None,
        Missing::OtherCpus => Some(
            "Only some CPUs were recorded: what threads did is known while these ran them.".into(),
        ),
        Missing::Switches => Some(
            "Not all switches of threads are in this recording (`--kernel=sched` has them): what \
             threads did between two events is not known."
                .into(),
        ),
    }
}

fn workers() -> usize {
    std::thread::available_parallelism().map_or(1, usize::from)
}
