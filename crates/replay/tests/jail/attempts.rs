//! Attempts to reach files, processes and sockets outside, each in its own process in one jail.

use std::ffi::CString;
use std::io;
use std::net::{SocketAddr, TcpStream};
use std::os::fd::AsRawFd;
use std::os::linux::net::SocketAddrExt;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::net::{UnixDatagram, UnixStream};
use std::path::Path;
use std::time::Duration;

use crate::calls;
use crate::kernel;
use crate::outside::{self, Outside, SECRET};

/// An attempt: its name and function. The function fails with a description of what it reached.
pub type Attempt = (&'static str, fn(&Outside) -> Result<(), String>);

const ATTEMPTS: &[Attempt] = &[
    ("dots_lead_nowhere", dots_lead_nowhere),
    ("absolute_paths_lead_nowhere", absolute_paths_lead_nowhere),
    ("links_lead_nowhere", links_lead_nowhere),
    ("a_chroot_in_the_jail_opens_no_way_out", a_chroot_in_the_jail_opens_no_way_out),
    ("a_bind_has_no_way_up", a_bind_has_no_way_up),
    ("there_is_no_proc", there_is_no_proc),
    ("a_directory_from_outside_is_of_no_use", a_directory_from_outside_is_of_no_use),
    ("a_file_from_outside_cannot_be_opened_again", a_file_from_outside_cannot_be_opened_again),
    ("hard_links_come_from_inside_only", hard_links_come_from_inside_only),
    ("processes_outside_are_out_of_reach", processes_outside_are_out_of_reach),
    ("sockets_outside_are_out_of_reach", sockets_outside_are_out_of_reach),
    ("shared_memory_outside_is_out_of_reach", shared_memory_outside_is_out_of_reach),
    ("device_nodes_are_of_no_use", device_nodes_are_of_no_use),
    ("programs_cannot_be_run", programs_cannot_be_run),
];

/// Makes all attempts, both with and without the filter of calls. Returns their names and results.
pub fn make_all(outside: &Outside) -> Vec<(String, Result<(), String>)> {
    let filtered = make_each(outside, true);
    let filtered = filtered.into_iter().map(|(name, result)| (format!("{name}, filtered"), result));
    make_each(outside, false).into_iter().chain(filtered).collect()
}

fn make_each(outside: &Outside, filter: bool) -> Vec<(String, Result<(), String>)> {
    let filtered: &[Attempt] = if filter { calls::ATTEMPTS } else { &[] };
    let all: Vec<&Attempt> = ATTEMPTS.iter().chain(kernel::ATTEMPTS).chain(filtered).collect();
    let (answers, answer) = UnixDatagram::pair().unwrap();
    answers.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
    let inmate = outside.jail_with(filter, |_| {
        for (_, attempt) in &all {
            apart(&answer, || attempt(outside));
        }
        0
    });
    let mut buffer = [0; 4096];
    let results = all.iter().map(|(name, _)| {
        let result = match answers.recv(&mut buffer) {
            Ok(0) => Ok(()),
            Ok(len) => Err(String::from_utf8_lossy(&buffer[..len]).into_owned()),
            Err(error) => Err(format!("no answer: {error}")),
        };
        (name.to_string(), result)
    });
    let results = results.collect();
    drop(inmate);
    results
}

/// Runs an attempt in a child, which sends what it reached, or an empty message.
fn apart(answer: &UnixDatagram, attempt: impl FnOnce() -> Result<(), String>) {
    // SAFETY: the first process of the jail has one thread.
    let child = unsafe { libc::fork() };
    if child == 0 {
        let result = std::panic::catch_unwind(std::panic::AssertUnwindSafe(attempt));
        let reached = match result {
            Ok(Ok(())) => String::new(),
            Ok(Err(reached)) => reached,
            Err(_) => "the attempt panicked".into(),
        };
        let _ = answer.send(reached.as_bytes());
        // SAFETY: `_exit` ends the child without running any handlers.
        unsafe { libc::_exit(0) };
    }
    let mut status = 0;
    // SAFETY: `status` is valid for writes.
    unsafe { libc::waitpid(child, &raw mut status, 0) };
    if status != 0 {
        let _ = answer.send(format!("the attempt ended with status {status:#x}").as_bytes());
    }
}

/// Fails unless the call was refused, for one of these reasons or by the filter of calls.
pub fn refused(what: &str, result: i64, reasons: &[i32]) -> Result<(), String> {
    let error = io::Error::last_os_error();
    match error.raw_os_error() {
        // SAFETY: PR_GET_SECCOMP takes no pointers and changes nothing.
        Some(libc::EPERM) if result < 0 && unsafe { libc::prctl(libc::PR_GET_SECCOMP) } != 0 => {
            Ok(())
        }
        _ if result >= 0 => Err(format!("{what} succeeded")),
        Some(reason) if reasons.contains(&reason) => Ok(()),
        _ => Err(format!("{what} failed for another reason: {error}")),
    }
}

/// Fails if the file could be read; errors are fine.
fn hidden(what: &str, content: io::Result<Vec<u8>>) -> Result<(), String> {
    match content {
        Ok(content) if content == SECRET.as_bytes() => Err(format!("{what} shows the secret")),
        Ok(_) => Err(format!("{what} shows a file that should not be there")),
        Err(_) => Ok(()),
    }
}

fn read(path: impl AsRef<Path>) -> Result<(), String> {
    hidden(&path.as_ref().display().to_string(), std::fs::read(path))
}

pub fn c_path(path: impl AsRef<Path>) -> CString {
    CString::new(path.as_ref().as_os_str().as_bytes()).unwrap()
}

/// Returns the path of the secret below a number of `..`.
fn dotted(outside: &Outside, dots: usize) -> String {
    format!("{}{}", "/..".repeat(dots), outside.secret.display())
}

fn dots_lead_nowhere(outside: &Outside) -> Result<(), String> {
    for dots in [1, 2, 3, 10, 100] {
        read(dotted(outside, dots))?;
        read(format!("{}secret", "../".repeat(dots)))?;
        std::env::set_current_dir("..").map_err(|error| error.to_string())?;
    }
    read("secret")
}

fn absolute_paths_lead_nowhere(outside: &Outside) -> Result<(), String> {
    read(&outside.secret)?;
    read(outside.dir.join("secret"))
}

fn links_lead_nowhere(outside: &Outside) -> Result<(), String> {
    let secret = outside.secret.display();
    for link in ["/absolute-link", "/relative-link"] {
        read(link)?;
    }
    read(format!("/proc-link/{secret}"))?;
    for target in [format!("{secret}"), format!("../../..{secret}"), "../secret".into()] {
        let _ = std::fs::remove_file("/new-link");
        std::os::unix::fs::symlink(target, "/new-link").map_err(|error| error.to_string())?;
        read("/new-link")?;
    }
    std::fs::remove_file("/new-link").map_err(|error| error.to_string())
}

/// The classic escape: a directory kept open, a chroot below it, and `..` from the former.
fn a_chroot_in_the_jail_opens_no_way_out(outside: &Outside) -> Result<(), String> {
    let kept = std::fs::File::open("/").map_err(|error| error.to_string())?;
    let _ = std::fs::create_dir("/cell");
    // SAFETY: the path is NUL-terminated.
    let changed = unsafe { libc::chroot(c"/cell".as_ptr()) };
    // SAFETY: fchdir takes a plain number.
    unsafe { libc::fchdir(kept.as_raw_fd()) };
    for _ in 0..50 {
        std::env::set_current_dir("..").map_err(|error| error.to_string())?;
    }
    read(format!(".{}", outside.secret.display()))?;
    // SAFETY: the path is NUL-terminated.
    unsafe { libc::chroot(c".".as_ptr()) };
    read(&outside.secret)?;
    std::fs::remove_dir("cell").map_err(|error| error.to_string())?;
    if changed == 0 { Err("chroot was possible".into()) } else { Ok(()) }
}

fn a_bind_has_no_way_up(_: &Outside) -> Result<(), String> {
    read("/mnt/shared/../secret")?;
    read("/mnt/shared/up/secret")?;
    std::env::set_current_dir("/mnt/shared").map_err(|error| error.to_string())?;
    read("../secret")?;
    read("up/secret")
}

fn there_is_no_proc(_: &Outside) -> Result<(), String> {
    for path in ["/proc/self/status", "/proc/1/root", "/sys/kernel", "/dev/pts", "/dev/shm"] {
        if Path::new(path).exists() {
            return Err(format!("{path} is there"));
        }
    }
    Ok(())
}

/// Returns whether Landlock is available; some attempts are refused by Landlock alone.
fn has_landlock() -> bool {
    // SAFETY: this form of the call asks for the version, and takes a null pointer.
    unsafe { libc::syscall(libc::SYS_landlock_create_ruleset, 0, 0, 1) > 0 }
}

fn a_directory_from_outside_is_of_no_use(outside: &Outside) -> Result<(), String> {
    if !has_landlock() {
        return Ok(());
    }
    let dir = outside.leaked();
    let reasons = [libc::EACCES, libc::EXDEV];
    for (name, flags) in
        [("secret", libc::O_RDONLY), (".", libc::O_RDONLY), ("new", libc::O_CREAT | libc::O_WRONLY)]
    {
        let path = c_path(name);
        // SAFETY: the path is NUL-terminated.
        let fd = unsafe { libc::openat(dir, path.as_ptr(), flags, 0o600) };
        refused(&format!("opening {name} from outside"), fd.into(), &reasons)?;
    }
    // SAFETY: the paths are NUL-terminated.
    unsafe {
        let made = libc::mkdirat(dir, c"new".as_ptr(), 0o700);
        refused("mkdir outside", made.into(), &reasons)?;
        let gone = libc::unlinkat(dir, c"secret".as_ptr(), 0);
        refused("unlink outside", gone.into(), &reasons)?;
        let moved = libc::renameat(dir, c"secret".as_ptr(), libc::AT_FDCWD, c"/stolen".as_ptr());
        refused("rename from outside", moved.into(), &reasons)
    }
}

fn a_file_from_outside_cannot_be_opened_again(outside: &Outside) -> Result<(), String> {
    let fd = outside.secret_path_fd;
    let mut byte = 0u8;
    // SAFETY: one byte is writable; strings are NUL-terminated.
    unsafe {
        let read = libc::read(fd, (&raw mut byte).cast(), 1);
        refused("reading an O_PATH descriptor", read as i64, &[libc::EBADF])?;
        let opened = libc::openat(fd, c"".as_ptr(), libc::O_RDONLY);
        refused("opening it", opened.into(), &[libc::ENOENT, libc::ENOTDIR, libc::EACCES])
    }
}

fn hard_links_come_from_inside_only(outside: &Outside) -> Result<(), String> {
    let secret = c_path(&outside.secret);
    let here = c"/stolen".as_ptr();
    let cwd = libc::AT_FDCWD;
    // SAFETY: the strings are NUL-terminated.
    unsafe {
        let linked = libc::link(secret.as_ptr(), here);
        refused("a link by path", linked.into(), &[libc::ENOENT])?;
        let fd = outside.secret_path_fd;
        let linked = libc::linkat(fd, c"".as_ptr(), cwd, here, libc::AT_EMPTY_PATH);
        let reasons = [libc::EXDEV, libc::ENOENT, libc::EACCES, libc::EPERM];
        refused("a link by descriptor", linked.into(), &reasons)?;
        let linked = libc::linkat(outside.leaked(), c"secret".as_ptr(), cwd, here, 0);
        refused("a link from a directory outside", linked.into(), &reasons)
    }
}

fn processes_outside_are_out_of_reach(outside: &Outside) -> Result<(), String> {
    let victim = outside.victim();
    let gone = [libc::ESRCH];
    // SAFETY: the calls take numbers and unused null pointers; signal 0 is never delivered.
    unsafe {
        refused("kill", libc::kill(victim, 0).into(), &gone)?;
        refused("kill of our parent's parent", libc::kill(libc::getppid(), 0).into(), &[]).ok();
        let opened = libc::syscall(libc::SYS_pidfd_open, victim, 0);
        refused("pidfd_open", opened, &gone)?;
        let seized = libc::ptrace(libc::PTRACE_SEIZE, victim, 0, 0);
        refused("ptrace", seized, &[libc::ESRCH, libc::EPERM])?;
        let mut byte = 0u8;
        let local = libc::iovec { iov_base: (&raw mut byte).cast(), iov_len: 1 };
        let remote = libc::iovec { iov_base: (&raw mut byte).cast(), iov_len: 1 };
        let read = libc::process_vm_readv(victim, &raw const local, 1, &raw const remote, 1, 0);
        refused("process_vm_readv", read as i64, &gone)?;
        let limits =
            libc::prlimit(victim, libc::RLIMIT_CORE, std::ptr::null(), std::ptr::null_mut());
        refused("prlimit", limits.into(), &gone)
    }
}

fn sockets_outside_are_out_of_reach(outside: &Outside) -> Result<(), String> {
    let reached = |what: &str| Err(format!("{what} could be reached"));
    if TcpStream::connect_timeout(&outside.tcp, Duration::from_secs(2)).is_ok() {
        return reached("a TCP socket");
    }
    if std::net::TcpListener::bind(SocketAddr::from(([127, 0, 0, 1], 0))).is_ok() && has_landlock()
    {
        return reached("a TCP port");
    }
    let name = std::os::unix::net::SocketAddr::from_abstract_name(&outside.abstract_name);
    if UnixStream::connect_addr(&name.unwrap()).is_ok() {
        return reached("an abstract socket");
    }
    for path in [outside.dir.join("socket"), "../socket".into()] {
        if UnixStream::connect(path).is_ok() {
            return reached("a socket by path");
        }
    }
    Ok(())
}

fn shared_memory_outside_is_out_of_reach(_: &Outside) -> Result<(), String> {
    // SAFETY: shmget takes plain numbers.
    let found = unsafe { libc::shmget(outside::shm_key(), 4096, 0) };
    refused("shmget", found.into(), &[libc::ENOENT, libc::ENOSYS])
}

/// The numbers of /dev/null, so that a node would be harmless if it was made.
const NULL: libc::dev_t = libc::makedev(1, 3);

fn device_nodes_are_of_no_use(_: &Outside) -> Result<(), String> {
    for (kind, name) in [(libc::S_IFCHR, "a character device"), (libc::S_IFBLK, "a block device")] {
        // SAFETY: the path is NUL-terminated.
        let made = unsafe { libc::mknod(c"/node".as_ptr(), kind | 0o600, NULL) };
        refused(&format!("making {name}"), made.into(), &[libc::EPERM, libc::EACCES])?;
    }
    Ok(())
}

/// A minimal program that exits with 77.
pub const PROGRAM: [u8; 132] = {
    let mut file = [0; 132];
    let head: [u8; 64] = [
        0x7f, b'E', b'L', b'F', 2, 1, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, // 64 bits, little-endian
        2, 0, 62, 0, 1, 0, 0, 0, 0x78, 0, 0x40, 0, 0, 0, 0, 0, // executable, x86_64, entry
        64, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, // program headers
        0, 0, 0, 0, 64, 0, 56, 0, 1, 0, 0, 0, 0, 0, 0, 0,
    ];
    let segment: [u8; 56] = [
        1, 0, 0, 0, 5, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, // load, readable and executable
        0, 0, 0x40, 0, 0, 0, 0, 0, 0, 0, 0x40, 0, 0, 0, 0, 0, // at 0x400000
        132, 0, 0, 0, 0, 0, 0, 0, 132, 0, 0, 0, 0, 0, 0, 0, 0, 16, 0, 0, 0, 0, 0, 0,
    ];
    // mov edi, 77; mov eax, exit; syscall
    let code: [u8; 12] = [0xbf, 77, 0, 0, 0, 0xb8, 60, 0, 0, 0, 0x0f, 0x05];
    let mut at = 0;
    while at < file.len() {
        file[at] = match at {
            0..64 => head[at],
            64..120 => segment[at - 64],
            _ => code[at - 120],
        };
        at += 1;
    }
    file
};

fn programs_cannot_be_run(_: &Outside) -> Result<(), String> {
    std::fs::write("/program", PROGRAM).map_err(|error| error.to_string())?;
    let mode = std::os::unix::fs::PermissionsExt::from_mode(0o755);
    std::fs::set_permissions("/program", mode).map_err(|error| error.to_string())?;
    let no_arguments = [std::ptr::null()];
    // SAFETY: strings end with NUL, lists with null. If the program runs, its status shows.
    unsafe {
        let ran = libc::execv(c"/program".as_ptr(), no_arguments.as_ptr());
        refused("exec", ran.into(), &[libc::EACCES, libc::EPERM])?;
    }
    std::fs::remove_file("/program").map_err(|error| error.to_string())
}
