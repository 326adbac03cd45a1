//! The state of all recorded processes at one point of the recording.

use std::cell::{Ref, RefCell};
use std::collections::{BTreeMap, HashMap, VecDeque};
use std::rc::Rc;

use events::record::part;
use trace::event::{Call, Data, Event, EventKind, Outcome, ProcessState, RECORDER, StartHow};

use crate::contents::{self, Contents};
use crate::descriptors::{Description, Descriptor, DescriptorTable};
use crate::effects::{self, Effect, Step};
use crate::filters::Filters;

/// `CLONE_FILES`: the new task shares its maker's descriptors.
pub(crate) const CLONE_FILES: u64 = 0x400;
/// `CLONE_FS`: the new task shares its maker's working directory.
pub(crate) const CLONE_FS: u64 = 0x200;
/// `O_CLOEXEC`.
const O_CLOEXEC: u32 = 0o2_000_000;
/// Bytes of argument strings that are kept of each process.
const ARGV_BYTES_MAX: usize = 64 << 10;

/// A process that lives, or whose end was not seen yet.
#[derive(Debug, Clone, Default)]
pub struct Process {
    /// Process id as the process sees it.
    pub pid: u32,
    /// The process that made it.
    pub parent: Option<u32>,
    /// Path of the program it runs, once known.
    pub exe: Vec<u8>,
    /// Arguments of the program it runs, once known.
    pub argv: Vec<Vec<u8>>,
    /// What it was when its program began, once known.
    pub state: Option<Box<ProcessState>>,
    /// Threads of it that live.
    pub threads: u32,
}

/// A thread that lives.
#[derive(Debug, Clone)]
pub struct Thread {
    /// Its process's number.
    pub process: u32,
    /// Thread id as the process sees it.
    pub tid: u32,
    files: Rc<RefCell<DescriptorTable>>,
    cwd: Rc<RefCell<Vec<u8>>>,
    /// Its seccomp filters.
    filters: Option<Rc<Filters>>,
    /// What its tasks were given that have not shown up yet.
    spawned: VecDeque<Spawned>,
    /// It has made no call since its program began.
    fresh: bool,
    /// When its last call returns, while the effects of that call are outstanding.
    outstanding: Option<u64>,
}

/// What a task gets from the one that makes it. It is set aside when the call begins: the maker may
/// have gone on before the new task's first event.
#[derive(Debug, Clone, Default)]
struct Spawned {
    /// The call's result, if it returned.
    tid: Option<i64>,
    files: Rc<RefCell<DescriptorTable>>,
    cwd: Rc<RefCell<Vec<u8>>>,
    filters: Option<Rc<Filters>>,
}

/// Makers that ended while tasks of theirs were on their way.
const LATE_MAX: usize = 1024;
/// Tasks of one maker that may be on their way.
const SPAWNED_MAX: usize = 256;

/// The fold. Events must come in the order of their time stamps.
///
/// Calls overlap: what a call takes away is gone when it begins, what it gives is there when it
/// returns. Memory is bounded by what lives at the same time.
#[derive(Debug, Default)]
pub struct World {
    processes: BTreeMap<u32, Process>,
    threads: BTreeMap<u32, Thread>,
    outstanding: BTreeMap<(u64, u32), Vec<Effect>>,
    /// What processes will be when their next program begins: told as the program is set up.
    announced: HashMap<u32, Box<ProcessState>>,
    pipes: u64,
    /// Some thread has seccomp filters.
    filtered: bool,
    /// Of threads that ended, by number: their process, and what their tasks were given that have
    /// not shown up yet.
    late: BTreeMap<u32, (u32, VecDeque<Spawned>)>,
}

fn copy<T: Clone>(shared: &Rc<RefCell<T>>) -> Rc<RefCell<T>> {
    Rc::new(RefCell::new(shared.borrow().clone()))
}

