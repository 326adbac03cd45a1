//! Where the time of each call went: on a CPU, runnable, blocked on what.

use model::scheduling::{Doing, Piece, Scheduling, Sink, Thread, Times};

use crate::numbered::{Numbered, name};
use crate::pass::{Visit, Watch};
use crate::sheet::{Cell, Fact, Sheet, Table};
use crate::view::ViewRow;

/// The view.
pub static VIEW: ViewRow = ViewRow {
    name: "where",
    about: "Where each call's time went: on a CPU, runnable, blocked on what (also calls --where)",
    look: |look| {
        let scheduling = Scheduling::new(&model::kernel_layouts(look.trace));
        let fold = CallStates { scheduling, found: Found::default() };
        Ok(look.watch(fold, |fold, _| fold.sheet()))
    },
};

#[derive(Default)]
struct Found {
    is_whole: bool,
    by_number: Numbered<Times>,
}

impl Sink for Found {
    fn piece(&mut self, thread: &Thread, piece: Piece) {
        if !self.is_whole && !thread.is_followed {
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
    }
}

impl CallStates {
    fn sheet(mut self) -> Sheet {
        self.scheduling.finish(&mut self.found);
        let mut calls: Vec<(u16, Times)> = self.found.by_number.into_each().collect();
        calls.sort_by_key(|(nr, times)| (u64::MAX - times.life_ns(), *nr));
        let mut table = Table::new("call_states", "Where the time of calls went", &COLUMNS);
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
                of(Doing::Disk),
                of(Doing::Peer),
                of(Doing::Lock),
                of(Doing::Child),
                of(Doing::Asleep),
                of(Doing::Stopped),
                of(Doing::Unknown),
            ]);
        }
        let notes = vec![
            "Only time that the kernel's events cover is counted. A call's times add up to what it \
             took of that."
                .into(),
        ];
        let fact = Fact { key: "in_calls_ns", title: "in calls", value: Cell::Ns(all) };
        Sheet { facts: vec![fact], tables: vec![table], notes }
    }
}

const COLUMNS: [(&str, &str); 12] = [
    ("call", "call"),
    ("time_ns", "time"),
    ("on_cpu_ns", "on cpu"),
    ("interrupted_ns", "interrupted"),
    ("runnable_ns", "runnable"),
    ("disk_ns", "disk"),
    ("peer_ns", "peer"),
    ("lock_ns", "lock"),
    ("child_ns", "child"),
    ("asleep_ns", "asleep"),
    ("stopped_ns", "stopped"),
    ("unknown_ns", "unknown"),
];
