//! Where the time of a run went: at each moment, what its threads did, or what they all waited for.
//!
//! The time of a moment belongs in equal parts to the threads that work: compute, or are in calls that
//! are done for them. Only where none works, it belongs to what is waited for. So the parts sum up to
//! the time of the run, however many threads there are.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, HashMap};

use model::{Conditions, Moment, file_use};
use syscalls::Act;
use syscalls::shape::Classes;
use trace::event::{Call, EventKind};

use crate::pass::{Visit, Watch};
use crate::sheet::{Cell, Table, ratio};

/// What a thread does.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Activity {
    /// Between calls.
    Outside,
    /// Makes data durable.
    Sync,
    /// Reads files.
    Read,
    /// Writes files.
    Write,
    /// Submits asynchronous work and takes its results.
    Submit,
    /// Asks about files and changes them otherwise than by writing.
    Metadata,
    /// Makes, starts and ends processes.
    Spawn,
    /// Maps memory.
    Memory,
    /// In other calls.
    Other,
    /// The agent copies what a call gave.
    Recording,
    /// Waits for a lock or another thread.
    Lock,
    /// Waits at a pipe.
    Pipe,
    /// Waits for a peer.
    Network,
    /// Waits for a child.
    Child,
    /// Waits for events of several descriptors.
    Events,
    /// Waits for a terminal or another device.
    Device,
    /// Waits for a time, or a signal.
    Sleep,
}

/// All activities, with key and name.
pub const ACTIVITIES: [(Activity, &str, &str); 17] = [
    (Activity::Outside, "outside", "own code (between calls)"),
    (Activity::Sync, "sync", "sync"),
    (Activity::Read, "read", "reading files"),
    (Activity::Write, "write", "writing files"),
    (Activity::Submit, "submit", "asynchronous I/O"),
    (Activity::Metadata, "metadata", "names and attributes of files"),
    (Activity::Spawn, "spawn", "making processes"),
    (Activity::Memory, "memory", "mapping memory"),
    (Activity::Other, "other", "other calls"),
    (Activity::Recording, "recording", "being recorded"),
    (Activity::Lock, "lock", "waiting for locks and threads"),
    (Activity::Pipe, "pipe", "waiting at pipes"),
    (Activity::Network, "network", "waiting for the network"),
    (Activity::Child, "child", "waiting for children"),
    (Activity::Events, "events", "waiting for events"),
    (Activity::Device, "device", "waiting for devices"),
    (Activity::Sleep, "sleep", "sleeping"),
];

/// Number of activities.
pub const COUNT: usize = ACTIVITIES.len();
/// Number of ranks, see [`Activity::rank`].
const RANKS: usize = 4;
/// The activities of each rank: a bit each.
const OF_RANK: [u32; RANKS] = {
    let mut masks = [0; RANKS];
    let mut at = 0;
    while at < COUNT {
        masks[ACTIVITIES[at].0.rank()] |= 1 << at;
        at += 1;
    }
    masks
};
/// Call numbers whose time is kept for [`WallTime::most`]: those of the kernel.
const NUMBERS: usize = 512;
/// A call has at least this share of the time in calls of an activity to be named with it ...
const NAMED_SHARE: f64 = 0.15;
/// ... and is one of so many.
const NAMED_MAX: usize = 2;
/// Limit for the threads that are followed at a time.
const THREADS_MAX: usize = 1 << 16;

