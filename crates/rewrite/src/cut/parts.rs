//! State that a part of a trace needs besides its calls: how their threads began, and their
//! descriptors if the calls that opened them are left out.

use std::collections::{BTreeSet, HashMap, HashSet};

use model::decode::shape::shape_of;
use model::{Moment, spawn_flags};
use syscalls::abi::files::O_CLOEXEC;
use syscalls::shape::{ArgKind, Classes, Ret};
use trace::event::{Call, Event, EventKind, OpenFd, Outcome, ProcessState};

use super::births::Births;

/// Limit for the descriptors in one state event; those of the current call come first.
const TOLD_MAX: usize = 1024;
/// Limit for the ancestors searched for a process's inherited state.
const ANCESTORS_MAX: usize = 64;

/// The live processes and threads.
#[derive(Default)]
pub struct Parts {
    processes: HashMap<u32, Part>,
    threads: HashMap<u32, Thread>,
}

#[derive(Default)]
struct Part {
    births: Births,
    shown: bool,
    /// Threads that the cut contains.
    threads: HashSet<u32>,
    /// Time until which calls left out may change descriptors and directories. `None` if the cut
    /// has their current state.
    untold: Option<u64>,
    /// Number of descriptors left out of the last state event for lack of room.
    too_many: u64,
    /// All its live threads.
    living: HashSet<u32>,
}

struct Thread {
    process: u32,
    start: Event,
}

impl Parts {
    /// Records starts of threads and programs.
    pub fn note(&mut self, moment: &Moment<'_>) {
        let event = moment.event;
        match &event.kind {
            EventKind::Start { process, .. } => {
                let part = self.processes.entry(*process).or_default();
                part.births.start(event);
                part.untold.get_or_insert(event.tsc);
                part.living.insert(event.thread);
                let thread = Thread { process: *process, start: event.clone() };
                self.threads.insert(event.thread, thread);
            }
            EventKind::Image { .. } => {
                let thread = self.threads.get(&event.thread);
                if let Some(part) = thread.and_then(|t| self.processes.get_mut(&t.process)) {
                    part.births.image(event, thread.map(|thread| &thread.start));
                    part.untold = part.untold.max(Some(event.tsc));
                }
            }
            _ => {}
        }
    }

    /// Records that a call is left out, so that its changes must be repeated as state.
    pub fn left_out(&mut self, moment: &Moment<'_>) {
        if !moment.step.changes() {
            return;
        }
        let Some(thread) = self.threads.get(&moment.event.thread) else { return };
        let Some(part) = self.processes.get_mut(&thread.process) else { return };
        let until = match &moment.event.kind {
            EventKind::Call(Call { outcome: Outcome::Returned { exit_tsc, .. }, .. }) => *exit_tsc,
            _ => moment.event.tsc,
        };
        part.untold = part.untold.max(Some(until.max(moment.event.tsc)));
    }

    /// Returns true if the cut contains the event's thread or process.
    pub fn is_shown(&self, event: &Event) -> bool {
        let process = match &event.kind {
            EventKind::State(state) => Some(state.process),
            EventKind::Exit { process, .. } => Some(*process),
            _ => None,
        };
        match process {
            Some(process) => self.processes.get(&process).is_some_and(|part| part.shown),
            None => self.threads.get(&event.thread).is_some_and(|thread| {
                let part = self.processes.get(&thread.process);
                part.is_some_and(|part| part.threads.contains(&event.thread))
            }),
        }
    }

    /// Forgets threads and processes that ended.
    pub fn ended(&mut self, event: &Event) {
        match &event.kind {
            EventKind::Exit { process, .. } => {
                let living = self.processes.remove(process).map(|part| part.living);
                for number in living.into_iter().flatten() {
                    if self.threads.get(&number).is_some_and(|t| t.process == *process) {
                        self.threads.remove(&number);
                    }
                }
            }
            EventKind::End { .. } => {
                if let Some(thread) = self.threads.remove(&event.thread)
                    && let Some(part) = self.processes.get_mut(&thread.process)
                {
                    part.threads.remove(&event.thread);
                    part.living.remove(&event.thread);
                }
            }
            _ => {}
        }
    }

    /// Returns the events that must be written before an event is kept.
    pub fn needed(&mut self, moment: &Moment<'_>, call: Option<&Call>) -> Vec<Event> {
        let number = moment.event.thread;
        let mut needed = Vec::new();
        let Some(thread) = self.threads.get(&number) else { return needed };
        let Some(part) = self.processes.get_mut(&thread.process) else { return needed };
        if !part.shown {
            part.shown = true;
            for birth in part.births.events() {
                part.threads.insert(birth.thread);
                needed.push(birth.clone());
            }
        }
        if part.threads.insert(number) {
            needed.push(thread.start.clone());
            needed.extend(part.births.image_of(number).cloned());
        }
        let now = moment.event.tsc;
        if let Some(call) = call.filter(|call| part.untold.is_some() && names_files(call)) {
            let state = state(moment, thread.process, call, part.too_many);
            part.too_many = state.fds_left_out;
            part.untold = match state.fds_left_out {
                // Other calls may need the descriptors left out.
                1.. => Some(u64::MAX),
                0 => part.untold.filter(|until| *until > now),
            };
            let kind = EventKind::State(Box::new(state));
            needed.push(Event::new(number, now, kind));
        }
        needed
    }
}

