//! Tasks, which make the recorded calls. One replaying program hosts every recorded process and
//! thread, and lets the kernel keep their state.
//!
//! A recorded thread is a thread. A recorded process is a *thread group of its own in the same
//! memory*: own descriptors, own directories and umask, own limits, own pid; so descriptor numbers,
//! locks and limits behave as recorded, while actions and results are passed without copies. Such a
//! group needs thread-local storage of the C library, which only the library can create. So each
//! group is cloned from a thread created for it, its *cradle*:
//!
//! ```text
//! task that plays the parent     cradle (a thread of the parent's group)     the new group
//!   spawn_process ------------->  clone(CLONE_VM), further down its own ---->  waits
//!                                 stack, with its own thread-local storage
//!                                 drops the parent's descriptors ----------->  body runs
//!   returns <------------------------------------------------------------------ (started)
//!                                 waits in the kernel, touching neither        body ends, closes
//!                                 stack nor thread-local storage               descriptors, exits
//!                                 reaps it, ends
//! ```
//!
//! Tasks have exactly the recorded descriptors: no file of ours is open in them, and they must not
//! print anything.

mod end;
mod group;
mod raw;
#[cfg(test)]
mod tests;

use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, mpsc};

use group::{Group, Member};

pub use end::{End, Ended};

/// What a task runs.
pub type Body = Box<dyn FnOnce() + Send>;

/// Initial descriptors of a new task.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Descriptors {
    /// None at all.
    None,
    /// Copies of the spawning task's.
    Copied,
    /// The spawning task's table (`CLONE_FILES`).
    Shared,
}

/// Initial working directory, root and umask of a new task.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Directories {
    /// Copies of the spawning task's.
    Copied,
    /// Shared with the spawning task (`CLONE_FS`).
    Shared,
}

/// Kernel ids of a task.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Identity {
    /// Its thread group.
    pub pid: i32,
    /// Its thread.
    pub tid: i32,
}

/// Stack size of a task.
const STACK: usize = 1 << 20;

/// Runs `body` as a process of its own, which starts with the calling task's descriptors and
/// directories (as chosen), limits and credentials. Returns when it has its copies.
pub fn spawn_process(
    descriptors: Descriptors,
    directories: Directories,
    body: Body,
    ended: Ended,
) -> io::Result<Identity> {
    group::silence_panics();
    let (started, starts) = mpsc::sync_channel(1);
    let group = Arc::new(Group::default());
    let member = group.join(ended);
    let birth = Birth { descriptors, started, member, body };
    let cradle = move || rock(birth, directories, &group);
    std::thread::Builder::new().stack_size(STACK).spawn(cradle)?;
    starts.recv().unwrap_or_else(|_| Err(io::Error::other("the cradle of a process broke")))
}

/// Runs `body` as another thread of the calling task's process. Returns when it has its copies.
pub fn spawn_thread(
    descriptors: Descriptors,
    directories: Directories,
    body: Body,
    ended: Ended,
) -> io::Result<Identity> {
    group::silence_panics();
    let (started, starts) = mpsc::sync_channel(1);
    let member = group::of_this_thread().join(ended);
    let birth = Birth { descriptors, started, member, body };
    let thread = move || {
        let apart = unshare(descriptors != Descriptors::Shared, directories);
        birth.live(apart);
    };
    std::thread::Builder::new().stack_size(STACK).spawn(thread)?;
    starts.recv().unwrap_or_else(|_| Err(io::Error::other("a thread broke before it started")))
}

/// Unshares the calling thread's tables.
fn unshare(descriptors: bool, directories: Directories) -> io::Result<()> {
    let mut flags = 0;
    flags |= if descriptors { libc::CLONE_FILES } else { 0 };
    flags |= if directories == Directories::Copied { libc::CLONE_FS } else { 0 };
    // SAFETY: takes no pointer, and replaces tables of this thread by copies.
    match unsafe { libc::unshare(flags) } {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}

/// A task that is about to start.
struct Birth {
    descriptors: Descriptors,
    started: mpsc::SyncSender<io::Result<Identity>>,
    member: Member,
    body: Body,
}

impl Birth {
    /// Runs the task on its own thread.
    fn live(self, prepared: io::Result<()>) {
        let prepared = prepared.and_then(|()| match self.descriptors {
            Descriptors::None => raw::check(raw::close_all()),
            Descriptors::Copied | Descriptors::Shared => Ok(()),
        });
        if let Err(error) = prepared {
            self.member.resign();
            let _ = self.started.send(Err(error));
            return;
        }
        self.member.is_this_thread();
        let _ = self.started.send(Ok(Identity { pid: raw::pid(), tid: raw::tid() }));
        drop(self.started);
        let body = self.body;
        let end = match catch_unwind(AssertUnwindSafe(body)) {
            Ok(()) => End::Returned,
            Err(_) => End::Panicked(group::last_panic()),
        };
        raw::let_go_of_descriptors();
        self.member.end(end);
    }
}

/// State shared by the cradle and its group while the group starts.
struct Crib {
    birth: Option<Birth>,
    /// 1 once the cradle has dropped its descriptor table.
    let_go: AtomicU32,
}

/// Main function of a cradle: clones a process and reaps it.
fn rock(birth: Birth, directories: Directories, group: &Group) {
    let mut flags = libc::CLONE_VM;
    flags |= if birth.descriptors == Descriptors::Shared { libc::CLONE_FILES } else { 0 };
    flags |= if directories == Directories::Shared { libc::CLONE_FS } else { 0 };
    let started = birth.started.clone();
    let mut crib = Crib { birth: Some(birth), let_go: AtomicU32::new(0) };
    match bear_and_reap(flags, &mut crib) {
        Ok(status) if libc::WIFSIGNALED(status) => group.killed(libc::WTERMSIG(status)),
        Ok(_) => {}
        Err(error) => {
            if let Some(birth) = crib.birth.take() {
                birth.member.resign();
            }
            let _ = started.send(Err(error));
        }
    }
}

/// Clones the group and waits until all of it is dead. While it lives, it uses this thread's
/// thread-local storage: between clone and wait, only raw calls may be made here.
#[inline(never)]
fn bear_and_reap(flags: i32, crib: &mut Crib) -> io::Result<i32> {
    let shared: *mut Crib = crib;
    // SAFETY: the group runs `begin` on the part of this stack below the gap, which this function
    // never reaches; the crib outlives the group, which is reaped here.
    let pid = unsafe { raw::clone_below(flags, begin, shared.cast()) };
    if pid < 0 {
        return Err(io::Error::from_raw_os_error(-pid as i32));
    }
    raw::let_go_of_descriptors();
    // SAFETY: only the atomic word is accessed, and the group does not move the crib.
    let let_go = unsafe { &(*shared).let_go };
    let_go.store(1, Ordering::Release);
    raw::wake(let_go);
    Ok(raw::reap(pid as i32))
}

/// Entry point of a group.
extern "C" fn begin(crib: *mut libc::c_void) -> ! {
    let crib: *mut Crib = crib.cast();
    // SAFETY: the cradle keeps the crib until this group is dead, and uses only the atomic word.
    let (birth, let_go) = unsafe { ((*crib).birth.take(), &(*crib).let_go) };
    while let_go.load(Ordering::Acquire) == 0 {
        raw::wait_while_zero(let_go);
    }
    // A panic outside the body would be a bug of ours; it must not unwind into the cradle.
    let _ = catch_unwind(AssertUnwindSafe(|| birth.into_iter().for_each(|b| b.live(Ok(())))));
    raw::exit_thread()
}
