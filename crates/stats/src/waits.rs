//! What threads waited for: who woke whom, what others did meanwhile, locks and who held them, the
//! longest waits explained, and the critical path of a process or of a range of time.

mod path;
mod pieces;
mod stories;

use std::collections::HashMap;

use model::Conditions;
use model::scheduling::{Doing, Piece, Scheduling, Sink, Thread, Waker};
use trace::kernel::KernelLayouts;

use crate::pass::{Visit, Watch};
use crate::sheet::{Cell, Fact, Sheet, Table};
use crate::view::{ViewRow, without_switches};
use path::PathTo;
use pieces::Pieces;
use stories::Stories;

pub use stories::{Told, longest};

/// Combinations of who waited, for what, and who ended it, that are counted apart.
const GROUPS_MAX: usize = 1 << 14;
/// Locks that are told apart.
const LOCKS_MAX: usize = 1 << 13;

/// The view.
pub static VIEW: ViewRow = ViewRow {
    name: "waits",
    about: "What threads waited for: who woke whom, locks, the longest waits explained, critical path",
    look: |look| {
        let wanted = look.conditions.tids.first().or(look.conditions.pids.first());
        let mut fold = Waits::new(&model::kernel_layouts(look.trace));
        fold.found.of = wanted.copied();
        fold.found.since = look.conditions.since_ns.unwrap_or(0);
        fold.found.conditions = look.conditions.clone();
        Ok(look.of_kernel(look.watch(fold, |mut fold, _| fold.finish(&mut ()).0)))
    },
};

/// The fold.
pub struct Waits {
    scheduling: Scheduling,
    found: Found,
}

impl Waits {
    /// For events of these layouts.
    pub fn new(layouts: &KernelLayouts) -> Waits {
        Waits { scheduling: Scheduling::new(layouts), found: Found::default() }
    }

    /// What is known of threads.
    pub fn scheduling(&self) -> &Scheduling {
        &self.scheduling
    }

    /// Processes an event; another one is told of the stretches of time as well.
    pub fn add_for(&mut self, visit: &Visit<'_>, other: &mut impl Sink) {
        let moment = visit.moment;
        let Waits { scheduling, found } = self;
        found.is_whole = scheduling.scope().is_none_or(|scope| scope.is_whole);
        found.recorder = scheduling.recorder();
        if found.of.is_none() && moment.event.cpu().is_none() {
            found.of = moment.pid;
        }
        let (enter, exit) = (moment.enter_ns, moment.exit_ns);
        scheduling.event(moment.event, enter, exit, moment.tid, &mut (found, other));
    }
}

impl Watch for Waits {
    fn add(&mut self, visit: &mut Visit<'_>) {
        self.add_for(visit, &mut ());
    }
}

/// Who waited, for what, and who ended it.
type Group = (Vec<u8>, Doing, Option<u16>, Ended);

/// Who ended a wait, by name.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
enum Ended {
    Nobody,
    Thread(Vec<u8>),
    Word(&'static str),
}

#[derive(Default)]
struct Sum {
    count: u64,
    ns: u64,
    max_ns: u64,
}

impl Sum {
    fn add(&mut self, ns: u64) {
        self.count += 1;
        self.ns += ns;
        self.max_ns = self.max_ns.max(ns);
    }
}

/// A lock: in the memory of a process, or of the kernel.
type LockKey = (Option<u32>, u64);

#[derive(Default)]
struct Lock {
    waits: Sum,
    /// Who gave it to others, and how long these had waited.
    holders: HashMap<Vec<u8>, u64>,
}

/// What was found so far.
#[derive(Default)]
struct Found {
    is_whole: bool,
    recorder: Option<u32>,
    since: u64,
    of: Option<u32>,
    /// Which threads and calls are told of; what others did explains them all the same.
    conditions: Conditions,
    pieces: Pieces,
    stories: Stories,
    groups: HashMap<Group, Sum>,
    locks: HashMap<LockKey, Lock>,
    left_out: u64,
}

impl Found {
    fn is_chosen(&self, thread: &Thread, call: Option<u16>) -> bool {
        let Conditions { pids, tids, .. } = &self.conditions;
        let pid = thread.pid.unwrap_or(thread.id);
        (pids.is_empty() || pids.contains(&pid))
            && (tids.is_empty() || tids.contains(&thread.id))
            && self.conditions.accepts_call_number(call)
    }

