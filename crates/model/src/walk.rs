//! One pass over a trace: every event in order, with the world around it.

use trace::event::EventKind;
use trace::{ReadError, Sequenced, Trace};

use crate::namespace::Namespace;
use crate::step::Step;
use crate::touch::{self, Touch};
use crate::user_time::UserTimes;
use crate::{Conditions, Contents, Moment, Stored, World};

/// Limit for the errors that are kept.
const ERRORS_MAX: usize = 100;

/// What a pass over a trace could not read or follow.
#[derive(Debug, Default)]
pub struct Unread {
    /// Number of blocks that could not be read.
    pub count: u64,
    /// The first errors.
    pub errors: Vec<ReadError>,
    /// Number of descriptors and tasks not tracked, see [`World::left_out`].
    pub left_out: u64,
}

impl Unread {
    /// Records an error.
    pub fn note(&mut self, error: ReadError) {
        self.count += 1;
        if self.errors.len() < ERRORS_MAX {
            self.errors.push(error);
        }
    }
}

/// Returns a trace's clock: nanoseconds since its start, 0 for earlier times.
pub fn clock(trace: &Trace) -> impl Fn(u64) -> u64 + '_ {
    |tsc| trace.ticks_to_ns(tsc).max(0).unsigned_abs()
}

/// A pass that is given its events one by one.
#[derive(Default)]
pub struct Walk {
    world: World,
    /// The files, if the walk follows them.
    files: Option<Namespace>,
    user_times: UserTimes,
    /// What an event of the kernel does to a world and to files.
    nothing: (Step, Touch),
}

impl Walk {
    /// Makes a walk that also follows what calls do to files.
    pub fn following_files() -> Walk {
        Walk { files: Some(Namespace::default()), ..Walk::default() }
    }

    /// Ends the walk. Returns the files.
    pub fn into_files(self) -> Namespace {
        self.files.unwrap_or_default()
    }

    /// Passes the next event to `visit`, with the world as the event began.
    pub fn event<T>(
        &mut self,
        next: &Sequenced,
        clock: &dyn Fn(u64) -> u64,
        contents: &mut dyn Contents,
        visit: impl FnOnce(&Moment<'_>, &mut dyn Contents) -> T,
    ) -> T {
        if let EventKind::Kernel(kernel) = &next.event.kind {
            self.world.kernel_event(kernel);
            return self.kernel_event(next, clock, contents, visit);
        }
        let step = self.world.step(&next.event, contents);
        let (world, event) = (&self.world, &next.event);
        let touch = match &mut self.files {
            Some(files) => touch::of_event(event, world, &step, files, contents),
            None => Touch::default(),
        };
        let mut moment = Moment::new(next.seq, event, world, &step, clock);
        moment.user_ns = self.user_times.of(event, clock);
        if let Some(files) = &self.files {
            (moment.touch, moment.files) = (&touch, files);
        }
        let visited = visit(&moment, contents);
        self.world.finish(step);
        visited
    }

    /// Passes an event of the kernel: there may be a thousand for each call, and they change nothing.
    fn kernel_event<T>(
        &mut self,
        next: &Sequenced,
        clock: &dyn Fn(u64) -> u64,
        contents: &mut dyn Contents,
        visit: impl FnOnce(&Moment<'_>, &mut dyn Contents) -> T,
    ) -> T {
        self.world.comes_to(next.event.tsc);
        let (step, touch) = &mut self.nothing;
        step.thread = next.event.thread;
        let mut moment = Moment::new(next.seq, &next.event, &self.world, step, clock);
        if let Some(files) = &self.files {
            (moment.touch, moment.files) = (touch, files);
        }
        visit(&moment, contents)
    }

    /// Returns the number of descriptors and tasks not tracked.
    pub fn left_out(&self) -> u64 {
        self.world.left_out()
    }
}

/// Called for each event. The flag is true for events that meet the conditions; the others are
/// passed because state depends on them.
pub type Visitor<'a, E> = dyn FnMut(&Moment<'_>, bool, &mut dyn Contents) -> Result<(), E> + 'a;

/// Passes all events of a trace to `visit`, in order, up to the last one that may be wanted. Ends
/// early with the error that `visit` returns.
pub fn walk<E>(
    trace: &Trace,
    conditions: &Conditions,
    visit: &mut Visitor<'_, E>,
) -> Result<Unread, E> {
    pass(&mut Walk::default(), trace, conditions, visit)
}

/// The same, and follows what calls do to files. Also returns these.
pub fn walk_files<E>(
    trace: &Trace,
    conditions: &Conditions,
    visit: &mut Visitor<'_, E>,
) -> Result<(Namespace, Unread), E> {
    let mut walk = Walk::following_files();
    let unread = pass(&mut walk, trace, conditions, visit)?;
    Ok((walk.into_files(), unread))
}

fn pass<E>(
    walk: &mut Walk,
    trace: &Trace,
    conditions: &Conditions,
    visit: &mut Visitor<'_, E>,
) -> Result<Unread, E> {
    let (clock, mut stored) = (clock(trace), Stored(trace));
    let mut unread = Unread::default();
    let all = conditions.accepts_all();
    let mut cursor = trace.cursor();
    // The memory of one event serves all.
    let mut next = Sequenced::default();
    while let Some(read) = cursor.next_into(trace, &mut next) {
        if let Err(error) = read {
            unread.note(error);
            continue;
        }
        if conditions.is_over(clock(next.event.tsc)) {
            break;
        }
        walk.event(&next, &clock, &mut stored, |moment, contents| {
            visit(moment, all || conditions.accepts(moment), contents)
        })?;
    }
    unread.left_out = walk.left_out();
    Ok(unread)
}
