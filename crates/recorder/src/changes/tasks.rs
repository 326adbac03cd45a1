//! What is needed to resolve the paths of each thread: its directory and its descriptors.

use std::cell::RefCell;
use std::collections::{BTreeMap, HashMap};
use std::rc::Rc;

use trace::event::StartHow;

use super::{AT_FDCWD, Known, is_named};

/// Longest path that is kept as the program spelt it; the kernel's limit.
const PATH_BYTES_MAX: usize = 4096;
/// Most descriptors of one table: the kernel's usual limit.
const DESCRIPTORS_MAX: usize = 1 << 20;
/// Most states of processes that have not begun.
const ANNOUNCED_MAX: usize = 1 << 14;

type Shared<T> = Rc<RefCell<T>>;

fn copy<T: Clone>(shared: &Shared<T>) -> Shared<T> {
    Rc::new(RefCell::new(shared.borrow().clone()))
}

/// Where a thread is.
#[derive(Clone, Default)]
pub(super) struct Place {
    pub cwd: Rc<[u8]>,
    /// In another root or mount namespace than ours.
    pub foreign: bool,
}

impl Place {
    /// Other paths hold from now on.
    pub fn leave(&mut self) {
        self.foreign = true;
    }
}

/// Descriptors of files that were opened by path, and since when each has its number.
type Files = BTreeMap<i32, (u64, Rc<[u8]>)>;

struct Task {
    process: u32,
    parent: u32,
    tid: u32,
    files: Shared<Files>,
    place: Shared<Place>,
}

/// All threads that live.
#[derive(Default)]
pub(super) struct Tasks {
    threads: HashMap<u32, Task>,
    /// What was told of processes before their first thread began.
    announced: HashMap<u32, (u64, Box<Known>)>,
}

impl Tasks {
    /// A thread begins. Gives what was told of its process before.
    pub fn start(
        &mut self,
        thread: u32,
        how: StartHow,
        process: u32,
        parent: u32,
        tid: u32,
    ) -> Option<(u64, Box<Known>)> {
        let (files, place) = match self.threads.get(&parent) {
            Some(maker) if how == StartHow::Thread => (maker.files.clone(), maker.place.clone()),
            Some(maker) => (copy(&maker.files), copy(&maker.place)),
            None => Default::default(),
        };
        self.threads.insert(thread, Task { process, parent, tid, files, place });
        self.announced.remove(&process)
    }

    /// A thread runs a new program, alone in its process.
    pub fn image(&mut self, thread: u32) {
        let Some(task) = self.threads.get_mut(&thread) else { return };
        task.files = copy(&task.files);
        task.place = copy(&task.place);
        let process = task.process;
        self.threads.retain(|&other, task| other == thread || task.process != process);
    }

    /// What a process has when a program begins in it, as it was then.
    pub fn state(&mut self, process: u32, tsc: u64, state: Box<Known>) {
        let Some(task) = self.threads.values().find(|task| task.process == process) else {
            if self.announced.len() < ANNOUNCED_MAX {
                self.announced.insert(process, (tsc, state));
            }
            return;
        };
        let mut files = task.files.borrow_mut();
        files.retain(|_, (since, _)| *since >= tsc);
        for open in &state.fds {
            if is_named(&open.target) {
                files.entry(open.fd).or_insert_with(|| (tsc, Rc::from(&open.target[..])));
            }
        }
        let mut place = task.place.borrow_mut();
        place.cwd = Rc::from(&state.cwd[..]);
        place.foreign |= state.root != b"/";
    }

    pub fn end(&mut self, thread: u32) {
        self.threads.remove(&thread);
    }

    pub fn exit(&mut self, process: u32) {
        self.announced.remove(&process);
        self.threads.retain(|_, task| task.process != process);
    }

    /// The path under which a descriptor was opened.
    pub fn descriptor(&self, thread: u32, fd: i32) -> Option<Rc<[u8]>> {
        let files = self.threads.get(&thread)?.files.borrow();
        files.get(&fd).map(|(_, path)| path.clone())
    }

    /// A descriptor has a number, unless something newer has it.
    pub fn install(&mut self, thread: u32, fd: i32, path: Rc<[u8]>, tsc: u64) {
        let Some(task) = self.threads.get(&thread) else { return };
        let mut files = task.files.borrow_mut();
        let older = files.get(&fd).is_none_or(|(since, _)| *since <= tsc);
        if older && fd >= 0 && files.len() < DESCRIPTORS_MAX {
            files.insert(fd, (tsc, path));
        }
    }

    /// What had the number at that time loses it.
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
        let old = files.range(first..=last).filter(|(_, (since, _))| *since <= tsc);
        let old: Vec<i32> = old.map(|(&fd, _)| fd).collect();
        old.iter().for_each(|fd| {
            files.remove(fd);
        });
    }

    /// A thread gets descriptors or a directory of its own.
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

    /// The task that a thread made is in a mount namespace of its own.
    pub fn child_leaves(&mut self, maker: u32, tid: i64) {
        let made = |task: &&Task| task.parent == maker && i64::from(task.tid) == tid;
        if let Some(task) = self.threads.values().find(made) {
            task.place.borrow_mut().leave();
        }
    }

    /// Whether a thread's paths are others than ours.
    pub fn is_foreign(&self, thread: u32) -> bool {
        self.threads.get(&thread).is_some_and(|task| task.place.borrow().foreign)
    }

    /// The absolute path of one that a thread names, relative to a directory's descriptor.
    pub fn resolve(&self, thread: u32, dir: i32, path: &[u8]) -> Option<Box<[u8]>> {
        if path.first() == Some(&b'/') {
            return Some(join(b"", path));
        }
        let task = self.threads.get(&thread)?;
        let base = match dir {
            AT_FDCWD => task.place.borrow().cwd.clone(),
            fd => task.files.borrow().get(&fd)?.1.clone(),
        };
        (base.first() == Some(&b'/')).then(|| join(&base, path))
    }
}

/// Joins paths. `..` stays, because what it means is known to the file system alone.
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