impl Activity {
    /// Returns its name for people.
    pub fn name(self) -> &'static str {
        ACTIVITIES[self as usize].2
    }

    /// Returns its key for programs.
    pub fn key(self) -> &'static str {
        ACTIVITIES[self as usize].1
    }

    /// Returns true if the thread does not work.
    pub const fn is_wait(self) -> bool {
        self as usize >= Activity::Lock as usize
    }

    /// Returns which activities explain others: work explains waits, waits for others those for the
    /// program's own threads, and moving data through a pipe waits for children.
    const fn rank(self) -> usize {
        match self {
            Activity::Child => 3,
            Activity::Lock | Activity::Pipe => 2,
            _ if self.is_wait() => 1,
            _ => 0,
        }
    }

    /// Returns what a thread does in a call.
    pub fn of(call: &Call, moment: &Moment<'_>) -> Activity {
        let used = file_use::of(call.nr);
        let act = syscalls::by_number(call.nr.into()).map(|row| row.act_of(&call.args));
        match act {
            Some(Act::Reap) => return Activity::Child,
            Some(Act::WaitOnWord | Act::Lock | Act::RecordLock { waits: true }) => {
                return Activity::Lock;
            }
            Some(Act::SubmitToRing | Act::SubmitToAio | Act::ReapFromAio) => {
                return Activity::Submit;
            }
            _ => {}
        }
        if used.is(Classes::SYNC) {
            return Activity::Sync;
        }
        if used.is(Classes::WAIT) {
            return if used.is(Classes::DESC) {
                Activity::Events
            } else if used.is(Classes::IPC) {
                Activity::Lock
            } else {
                Activity::Sleep
            };
        }
        if used.is(Classes::READ.or(Classes::WRITE).or(Classes::NETWORK)) {
            return Activity::of_transfer(call, moment, used);
        }
        let file = Classes::FILE.or(Classes::STAT).or(Classes::CHANGE).or(Classes::DESC);
        match () {
            () if used.is(Classes::PROCESS) => Activity::Spawn,
            () if used.is(Classes::MEMORY) => Activity::Memory,
            () if used.is(file) => Activity::Metadata,
            () => Activity::Other,
        }
    }

    fn of_transfer(call: &Call, moment: &Moment<'_>, used: &file_use::FileUse) -> Activity {
        let plain = || match () {
            () if used.is(Classes::WRITE) => Activity::Write,
            () if used.is(Classes::READ) => Activity::Read,
            () => Activity::Network,
        };
        let descriptor = file_use::FileUse::descriptor(call, used.from.or(used.to).or(used.fd));
        let Some(table) = moment.world.descriptors(moment.event.thread) else { return plain() };
        let Some(entry) = descriptor.and_then(|fd| table.get(fd)) else { return plain() };
        let is_device = |path: &[u8]| {
            [&b"/dev/pts/"[..], b"/dev/tty", b"/dev/console"]
                .iter()
                .any(|name| path.starts_with(name))
        };
        match &entry.description.path[..] {
            path if path.starts_with(b"pipe:") => Activity::Pipe,
            path if path.starts_with(b"socket:") => Activity::Network,
            path if is_device(path) => Activity::Device,
            _ => plain(),
        }
    }
}

/// Is told what each thread's part of the run's time was.
pub trait Shares {
    /// So much of the time belongs to what a thread did until now.
    fn spent(&mut self, thread: u32, activity: Activity, ns: f64);
}

impl Shares for () {
    fn spent(&mut self, _: u32, _: Activity, _: f64) {}
}

/// The fold.
#[derive(Debug)]
pub struct Activities<S = ()> {
    now_ns: u64,
    /// What each live thread does, and what the clock of that showed as it began.
    threads: HashMap<u32, (Activity, f64)>,
    /// When threads will do something else, and what: the next one first.
    changes: BinaryHeap<Reverse<(u64, u32, Activity)>>,
    /// Number of threads by what they do.
    doing: [u32; COUNT],
    /// Activities that are done: a bit each.
    done: u32,
    /// Number of threads by the rank of what they do.
    by_rank: [u32; RANKS],
    sums: [f64; COUNT],
    /// Time in calls, by what they do and their number.
    in_calls: Box<[[u64; NUMBERS]; COUNT]>,
    /// For each activity a clock that goes on by what one thread gets of the time.
    clocks: [f64; COUNT],
    run_ns: u64,
    working_ns: u64,
    alone_ns: u64,
    held_up_ns: u64,
    /// True if threads count while their events are wanted, and else are not there.
    only_wanted: bool,
    shares: S,
}

impl Default for Activities {
    fn default() -> Activities {
        Activities::telling(())
    }
}

impl<S: Shares> Activities<S> {
    /// Makes a fold that tells the part of each thread.
    pub fn telling(shares: S) -> Activities<S> {
        Activities {
            now_ns: 0,
            threads: HashMap::new(),
            changes: BinaryHeap::new(),
            doing: [0; COUNT],
            done: 0,
            by_rank: [0; RANKS],
            sums: [0.0; COUNT],
            in_calls: Box::new([[0; NUMBERS]; COUNT]),
            clocks: [0.0; COUNT],
            run_ns: 0,
            working_ns: 0,
            alone_ns: 0,
            held_up_ns: 0,
            only_wanted: false,
            shares,
        }
    }

    /// Follows those threads alone that conditions choose, if these choose whole threads: the run is
    /// theirs then. Where they choose among calls, the run stays that of all threads.
    pub fn of_chosen(mut self, conditions: &Conditions) -> Activities<S> {
        self.only_wanted = !conditions.accepts_all() && conditions.only_choose_tasks();
        self
    }

