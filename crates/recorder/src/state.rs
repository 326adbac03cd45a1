//! Reads the state of a process from /proc around an exec.
//!
//! Between the announcement of an exec and the new program's first instruction, only the exec can
//! change the state of a process that shares it with no other task, and it changes little. So most
//! is read while the kernel executes the program, and the rest at the exec stop.

use std::io;
use std::mem::MaybeUninit;
use std::sync::OnceLock;

use rustix::fd::{AsFd, BorrowedFd, OwnedFd};
use rustix::fs::{AtFlags, CWD, FileType, Mode, OFlags, RawDir, open, openat};
use rustix::fs::{readlinkat, readlinkat_raw, stat, statat};
use rustix::io::Errno;
use rustix::path::Arg;
use syscalls::abi::tasks::KCMP_FILE;
use trace::event::{OpenFd, ProcessState};

/// Number of limits that every kernel has.
const LIMITS: u32 = 16;

/// Maximum number of descriptors that are read: more do not fit into an event.
const DESCRIPTORS_MAX: usize = 64 << 10;

/// Reads the state of a process that is stopped at the beginning of a program. What may not be read
/// (another user's descriptors, say) stays empty. Fails if the process is gone.
pub fn read_state(pid: u32, process: u32) -> io::Result<ProcessState> {
    let mut scratch = Scratch { bytes: Vec::with_capacity(8 << 10) };
    let (mut state, _, dir) = read(pid, process, &mut scratch)?;
    state.exe = scratch.link(dir.as_fd(), "exe");
    state.fds = standard_streams(pid, dir.as_fd(), &mut scratch);
    if count_of_descriptors(dir.as_fd()) != Some(state.fds.len()) {
        add_descriptors(&mut state, 0, dir.as_fd(), &mut scratch);
    }
    Ok(state)
}

/// Reads the state without executable and descriptors. Also returns the number of threads and the
/// process's directory in /proc. Every name looked up below /proc/PID costs the parent time when it
/// waits for the process, so there are few.
fn read(pid: u32, process: u32, scratch: &mut Scratch) -> io::Result<(ProcessState, u64, OwnedFd)> {
    let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let dir = open(format!("/proc/{pid}"), flags, Mode::empty())?;
    let mut state = ProcessState { process, pid, ..ProcessState::default() };
    let threads = parse_status(scratch.file(dir.as_fd(), "status")?, &mut state);
    state.cwd = scratch.link(dir.as_fd(), "cwd");
    state.root = scratch.link(dir.as_fd(), "root");
    state.limits = (0..LIMITS).map_while(|resource| limit(pid, resource)).collect();
    Ok((state, threads, dir))
}

/// The state of a process that was about to execute a program, without its standard streams: kcmp
/// on a process blocks while it executes a program, which may be for ever.
pub struct Before {
    state: ProcessState,
    /// Its directory in /proc.
    dir: OwnedFd,
}

/// Number of standard streams.
const STREAMS: i32 = 3;

impl Before {
    /// Reads the state. `None` if other threads could change it, or the process is gone.
    pub fn read(pid: u32, process: u32) -> Option<Before> {
        let mut scratch = Scratch { bytes: Vec::with_capacity(8 << 10) };
        let (mut state, threads, dir) = read(pid, process, &mut scratch).ok()?;
        if count_of_descriptors(dir.as_fd()).is_none_or(|count| count > STREAMS as usize) {
            add_descriptors(&mut state, STREAMS, dir.as_fd(), &mut scratch);
        }
        (threads == 1).then_some(Before { state, dir })
    }

    /// Returns the state after the exec, given the new user and group ids and blocked signals.
    /// `None` if more has changed, or if that cannot be seen: the number of descriptors (readable
    /// since Linux 6.2) must match, as binfmt_misc opens one.
    pub fn after(self, uids: [u32; 4], gids: [u32; 4], blocked: u64) -> Option<ProcessState> {
        let Before { mut state, dir } = self;
        let mut scratch = Scratch { bytes: Vec::new() };
        state.fds.retain(|open| open.flags & OFlags::CLOEXEC.bits() == 0);
        state.fds.extend(standard_streams(state.pid, dir.as_fd(), &mut scratch));
        state.fds.sort_unstable_by_key(|open| open.fd);
        if state.fds_left_out != 0 || count_of_descriptors(dir.as_fd()) != Some(state.fds.len()) {
            return None;
        }
        state.exe = readlinkat(&dir, "exe", Vec::new()).ok()?.into_bytes();
        (state.uids, state.gids, state.sig_blocked) = (uids, gids, blocked);
        Some(state)
    }
}

