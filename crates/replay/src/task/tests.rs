//! What tasks own and share, as the kernel sees it. Failed assertions in a task end it with
//! [`End::Panicked`], which every helper here passes on.

use std::ffi::CString;
use std::os::fd::{AsRawFd, IntoRawFd, RawFd};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::sync::mpsc::{Receiver, channel};
use std::time::{Duration, Instant};

use super::*;

/// A task, and the channel that reports its end.
struct Running {
    identity: Identity,
    end: Receiver<End>,
}

impl Running {
    fn end(&self) -> End {
        self.end.recv_timeout(Duration::from_secs(60)).expect("the end is told")
    }

    fn returned(&self) {
        assert_eq!(self.end(), End::Returned);
    }
}

/// Type of the spawn functions.
type Spawn = fn(Descriptors, Directories, Body, Ended) -> io::Result<Identity>;

fn start(
    spawn: Spawn,
    descriptors: Descriptors,
    directories: Directories,
    body: impl FnOnce() + Send + 'static,
) -> Running {
    let (tell, end) = channel();
    let ended = Box::new(move |end| drop(tell.send(end)));
    let identity = spawn(descriptors, directories, Box::new(body), ended).unwrap();
    Running { identity, end }
}

/// Starts a process with copies of everything.
fn fork(body: impl FnOnce() + Send + 'static) -> Running {
    start(spawn_process, Descriptors::Copied, Directories::Copied, body)
}

/// Starts a thread that shares everything.
fn thread(body: impl FnOnce() + Send + 'static) -> Running {
    start(spawn_thread, Descriptors::Shared, Directories::Shared, body)
}

/// Starts a process without descriptors, like the first of a replay.
fn first(body: impl FnOnce() + Send + 'static) -> Running {
    start(spawn_process, Descriptors::None, Directories::Copied, body)
}

fn c_path(path: &Path) -> CString {
    CString::new(path.as_os_str().as_bytes()).unwrap()
}

/// Opens or creates a file at the lowest free number.
fn open(path: &Path) -> RawFd {
    let flags = libc::O_RDWR | libc::O_CREAT;
    // SAFETY: the path ends with a NUL.
    let fd = unsafe { libc::open(c_path(path).as_ptr(), flags, 0o666) };
    assert!(fd >= 0, "{}", io::Error::last_os_error());
    fd
}

fn close(fd: RawFd) {
    // SAFETY: tests close only numbers of their own tables.
    assert_eq!(unsafe { libc::close(fd) }, 0);
}

fn is_open(fd: RawFd) -> bool {
    // SAFETY: the arguments are numbers; no memory is accessed.
    unsafe { libc::fcntl(fd, libc::F_GETFD) >= 0 }
}

/// Returns the inode number, to recognize the same file in two tables or one.
fn inode(fd: RawFd) -> u64 {
    let mut stat = std::mem::MaybeUninit::<libc::stat>::uninit();
    // SAFETY: there is room for a stat.
    assert_eq!(unsafe { libc::fstat(fd, stat.as_mut_ptr()) }, 0);
    // SAFETY: fstat succeeded, so the stat is initialized.
    unsafe { stat.assume_init() }.st_ino
}

fn lock(fd: RawFd, command: i32) -> io::Result<libc::flock> {
    // SAFETY: all zeros are a valid flock: the whole file.
    let mut range: libc::flock = unsafe { std::mem::zeroed() };
    range.l_type = libc::F_WRLCK as i16;
    // SAFETY: the flock is writable.
    match unsafe { libc::fcntl(fd, command, &raw mut range) } {
        0 => Ok(range),
        _ => Err(io::Error::last_os_error()),
    }
}

fn limit(resource: libc::__rlimit_resource_t) -> u64 {
    let mut limit = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
    // SAFETY: the limit is writable.
    assert_eq!(unsafe { libc::getrlimit(resource, &raw mut limit) }, 0);
    limit.rlim_cur
}

