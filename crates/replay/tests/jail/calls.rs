//! Attempts stopped by the filter of calls, and by the rule that memory never becomes executable.

use std::ptr::{null, null_mut};

use crate::attempts::{Attempt, PROGRAM, refused};
use crate::outside::Outside;

pub const ATTEMPTS: &[Attempt] = &[
    ("memory_never_becomes_executable", memory_never_becomes_executable),
    ("a_file_in_memory_is_not_executed", a_file_in_memory_is_not_executed),
    ("no_socket_but_pairs", no_socket_but_pairs),
    ("no_process_is_looked_into", no_process_is_looked_into),
    ("no_call_of_another_kind", no_call_of_another_kind),
    ("no_new_namespace_at_all", no_new_namespace_at_all),
    ("no_program_takes_over_a_terminal", no_program_takes_over_a_terminal),
    ("descriptors_send_no_signals", descriptors_send_no_signals),
    ("no_file_is_given_somebody_elses_rights", no_file_is_given_somebody_elses_rights),
    ("what_a_replay_needs_goes_on", what_a_replay_needs_goes_on),
];

const DENIED: &[i32] = &[libc::EPERM, libc::EACCES];

fn memory_never_becomes_executable(_: &Outside) -> Result<(), String> {
    let usable = libc::PROT_READ | libc::PROT_WRITE;
    let code = libc::PROT_READ | libc::PROT_EXEC;
    let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS;
    // SAFETY: only new memory is affected, and it is not used if a call should succeed.
    unsafe {
        for protection in [code, usable | libc::PROT_EXEC] {
            let mapped = libc::mmap(null_mut(), 4096, protection, flags, -1, 0);
            refused("mapping code", mapped as i64, DENIED)?;
        }
        let data = libc::mmap(null_mut(), 4096, usable, flags, -1, 0);
        let changed = libc::mprotect(data, 4096, code);
        refused("making memory executable", changed.into(), DENIED)?;
        let keyed = libc::syscall(libc::SYS_pkey_mprotect, data, 4096, code, -1);
        refused("the same with a key", keyed, DENIED)?;
        let file = libc::memfd_create(c"code".as_ptr(), 0);
        libc::write(file, PROGRAM.as_ptr().cast(), PROGRAM.len());
        let mapped = libc::mmap(null_mut(), 4096, code, libc::MAP_SHARED, file, 0);
        refused("mapping a file as code", mapped as i64, DENIED)?;
        let shared = libc::syscall(libc::SYS_shmat, 0, 0, libc::SHM_EXEC);
        refused("attaching code", shared, DENIED)?;
        refused("personality", libc::personality(0x040_0000).into(), DENIED)
    }
}

fn a_file_in_memory_is_not_executed(_: &Outside) -> Result<(), String> {
    let arguments = [c"program".as_ptr(), null()];
    // SAFETY: strings end with NUL, lists with null. If the program runs, its status shows.
    unsafe {
        let file = libc::memfd_create(c"program".as_ptr(), 0);
        libc::write(file, PROGRAM.as_ptr().cast(), PROGRAM.len());
        let ran = libc::fexecve(file, arguments.as_ptr(), arguments[1..].as_ptr());
        refused("executing a file in memory", ran.into(), &[libc::EPERM, libc::ENOSYS])
    }
}

fn no_socket_but_pairs(_: &Outside) -> Result<(), String> {
    let families =
        [libc::AF_UNIX, libc::AF_INET, libc::AF_NETLINK, libc::AF_PACKET, libc::AF_VSOCK];
    let mut pair = [0; 2];
    // SAFETY: the calls take numbers, and `pair` has room for two descriptors.
    unsafe {
        for family in families {
            let made = libc::socket(family, libc::SOCK_DGRAM, 0);
            refused(&format!("a socket of family {family}"), made.into(), &[])?;
        }
        let made = libc::socketpair(libc::AF_UNIX, libc::SOCK_DGRAM, 0, pair.as_mut_ptr());
        if made != 0 {
            return Err("no pair can be made".into());
        }
        let connected = libc::connect(pair[0], null(), 0);
        refused("connect", connected.into(), &[])?;
        refused("bind", libc::bind(pair[0], null(), 0).into(), &[])
    }
}

