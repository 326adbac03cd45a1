//! Keeper and inmate: the two forks, the namespaces, and the ends.

use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::panic::{AssertUnwindSafe, catch_unwind};

use rustix::process::{Pid, Signal};

use crate::reopen::Desk;

use super::mounts::Trees;
use super::words::Word;
use super::{Jail, JailError, Options, Proc, Protection, filter, mounts, privileges};

/// How the jail ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Exit {
    /// The body's result.
    Code(u8),
    /// The inmate was killed.
    Signal(i32),
}

/// Exit code of an inmate whose body panicked; the message is on standard error.
const PANICKED: i32 = 101;

/// The jail, seen from outside. Dropping it kills everything in it.
#[derive(Debug)]
pub struct Inmate {
    /// Its protection.
    pub protection: Protection,
    keeper: Pid,
    /// Closed on the other side only when keeper and inmate are dead.
    line: UnixStream,
    root: OwnedFd,
    made: Vec<String>,
    ended: bool,
}

impl Inmate {
    /// The process whose death ends the jail.
    pub fn keeper(&self) -> i32 {
        self.keeper.as_raw_nonzero().get()
    }

    /// Waits for the end of the jail.
    pub fn wait(mut self) -> io::Result<Exit> {
        self.reap()
    }

    /// Kills everything in the jail.
    pub fn kill(mut self) -> io::Result<Exit> {
        rustix::process::kill_process(self.keeper, Signal::KILL)?;
        self.reap()
    }

    fn reap(&mut self) -> io::Result<Exit> {
        let exit = reap(self.keeper)?;
        self.ended = true;
        // If the keeper was killed, the kernel kills the inmate: wait until that is dead as well.
        let _ = io::copy(&mut self.line, &mut io::sink());
        mounts::remove_made(&self.root, &self.made);
        Ok(exit)
    }
}

impl Drop for Inmate {
    fn drop(&mut self) {
        if !self.ended {
            let _ = rustix::process::kill_process(self.keeper, Signal::KILL);
            let _ = self.reap();
        }
    }
}

fn reap(pid: Pid) -> io::Result<Exit> {
    let mut status = 0;
    // SAFETY: the status is writable.
    while unsafe { libc::waitpid(pid.as_raw_nonzero().get(), &raw mut status, 0) } < 0 {
        let error = io::Error::last_os_error();
        if error.kind() != io::ErrorKind::Interrupted {
            return Err(error);
        }
    }
    Ok(match libc::WIFSIGNALED(status) {
        true => Exit::Signal(libc::WTERMSIG(status)),
        false => Exit::Code(libc::WEXITSTATUS(status) as u8),
    })
}

/// Forks a process with one thread. Returns `None` in the child.
fn fork() -> io::Result<Option<Pid>> {
    // SAFETY: no other thread exists that could hold a lock.
    match unsafe { libc::fork() } {
        -1 => Err(io::Error::last_os_error()),
        pid => Ok(Pid::from_raw(pid)),
    }
}

/// Creates keeper and inmate.
pub fn spawn(options: &Options, body: impl FnOnce(Jail) -> u8) -> Result<Inmate, JailError> {
    let failed = |error| JailError::io("cannot start a process for the jail", error);
    let root = options.root.try_clone().map_err(failed)?;
    let (mut line, inner) = UnixStream::pair().map_err(failed)?;
    let command = rustix::process::getpid();
    let Some(keeper) = fork().map_err(failed)? else {
        drop(line);
        keep(options, inner, command, body);
    };
    drop(inner);
    let error = loop {
        match Word::hear(&mut line) {
            Ok(Word::Ready(protection, made)) => {
                return Ok(Inmate { protection, keeper, line, root, made, ended: false });
            }
            Ok(Word::MapIds) => {
                let mapped = map_own_ids(keeper).and_then(|()| Word::Mapped.say(&mut line));
                if let Err(error) = mapped {
                    break JailError::io("cannot map ids into the jail", error);
                }
            }
            Ok(Word::Failed(error)) => break error,
            Ok(Word::Mapped) => break JailError::plain("the jail is confused"),
            Err(error) => break JailError::io("the jail broke while it was made", error),
        }
    };
    let _ = rustix::process::kill_process(keeper, Signal::KILL);
    let _ = reap(keeper);
    Err(error)
}