fn set_limit(resource: libc::__rlimit_resource_t, value: u64) {
    let limit = libc::rlimit { rlim_cur: value, rlim_max: limit_max(resource) };
    // SAFETY: the limit is readable.
    assert_eq!(unsafe { libc::setrlimit(resource, &raw const limit) }, 0);
}

fn limit_max(resource: libc::__rlimit_resource_t) -> u64 {
    let mut limit = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
    // SAFETY: the limit is writable.
    assert_eq!(unsafe { libc::getrlimit(resource, &raw mut limit) }, 0);
    limit.rlim_max
}

#[test]
fn processes_have_the_same_numbers_for_different_files() {
    let dir = tempfile::tempdir().unwrap();
    let inodes = [0, 1].map(|which| {
        let path = dir.path().join(format!("{which}"));
        let (tell, told) = channel();
        let process = first(move || {
            assert!(!(0..64).any(is_open), "the first process begins with nothing");
            assert_eq!(open(&path), 0);
            assert_eq!(open(&path), 1);
            tell.send(inode(0)).unwrap();
        });
        process.returned();
        told.recv().unwrap()
    });
    assert_ne!(inodes[0], inodes[1]);
}

#[test]
fn a_fork_copies_descriptors_and_shares_offsets() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("file");
    first(move || {
        assert_eq!(open(&path), 0);
        let (go, goes) = channel::<()>();
        let child = fork(move || {
            goes.recv().unwrap();
            assert!(is_open(0), "closing in the parent closes nothing here");
            assert!(!is_open(1), "opened in the parent after the fork");
            // SAFETY: three bytes are readable.
            assert_eq!(unsafe { libc::write(0, b"abc".as_ptr().cast(), 3) }, 3);
        });
        let second = open(&path);
        assert_eq!(second, 1);
        // SAFETY: the arguments are numbers; no memory is accessed.
        unsafe { libc::dup2(0, 2) };
        close(0);
        go.send(()).unwrap();
        child.returned();
        // SAFETY: the arguments are numbers; no memory is accessed.
        assert_eq!(unsafe { libc::lseek(2, 0, libc::SEEK_CUR) }, 3);
    })
    .returned();
}

#[test]
fn threads_and_clone_files_share_the_table() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("file");
    first(move || {
        let (one, two) = (path.clone(), path.clone());
        thread(move || assert_eq!(open(&one), 0)).returned();
        assert!(is_open(0));
        let shares = Descriptors::Shared;
        let clone = start(spawn_process, shares, Directories::Copied, move || {
            close(0);
            assert_eq!(open(&two), 0);
            assert_eq!(open(&two), 1);
        });
        clone.returned();
        assert!(is_open(0) && is_open(1), "they outlive the process that shared them");
        let apart = Descriptors::Copied;
        start(spawn_thread, apart, Directories::Shared, || close(0)).returned();
        assert!(is_open(0), "a thread with a table of its own");
    })
    .returned();
}

#[test]
fn directories_and_umask_are_a_processes_own() {
    let dir = tempfile::tempdir().unwrap();
    let at = dir.path().canonicalize().unwrap();
    let before = std::env::current_dir().unwrap();
    let umask = || {
        // SAFETY: umask takes a number; only this task's umask is read and restored.
        unsafe {
            let mask = libc::umask(0o22);
            libc::umask(mask);
            mask
        }
    };
    let outside = umask();
    let inside = at.clone();
    first(move || {
        std::env::set_current_dir(&inside).unwrap();
        // SAFETY: the argument is a number; umask cannot fail.
        unsafe { libc::umask(0o123) };
        thread(move || assert_eq!(umask(), 0o123)).returned();
        let child = inside.clone();
        fork(move || {
            assert_eq!(std::env::current_dir().unwrap(), child);
            std::env::set_current_dir("/").unwrap();
        })
        .returned();
        assert_eq!(std::env::current_dir().unwrap(), inside);
        let shared = Directories::Shared;
        start(spawn_process, Descriptors::Copied, shared, || {
            std::env::set_current_dir("/").unwrap();
        })
        .returned();
        assert_eq!(std::env::current_dir().unwrap(), Path::new("/"));
    })
    .returned();
    assert_eq!(std::env::current_dir().unwrap(), before);
    assert_eq!(umask(), outside);
}

