//! The state of all recorded processes at one point of the recording.

mod credentials;
mod directory;
mod fold;
mod given;
mod outstanding;
mod spawned;
mod tasks;
mod ties;
mod views;

use std::cell::{Ref, RefCell};
use std::collections::{BTreeMap, BTreeSet, HashMap, VecDeque};
use std::rc::Rc;

use syscalls::abi::tasks::{CLONE_FILES, CLONE_FS};
use syscalls::record::part;
use trace::event::{Call, Data, KernelEvent, ProcessState, StartHow};
use trace::kernel::KernelLayouts;

use crate::budget::{Budget, Held};
use crate::contents::Contents;
use crate::descriptors::{DescriptorTable, Entry};
use crate::filters::Filters;
use crate::kernel_devices::KernelDevices;
use crate::kernel_pids::KernelPids;
use crate::open_files::{Description, OpenId, OpenIds};
use crate::path;
use crate::places::{Links, Place, Space};
use crate::step::{Effect, Step};
pub use credentials::{Credentials, IdSet};
pub(crate) use credentials::{CredentialsChange, IdChange, given};
pub use directory::Directory;
use directory::{Cwd, copy};
use given::Given;
use outstanding::Outstanding;
use spawned::{Creator, Spawned, claim, push};
pub use ties::Ties;
pub(crate) use ties::TiesChange;

/// Limit for the bytes of argument strings kept per process.
const ARGV_BYTES_MAX: usize = 64 << 10;

/// A live process, or one whose end was not seen yet.
#[derive(Debug)]
pub struct Process {
    /// Process id as the process sees it.
    pub pid: u32,
    /// Number of the process that created it.
    pub parent: Option<u32>,
    /// Its parent, process group and session; [`World::ties`] also knows who has ended.
    ties: Ties,
    /// Ids of the thread that ended last.
    last_credentials: Option<Rc<Credentials>>,
    /// Path of the program it runs, once known.
    pub exe: Rc<[u8]>,
    /// Arguments of the program it runs, once known.
    pub argv: Argv,
    /// State when its program began, once known.
    pub state: Option<Rc<ProcessState>>,
    /// Its live threads.
    threads: BTreeSet<u32>,
    /// Ids of threads that have ended.
    former: BTreeMap<u32, u32>,
    /// Budget shares of the process itself, its state and its arguments.
    _held: Held,
    held_state: Option<Held>,
    held_argv: Option<Rc<Held>>,
}

/// The arguments of a program.
#[derive(Debug, Clone, Default)]
pub struct Argv {
    /// Consecutive strings, each with a terminating NUL.
    bytes: Rc<[u8]>,
}

impl Argv {
    /// Returns the arguments in order.
    pub fn iter(&self) -> impl Iterator<Item = &[u8]> {
        let bytes =
            self.bytes.strip_suffix(b"\0").or((!self.bytes.is_empty()).then_some(&self.bytes));
        bytes.into_iter().flat_map(|bytes| bytes.split(|&byte| byte == 0))
    }
}

impl Process {
    /// Number of its live threads.
    pub fn threads(&self) -> usize {
        self.threads.len()
    }

    /// Id of a thread that has ended, if that is remembered.
    pub fn former_tid(&self, thread: u32) -> Option<u32> {
        self.former.get(&thread).copied()
    }
}

/// A live thread.
#[derive(Debug)]
pub struct Thread {
    /// Number of its process.
    pub process: u32,
    /// Thread id as the process sees it.
    pub tid: u32,
    files: Rc<RefCell<DescriptorTable>>,
    cwd: Cwd,
    pub(crate) space: Space,
    /// Its seccomp filters.
    filters: Option<Rc<Filters>>,
    credentials: Rc<Credentials>,
    /// Inheritance of tasks that it created and that have no event yet.
    spawned: VecDeque<Spawned>,
    /// Tasks that have begun, and the calls that created them have not come yet.
    begun: VecDeque<u32>,
    /// True until its first call after the start of its program.
    fresh: bool,
    /// Return time of its last call, while the effects of that call are pending.
    outstanding: Option<u64>,
    _held: Held,
}

/// Budget share of a task with its state.
const TASK_BYTES: usize = size_of::<Thread>() + 512;

/// Limit for ended threads whose new tasks had no event yet.
const LATE_MAX: usize = 1024;
/// Limit for the ended threads of a process whose ids are remembered: what they stored is found later.
const FORMER_MAX: usize = 1024;