/// Maps all ids of our namespace to themselves in the child's new one.
fn map_own_ids(child: Pid) -> io::Result<()> {
    for map in ["gid_map", "uid_map"] {
        let own = std::fs::read_to_string(format!("/proc/self/{map}"))?;
        let same = |line: &str| {
            let mut words = line.split_whitespace();
            let (first, count) = (words.next()?, words.nth(1)?);
            Some(format!("{first} {first} {count}\n"))
        };
        let extents: String = own.lines().filter_map(same).collect();
        std::fs::write(format!("/proc/{}/{map}", child.as_raw_nonzero()), extents)?;
    }
    Ok(())
}

/// Main function of the keeper.
fn keep(options: &Options, mut line: UnixStream, command: Pid, body: impl FnOnce(Jail) -> u8) -> ! {
    let inmate = match enter_namespaces(options, &mut line, command) {
        Ok((user_namespace, trees)) => match fork() {
            Ok(None) => confine(options, trees, line, user_namespace, body),
            Ok(Some(inmate)) => inmate,
            Err(error) => give_up(line, JailError::io("cannot start the inmate", error)),
        },
        Err(error) => give_up(line, error),
    };
    // The keeper must not hold pipes open that others wait on; only the line must stay open until
    // it ends.
    let line = std::mem::ManuallyDrop::new(line);
    close_all_but(&line);
    match reap(inmate) {
        Ok(Exit::Code(code)) => exit(code.into()),
        Ok(Exit::Signal(signal)) => die_of(signal),
        Err(_) => exit(PANICKED),
    }
}

fn close_all_but(line: &UnixStream) {
    use std::os::fd::AsRawFd;
    let kept = line.as_raw_fd() as u32;
    let close = |first: u32, last: u32| {
        // SAFETY: nothing in this process uses a descriptor any more, except the kept one.
        unsafe { libc::syscall(libc::SYS_close_range, first, last, 0) }
    };
    close(kept + 1, u32::MAX);
    if kept > 0 {
        close(0, kept - 1);
    }
}

fn give_up(mut line: UnixStream, error: JailError) -> ! {
    let _ = Word::Failed(error).say(&mut line);
    exit(PANICKED)
}

/// Exits without the command's exit handlers.
fn exit(code: i32) -> ! {
    // SAFETY: _exit takes a number and does not return.
    unsafe { libc::_exit(code) }
}

/// Ends as the inmate did.
fn die_of(signal: i32) -> ! {
    // SAFETY: the arguments are numbers, and SIG_DFL installs no handler.
    unsafe {
        libc::prctl(libc::PR_SET_DUMPABLE, 0);
        libc::signal(signal, libc::SIG_DFL);
        libc::kill(libc::getpid(), signal);
    }
    exit(128 + signal)
}

/// Ties this process's life to its parent's.
fn die_with_parent() -> Result<(), JailError> {
    rustix::process::set_parent_process_death_signal(Some(Signal::KILL))
        .map_err(|error| JailError::io("cannot tie the jail to the command", error))
}

/// Creates the keeper's user namespace, and the namespaces of its children. Returns whether there
/// is a user namespace (root can do without), and the mounts to attach.
fn enter_namespaces(
    options: &Options,
    line: &mut UnixStream,
    command: Pid,
) -> Result<(bool, Trees), JailError> {
    // Terminal signals and access to the terminal are the command's.
    let _ = rustix::process::setsid();
    let root = rustix::process::geteuid().is_root();
    let (uid, gid) = (rustix::process::geteuid().as_raw(), rustix::process::getegid().as_raw());
    let user_namespace = match unshare(libc::CLONE_NEWUSER) {
        Ok(()) => true,
        Err(_) if root => false,
        Err(error) => return Err(JailError::no_user_namespace(error)),
    };
    let mapped = match (user_namespace, root) {
        (false, _) => Ok(()),
        (true, true) => ask_for_ids(line),
        (true, false) => map_one(options.identity.unwrap_or((uid, gid)), (uid, gid)),
    };
    mapped.map_err(|error| JailError::no_power("cannot map ids into the jail", error))?;
    let trees = mounts::copy_trees(options)?;
    let others = libc::CLONE_NEWNS
        | libc::CLONE_NEWPID
        | libc::CLONE_NEWNET
        | libc::CLONE_NEWIPC
        | libc::CLONE_NEWUTS;
    unshare(others).map_err(|error| JailError::no_power("cannot make namespaces", error))?;
    // Only now: changing the user namespace may reset it.
    die_with_parent()?;
    if rustix::process::getppid() != Some(command) {
        return Err(JailError::plain("the command has ended"));
    }
    Ok((user_namespace, trees))
}