impl Thread {
    /// Takes note of a call that makes a task.
    fn spawn(&mut self, flags: u64, call: &Call) {
        let tid = match call.outcome {
            Outcome::Returned { ret, .. } if ret < 0 => return,
            Outcome::Returned { ret, .. } => Some(ret),
            Outcome::Unfinished => None,
        };
        if self.spawned.len() == SPAWNED_MAX {
            self.spawned.pop_front();
        }
        self.spawned.push_back(self.give(flags, tid));
    }

    fn give(&self, flags: u64, tid: Option<i64>) -> Spawned {
        let shares = |flag| flags & flag != 0;
        let files = if shares(CLONE_FILES) { self.files.clone() } else { copy(&self.files) };
        let cwd = if shares(CLONE_FS) { self.cwd.clone() } else { copy(&self.cwd) };
        Spawned { tid, files, cwd, filters: self.filters.clone() }
    }
}

/// What was set aside for a task: the ids tell which, or, in another pid namespace, the order.
fn claim(spawned: &mut VecDeque<Spawned>, tid: u32) -> Option<Spawned> {
    let same = |spawned: &Spawned| spawned.tid == Some(tid.into());
    let at = spawned.iter().position(same).unwrap_or(0);
    spawned.remove(at)
}

impl World {
    /// A world before anything has happened.
    pub fn new() -> World {
        World::default()
    }

    /// A process by its number in the trace.
    pub fn process(&self, number: u32) -> Option<&Process> {
        self.processes.get(&number)
    }

    /// A thread by its number in the trace.
    pub fn thread(&self, number: u32) -> Option<&Thread> {
        self.threads.get(&number)
    }

    /// The processes that live.
    pub fn processes(&self) -> impl Iterator<Item = (u32, &Process)> {
        self.processes.iter().map(|(&number, process)| (number, process))
    }

    /// Process id and thread id of a thread.
    pub fn ids(&self, thread: u32) -> Option<(u32, u32)> {
        let thread = self.threads.get(&thread)?;
        Some((self.processes.get(&thread.process)?.pid, thread.tid))
    }