    /// Returns true if what the thread of an event does is part of the run.
    pub fn counts(&self, visit: &Visit<'_>) -> bool {
        visit.wanted || !self.only_wanted
    }

    /// Tells what the thread of an event did until now apart from what it does from now on.
    pub fn part(&mut self, moment: &Moment<'_>) {
        let thread = moment.event.thread;
        self.advance(moment.enter_ns);
        if let Some((activity, _)) = self.threads.get(&thread).copied() {
            self.set(thread, Some(activity));
        }
    }

    /// Who is told the parts of threads.
    pub fn shares(&mut self) -> &mut S {
        &mut self.shares
    }

    /// Moves on to a time: calls that end until then do.
    fn advance(&mut self, to_ns: u64) {
        while let Some(Reverse((at_ns, thread, activity))) = self.changes.peek().copied() {
            if at_ns > to_ns {
                break;
            }
            self.changes.pop();
            self.pass(at_ns);
            self.set(thread, Some(activity));
        }
        self.pass(to_ns);
    }

    /// Gives the time since the last step to what is done.
    fn pass(&mut self, to_ns: u64) {
        let ns = to_ns.saturating_sub(self.now_ns);
        self.now_ns = self.now_ns.max(to_ns);
        if ns == 0 || self.threads.is_empty() {
            return;
        }
        self.run_ns += ns;
        // Being recorded is no work of the program.
        let working = self.by_rank[0] - self.doing[Activity::Recording as usize];
        self.working_ns = self.working_ns.saturating_add(ns.saturating_mul(working.into()));
        self.alone_ns += if working == 1 { ns } else { 0 };
        let doing = |of: Activity| self.doing[of as usize] > 0;
        let is_held_up = working == 1 && doing(Activity::Outside) && doing(Activity::Lock);
        self.held_up_ns += if is_held_up { ns } else { 0 };
        let Some(first) = self.by_rank.iter().position(|threads| *threads > 0) else { return };
        let each = ns as f64 / f64::from(self.by_rank[first]);
        let mut left = self.done & OF_RANK[first];
        while left != 0 {
            let at = left.trailing_zeros() as usize;
            left &= left - 1;
            self.clocks[at] += each;
            self.sums[at] += each * f64::from(self.doing[at]);
        }
    }

    fn begins(&mut self, activity: Activity) {
        let at = activity as usize;
        self.doing[at] += 1;
        self.by_rank[activity.rank()] += 1;
        self.done |= 1 << at;
    }

    fn ends(&mut self, activity: Activity) {
        let at = activity as usize;
        self.doing[at] -= 1;
        self.by_rank[activity.rank()] -= 1;
        if self.doing[at] == 0 {
            self.done &= !(1 << at);
        }
    }

    fn set(&mut self, thread: u32, activity: Option<Activity>) {
        let before = match activity {
            Some(activity) => {
                if self.threads.len() >= THREADS_MAX && !self.threads.contains_key(&thread) {
                    return;
                }
                self.begins(activity);
                self.threads.insert(thread, (activity, self.clocks[activity as usize]))
            }
            None => self.threads.remove(&thread),
        };
        if let Some((before, begun)) = before {
            self.ends(before);
            self.shares.spent(thread, before, self.clocks[before as usize] - begun);
        }
    }

    /// A thread is not, or no longer, among those that are wanted.
    fn leaves(&mut self, kind: &EventKind, thread: u32) {
        let is_its_own = matches!(
            kind,
            EventKind::Call(_)
                | EventKind::Start { .. }
                | EventKind::Image { .. }
                | EventKind::End { .. }
        );
        if is_its_own {
            self.set(thread, None);
        }
    }

    /// Returns the result.
    pub fn finish(self) -> WallTime {
        self.finish_telling().0
    }

    /// Returns the result, and who was told the parts of threads.
    pub fn finish_telling(mut self) -> (WallTime, S) {
        while let Some(Reverse((end_ns, ..))) = self.changes.peek().copied() {
            self.advance(end_ns);
        }
        let mut left: Vec<u32> = self.threads.keys().copied().collect();
        left.sort_unstable();
        left.into_iter().for_each(|thread| self.set(thread, None));
        let wall = WallTime {
            run_ns: self.run_ns,
            parts: std::array::from_fn(|at| (ACTIVITIES[at].0, self.sums[at].round() as u64)),
            most: self.in_calls.each_ref().map(|ns| most(ns)),
            working_ns: self.working_ns,
            alone_ns: self.alone_ns,
            held_up_ns: self.held_up_ns,
        };
        (wall, self.shares)
    }
}