/// Names of inherited open files that no path leads to, as outside of a changed root. Those names
/// may belong to other files here.
#[derive(Debug, Default)]
pub struct Outside(Vec<Vec<u8>>);

/// Prefix for the names of such files, as the kernel has it for directories.
const UNREACHABLE: &[u8] = b"(unreachable)";

impl Outside {
    /// Looks at our own descriptors, before the recorded program exists.
    pub fn look() -> Outside {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let Ok(links) = open("/proc/self/fd", flags, Mode::empty()) else {
            return Outside::default();
        };
        let mut scratch = Scratch { bytes: Vec::new() };
        let mut buffer = [MaybeUninit::uninit(); 4 << 10];
        let mut entries = RawDir::new(links.as_fd(), &mut buffer);
        let mut names = Vec::new();
        while let Some(Ok(entry)) = entries.next() {
            let name = scratch.link(links.as_fd(), entry.file_name());
            if name.first() == Some(&b'/')
                && let Ok(opened) = statat(&links, entry.file_name(), AtFlags::empty())
                && FileType::from_raw_mode(opened.st_mode) == FileType::RegularFile
                && opened.st_nlink > 0
                && leads_elsewhere(&name, (opened.st_dev, opened.st_ino))
            {
                names.push(name);
            }
        }
        Outside(names)
    }

    /// Marks these files among the descriptors of a process.
    pub fn mark(&self, state: &mut ProcessState) {
        for open in state.fds.iter_mut().filter(|open| self.0.contains(&open.target)) {
            open.target.splice(..0, UNREACHABLE.iter().copied());
        }
    }
}

/// Whether the path leads to nothing or to another file.
fn leads_elsewhere(path: &[u8], inode: (u64, u64)) -> bool {
    match stat(path) {
        Ok(found) => (found.st_dev, found.st_ino) != inode,
        Err(error) => matches!(error, Errno::NOENT | Errno::NOTDIR),
    }
}

/// A buffer reused from file to file.
struct Scratch {
    bytes: Vec<u8>,
}

impl Scratch {
    /// Reads a small file.
    fn file(&mut self, dir: BorrowedFd<'_>, name: impl Arg) -> Result<&[u8], Errno> {
        let file = openat(dir, name, OFlags::RDONLY | OFlags::CLOEXEC, Mode::empty())?;
        self.bytes.clear();
        loop {
            self.bytes.reserve(4 << 10);
            // /proc returns a small file in one read, so a short read is the end.
            let room = self.bytes.capacity() - self.bytes.len();
            let read = rustix::io::read(&file, rustix::buffer::spare_capacity(&mut self.bytes))?;
            if read < room {
                return Ok(&self.bytes);
            }
        }
    }

    /// The target of a symbolic link; empty if it may not be read.
    fn link(&mut self, dir: BorrowedFd<'_>, name: impl Arg) -> Vec<u8> {
        let mut target = [MaybeUninit::uninit(); 4 << 10];
        readlinkat_raw(dir, name, &mut target).map_or(Vec::new(), |(bytes, _)| bytes.to_vec())
    }
}

/// Fills the state from /proc/PID/status; returns the number of threads.
fn parse_status(status: &[u8], state: &mut ProcessState) -> u64 {
    let mut threads = 0;
    for line in status.split(|&b| b == b'\n') {
        let Some(colon) = line.iter().position(|&b| b == b':') else { continue };
        let Ok(value) = std::str::from_utf8(&line[colon + 1..]) else { continue };
        let value = value.trim();
        match &line[..colon] {
            b"PPid" => state.ppid = value.parse().unwrap_or(0),
            b"Umask" => state.umask = u32::from_str_radix(value, 8).unwrap_or(0),
            b"Uid" => state.uids = four(value),
            b"Gid" => state.gids = four(value),
            b"Groups" => {
                state.groups = value.split_whitespace().flat_map(str::parse).collect();
            }
            b"SigBlk" => state.sig_blocked = u64::from_str_radix(value, 16).unwrap_or(0),
            b"SigIgn" => {
                state.sig_ignored = u64::from_str_radix(value, 16).unwrap_or(0);
                // The remaining lines are not needed.
                break;
            }
            b"Threads" => threads = value.parse().unwrap_or(0),
            _ => {}
        }
    }
    threads
}

fn four(value: &str) -> [u32; 4] {
    let mut ids = [0; 4];
    for (id, word) in ids.iter_mut().zip(value.split_whitespace()) {
        *id = word.parse().unwrap_or(0);
    }
    ids
}

