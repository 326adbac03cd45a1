//! Tracks each thread's working directory and descriptors, which are needed to resolve paths.

use std::cell::RefCell;
use std::collections::{BTreeMap, HashMap, VecDeque};
use std::rc::Rc;

use file_tree::Inode;
use model::realm;
use syscalls::abi::files::AT_FDCWD;
use trace::event::{OpenFd, StartHow};

/// Maximum length of a path kept as spelt; the kernel's limit.
const PATH_BYTES_MAX: usize = 4096;
/// Maximum number of descriptors in a table: the kernel's usual limit.
const DESCRIPTORS_MAX: usize = 1 << 20;
/// Maximum number of remembered children of a task, and of ended tasks.
const REMEMBERED_MAX: usize = 256;
/// Maximum number of states of processes that have not begun.
const ANNOUNCED_MAX: usize = 1 << 14;

/// The parts of a process's state that concern paths.
pub(super) struct Known {
    /// The user whose rights the process has; see `rights::user_of`.
    pub user: u32,
    pub cwd: Vec<u8>,
    pub root: Vec<u8>,
    pub fds: Vec<OpenFd>,
}

/// Whether the target of a /proc/PID/fd link is the path of a file that still has it.
pub(super) fn is_named(target: &[u8]) -> bool {
    target.first() == Some(&b'/') && !target.ends_with(b" (deleted)") && realm::is_stored(target)
}

type Shared<T> = Rc<RefCell<T>>;

fn copy<T: Clone>(shared: &Shared<T>) -> Shared<T> {
    Rc::new(RefCell::new(shared.borrow().clone()))
}

/// The working directory and root of a thread.
#[derive(Clone, Default)]
pub(super) struct Place {
    pub cwd: Rc<[u8]>,
    /// The thread is in another root or mount namespace than the recorder.
    pub foreign: bool,
}

impl Place {
    /// Notes that the root or mount namespace has changed.
    pub fn leave(&mut self) {
        self.foreign = true;
    }
}

/// What a task shares with its creator.
#[derive(Clone, Copy)]
pub(super) struct Shares {
    pub files: bool,
    pub place: bool,
}

/// A file opened by path.
#[derive(Clone)]
pub(crate) struct Held {
    /// Time stamp from which the descriptor is valid.
    pub since: u64,
    pub path: Rc<[u8]>,
    /// Device and inode, if recorded.
    pub inode: Option<Inode>,
    /// The user who opened it.
    pub user: u32,
}

/// Descriptors of files opened by path.
type Files = BTreeMap<i32, Held>;

#[derive(Clone, Default)]
struct Task {
    process: u32,
    files: Shared<Files>,
    place: Shared<Place>,
    /// What children that have not begun will have.
    given: VecDeque<Given>,
    /// Children that began before the call creating them returned: thread id and number.
    begun: VecDeque<(u32, u32)>,
}

/// What a child starts with. Its creator may have changed directory before it begins.
#[derive(Clone)]
struct Given {
    tid: u32,
    files: Shared<Files>,
    place: Shared<Place>,
}

impl Task {
    fn give(&self, shares: Shares, tid: u32) -> Given {
        let files = if shares.files { self.files.clone() } else { copy(&self.files) };
        let place = if shares.place { self.place.clone() } else { copy(&self.place) };
        Given { tid, files, place }
    }

    fn claim(&mut self, tid: u32) -> Option<Given> {
        let at = self.given.iter().position(|given| given.tid == tid)?;
        self.given.remove(at)
    }
}

/// Appends to a list, dropping the first item if it is full.
fn push<T>(list: &mut VecDeque<T>, item: T) {
    if list.len() == REMEMBERED_MAX {
        list.pop_front();
    }
    list.push_back(item);
}

/// All living threads.
#[derive(Default)]
pub(super) struct Tasks {
    threads: HashMap<u32, Task>,
    /// Tasks that ended last: they may have children that have not begun.
    ended: VecDeque<(u32, Task)>,
    /// States of processes whose first thread has not begun.
    announced: HashMap<u32, (u64, Box<Known>)>,
}