impl<S: Shares> Watch for Activities<S> {
    fn add(&mut self, visit: &mut Visit<'_>) {
        let moment = visit.moment;
        let thread = moment.event.thread;
        if self.only_wanted && !visit.wanted {
            self.advance(moment.enter_ns);
            return self.leaves(&moment.event.kind, thread);
        }
        if moment.asked_ns < moment.enter_ns {
            self.advance(moment.asked_ns);
            self.set(thread, Some(Activity::Recording));
        }
        self.advance(moment.enter_ns);
        match &moment.event.kind {
            EventKind::Start { .. } => self.set(thread, Some(Activity::Outside)),
            EventKind::End { .. } => self.set(thread, None),
            // It runs another program, and was not there before: the call that began it goes on.
            EventKind::Image { .. } if self.only_wanted && !self.threads.contains_key(&thread) => {
                self.set(thread, Some(Activity::Spawn));
            }
            // An operation was in flight while its thread did something else.
            EventKind::Call(call) if moment.submitted_ns.is_none() => {
                let activity = Activity::of(call, moment);
                self.set(thread, Some(activity));
                if let Some(exit_ns) = moment.exit_ns {
                    let of_call = self.in_calls[activity as usize].get_mut(call.nr as usize);
                    if let Some(ns) = of_call {
                        *ns = ns.saturating_add(exit_ns.saturating_sub(moment.enter_ns));
                    }
                    let left_ns = moment.left_ns.unwrap_or(exit_ns).max(exit_ns);
                    if left_ns > exit_ns {
                        self.changes.push(Reverse((exit_ns, thread, Activity::Recording)));
                    }
                    self.changes.push(Reverse((left_ns, thread, Activity::Outside)));
                }
            }
            _ => {}
        }
    }
}

/// Returns the calls that have most of the time, the longest first.
fn most(by_number: &[u64]) -> Vec<u32> {
    let all = by_number.iter().fold(0u64, |sum, ns| sum.saturating_add(*ns));
    let mut named: Vec<(u64, u32)> = by_number.iter().copied().zip(0..).collect();
    named.retain(|(ns, _)| ratio(*ns, all) >= NAMED_SHARE);
    named.sort_by_key(|(ns, nr)| (Reverse(*ns), *nr));
    named.into_iter().take(NAMED_MAX).map(|(_, nr)| nr).collect()
}

/// The time of a run, and what it went to.
#[derive(Clone, Debug)]
pub struct WallTime {
    /// How long at least one thread lived.
    pub run_ns: u64,
    /// Parts of it.
    pub parts: [(Activity, u64); COUNT],
    /// For each of them the calls in which most of its time in calls was spent.
    pub most: [Vec<u32>; COUNT],
    /// How long threads worked, summed, without what recording took.
    pub working_ns: u64,
    /// How long exactly one thread worked.
    pub alone_ns: u64,
    /// How long one thread computed alone, and others waited for locks and threads.
    pub held_up_ns: u64,
}

/// Parts below this share of the run are not told in a line.
const TOLD_SHARE: f64 = 0.01;

impl WallTime {
    /// Returns the part of an activity.
    pub fn of(&self, activity: Activity) -> u64 {
        self.parts[activity as usize].1
    }

    /// Returns the time of the run without what recording took: what is worth a finding is decided by
    /// this, so that a slow recorder hides none. The shares that are told are of the whole run.
    pub fn own_ns(&self) -> u64 {
        self.run_ns.saturating_sub(self.of(Activity::Recording))
    }

    /// Returns the parts that are not nothing, the longest first.
    pub fn longest_first(&self) -> Vec<(Activity, u64)> {
        let mut parts: Vec<_> = self.parts.iter().copied().filter(|(_, ns)| *ns > 0).collect();
        parts.sort_by_key(|(activity, ns)| (Reverse(*ns), *activity));
        parts
    }

    /// Returns the parts in a line: `sync 61%, own code (between calls) 20%`.
    pub fn line(&self) -> String {
        let share = |ns: u64| ratio(ns, self.run_ns);
        let parts = self.longest_first();
        let told = parts.iter().filter(|(_, ns)| share(*ns) >= TOLD_SHARE);
        let words: Vec<String> =
            told.map(|(of, ns)| format!("{} {:.0}%", of.name(), share(*ns) * 100.0)).collect();
        words.join(", ")
    }