/// The soft and hard limit of a resource.
fn limit(pid: u32, resource: u32) -> Option<(u64, u64)> {
    let mut limit = libc::rlimit64 { rlim_cur: 0, rlim_max: 0 };
    // SAFETY: `limit` is a valid rlimit64, which the kernel fills.
    let done = unsafe {
        libc::prlimit64(pid.cast_signed(), resource as _, std::ptr::null(), &raw mut limit) == 0
    };
    done.then_some((limit.rlim_cur, limit.rlim_max))
}

/// Number of descriptors of a process, if the kernel tells it (since Linux 6.2).
fn count_of_descriptors(process: BorrowedFd<'_>) -> Option<usize> {
    let size = statat(process, "fd", AtFlags::empty()).ok()?.st_size;
    usize::try_from(size).ok().filter(|&count| count != 0)
}

/// The standard streams of a stopped process. Inherited ones are read from our own descriptors.
fn standard_streams(pid: u32, process: BorrowedFd<'_>, scratch: &mut Scratch) -> Vec<OpenFd> {
    let stream = |fd| inherited(pid, fd, scratch).or_else(|| descriptor(process, fd, scratch));
    (0..STREAMS).filter_map(stream).collect()
}

/// Adds the process's descriptors from `first` on, except those present, and those that are too many.
fn add_descriptors(
    state: &mut ProcessState,
    first: i32,
    process: BorrowedFd<'_>,
    scratch: &mut Scratch,
) {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let Ok(links) = openat(process, "fd", flags, Mode::empty()) else { return };
    let mut buffer = [MaybeUninit::uninit(); 4 << 10];
    let mut entries = RawDir::new(links.as_fd(), &mut buffer);
    let fds = &mut state.fds;
    let present = fds.len();
    while let Some(Ok(entry)) = entries.next() {
        let number = entry.file_name().to_str().ok().and_then(|name| name.parse().ok());
        let Some(fd) = number.filter(|&fd| fd >= first) else { continue };
        if fds[..present].iter().any(|known| known.fd == fd) {
            continue;
        }
        // Other programs wait meanwhile.
        if fds.len() >= DESCRIPTORS_MAX {
            state.fds_left_out += 1;
            continue;
        }
        fds.extend(descriptor(process, fd, scratch));
    }
    fds.sort_unstable_by_key(|open| open.fd);
}

/// A descriptor as /proc shows it; `None` if it is not open.
fn descriptor(process: BorrowedFd<'_>, fd: i32, scratch: &mut Scratch) -> Option<OpenFd> {
    let target = scratch.link(process, format!("fd/{fd}"));
    let info = scratch.file(process, format!("fdinfo/{fd}"));
    if target.is_empty() && info.is_err() {
        return None;
    }
    let (offset, flags) = info.map_or((0, 0), parse_fdinfo);
    Some(OpenFd { fd, target, offset, flags })
}

/// Reads a descriptor from our own one of the same number, if both are the same open file: as
/// inherited standard streams are.
fn inherited(pid: u32, fd: i32, scratch: &mut Scratch) -> Option<OpenFd> {
    let own = OwnStreams::get();
    // SAFETY: kcmp takes numbers only.
    let same = unsafe { libc::syscall(libc::SYS_kcmp, pid, own.pid, KCMP_FILE, fd, fd) == 0 };
    if !same {
        return None;
    }
    if let Some(target) = own.endless.get(fd as usize).and_then(Option::as_ref) {
        // SAFETY: fcntl with F_GETFL takes numbers only.
        let flags = unsafe { libc::fcntl(fd, libc::F_GETFL) };
        return (flags >= 0).then(|| OpenFd {
            fd,
            target: target.clone(),
            offset: 0,
            flags: flags.cast_unsigned(),
        });
    }
    let target = scratch.link(CWD, format!("/proc/self/fd/{fd}"));
    // Not lseek: it would wait for a process that is reading from the file.
    let info = scratch.file(CWD, format!("/proc/self/fdinfo/{fd}"));
    let (offset, flags) = info.map_or((0, 0), parse_fdinfo);
    Some(OpenFd { fd, target, offset, flags })
}

/// Our own standard streams, which do not change.
struct OwnStreams {
    pid: u32,
    /// Names of pipes, sockets and /dev/null: their name is constant, and they have no offset.
    endless: [Option<Vec<u8>>; STREAMS as usize],
}

impl OwnStreams {
    fn get() -> &'static OwnStreams {
        static OWN: OnceLock<OwnStreams> = OnceLock::new();
        OWN.get_or_init(|| {
            let endless = |fd: usize| {
                let target = readlinkat(CWD, format!("/proc/self/fd/{fd}"), Vec::new()).ok()?;
                let target = target.into_bytes();
                let is_pipe = target.starts_with(b"pipe:[") || target.starts_with(b"socket:[");
                (is_pipe || target == b"/dev/null").then_some(target)
            };
            OwnStreams { pid: std::process::id(), endless: std::array::from_fn(endless) }
        })
    }
}