#[test]
fn a_chroot_is_a_processes_own() {
    // SAFETY: geteuid has no arguments and cannot fail.
    if unsafe { libc::geteuid() } != 0 {
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let root = c_path(dir.path());
    std::fs::write(dir.path().join("only-here"), "").unwrap();
    first(move || {
        // SAFETY: the path ends with a NUL.
        assert_eq!(unsafe { libc::chroot(root.as_ptr()) }, 0);
        assert!(Path::new("/only-here").exists());
        fork(|| assert!(Path::new("/only-here").exists())).returned();
    })
    .returned();
    assert!(!Path::new("/only-here").exists());
}

#[test]
fn limits_are_a_processes_own() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("file");
    let outside = limit(libc::RLIMIT_NOFILE);
    first(move || {
        set_limit(libc::RLIMIT_NOFILE, 2);
        // SAFETY: SIG_IGN installs no handler, and affects only this process.
        unsafe { libc::signal(libc::SIGXFSZ, libc::SIG_IGN) };
        set_limit(libc::RLIMIT_FSIZE, 4);
        let child_path = path.clone();
        let limited = move || {
            let fd = open(&child_path);
            // SAFETY: eight bytes are readable.
            assert_eq!(unsafe { libc::write(fd, b"12345678".as_ptr().cast(), 8) }, 4);
            // SAFETY: one byte is readable.
            assert_eq!(unsafe { libc::write(fd, b"1".as_ptr().cast(), 1) }, -1);
            assert_eq!(io::Error::last_os_error().raw_os_error(), Some(libc::EFBIG));
            open(&child_path);
            // SAFETY: the argument is a number; no memory is accessed.
            assert_eq!(unsafe { libc::dup(fd) }, -1);
            assert_eq!(io::Error::last_os_error().raw_os_error(), Some(libc::EMFILE));
        };
        fork(limited.clone()).returned();
        limited();
    })
    .returned();
    assert_eq!(limit(libc::RLIMIT_NOFILE), outside);
}

#[test]
fn locks_conflict_between_processes_and_not_between_threads() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("file");
    first(move || {
        let file = path.clone();
        let (locked, is_locked) = channel();
        let (release, released) = channel::<()>();
        let holder = fork(move || {
            let fd = open(&file);
            lock(fd, libc::F_SETLK).unwrap();
            let again = file.clone();
            thread(move || assert!(lock(open(&again), libc::F_SETLK).is_ok())).returned();
            locked.send(()).unwrap();
            released.recv().unwrap();
        });
        is_locked.recv().unwrap();
        let fd = open(&path);
        let refused = lock(fd, libc::F_SETLK).unwrap_err().raw_os_error().unwrap();
        assert!([libc::EAGAIN, libc::EACCES].contains(&refused));
        let found = lock(fd, libc::F_GETLK).unwrap();
        assert_eq!(found.l_pid, holder.identity.pid);
        assert_ne!(found.l_pid, raw::pid());
        release.send(()).unwrap();
        holder.returned();
        lock(fd, libc::F_SETLK).expect("the holder's end has freed the lock");
    })
    .returned();
}

#[test]
fn the_end_of_a_process_closes_its_pipes() {
    first(|| {
        let mut ends = [0; 2];
        // SAFETY: there is room for two numbers.
        assert_eq!(unsafe { libc::pipe(ends.as_mut_ptr()) }, 0);
        let writer = fork(|| {
            // A grandchild that lives on, without the pipe, holds nothing of its parent's.
            drop(start(spawn_process, Descriptors::None, Directories::Copied, || {
                std::thread::park_timeout(Duration::from_secs(1));
            }));
        });
        close(ends[1]);
        writer.returned();
        let mut byte = 0u8;
        // SAFETY: one byte is writable.
        assert_eq!(unsafe { libc::read(ends[0], (&raw mut byte).cast(), 1) }, 0);
    })
    .returned();
}