    /// The descriptors of a thread.
    pub fn descriptors(&self, thread: u32) -> Option<Ref<'_, DescriptorTable>> {
        Some(self.threads.get(&thread)?.files.borrow())
    }

    /// Whether somebody else may use the same descriptor table as a thread.
    pub fn shares_descriptors(&self, thread: u32) -> bool {
        self.threads.get(&thread).is_some_and(|t| Rc::strong_count(&t.files) > 1)
    }

    /// Every open file that a living thread has a descriptor for; shared ones come several times.
    pub fn open_files(&self, each: &mut dyn FnMut(&Description)) {
        for thread in self.threads.values() {
            thread.files.borrow().iter().for_each(|(_, entry)| each(&entry.description));
        }
    }

    /// Every descriptor of a living thread, with the id of its process; shared ones come several
    /// times.
    pub fn descriptors_of_all(&self, each: &mut dyn FnMut(u32, &Descriptor)) {
        for thread in self.threads.values() {
            let pid = self.processes.get(&thread.process).map_or(0, |process| process.pid);
            thread.files.borrow().iter().for_each(|(_, entry)| each(pid, entry));
        }
    }

    /// What a living process has open under a number.
    pub(crate) fn descriptor_of(&self, pid: u32, fd: i32) -> Option<Rc<Description>> {
        let is_its = |thread: &&Thread| {
            self.processes.get(&thread.process).is_some_and(|process| process.pid == pid)
        };
        let files = self.threads.values().find(is_its)?.files.borrow();
        Some(Rc::clone(&files.get(fd)?.description))
    }

    /// The working directory of a thread; empty while unknown.
    pub fn cwd(&self, thread: u32) -> Vec<u8> {
        self.threads.get(&thread).map(|t| t.cwd.borrow().clone()).unwrap_or_default()
    }

    /// Whether some thread has seccomp filters.
    pub fn has_filters(&self) -> bool {
        self.filtered
    }

    /// Whether a seccomp filter of the program's own answered a call that a thread makes now, so that it
    /// was not made.
    pub fn is_answered(&self, thread: u32, call: &Call) -> bool {
        let filters = || self.threads.get(&thread).and_then(|thread| thread.filters.as_ref());
        self.filtered && filters().is_some_and(|filters| filters.answer(call))
    }

    /// Takes one event in.
    pub fn apply(&mut self, event: &Event, contents: &mut dyn Contents) {
        let step = self.step(event, contents);
        self.finish(step);
    }

    /// [`World::apply`] for a call that changes nothing here.
    #[inline]
    pub fn pass(&mut self, event: &Event) {
        self.advance(event.tsc);
        if let Some(thread) = self.threads.get_mut(&event.thread) {
            thread.fresh = false;
            if thread.outstanding.is_some() {
                self.settle(event.thread);
            }
        }
    }

    /// The first half of [`World::apply`]: brings the world to the instant at which the event
    /// begins, and tells what the event will change. In between, a call can be decoded.
    pub fn step(&mut self, event: &Event, contents: &mut dyn Contents) -> Step {
        self.advance(event.tsc);
        self.settle(event.thread);
        let mut step = Step { thread: event.thread, ..Step::default() };
        match &event.kind {
            EventKind::Call(call) => {
                if let Some(thread) = self.threads.get_mut(&event.thread) {
                    thread.fresh = false;
                }
                step.answered = self.is_answered(event.thread, call);
                if step.answered || effects::changes_nothing(call) {
                    return step;
                }
                if let Some(flags) = effects::spawn_flags(call, contents)
                    && let Some(thread) = self.threads.get_mut(&event.thread)
                {
                    thread.spawn(flags, call);
                }
                effects::of_call(self, call, contents, &mut step);
            }
            EventKind::Start { how, process, parent, pid, tid } => {
                self.start(event.thread, *how, *process, *parent, *pid, *tid);
            }
            EventKind::Image { tid, data } => self.image(event.thread, *tid, data, contents),
            EventKind::State(state) if event.thread != RECORDER => self.correct(state),
            EventKind::State(state) => self.announce(state),
            EventKind::End { .. } => step.ended = true,
            EventKind::Exit { process, .. } => step.exited = Some(*process),
            EventKind::Signal { .. } | EventKind::Stall { .. } | EventKind::Gap { .. } => {}
        }
        step
    }

    /// The second half of [`World::apply`].
    pub fn finish(&mut self, step: Step) {
        for effect in step.at_entry {
            self.effect(step.thread, effect);
        }
        if let (Some(exit_tsc), Some(thread)) = (step.exit_tsc, self.threads.get_mut(&step.thread))
            && !step.at_exit.is_empty()
        {
            thread.outstanding = Some(exit_tsc);
            self.outstanding.insert((exit_tsc, step.thread), step.at_exit);
        }
        if step.ended {
            self.end(step.thread);
        }
        if let Some(process) = step.exited {
            self.exit(process);
        }
    }

    pub(crate) fn expect_filters(&mut self) {
        self.filtered = true;
    }

    pub(crate) fn next_pipe(&mut self) -> u64 {
        self.pipes += 1;
        self.pipes
    }

    /// Lets all calls that have returned by now take effect.
    fn advance(&mut self, tsc: u64) {
        while let Some(entry) = self.outstanding.first_entry() {
            if entry.key().0 > tsc {
                break;
            }
            let ((_, thread), effects) = entry.remove_entry();
            self.settle_with(thread, effects);
        }
    }

    /// A thread that does something has returned from its last call, whatever the clock says.
    fn settle(&mut self, thread: u32) {
        let Some(tsc) = self.threads.get(&thread).and_then(|t| t.outstanding) else { return };
        if let Some(effects) = self.outstanding.remove(&(tsc, thread)) {
            self.settle_with(thread, effects);
        }
    }

    fn settle_with(&mut self, thread: u32, effects: Vec<Effect>) {
        for effect in effects {
            self.effect(thread, effect);
        }
        if let Some(thread) = self.threads.get_mut(&thread) {
            thread.outstanding = None;
        }
    }

    fn effect(&mut self, thread: u32, effect: Effect) {
        let Some(thread) = self.threads.get_mut(&thread) else { return };
        match effect {
            Effect::Install { fd, entry } => thread.files.borrow_mut().install(fd, entry),
            Effect::Close { fd } => thread.files.borrow_mut().close(fd),
            Effect::CloseRange { first, last } => {
                thread.files.borrow_mut().close_range(first, last);
            }
            Effect::SetCloseOnExec { first, last, on } => {
                thread.files.borrow_mut().set_close_on_exec(first, last, on);
            }
            Effect::Chdir { path } => *thread.cwd.borrow_mut() = path,
            Effect::Bound { description, local } => {
                description.addresses.borrow_mut().local = Some(local);
            }
            Effect::Connected { description, peer } => {
                description.addresses.borrow_mut().peer = Some(peer);
            }
            Effect::UnshareFiles => thread.files = copy(&thread.files),
            Effect::UnshareCwd => thread.cwd = copy(&thread.cwd),
            Effect::Filter { program, all_threads } => {
                thread.filters = Filters::add(&program, thread.filters.take());
                if all_threads {
                    let (process, filters) = (thread.process, thread.filters.clone());
                    let others = self.threads.values_mut().filter(|t| t.process == process);
                    others.for_each(|other| other.filters = filters.clone());
                }
            }
        }
    }

    fn start(&mut self, number: u32, how: StartHow, process: u32, parent: u32, pid: u32, tid: u32) {
        let mut given = Spawned::default();
        if let Some(maker) = self.threads.get_mut(&parent) {
            // A task whose making was not recorded gets what its maker has now.
            let usual = if how == StartHow::Thread { CLONE_FILES | CLONE_FS } else { 0 };
            given = claim(&mut maker.spawned, tid).unwrap_or_else(|| maker.give(usual, None));
        } else if let Some((_, spawned)) = self.late.get_mut(&parent) {
            given = claim(spawned, tid).unwrap_or_default();
        } else if how == StartHow::Thread {
            // Nobody saw its maker: threads of one process share, most likely.
            let other = self.threads.values().find(|other| other.process == process);
            given = other.map(|other| other.give(CLONE_FILES | CLONE_FS, None)).unwrap_or_default();
        }
        let Spawned { files, cwd, filters, .. } = given;
        let maker = self.threads.get(&parent);
        let late = self.late.get(&parent).map(|late| late.0);
        let maker_process = maker.map(|m| m.process).or(late);
        let inherited = maker_process
            .and_then(|m| self.processes.get(&m))
            .map(|m| (m.exe.clone(), m.argv.clone()));
        self.end(number);
        let entry = self.processes.entry(process).or_insert_with(|| {
            let (exe, argv) = inherited.unwrap_or_default();
            Process { pid, parent: maker_process, exe, argv, ..Process::default() }
        });
        entry.threads += 1;
        let fresh = how != StartHow::Thread;
        let spawned = VecDeque::new();
        let thread =
            Thread { process, tid, files, cwd, filters, spawned, fresh, outstanding: None };
        self.threads.insert(number, thread);
        if fresh {
            self.state(process);
        }
    }

    fn image(&mut self, number: u32, tid: u32, data: &[Data], contents: &mut dyn Contents) {
        let Some(thread) = self.threads.get_mut(&number) else { return };
        thread.tid = tid;
        let launched = std::mem::replace(&mut thread.fresh, true);
        thread.files = copy(&thread.files);
        thread.files.borrow_mut().exec();
        thread.cwd = copy(&thread.cwd);
        let process = thread.process;
        self.threads.retain(|&other, thread| other == number || thread.process != process);
        if let Some(process) = self.processes.get_mut(&process) {
            process.threads = 1;
            let argv = data.iter().find(|d| d.part == part::ARGV);
            if let Some(Ok(bytes)) = argv.map(|d| contents.read(&d.content, ARGV_BYTES_MAX)) {
                process.argv = contents::strings(&bytes);
                // What a launched process runs was told at its start.
                if !(launched && process.state.is_some()) {
                    process.exe = process.argv.first().cloned().unwrap_or_default();
                }
            }
        }
        self.state(process);
    }

    /// The state is read while the program is set up: most often before its first event, but the
    /// clocks of two CPUs decide.
    fn announce(&mut self, state: &ProcessState) {
        self.announced.insert(state.process, Box::new(state.clone()));
        if self.threads.values().any(|t| t.process == state.process && t.fresh) {
            self.state(state.process);
        }
    }

    /// Among a thread's own events, a state is what holds from there on.
    fn correct(&mut self, state: &ProcessState) {
        for thread in self.threads.values().filter(|t| t.process == state.process) {
            *thread.cwd.borrow_mut() = state.cwd.clone();
            thread.files.borrow_mut().replace(&state.fds, O_CLOEXEC);
        }
        if let Some(process) = self.processes.get_mut(&state.process) {
            process.exe = state.exe.clone();
            process.state = Some(Box::new(state.clone()));
        }
    }

    fn state(&mut self, process: u32) {
        let Some(state) = self.announced.remove(&process) else { return };
        for thread in self.threads.values().filter(|t| t.process == state.process) {
            *thread.cwd.borrow_mut() = state.cwd.clone();
            thread.files.borrow_mut().correct(&state.fds, O_CLOEXEC);
        }
        if let Some(process) = self.processes.get_mut(&state.process) {
            process.exe = state.exe.clone();
            process.state = Some(state);
        }
    }

    fn end(&mut self, number: u32) {
        self.settle(number);
        let Some(thread) = self.threads.remove(&number) else { return };
        if !thread.spawned.is_empty() {
            self.late.insert(number, (thread.process, thread.spawned));
            if self.late.len() > LATE_MAX {
                self.late.pop_first();
            }
        }
        if let Some(process) = self.processes.get_mut(&thread.process) {
            process.threads = process.threads.saturating_sub(1);
        }
    }

    /// A killed process may leave threads that never said that they ended.
    fn exit(&mut self, number: u32) {
        self.processes.remove(&number);
        self.announced.remove(&number);
        self.threads.retain(|_, thread| thread.process != number);
    }
}