/// Returns offset and flags.
fn parse_fdinfo(info: &[u8]) -> (u64, u32) {
    let (mut offset, mut flags) = (0, 0);
    for line in info.split(|&b| b == b'\n').take(2) {
        let Ok(line) = std::str::from_utf8(line) else { continue };
        if let Some(value) = line.strip_prefix("pos:") {
            offset = value.trim().parse().unwrap_or(0);
        } else if let Some(value) = line.strip_prefix("flags:") {
            flags = u32::from_str_radix(value.trim(), 8).unwrap_or(0);
        }
    }
    (offset, flags)
}

#[cfg(test)]
mod tests {
    use std::fs::File;
    use std::io::{Read, Seek, SeekFrom, Write};
    use std::os::fd::AsRawFd;
    use std::process::Stdio;

    use super::*;

    #[test]
    fn our_own_state_is_read() {
        let path = std::env::temp_dir().join(format!("recorder-state-{}", std::process::id()));
        let mut file = File::create(&path).unwrap();
        file.seek(SeekFrom::Start(4711)).unwrap();
        let state = read_state(std::process::id(), 7).unwrap();
        std::fs::remove_file(&path).unwrap();

        assert_eq!((state.process, state.pid), (7, std::process::id()));
        assert_eq!(state.ppid, rustix::process::getppid().unwrap().as_raw_nonzero().get() as u32);
        let text =
            |bytes: &[u8]| std::path::PathBuf::from(String::from_utf8(bytes.to_vec()).unwrap());
        assert_eq!(text(&state.exe), std::env::current_exe().unwrap());
        assert_eq!(text(&state.cwd), std::env::current_dir().unwrap());
        assert_eq!(state.root, b"/");
        assert_eq!(state.uids[1], rustix::process::geteuid().as_raw());
        assert_eq!(state.gids[1], rustix::process::getegid().as_raw());
        assert_eq!(state.limits.len(), 16);
        let files = rustix::process::getrlimit(rustix::process::Resource::Nofile);
        let or_unlimited = |limit: Option<u64>| limit.unwrap_or(u64::MAX);
        assert_eq!(state.limits[7], (or_unlimited(files.current), or_unlimited(files.maximum)));
        let open = state.fds.iter().find(|open| open.fd == file.as_raw_fd()).unwrap();
        assert_eq!(text(&open.target), path);
        assert_eq!(open.offset, 4711);
        assert_eq!(open.flags & 0o2000003, 0o2000001, "O_WRONLY and O_CLOEXEC");
    }

    #[test]
    fn a_process_that_is_gone_is_an_error() {
        let mut child = std::process::Command::new("true").spawn().unwrap();
        child.wait().unwrap();
        assert!(Before::read(child.id(), 1).is_none());
        let error = read_state(child.id(), 1).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::NotFound);
    }

    #[test]
    fn what_was_read_before_an_exec_holds_after_it() {
        let mut command = std::process::Command::new("sh");
        command.args(["-c", "ulimit -n 77; exec 4</dev/null; read line; exec cat"]);
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        let read = || read_state(child.id(), 1).unwrap();
        let is_ready = |state: &ProcessState| {
            state.limits.get(7).is_some_and(|limit| limit.0 == 77)
                && state.fds.iter().any(|open| open.fd == 4)
        };
        while !is_ready(&read()) {
            std::thread::yield_now();
        }
        let before = || Before::read(child.id(), 1).expect("a process with one thread");
        let (plain, mut closing, mut missing) = (before(), before(), before());
        closing.state.fds.push(OpenFd {
            fd: 9,
            flags: OFlags::CLOEXEC.bits(),
            ..OpenFd::default()
        });
        missing.state.fds.pop();
        let (input, output) = (child.stdin.as_mut().unwrap(), child.stdout.as_mut().unwrap());
        input.write_all(b"go\nmore\n").unwrap();
        let mut line = [0; 5];
        output.read_exact(&mut line).unwrap();
        assert_eq!(&line, b"more\n");
        let now = read_state(child.id(), 1).unwrap();
        let after = |before: Before| before.after(now.uids, now.gids, now.sig_blocked);
        assert_eq!(after(plain).as_ref(), Some(&now));
        // Descriptors that an exec closes are left out; extra ones are detected.
        assert_eq!(after(closing).as_ref(), Some(&now));
        assert_eq!(after(missing), None);
        child.kill().unwrap();
        child.wait().unwrap();
    }
}