    /// Returns the parts as a table.
    pub fn table(&self) -> Table {
        let columns = [
            ("activity", "activity"),
            ("key", ""),
            ("wall_ns", "time"),
            ("wall_share", "share"),
            ("calls", "mostly in"),
            ("", " "),
        ];
        let mut table = Table::new("activities", "Where the time went", &columns);
        for (activity, ns) in self.longest_first() {
            let share = ratio(ns, self.run_ns);
            table.row(vec![
                Cell::word(activity.name()),
                Cell::word(ACTIVITIES[activity as usize].1),
                Cell::Ns(ns),
                Cell::Share(share),
                Cell::Word(self.mostly_in(activity).into()),
                Cell::Bar(share),
            ]);
        }
        table
    }

    /// Names the calls of an activity: `openat, unlink`.
    fn mostly_in(&self, activity: Activity) -> String {
        let rows = self.most[activity as usize].iter();
        let names = rows.filter_map(|nr| syscalls::by_number(u64::from(*nr))).map(|row| row.name);
        names.collect::<Vec<&str>>().join(", ")
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;
    use crate::sample::{call, open, watch};

    #[test]
    fn activities_are_in_order() {
        for (at, (activity, ..)) in ACTIVITIES.iter().enumerate() {
            assert_eq!(*activity as usize, at);
        }
    }

    #[test]
    fn work_comes_before_waits_and_all_sums_up() {
        // One thread waits for its child, which syncs meanwhile.
        let calls = [
            open("data", 0, 3),
            call("wait4", &[-1, 0, 0, 0], 7).never(),
            call("fsync", &[3], 0).by(2).lasts(3000),
        ];
        let wall = watch(Activities::default(), &calls).0.finish();
        let sum: u64 = wall.parts.iter().map(|(_, ns)| ns).sum();
        assert!(wall.run_ns.abs_diff(sum) <= COUNT as u64, "{wall:?}");
        assert_eq!((wall.of(Activity::Sync), wall.of(Activity::Child)), (3000, 0), "{wall:?}");
    }

    #[derive(Default)]
    struct Told(f64, BTreeMap<(u32, Activity), f64>);

    impl Shares for Told {
        fn spent(&mut self, thread: u32, activity: Activity, ns: f64) {
            self.0 += ns;
            *self.1.entry((thread, activity)).or_default() += ns;
        }
    }

    #[test]
    fn the_parts_of_threads_sum_up_to_the_run() {
        let calls = [
            open("data", 0, 3),
            call("fsync", &[3], 0).lasts(4000),
            call("wait4", &[-1, 0, 0, 0], 7).never(),
            call("fsync", &[3], 0).by(2).lasts(3000),
        ];
        let (wall, told) = watch(Activities::telling(Told::default()), &calls).0.finish_telling();
        assert!((told.0 - wall.run_ns as f64).abs() < 1.0, "{told:?} {wall:?}", told = told.1);
        for (activity, ns) in wall.parts {
            let of =
                |((_, of), ns): (&(u32, Activity), &f64)| if *of == activity { *ns } else { 0.0 };
            let sum: f64 = told.1.iter().map(of).sum();
            assert!((sum - ns as f64).abs() < 2.0, "{activity:?} {sum} {ns}");
        }
    }

    #[test]
    fn calls_that_took_most_are_named() {
        let calls = [
            open("data", 0, 3).lasts(1000),
            call("unlink", &[0], 0).lasts(3000),
            call("mkdir", &[0, 0], 0).lasts(100),
            call("fsync", &[3], 0).lasts(10),
        ];
        let wall = watch(Activities::default(), &calls).0.finish();
        let named = |of: Activity| wall.mostly_in(of);
        assert_eq!(
            (named(Activity::Metadata), named(Activity::Sync)),
            ("unlink, openat".into(), "fsync".into())
        );
        assert_eq!(named(Activity::Outside), "");
    }

    #[test]
    fn hostile_threads_are_bounded() {
        let all = THREADS_MAX as u32 + 100;
        let calls: Vec<_> =
            (0..all).map(|thread| call("pause", &[], 0).by(thread).never()).collect();
        let fold = watch(Activities::default(), &calls).0;
        assert!(fold.threads.len() <= THREADS_MAX);
        fold.finish();
    }
}