/// What a thread's descriptors mean while one of its calls is looked at.
pub struct View<'a> {
    world: &'a World,
    step: &'a Step,
}

impl<'a> View<'a> {
    /// The view of the thread that made `step`, before that step is finished.
    pub fn new(world: &'a World, step: &'a Step) -> View<'a> {
        View { world, step }
    }

    /// What a descriptor refers to as the call begins.
    pub fn fd(&self, fd: i32) -> Option<Vec<u8>> {
        let table = self.world.descriptors(self.step.thread)?;
        table.get(fd).map(|entry| entry.description.label())
    }

    /// What a descriptor that the call gives refers to.
    pub fn new_fd(&self, fd: i32) -> Option<Vec<u8>> {
        self.given(fd).map(|d| d.label()).or_else(|| self.fd(fd))
    }

    /// What all descriptors that the call gives refer to.
    pub fn new_paths(&self) -> impl Iterator<Item = Vec<u8>> {
        self.step.at_exit.iter().filter_map(|effect| match effect {
            Effect::Install { entry, .. } => Some(entry.description.label()),
            _ => None,
        })
    }

    /// The working directory, when known.
    pub fn cwd(&self) -> Option<Vec<u8>> {
        Some(self.world.cwd(self.step.thread)).filter(|cwd| !cwd.is_empty())
    }

    fn given(&self, number: i32) -> Option<&Rc<Description>> {
        self.step.at_exit.iter().find_map(|effect| match effect {
            Effect::Install { fd, entry } if *fd == number => Some(&entry.description),
            _ => None,
        })
    }
}