impl Tasks {
    /// Adds a thread. Returns the state of its process, if that came before.
    pub fn start(
        &mut self,
        thread: u32,
        how: StartHow,
        process: u32,
        parent: u32,
        tid: u32,
    ) -> Option<(u64, Box<Known>)> {
        let ended = self.ended.iter_mut().find(|(number, _)| *number == parent);
        let maker = match self.threads.get_mut(&parent) {
            Some(maker) => Some(maker),
            None => ended.map(|(_, task)| task),
        };
        let mut task = Task { process, ..Task::default() };
        if let Some(maker) = maker {
            let Given { files, place, .. } = match maker.claim(tid) {
                Some(given) => given,
                None => {
                    push(&mut maker.begun, (tid, thread));
                    // Assume the usual: threads share both, processes neither.
                    let shares = how == StartHow::Thread;
                    maker.give(Shares { files: shares, place: shares }, tid)
                }
            };
            (task.files, task.place) = (files, place);
        }
        self.threads.insert(thread, task);
        self.announced.remove(&process)
    }

    /// Takes the return of a call that creates a task.
    pub fn spawned(&mut self, thread: u32, tid: i64, shares: Shares, leaves: bool) {
        let Some(maker) = self.threads.get_mut(&thread) else { return };
        let Ok(tid) = u32::try_from(tid) else { return };
        let begun = maker.begun.iter().position(|(begun, _)| *begun == tid);
        let child = begun.and_then(|at| maker.begun.remove(at)).map(|(_, child)| child);
        if child.is_none() {
            let given = maker.give(shares, tid);
            given.place.borrow_mut().foreign |= leaves;
            push(&mut maker.given, given);
        } else if let Some(task) = child.and_then(|child| self.threads.get(&child))
            && leaves
        {
            task.place.borrow_mut().leave();
        }
    }

    /// A thread runs a new program, alone in its process.
    pub fn image(&mut self, thread: u32) {
        let Some(task) = self.threads.get_mut(&thread) else { return };
        task.files = copy(&task.files);
        task.place = copy(&task.place);
        let process = task.process;
        self.threads.retain(|&other, task| other == thread || task.process != process);
    }

    /// Sets descriptors and directory to the process's state at a time.
    pub fn state(&mut self, process: u32, tsc: u64, state: Box<Known>) {
        let Some(task) = self.threads.values().find(|task| task.process == process) else {
            if self.announced.len() < ANNOUNCED_MAX {
                self.announced.insert(process, (tsc, state));
            }
            return;
        };
        let mut files = task.files.borrow_mut();
        let all = std::mem::take(&mut *files).into_iter();
        let (before, since): (Files, Files) = all.partition(|(_, held)| held.since < tsc);
        *files = since;
        for open in &state.fds {
            if is_named(&open.target) {
                let known = before.get(&open.fd).filter(|held| *held.path == *open.target);
                let path = || Rc::from(&open.target[..]);
                let new = || Held { since: tsc, path: path(), inode: None, user: state.user };
                let held = || known.map_or_else(new, |held| Held { since: tsc, ..held.clone() });
                files.entry(open.fd).or_insert_with(held);
            }
        }
        let mut place = task.place.borrow_mut();
        place.cwd = Rc::from(&state.cwd[..]);
        place.foreign |= state.root != b"/";
    }

    pub fn end(&mut self, thread: u32) {
        if let Some(task) = self.threads.remove(&thread) {
            push(&mut self.ended, (thread, task));
        }
    }

    pub fn exit(&mut self, process: u32) {
        self.announced.remove(&process);
        let gone: Vec<u32> = {
            let of_process = self.threads.iter().filter(|(_, task)| task.process == process);
            of_process.map(|(&thread, _)| thread).collect()
        };
        gone.into_iter().for_each(|thread| self.end(thread));
    }

    /// The path under which a descriptor was opened.
    pub fn descriptor(&self, thread: u32, fd: i32) -> Option<Rc<[u8]>> {
        self.held(thread, fd).map(|held| held.path)
    }

    /// The file behind a descriptor.
    pub fn held(&self, thread: u32, fd: i32) -> Option<Held> {
        let files = self.threads.get(&thread)?.files.borrow();
        files.get(&fd).cloned()
    }