fn no_process_is_looked_into(_: &Outside) -> Result<(), String> {
    // SAFETY: the calls only concern this process, and take no valid pointers.
    unsafe {
        let own = libc::getpid();
        refused("ptrace", libc::ptrace(libc::PTRACE_TRACEME, 0, 0, 0), &[])?;
        refused("pidfd_open", libc::syscall(libc::SYS_pidfd_open, own, 0), &[])?;
        let read = libc::syscall(libc::SYS_process_vm_readv, own, 0, 0, 0, 0, 0);
        refused("process_vm_readv", read, &[])?;
        refused("kill", libc::kill(own, 0).into(), &[])?;
        refused("kcmp", libc::syscall(libc::SYS_kcmp, own, own, 0, 0, 0), &[])
    }
}

/// New calls, and numbers of other binary interfaces.
fn no_call_of_another_kind(_: &Outside) -> Result<(), String> {
    for number in [471, 1000, 0x4000_0000 | libc::SYS_getpid] {
        // SAFETY: these calls take no arguments.
        let made = unsafe { libc::syscall(number) };
        refused(&format!("call {number:#x}"), made, &[libc::ENOSYS])?;
    }
    for ring in [libc::SYS_io_uring_setup, libc::SYS_userfaultfd, libc::SYS_bpf, libc::SYS_add_key]
    {
        // SAFETY: no pointers are passed but null.
        let made = unsafe { libc::syscall(ring, 0, 0, 0, 0, 0, 0) };
        refused(&format!("call {ring}"), made, &[])?;
    }
    Ok(())
}

fn no_new_namespace_at_all(_: &Outside) -> Result<(), String> {
    let flags = libc::SIGCHLD | libc::CLONE_NEWUSER;
    // SAFETY: the calls take plain numbers; a child would exit at once.
    unsafe {
        refused("unshare", libc::unshare(libc::CLONE_NEWUSER).into(), &[])?;
        let made = libc::syscall(libc::SYS_clone, flags, 0, 0, 0, 0);
        if made == 0 {
            libc::_exit(0);
        }
        refused("clone", made, &[])?;
        refused("setns", libc::setns(-1, 0).into(), &[])
    }
}

/// Tries to push a byte into a terminal's input, if there is one.
fn no_program_takes_over_a_terminal(_: &Outside) -> Result<(), String> {
    let byte = b'x';
    for fd in 0..3 {
        // SAFETY: one byte is readable.
        let pushed = unsafe { libc::ioctl(fd, libc::TIOCSTI, &raw const byte) };
        refused("TIOCSTI", pushed.into(), &[])?;
    }
    Ok(())
}

fn descriptors_send_no_signals(_: &Outside) -> Result<(), String> {
    let commands = [libc::F_SETOWN, libc::F_SETLEASE, libc::F_NOTIFY, 10, 15];
    for command in commands {
        // SAFETY: fcntl takes plain numbers for these commands.
        let set = unsafe { libc::fcntl(0, command, 0) };
        refused(&format!("fcntl {command}"), set.into(), &[])?;
    }
    Ok(())
}

fn no_file_is_given_somebody_elses_rights(_: &Outside) -> Result<(), String> {
    std::fs::write("/plain", "").map_err(|error| error.to_string())?;
    let path = c"/plain".as_ptr();
    // SAFETY: the path is NUL-terminated.
    let result = unsafe {
        refused("chmod", libc::chmod(path, 0o4755).into(), &[])
            .and_then(|()| refused("fchmodat", libc::fchmodat(-100, path, 0o6755, 0).into(), &[]))
    };
    std::fs::remove_file("/plain").map_err(|error| error.to_string())?;
    result
}

/// Threads, tasks, files, clocks and random numbers.
fn what_a_replay_needs_goes_on(_: &Outside) -> Result<(), String> {
    use std::collections::HashMap;
    let text = |error: std::io::Error| error.to_string();
    let thread = std::thread::Builder::new().name("named".into());
    let sum = thread.spawn(|| (0..10).sum::<i32>()).map_err(text)?.join();
    std::thread::sleep(std::time::Duration::from_millis(1));
    std::fs::write("/a", vec![1; 1 << 20]).map_err(text)?;
    std::fs::rename("/a", "/b").map_err(text)?;
    let read = std::fs::read("/b").map_err(text)?;
    std::fs::remove_file("/b").map_err(text)?;
    let map: HashMap<usize, u8> = read.into_iter().enumerate().collect();
    let fine = sum.is_ok_and(|sum| sum == 45) && map.len() == 1 << 20;
    if fine { Ok(()) } else { Err("nothing works any more".into()) }
}
