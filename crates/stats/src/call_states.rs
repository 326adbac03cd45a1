//! Where the time of each call went: on a CPU, runnable, blocked on what.

use std::collections::HashSet;

use model::scheduling::{Doing, Piece, Scheduling, Sink, Thread, Times};
use trace::event::EventKind;

use crate::cpu_time::{is_blocked, mostly_on};
use crate::numbered::{Numbered, name};
use crate::pass::{Visit, Watch};
use crate::sheet::{Cell, Fact, Sheet, Table};
use crate::view::{ViewRow, without_switches};

/// The view.
pub static VIEW: ViewRow = ViewRow {
    name: "where",
    about: "Where each call's time went: on a CPU, runnable, blocked on what (also calls --where)",
    look: |look| {
        let scheduling = Scheduling::new(&model::kernel_layouts(look.trace));
        let is_choice = !look.conditions.accepts_all();
        let found = Found { is_choice, ..Found::default() };
        let fold = CallStates { scheduling, found };
        Ok(look.of_kernel(look.watch(fold, |fold, _| fold.sheet())))
    },
};

#[derive(Default)]
struct Found {
    is_whole: bool,
    /// Not all calls are wanted: of threads without an agent it is not known which are.
    is_choice: bool,
    /// Threads whose last call is not wanted.
    unwanted: HashSet<u32>,
    by_number: Numbered<Times>,
}

impl Sink for Found {
    fn piece(&mut self, thread: &Thread, piece: Piece) {
        if !self.is_whole && !thread.is_followed {
            return;
        }
        let is_unknown = self.is_choice && !thread.has_agent();
        if is_unknown || self.unwanted.contains(&thread.id) {
            return;
        }
        if let Some(call) = thread.call_at(piece.from) {
            self.by_number.at(call.nr).spend(piece.doing, piece.to - piece.from);
        }
    }
}

/// The fold.
struct CallStates {
    scheduling: Scheduling,
    found: Found,
}

impl Watch for CallStates {
    fn add(&mut self, visit: &mut Visit<'_>) {
        let moment = visit.moment;
        let CallStates { scheduling, found } = self;
        found.is_whole = scheduling.scope().is_none_or(|scope| scope.is_whole);
        scheduling.event(moment.event, moment.enter_ns, moment.exit_ns, moment.tid, found);
        if let (EventKind::Call(_), Some(tid)) = (&moment.event.kind, moment.tid) {
            if visit.wanted {
                found.unwanted.remove(&tid);
            } else if scheduling.thread(tid).is_some() {
                found.unwanted.insert(tid);
            }
        }
    }
}

impl CallStates {
    fn sheet(mut self) -> Sheet {
        self.scheduling.finish(&mut self.found);
        let mut calls: Vec<(u16, Times)> = self.found.by_number.into_each().collect();
        calls.sort_by_key(|(nr, times)| (u64::MAX - times.life_ns(), *nr));
        let mut table =
            Table::new("call_states", "Where the time of calls went", &COLUMNS).further(&FURTHER);
        let mut all = 0u64;
        for (nr, times) in &calls {
            let of = |doing| Cell::Ns(times.of(doing));
            all = all.saturating_add(times.life_ns());
            table.row(vec![
                Cell::Name(name(*nr).into_owned().into_bytes()),
                Cell::Ns(times.life_ns()),
                of(Doing::Call),
                of(Doing::Interrupted),
                Cell::Ns(times.sum(Doing::is_runnable)),
                Cell::Ns(times.sum(is_blocked)),
                mostly_on(times),
                of(Doing::Disk),
                of(Doing::Peer),
                of(Doing::Lock),
                of(Doing::Child),
                of(Doing::Asleep),
                of(Doing::Stopped),
                of(Doing::Unknown),
            ]);
        }
        let mut notes = vec![
            "Only time that the kernel's events cover is counted. A call's times add up to what it \
             took of that."
                .into(),
        ];
        notes.extend(without_switches(&self.scheduling));
        if self.found.is_choice {
            let text = "Only calls that were asked for are counted, of recorded programs alone.";
            notes.push(text.into());
        }
        let fact = Fact { key: "in_calls_ns", title: "in calls", value: Cell::Ns(all) };
        Sheet { facts: vec![fact], tables: vec![table], notes }
    }
}

const COLUMNS: [(&str, &str); 14] = [
    ("call", "call"),
    ("time_ns", "time"),
    ("on_cpu_ns", "on cpu"),
    ("interrupted_ns", "interrupted"),
    ("runnable_ns", "runnable"),
    ("", "blocked"),
    ("", "mostly on"),
    ("disk_ns", "disk"),
    ("peer_ns", "peer"),
    ("lock_ns", "lock"),
    ("child_ns", "child"),
    ("asleep_ns", "asleep"),
    ("stopped_ns", "stopped"),
    ("unknown_ns", "unknown"),
];
/// Columns that a terminal of 80 characters need not show.
const FURTHER: [&str; 7] =
    ["interrupted_ns", "disk_ns", "peer_ns", "lock_ns", "child_ns", "stopped_ns", "unknown_ns"];