    /// The process of a thread.
    pub fn process(&self, thread: u32) -> Option<u32> {
        self.threads.get(&thread).map(|task| task.process)
    }

    /// Sets a descriptor, unless a newer file has its number.
    pub fn install(&mut self, thread: u32, fd: i32, held: Held) {
        let Some(task) = self.threads.get(&thread) else { return };
        let mut files = task.files.borrow_mut();
        let older = files.get(&fd).is_none_or(|newest| newest.since <= held.since);
        if older && fd >= 0 && files.len() < DESCRIPTORS_MAX {
            files.insert(fd, held);
        }
    }

    /// Closes a descriptor, unless it was opened after `tsc`.
    pub fn close(&mut self, thread: u32, fd: i32, tsc: u64) {
        self.close_range(thread, fd as u32, fd as u32, tsc);
    }

    pub fn close_range(&mut self, thread: u32, first: u32, last: u32, tsc: u64) {
        let (Some(task), Ok(first)) = (self.threads.get(&thread), i32::try_from(first)) else {
            return;
        };
        let last = i32::try_from(last).unwrap_or(i32::MAX);
        if first > last {
            return;
        }
        let mut files = task.files.borrow_mut();
        let old = files.range(first..=last).filter(|(_, held)| held.since <= tsc);
        let old: Vec<i32> = old.map(|(&fd, _)| fd).collect();
        old.iter().for_each(|fd| {
            files.remove(fd);
        });
    }

    /// Makes a thread's descriptors or directory its own.
    pub fn unshare(&mut self, thread: u32, files: bool, place: bool) {
        let Some(task) = self.threads.get_mut(&thread) else { return };
        if files {
            task.files = copy(&task.files);
        }
        if place {
            task.place = copy(&task.place);
        }
    }

    pub fn change_place(&mut self, thread: u32, change: impl FnOnce(&mut Place)) {
        if let Some(task) = self.threads.get(&thread) {
            change(&mut task.place.borrow_mut());
        }
    }

    /// Whether a thread has another root or mount namespace than the recorder.
    pub fn is_foreign(&self, thread: u32) -> bool {
        self.threads.get(&thread).is_some_and(|task| task.place.borrow().foreign)
    }

    /// Makes a path absolute that a thread names relative to a directory descriptor.
    pub fn resolve(&self, thread: u32, dir: i32, path: &[u8]) -> Option<Box<[u8]>> {
        if path.first() == Some(&b'/') {
            return Some(join(b"", path));
        }
        let task = self.threads.get(&thread)?;
        let base = match dir {
            AT_FDCWD => task.place.borrow().cwd.clone(),
            fd => task.files.borrow().get(&fd)?.path.clone(),
        };
        (base.first() == Some(&b'/')).then(|| join(&base, path))
    }
}

/// Joins paths. `..` stays, because only the file system knows where it leads.
fn join(base: &[u8], path: &[u8]) -> Box<[u8]> {
    let mut out = Vec::with_capacity(base.len() + path.len() + 1);
    for component in base.split(|&c| c == b'/').chain(path.split(|&c| c == b'/')) {
        let above_all = component == b".." && out.is_empty();
        if !component.is_empty() && component != b"." && !above_all {
            out.push(b'/');
            out.extend_from_slice(component);
        }
    }
    if out.is_empty() {
        out.push(b'/');
    }
    if out.len() > PATH_BYTES_MAX {
        out = model::path::resolve(base, path);
    }
    out.into()
}

#[cfg(test)]
mod tests {
    use super::join;

    #[test]
    fn joined_paths_keep_what_only_the_file_system_knows() {
        let check = |base: &str, path: &str, expected: &str| {
            let joined = join(base.as_bytes(), path.as_bytes());
            assert_eq!(String::from_utf8_lossy(&joined), expected, "{base} + {path}");
        };
        check("/a", "b//./c/", "/a/b/c");
        check("/a", "../b", "/a/../b");
        check("/a", "", "/a");
        check("", "/../..", "/");
        check("", "/x/..", "/x/..");
        let deep = "x/../".repeat(2000);
        check("/a", &deep, "/a");
    }
}
