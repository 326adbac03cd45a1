//! The table `processes`: a row per process, added when it ends.

use std::collections::BTreeMap;
use std::rc::Rc;

use model::{Argv, IdSet, Moment, Ties};
use syscalls::abi::signals;
use trace::event::{EventKind, ProcessState, StartHow};

use crate::batch::{Batch, Row};
use crate::column::Column;
use crate::schema::{Field, Type};

/// Returns the columns of the table.
pub fn columns() -> Vec<Field> {
    let text_list = Type::List(Box::new(Type::Text));
    [
        ("process", Type::Int),
        ("pid", Type::Int),
        ("parent", Type::Int),
        ("how", Type::Text),
        ("start", Type::Time),
        ("start_ns", Type::Long),
        ("end", Type::Time),
        ("end_ns", Type::Long),
        ("exit_code", Type::Int),
        ("signal", Type::Int),
        ("signal_text", Type::Text),
        ("core", Type::Int),
        ("exe", Type::Text),
        ("argv", text_list),
        ("cwd", Type::Text),
        ("root", Type::Text),
        ("uid", Type::Long),
        ("gid", Type::Long),
        ("umask", Type::Long),
        ("ppid", Type::Long),
        ("pgid", Type::Long),
        ("sid", Type::Long),
        ("euid", Type::Long),
        ("egid", Type::Long),
    ]
    .map(|(name, ty)| Field::new(name, ty))
    .into()
}

/// State of a live process.
#[derive(Default)]
struct Life {
    pid: u32,
    parent: Option<u32>,
    how: &'static str,
    start_ns: u64,
    exe: Rc<[u8]>,
    argv: Argv,
    state: Option<Rc<ProcessState>>,
    ties: Ties,
    users: IdSet,
    groups: IdSet,
}

/// End of a process.
#[derive(Clone, Copy, Default)]
struct End {
    ns: Option<u64>,
    status: Option<i32>,
}

/// Tracks the lifetime of processes.
#[derive(Default)]
pub struct Processes {
    lives: BTreeMap<u32, Life>,
    /// Wall clock time at the start of the trace.
    epoch_ns: u64,
}

impl Processes {
    /// Makes an empty tracker.
    pub fn new(epoch_ns: u64) -> Processes {
        Processes { epoch_ns, ..Processes::default() }
    }

    /// Processes an event; adds a row if a process ends.
    pub fn look(&mut self, moment: &Moment<'_>, batch: &mut Batch) {
        match &moment.event.kind {
            EventKind::Start { how, process, pid, .. } if *how != StartHow::Thread => {
                let parent = moment.world.process(*process).and_then(|process| process.parent);
                let how = model::names::start(*how);
                let (pid, start_ns) = (*pid, moment.enter_ns);
                let life = Life { pid, parent, how, start_ns, ..Life::default() };
                self.lives.insert(*process, life);
                self.program(*process, moment);
            }
            EventKind::Image { .. } => {
                let thread = moment.world.thread(moment.event.thread);
                if let Some(process) = thread.map(|thread| thread.process) {
                    self.program(process, moment);
                }
            }
            EventKind::State(state) => self.program(state.process, moment),
            EventKind::Exit { process, status } => {
                self.follow(*process, moment);
                if let Some(life) = self.lives.remove(process) {
                    let end = End { ns: Some(moment.enter_ns), status: *status };
                    row(batch.row(), self.epoch_ns, *process, &life, end);
                }
            }
            _ => {}
        }
    }

    /// Records the program that a process runs now.
    fn program(&mut self, number: u32, moment: &Moment<'_>) {
        let known = moment.world.process(number);
        if let (Some(life), Some(process)) = (self.lives.get_mut(&number), known) {
            life.exe.clone_from(&process.exe);
            life.argv = process.argv.clone();
            life.state.clone_from(&process.state);
        }
        self.follow(number, moment);
    }

    /// Records what ties a process to others, and its ids: a row has the first parent, and the last of
    /// the others.
    fn follow(&mut self, number: u32, moment: &Moment<'_>) {
        let Some(life) = self.lives.get_mut(&number) else { return };
        if let Some(ties) = moment.world.ties(number) {
            let first_parent = life.ties.parent;
            life.ties = ties;
            life.ties.parent = first_parent.or(ties.parent);
        }
        if let Some(ids) = moment.world.credentials_of_process(number) {
            (life.users, life.groups) = (ids.users, ids.groups);
        }
    }

    /// Adds rows for processes whose end was not seen.
    pub fn finish(self, batch: &mut Batch) {
        for (number, life) in &self.lives {
            row(batch.row(), self.epoch_ns, *number, life, End::default());
        }
    }
}

/// Converts nanoseconds since the start of the trace to microseconds since 1970.
pub fn wall_us(epoch_ns: u64, ns: u64) -> i64 {
    i64::try_from(epoch_ns.saturating_add(ns) / 1000).unwrap_or(i64::MAX)
}

fn row(mut row: Row<'_>, epoch_ns: u64, number: u32, life: &Life, end: End) {
    let id = |id: u32| i64::from(id);
    row.number(id(number));
    row.number(id(life.pid));
    row.number(life.parent.map(id));
    row.text(life.how.as_bytes());
    row.number(wall_us(epoch_ns, life.start_ns));
    row.number(life.start_ns as i64);
    row.number(end.ns.map(|ns| wall_us(epoch_ns, ns)));
    row.number(end.ns.map(|ns| ns as i64));
    let killed = end.status.map(|status| status & 0x7f).filter(|signal| *signal != 0);
    let exited = end.status.filter(|_| killed.is_none()).map(|status| status >> 8 & 0xff);
    row.number(exited.map(i64::from));
    row.number(killed.map(i64::from));
    row.text(killed.and_then(signals::name).map(str::as_bytes));
    row.number(end.status.filter(|_| killed.is_some()).map(|status| (status >> 7 & 1).into()));
    let text = |text: &[u8]| (!text.is_empty()).then(|| text.to_vec());
    row.text(text(&life.exe).as_deref());
    let put = |column: &mut Column, place, word: &[u8]| column.text(place, word);
    row.column().list(crate::column::Place::default(), life.argv.iter(), put);
    let state = life.state.as_ref();
    row.text(state.and_then(|state| text(&state.cwd)).as_deref());
    row.text(state.and_then(|state| text(&state.root)).as_deref());
    row.number(life.users.real.map(id));
    row.number(life.groups.real.map(id));
    row.number(state.map(|state| id(state.umask)));
    let Ties { parent, group, session, .. } = life.ties;
    [parent, group, session, life.users.effective, life.groups.effective]
        .into_iter()
        .for_each(|known| row.number(known.map(id)));
    row.end();
}