/// Returns true if a call is context for others: it changes descriptors or directories, creates
/// tasks, or leaves a program, which closes descriptors that other tasks may wait for.
pub fn is_context(moment: &Moment<'_>, call: &Call) -> bool {
    moment.step.changes()
        || spawn_flags(call, &mut model::InlineOnly).is_some()
        || leaves_program(call)
}

/// Returns true if a call ends its thread or executes another program in it.
fn leaves_program(call: &Call) -> bool {
    let shape = shape_of(call);
    let failed = matches!(call.outcome, Outcome::Returned { ret, .. } if ret < 0);
    shape.ret == Ret::Never && shape.classes.intersects(Classes::PROCESS) && !failed
}

fn names_files(call: &Call) -> bool {
    shape_of(call)
        .args
        .iter()
        .any(|arg| matches!(arg.kind, ArgKind::Fd | ArgKind::DirFd | ArgKind::Path))
}

/// Returns the state of a process when a call of it begins. If there are too many descriptors, it
/// has those of the call, and the first time as many others as fit. `too_many` is the number that
/// was left out then.
fn state(moment: &Moment<'_>, number: u32, call: &Call, too_many: u64) -> ProcessState {
    let known = known_state(moment, number);
    let mut state = known.map_or_else(ProcessState::default, |(_, known)| known.without_fds());
    if known.is_some_and(|(of, _)| of != number) {
        // The process's own ids are unknown.
        (state.pid, state.ppid) = (0, 0);
    }
    state.process = number;
    if let Some(ids) = moment.credentials() {
        if let Some(all) = ids.of_state() {
            [state.uids, state.gids] = all;
        }
        if let Some(groups) = ids.supplementary() {
            state.groups = groups.to_vec();
        }
    }
    if let Some(process) = moment.world.process(number) {
        state.exe = process.exe.to_vec();
    }
    state.cwd = moment.world.cwd(moment.event.thread);
    state.fds_left_out = too_many;
    let Some(table) = moment.world.descriptors(moment.event.thread) else { return state };
    let before = known.map_or(&[][..], |(_, known)| &known.fds);
    let open = |(fd, entry): (i32, model::Entry<'_>)| {
        let target = entry.description.label_in_state();
        // The kernel lists descriptors in order.
        let at = before.binary_search_by_key(&fd, |open| open.fd).ok();
        let known = at.map(|at| &before[at]).filter(|open| open.target == target);
        let mut open = known.cloned().unwrap_or(OpenFd { fd, target, offset: 0, flags: 0 });
        let close_on_exec = O_CLOEXEC as u32;
        open.flags &= !close_on_exec;
        if entry.close_on_exec {
            open.flags |= close_on_exec;
        }
        open
    };
    let named: BTreeSet<i32> = {
        let shape = shape_of(call);
        let args = shape.args.iter().zip(call.args);
        let fds = args.filter(|(arg, _)| matches!(arg.kind, ArgKind::Fd | ArgKind::DirFd));
        fds.map(|(_, value)| value as i32).collect()
    };
    let named_open = named.iter().filter_map(|fd| Some((*fd, table.get(*fd)?)));
    if too_many > 0 {
        state.fds.extend(named_open.map(open));
        return state;
    }
    let all = table.len();
    let others = table.iter().filter(|(fd, _)| all <= TOLD_MAX || !named.contains(fd));
    let room = if all <= TOLD_MAX { all } else { TOLD_MAX - named.len() };
    state.fds.extend(others.take(room).map(open));
    if all > TOLD_MAX {
        state.fds.extend(named_open.map(open));
    }
    state.fds_left_out = (all - state.fds.len()) as u64;
    state.fds.sort_by_key(|open| open.fd);
    state
}

/// Returns the recorded start state of a process or of its nearest ancestor that has one, with the
/// number of that process.
fn known_state<'a>(moment: &Moment<'a>, number: u32) -> Option<(u32, &'a ProcessState)> {
    let process = |number| moment.world.process(number).map(|process| (number, process));
    let mut ancestors = std::iter::successors(process(number), |(_, at)| process(at.parent?));
    let known = ancestors.by_ref().take(ANCESTORS_MAX).find(|(_, at)| at.state.is_some());
    known.and_then(|(of, at)| Some((of, at.state.as_deref()?)))
}