    fn ended(&self, waker: Waker) -> Ended {
        match waker {
            Waker::Nobody => Ended::Nobody,
            Waker::Thread(id) | Waker::KernelThread(id) => {
                Ended::Thread(self.pieces.name(id).to_vec())
            }
            Waker::Disk(_) => Ended::Word("disk"),
            Waker::Timer => Ended::Word("timer"),
            Waker::Network => Ended::Word("network"),
            Waker::Interrupt => Ended::Word("interrupt"),
        }
    }
}

impl Sink for Found {
    fn piece(&mut self, thread: &Thread, piece: Piece) {
        self.pieces.add(thread, piece);
        let is_recorders = self.recorder.is_some() && thread.pid == self.recorder;
        let is_told = (self.is_whole && !is_recorders) || thread.is_followed;
        if !is_told || piece.to <= self.since {
            return;
        }
        let call = thread.call_at(piece.from).map(|call| call.nr);
        if !self.is_chosen(thread, call) {
            return;
        }
        self.stories.add(thread, &piece, &self.pieces);
        if !piece.doing.is_blocked() {
            return;
        }
        let ns = piece.to - piece.from;
        let ended = self.ended(piece.waker);
        if let Some(lock) = piece.lock {
            // One in the memory of a program is one for its process.
            let is_own = call.is_some();
            let key = (is_own.then(|| thread.pid.unwrap_or(thread.id)), lock);
            if self.locks.len() < LOCKS_MAX || self.locks.contains_key(&key) {
                let of_lock = self.locks.entry(key).or_default();
                of_lock.waits.add(ns);
                if let Ended::Thread(name) = &ended {
                    *of_lock.holders.entry(name.clone()).or_default() += ns;
                }
            }
        }
        let group = (thread.name.clone(), piece.doing, call, ended);
        if self.groups.len() < GROUPS_MAX || self.groups.contains_key(&group) {
            self.groups.entry(group).or_default().add(ns);
        } else {
            self.left_out += 1;
        }
    }
}

impl Waits {
    /// Returns the view, and the longest waits, those first that took longest.
    pub fn finish(&mut self, other: &mut impl Sink) -> (Sheet, Vec<Told>) {
        let Waits { scheduling, found } = self;
        scheduling.finish(&mut (&mut *found, other));
        let last = scheduling.last();
        let mut groups: Vec<(&Group, &Sum)> = found.groups.iter().collect();
        groups.sort_by_key(|(group, sum)| (u64::MAX - sum.ns, *group));
        let mut waits =
            Table::new("waits", "Who waited for what, and who ended it", &GROUP_COLUMNS)
                .further(&["max_ns"]);
        let mut blocked = 0u64;
        for ((name, doing, call, ended), sum) in groups {
            if *doing != Doing::Asleep {
                blocked = blocked.saturating_add(sum.ns);
            }
            waits.row(vec![
                Cell::Name(name.clone()),
                Cell::word(doing.name()),
                call.map_or(Cell::Nothing, stories::call_name),
                match ended {
                    Ended::Nobody => Cell::Nothing,
                    Ended::Thread(name) => Cell::Name(name.clone()),
                    Ended::Word(word) => Cell::word(word),
                },
                Cell::Count(sum.count),
                Cell::Ns(sum.ns),
                Cell::Ns(sum.max_ns),
            ]);
        }
        let told = found.stories.finish(&found.pieces);
        let mut tables = vec![waits, stories::longest(&told), locks(&found.locks)];
        if let Some(task) = found.of {
            let path = PathTo::find(&found.pieces, task, found.since, last);
            tables.extend(path.tables(&found.pieces));
        }
        let mut notes = vec![
            "Explained: what a call, or a wait outside of calls, spent its time on; of a thread that \
             woke it, what that one did meanwhile, if its events are in the trace (--system records those \
             of all). A lock's holders are those who gave it on."
                .into(),
        ];
        if found.of.is_some() {
            notes.push(
                "The critical path goes back from the end of a process (the first one recorded, or \
                 that of --pid or --tid), and through those that it waited for: shorter pieces of it \
                 make the whole shorter."
                    .into(),
            );
        }
        if !found.conditions.only_name_calls() {
            notes.push(
                "Processes, threads, calls and times can be chosen here; whatever else was asked for \
                 leaves out nothing."
                    .into(),
            );
        }
        notes.extend(without_switches(scheduling));
        if found.left_out > 0 {
            notes.push(format!(
                "{} waits are in no row: there were too many kinds.",
                found.left_out
            ));
        }
        if found.pieces.forgot() {
            notes.push("What was long ago is not explained: there was too much of it.".into());
        }
        let fact =
            Fact { key: "waited_ns", title: "blocked, not asleep", value: Cell::Ns(blocked) };
        (Sheet { facts: vec![fact], tables, notes }, told)
    }
}

fn locks(locks: &HashMap<LockKey, Lock>) -> Table {
    let mut table = Table::new("locks", "Locks", &LOCK_COLUMNS).further(&["max_ns", "holders"]);
    let mut all: Vec<(&LockKey, &Lock)> = locks.iter().collect();
    all.sort_by_key(|(key, lock)| (u64::MAX - lock.waits.ns, **key));
    for (&(process, address), lock) in all {
        let mut holders: Vec<(&Vec<u8>, &u64)> = lock.holders.iter().collect();
        holders.sort_by_key(|(name, ns)| (u64::MAX - **ns, *name));
        table.row(vec![
            process.map_or(Cell::word("kernel"), |process| Cell::Id(process.into())),
            Cell::Word(format!("{address:#x}").into()),
            Cell::Count(lock.waits.count),
            Cell::Ns(lock.waits.ns),
            Cell::Ns(lock.waits.max_ns),
            holders.first().map_or(Cell::Nothing, |(name, _)| Cell::Name(name.to_vec())),
            Cell::Count(holders.len() as u64),
        ]);
    }
    table
}

const GROUP_COLUMNS: [(&str, &str); 7] = [
    ("name", "thread"),
    ("blocked_on", "waits for"),
    ("call", "in"),
    ("ended_by", "ended by"),
    ("count", "count"),
    ("time_ns", "time"),
    ("max_ns", "longest"),
];
const LOCK_COLUMNS: [(&str, &str); 7] = [
    ("pid", "of"),
    ("lock", "lock"),
    ("count", "waits"),
    ("time_ns", "time"),
    ("max_ns", "longest"),
    ("holder", "held most by"),
    ("holders", "holders"),
];