/// The fold. Events must come in the order of their time stamps.
///
/// Calls overlap: what a call removes is gone when it begins, and what it creates exists when it
/// returns. Memory is bounded by the number of live objects. Objects beyond the [`Budget`] are left
/// out.
#[derive(Debug, Default)]
pub struct World {
    processes: BTreeMap<u32, Process>,
    threads: BTreeMap<u32, Thread>,
    outstanding: Outstanding,
    /// States announced for programs that have not begun yet, by process.
    announced: HashMap<u32, (Rc<ProcessState>, Held)>,
    pipes: u64,
    /// True if a thread has seccomp filters.
    filtered: bool,
    /// True if mounts and roots are followed.
    pub(crate) follows_mounts: bool,
    /// True if `..` stays in paths.
    keeps_spelling: bool,
    /// True if a process has had its own mounts or root.
    pub(crate) sees: bool,
    /// The mount namespace of the first processes.
    pub(crate) first_space: Space,
    mounts: u32,
    links: Links,
    /// By thread that ended: its process, and the inheritance of its new tasks that had no event
    /// yet.
    late: BTreeMap<u32, (u32, VecDeque<Spawned>)>,
    budget: Budget,
    open_ids: OpenIds,
    given: Given,
    /// Number of descriptors and tasks left out for lack of budget.
    left_out: u64,
    /// What is in events of the kernel.
    kernel_layouts: KernelLayouts,
    /// And whose threads they tell of.
    kernel_pids: KernelPids,
    /// Names of the devices that they tell of.
    kernel_devices: KernelDevices,
}

/// Returns the budget share of a state.
fn bytes_of(state: &ProcessState) -> usize {
    let open: usize = state.fds.iter().map(|open| size_of_val(open) + open.target.len()).sum();
    size_of_val(state) + open + state.exe.len() + state.cwd.len() + state.root.len()
}

impl Thread {
    fn give(&self, flags: u64, tid: Option<i64>, ties: Ties) -> Spawned {
        let Thread { files, cwd, space, filters, credentials, .. } = self;
        Creator { files, cwd, space, filters, credentials }.give(flags, tid, ties)
    }
}

impl World {
    /// Makes the world before the first event.
    pub fn new() -> World {
        World::default()
    }

    /// Makes a world whose paths keep `..` as the program spelt it, for who can ask the file system
    /// where that leads.
    pub fn keeping_spelling() -> World {
        World { keeps_spelling: true, ..World::default() }
    }

    /// Returns a process by its number in the trace.
    pub fn process(&self, number: u32) -> Option<&Process> {
        self.processes.get(&number)
    }

    /// Returns a thread by its number in the trace.
    pub fn thread(&self, number: u32) -> Option<&Thread> {
        self.threads.get(&number)
    }

    /// Returns all live processes.
    pub fn processes(&self) -> impl Iterator<Item = (u32, &Process)> {
        self.processes.iter().map(|(&number, process)| (number, process))
    }

    /// Returns process id and thread id of a thread.
    pub fn ids(&self, thread: u32) -> Option<(u32, u32)> {
        let thread = self.threads.get(&thread)?;
        Some((self.processes.get(&thread.process)?.pid, thread.tid))
    }