#[test]
fn ids_are_those_of_the_kernel() {
    let host = raw::pid();
    let outer = first(move || {
        let (pid, tid) = (raw::pid(), raw::tid());
        assert_eq!(pid, tid, "the first thread of its group");
        assert_ne!(pid, host);
        assert_eq!(std::process::id() as i32, pid);
        let inner = thread(move || assert_eq!(raw::pid(), pid));
        assert_eq!(inner.identity.pid, pid);
        assert_ne!(inner.identity.tid, tid);
        inner.returned();
        let child = fork(move || {
            // SAFETY: getppid has no arguments and cannot fail.
            assert_eq!(unsafe { libc::getppid() }, pid);
        });
        child.returned();
    });
    assert_ne!(outer.identity.pid, host);
    outer.returned();
}

#[test]
fn threads_outlive_the_first_of_their_process() {
    let (go, goes) = channel::<()>();
    let (tell, told) = channel();
    first(move || {
        let pid = raw::pid();
        // Not waited for: the message below shows that it runs.
        drop(thread(move || {
            goes.recv().unwrap();
            assert_eq!(raw::pid(), pid);
            fork(|| {}).returned();
            tell.send(()).unwrap();
        }));
    })
    .returned();
    go.send(()).unwrap();
    told.recv_timeout(Duration::from_secs(60)).unwrap();
}

#[test]
fn a_panic_is_told_and_stays_in_its_task() {
    let process = first(|| panic!("{}", "in a process"));
    let End::Panicked(message) = process.end() else { panic!("a panic was lost") };
    assert!(message.contains("in a process") && message.contains("tests.rs"), "{message}");
    first(|| {
        let End::Panicked(message) = thread(|| panic!("in a thread")).end() else {
            panic!("a panic was lost")
        };
        assert!(message.contains("in a thread"), "{message}");
    })
    .returned();
}

#[test]
fn a_killed_process_tells_the_end_of_all_its_tasks() {
    let (tell, told) = channel();
    let process = first(move || {
        let sleeper = thread(|| std::thread::park_timeout(Duration::from_secs(60)));
        tell.send(sleeper).unwrap();
        std::thread::park_timeout(Duration::from_secs(60));
    });
    let sleeper = told.recv().unwrap();
    // SAFETY: the group is ours and still alive, as nothing wakes its tasks.
    assert_eq!(unsafe { libc::kill(process.identity.pid, libc::SIGKILL) }, 0);
    assert_eq!(process.end(), End::Killed(libc::SIGKILL));
    assert_eq!(sleeper.end(), End::Killed(libc::SIGKILL));
}

/// Number of threads of the host, including cradles.
fn host_threads() -> usize {
    std::fs::read_dir("/proc/self/task").unwrap().count()
}

#[test]
fn hundreds_of_processes_leave_nothing_behind() {
    // A file on a disk: its shared offset moves atomically, unlike that of a memfd.
    let file = tempfile::tempfile().unwrap();
    let fd = file.try_clone().unwrap().into_raw_fd();
    let live: Vec<Running> = (0..100)
        .map(|_| {
            fork(move || {
                fork(move || {
                    // SAFETY: one byte is readable; the descriptor was inherited twice.
                    assert_eq!(unsafe { libc::write(fd, b"x".as_ptr().cast(), 1) }, 1);
                })
                .returned();
            })
        })
        .collect();
    live.iter().for_each(Running::returned);
    assert_eq!(file.metadata().unwrap().len(), 100);
    assert!(is_open(file.as_raw_fd()));
    // Cradles end a moment after their process; other tests run at the same time.
    let pids: Vec<i32> = live.iter().map(|process| process.identity.pid).collect();
    let patience = Instant::now() + Duration::from_secs(60);
    let all_gone = || pids.iter().all(|pid| !Path::new(&format!("/proc/{pid}")).exists());
    while !all_gone() {
        assert!(Instant::now() < patience, "a process was left, {} threads", host_threads());
        std::thread::yield_now();
    }
    close(fd);
}