fn unshare(flags: i32) -> io::Result<()> {
    // SAFETY: the argument is a number, descriptors are not affected, and there is one thread.
    match unsafe { libc::unshare(flags) } {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}

fn ask_for_ids(line: &mut UnixStream) -> io::Result<()> {
    Word::MapIds.say(line)?;
    match Word::hear(line)? {
        Word::Mapped => Ok(()),
        other => Err(io::Error::other(format!("{other:?} came instead of ids"))),
    }
}

/// Maps the one user and group that the kernel allows an ordinary user.
fn map_one(inside: (u32, u32), outside: (u32, u32)) -> io::Result<()> {
    std::fs::write("/proc/self/setgroups", "deny")?;
    std::fs::write("/proc/self/gid_map", format!("{} {} 1", inside.1, outside.1))?;
    std::fs::write("/proc/self/uid_map", format!("{} {} 1", inside.0, outside.0))
}

/// Main function of the inmate.
fn confine(
    options: &Options,
    trees: Trees,
    mut line: UnixStream,
    user_namespace: bool,
    body: impl FnOnce(Jail) -> u8,
) -> ! {
    let (jail, made) = match lock_up(options, trees, user_namespace) {
        Ok(done) => done,
        Err(error) => give_up(line, error),
    };
    if Word::Ready(jail.protection.clone(), made).say(&mut line).is_err() {
        exit(PANICKED);
    }
    // Closed by the kernel when this process dies.
    let _line = std::mem::ManuallyDrop::new(line);
    let code = catch_unwind(AssertUnwindSafe(|| body(jail)));
    exit(code.map_or(PANICKED, i32::from))
}

/// Sets up the jail: takes away everything that is not needed.
fn lock_up(
    options: &Options,
    trees: Trees,
    user_namespace: bool,
) -> Result<(Jail, Vec<String>), JailError> {
    die_with_parent()?;
    if user_namespace {
        // Forbids nested user namespaces, with all capabilities in them. If /proc is read-only, the
        // layers below must suffice.
        let _ = std::fs::write("/proc/sys/user/max_user_namespaces", "0");
    }
    let mounts = mounts::enter(options, trees)?;
    // Leave the session's keys outside; ignore kernels without keys.
    // SAFETY: a null name asks for a new session without a name.
    unsafe { libc::syscall(libc::SYS_keyctl, libc::KEYCTL_JOIN_SESSION_KEYRING, 0) };
    privileges::drop_all_but_files()?;
    let landlock =
        privileges::landlock(mounts.proc.iter().map(OwnedFd::as_fd).chain(options.readable))?;
    // No core files, and no tracing of us.
    // SAFETY: the arguments are numbers; no memory is accessed.
    unsafe { libc::prctl(libc::PR_SET_DUMPABLE, 0) };
    let proc = mounts.proc.map(|processes| {
        let desk = Desk::new(processes.as_fd()).ok();
        Proc { processes, desk }
    });
    filter::keep_memory_as_it_is();
    if options.filter {
        // The last step: it forbids most of the others.
        filter::install()
            .map_err(|error| JailError::io("cannot install a seccomp filter", error))?;
    }
    let protection = Protection { user_namespace, landlock, filter: options.filter };
    Ok((Jail { protection, proc }, mounts.made))
}