    /// Returns the descriptors of a thread.
    pub fn descriptors(&self, thread: u32) -> Option<Ref<'_, DescriptorTable>> {
        Some(self.threads.get(&thread)?.files.borrow())
    }

    /// Returns true if another task may use the same descriptor table.
    pub fn shares_descriptors(&self, thread: u32) -> bool {
        self.threads.get(&thread).is_some_and(|t| Rc::strong_count(&t.files) > 1)
    }

    /// Calls `each` for every open file of the live threads, repeatedly for shared ones.
    pub fn open_files(&self, each: &mut dyn FnMut(&Description)) {
        for thread in self.threads.values() {
            thread.files.borrow().iter().for_each(|(_, entry)| each(entry.description));
        }
    }

    /// Calls `each` for every open file that nobody has open any more since the event before.
    pub fn closed_files(&self, each: &mut dyn FnMut(OpenId)) {
        self.open_ids.closed(each);
    }

    pub(crate) fn open_ids(&self) -> &OpenIds {
        &self.open_ids
    }

    /// Calls `each` for every descriptor of the live threads with its process id, repeatedly for
    /// shared ones.
    pub fn descriptors_of_all(&self, each: &mut dyn FnMut(u32, Entry<'_>)) {
        for thread in self.threads.values() {
            let pid = self.processes.get(&thread.process).map_or(0, |process| process.pid);
            thread.files.borrow().iter().for_each(|(_, entry)| each(pid, entry));
        }
    }

    /// Returns the open file behind a descriptor of a live process.
    pub fn descriptor_of(&self, pid: u32, fd: i32) -> Option<Rc<Description>> {
        let is_its = |thread: &&Thread| {
            self.processes.get(&thread.process).is_some_and(|process| process.pid == pid)
        };
        let files = self.threads.values().find(is_its)?.files.borrow();
        Some(Rc::clone(files.get(fd)?.description))
    }

    /// Returns the working directory of a thread.
    pub fn directory(&self, thread: u32) -> Option<Rc<Directory>> {
        Some(self.threads.get(&thread)?.cwd.borrow().clone())
    }

    /// Returns the path of a thread's working directory, empty if unknown.
    pub fn cwd(&self, thread: u32) -> Vec<u8> {
        self.directory(thread).map(|directory| directory.path.clone()).unwrap_or_default()
    }

    /// What is in events of the kernel.
    pub fn kernel_layouts(&self) -> &KernelLayouts {
        &self.kernel_layouts
    }

    /// Names of the devices that events of the kernel name.
    pub fn kernel_devices(&self) -> &KernelDevices {
        &self.kernel_devices
    }

    /// The process of a thread by the kernel's numbers, if its events tell.
    pub fn kernel_pid(&self, task: u32) -> Option<u32> {
        self.kernel_pids.of(task)
    }

    /// Takes an event of the kernel, which changes nothing else.
    pub(crate) fn kernel_event(&mut self, event: &KernelEvent) {
        self.kernel_pids.event(event);
    }

    /// Number of descriptors and tasks left out because too many lived at the same time.
    pub fn left_out(&self) -> u64 {
        self.left_out
    }

    /// Returns true if a thread has seccomp filters.
    pub fn has_filters(&self) -> bool {
        self.filtered
    }

    /// Returns true if the program's own seccomp filter answers a call of a thread now, so that the
    /// kernel does not make it.
    pub fn is_answered(&self, thread: u32, call: &Call) -> bool {
        let filters = || self.threads.get(&thread).and_then(|thread| thread.filters.as_ref());
        self.filtered && filters().is_some_and(|filters| filters.answer(call))
    }

    pub(crate) fn expect_filters(&mut self) {
        self.filtered = true;
    }

    /// Makes a table with nothing known to be open.
    fn no_files(&self) -> Rc<RefCell<DescriptorTable>> {
        Rc::new(RefCell::new(DescriptorTable::new(self.budget.clone(), self.open_ids.clone())))
    }

    /// Returns a path relative to a directory.
    pub(crate) fn joined(&self, directory: &[u8], path: &[u8]) -> Vec<u8> {
        match self.keeps_spelling {
            true => path::join(directory, path),
            false => path::resolve(directory, path),
        }
    }

    /// Makes a working directory with the initial root.
    pub(crate) fn directory_at(&self, path: impl Into<Vec<u8>>) -> Rc<Directory> {
        self.directory_in(Place { mount: 0, path: path.into() }, None)
    }

    /// A ring was made: operations will be submitted to it.
    pub(crate) fn expect_operations(&mut self) {
        self.given.submits();
    }

    /// Returns true if a call has given a number to a file since then.
    pub(crate) fn was_given(&self, thread: u32, fd: i32, since: u64) -> bool {
        let process = self.threads.get(&thread).map(|thread| thread.process);
        process.is_some_and(|process| self.given.has(process, fd, since))
    }

    pub(crate) fn next_pipe(&mut self) -> u64 {
        self.pipes += 1;
        self.pipes
    }

    /// Applies the effects of all calls that have returned by now.
    fn advance(&mut self, tsc: u64) {
        while let Some((thread, effects)) = self.outstanding.due(tsc) {
            self.settle_with(thread, effects);
        }
    }

    /// Applies the effects of a thread's last call: its next event proves that it returned.
    fn settle(&mut self, thread: u32) {
        let Some(tsc) = self.threads.get(&thread).and_then(|t| t.outstanding) else { return };
        if let Some(effects) = self.outstanding.take(tsc, thread) {
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
        let number = thread;
        let Some(thread) = self.threads.get_mut(&number) else { return };
        match effect {
            Effect::View(change) => self.change_view(number, change),
            Effect::Ties(change) => self.change_ties(number, change),
            Effect::Credentials(change) => self.change_credentials(number, change),
            Effect::Install { fd, entry } => {
                let has_room = thread.files.borrow_mut().install(fd, entry);
                self.left_out += u64::from(!has_room);
            }
            Effect::Close { fd } => thread.files.borrow_mut().close(fd),
            Effect::CloseRange { first, last } => {
                thread.files.borrow_mut().close_range(first, last);
            }
            Effect::SetCloseOnExec { first, last, on } => {
                thread.files.borrow_mut().set_close_on_exec(first, last, on);
            }
            Effect::Chdir { directory } => *thread.cwd.borrow_mut() = directory,
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
        self.end(number);
        if !self.budget.has_room() {
            self.left_out += 1;
            return;
        }
        let mut given = None;
        if let Some(maker) = self.threads.get_mut(&parent) {
            // The creating call was not recorded: inherit the creator's current state.
            let usual = if how == StartHow::Thread { CLONE_FILES | CLONE_FS } else { 0 };
            let ties = || {
                let process = self.processes.get(&maker.process);
                process.map(|process| process.ties.of_child(process.pid, maker.process, usual))
            };
            given = claim(&mut maker.spawned, tid);
            if given.is_none() {
                push(&mut maker.begun, number);
                given = Some(maker.give(usual, None, ties().unwrap_or_default()));
            }
        } else if let Some((_, spawned)) = self.late.get_mut(&parent) {
            given = claim(spawned, tid);
        } else if how == StartHow::Thread {
            // The creator is unknown. Threads of one process most likely share.
            let other = self.processes.get(&process).and_then(|p| p.threads.first());
            let other = other.and_then(|other| self.threads.get(other));
            given = other.map(|other| other.give(CLONE_FILES | CLONE_FS, None, Ties::default()));
        }
        let given = given.unwrap_or_else(|| Spawned {
            tid: None,
            files: self.no_files(),
            cwd: Cwd::default(),
            space: Rc::clone(&self.first_space),
            filters: None,
            credentials: Rc::default(),
            ties: Ties::default(),
        });
        let ties = given.ties_of(pid);
        let Spawned { files, cwd, space, filters, credentials, .. } = given;
        let maker = self.threads.get(&parent);
        let late = self.late.get(&parent).map(|late| late.0);
        let maker_process = maker.map(|m| m.process).or(late);
        let inherited = maker_process
            .and_then(|m| self.processes.get(&m))
            .map(|m| (m.exe.clone(), m.argv.clone(), m.held_argv.clone()));
        let entry = self.processes.entry(process).or_insert_with(|| {
            let (exe, argv, held_argv) = inherited.unwrap_or_default();
            Process {
                pid,
                parent: maker_process,
                ties,
                last_credentials: None,
                exe,
                argv,
                state: None,
                threads: BTreeSet::new(),
                former: BTreeMap::new(),
                _held: self.budget.hold(size_of::<Process>()),
                held_state: None,
                held_argv,
            }
        });
        entry.threads.insert(number);
        let fresh = how != StartHow::Thread;
        let (spawned, begun) = (VecDeque::new(), VecDeque::new());
        let (_held, outstanding) = (self.budget.hold(TASK_BYTES), None);
        let thread = Thread {
            process,
            tid,
            files,
            cwd,
            space,
            filters,
            credentials,
            spawned,
            begun,
            fresh,
            outstanding,
            _held,
        };
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
        Credentials::exec(&mut thread.credentials);
        let process = thread.process;
        if let Some(process) = self.processes.get_mut(&process) {
            for other in std::mem::replace(&mut process.threads, BTreeSet::from([number])) {
                if other != number {
                    self.threads.remove(&other);
                }
            }
            let argv = data.iter().find(|d| d.part == part::ARGV);
            let has_room = self.budget.has_room();
            let argv = argv.filter(|_| has_room);
            if let Some(Ok(bytes)) = argv.map(|d| contents.read(&d.content, ARGV_BYTES_MAX)) {
                process.held_argv = Some(Rc::new(self.budget.hold(bytes.len())));
                process.argv = Argv { bytes: bytes.into() };
                // The state recorded at launch has the program's real path.
                if !(launched && process.state.is_some()) {
                    process.exe = process.argv.iter().next().unwrap_or_default().into();
                }
            }
        }
        self.state(process);
    }

    /// Records a state read while a program is set up. It usually precedes the program's first
    /// event, but the time stamps of two CPUs may swap them.
    fn announce(&mut self, state: &ProcessState) {
        if !self.budget.has_room() {
            self.left_out += 1;
            return;
        }
        let held = self.budget.hold(bytes_of(state));
        self.announced.insert(state.process, (Rc::new(state.clone()), held));
        if self.tasks(state.process).any(|thread| thread.fresh) {
            self.state(state.process);
        }
    }

    /// Returns the threads of a process.
    fn tasks(&self, process: u32) -> impl Iterator<Item = &Thread> {
        let threads = self.processes.get(&process).map(|process| process.threads.iter());
        threads.into_iter().flatten().filter_map(|number| self.threads.get(number))
    }

    /// Applies a state found among a thread's own events: it holds from there on.
    fn correct(&mut self, state: &ProcessState) {
        self.take_over(state, DescriptorTable::replace);
        self.take_ids(state);
        self.take_parent(state);
        if let Some(process) = self.processes.get_mut(&state.process) {
            process.exe = state.exe[..].into();
            process.state = Some(Rc::new(state.clone()));
            process.held_state = Some(self.budget.hold(bytes_of(state)));
        }
    }

    fn state(&mut self, process: u32) {
        let Some((state, held)) = self.announced.remove(&process) else { return };
        self.take_over(&state, DescriptorTable::correct);
        self.take_ids(&state);
        self.take_parent(&state);
        if let Some(process) = self.processes.get_mut(&process) {
            process.exe = state.exe[..].into();
            process.state = Some(state);
            process.held_state = Some(held);
        }
    }

    /// Sets descriptors and directory of all threads of a process to copies of a recorded state.
    fn take_over(
        &self,
        state: &ProcessState,
        by: fn(&mut DescriptorTable, &[trace::event::OpenFd]),
    ) {
        let elsewhere = || self.directory_elsewhere(&state.cwd[..]);
        let leads_elsewhere = !self.follows_mounts && state.root != b"/";
        let directory =
            if leads_elsewhere { elsewhere() } else { self.directory_at(&state.cwd[..]) };
        let mut files: Option<DescriptorTable> = None;
        for thread in self.tasks(state.process) {
            let known = thread.cwd.borrow().path.clone();
            // A directory that has lost its name is known by the one that it had.
            let is_gone =
                state.cwd.strip_suffix(b" (deleted)").is_some_and(|was| *was == known[..]);
            // With mounts followed, the fold's paths differ from the kernel's: keep them.
            if (!self.sees || known.is_empty()) && !is_gone {
                let stays = !self.follows_mounts && thread.cwd.borrow().root.is_some();
                let directory = if stays { elsewhere() } else { directory.clone() };
                *thread.cwd.borrow_mut() = directory;
            }
            let mut table = thread.files.borrow_mut();
            match &files {
                Some(files) => *table = files.clone(),
                None if self.sees => {
                    table.confirm(&state.fds);
                    files = Some(table.clone());
                }
                None => {
                    by(&mut table, &state.fds);
                    files = Some(table.clone());
                }
            }
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
            process.threads.remove(&number);
            if !process.threads.is_empty() {
                process.former.insert(number, thread.tid);
                if process.former.len() > FORMER_MAX {
                    process.former.pop_first();
                }
            }
            process.last_credentials = Some(thread.credentials);
        }
    }

    /// Removes a process and its threads. Threads of a killed process may have no end event.
    fn exit(&mut self, number: u32) {
        self.announced.remove(&number);
        let threads = self.processes.remove(&number).map(|process| process.threads);
        for thread in threads.into_iter().flatten() {
            self.threads.remove(&thread);
        }
    }
}

/// The descriptors of a thread while one of its calls is processed.
pub struct Surroundings<'a> {
    world: &'a World,
    step: &'a Step,
}

impl<'a> Surroundings<'a> {
    /// Makes the view of the thread of `step`, before that step is finished.
    pub fn new(world: &'a World, step: &'a Step) -> Surroundings<'a> {
        Surroundings { world, step }
    }

    /// Returns the label of a descriptor when the call begins.
    pub fn fd(&self, fd: i32) -> Option<Vec<u8>> {
        let table = self.world.descriptors(self.step.thread)?;
        table.get(fd).map(|entry| entry.description.label())
    }

    /// Returns the label of a descriptor after the call.
    pub fn new_fd(&self, fd: i32) -> Option<Vec<u8>> {
        self.given(fd).map(|d| d.label()).or_else(|| self.fd(fd))
    }

    /// Returns the labels of all descriptors that the call creates.
    pub fn new_paths(&self) -> impl Iterator<Item = Vec<u8>> {
        self.step.at_exit.iter().filter_map(|effect| match effect {
            Effect::Install { entry, .. } => Some(entry.description.label()),
            _ => None,
        })
    }

    /// Returns the working directory, if known.
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
