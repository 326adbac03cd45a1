//! Checks that try a feature, mostly in a short-lived child process.

use std::io;
use std::ptr;

use render::amounts::show_size;
use syscalls::abi::tasks::{PR_SET_SYSCALL_USER_DISPATCH, PR_SYS_DISPATCH_ON};

use crate::check::Check;

/// All mappable addresses: calls from this range are exempt, so nothing is intercepted.
const USER_SPACE: (libc::c_ulong, libc::c_ulong) = (0x1000, 0x7fff_ffff_0000);
/// Size of the memory to try: the default of a recording.
const ARENA_BYTES: usize = ring::arena_bytes((64 << 20) / ring::POOL_BYTES);
/// `HWCAP2_FSGSBASE`.
const FSGSBASE: libc::c_ulong = 1 << 1;

/// Returns all checks that try a feature.
pub fn all() -> Vec<Check> {
    vec![
        user_dispatch(),
        fsgsbase(),
        sync_core(),
        ptrace(),
        shared_memory("shared memory", 4096, libc::SHM_EXEC),
        shared_memory("recording buffer", ARENA_BYTES, 0),
    ]
}

/// Runs `work` in a child process. Returns its result, an errno or 0.
fn in_child(work: impl FnOnce() -> i32) -> io::Result<i32> {
    // SAFETY: the child makes only system calls until _exit, so it takes no inherited locks.
    let pid = unsafe { libc::fork() };
    match pid {
        -1 => return Err(io::Error::last_os_error()),
        0 => {
            let code = work();
            // SAFETY: _exit runs no handlers or destructors in the child.
            unsafe { libc::_exit(code) }
        }
        _ => {}
    }
    let mut status = 0;
    // SAFETY: `status` is valid to write to, and the child is ours.
    if unsafe { libc::waitpid(pid, &mut status, 0) } != pid {
        return Err(io::Error::last_os_error());
    }
    if libc::WIFEXITED(status) {
        return Ok(libc::WEXITSTATUS(status));
    }
    Err(io::Error::other(format!("the child died of signal {}", libc::WTERMSIG(status))))
}

fn errno() -> i32 {
    io::Error::last_os_error().raw_os_error().unwrap_or(libc::EINVAL)
}

fn user_dispatch() -> Check {
    let name = "user dispatch";
    let result = in_child(|| {
        let (begin, length) = USER_SPACE;
        let no_selector: libc::c_ulong = 0;
        // SAFETY: affects only system calls of the child, which exits at once.
        let result = unsafe {
            libc::prctl(
                PR_SET_SYSCALL_USER_DISPATCH,
                PR_SYS_DISPATCH_ON,
                begin,
                length,
                no_selector,
            )
        };
        if result == 0 { 0 } else { errno() }
    });
    match result {
        Ok(0) => Check::ok(name, "the kernel has Syscall User Dispatch"),
        Ok(libc::EINVAL) => Check::missing(
            name,
            "the kernel has no Syscall User Dispatch",
            "use Linux 5.11 or newer on x86_64",
        ),
        Ok(error) => Check::missing(
            name,
            format!("refused: {}", io::Error::from_raw_os_error(error)),
            "allow prctl in the container's seccomp profile, or run outside of it",
        ),
        Err(error) => Check::missing(
            name,
            format!("could not be tried: {error}"),
            "raise the limit of processes (ulimit -u)",
        ),
    }
}

fn fsgsbase() -> Check {
    let name = "FSGSBASE";
    // SAFETY: getauxval only reads the auxiliary vector.
    if unsafe { libc::getauxval(libc::AT_HWCAP2) } & FSGSBASE != 0 {
        return Check::ok(name, "programs may set the GS base");
    }
    Check::missing(
        name,
        "the GS base cannot be set by programs",
        "use Linux 5.9 or newer, without nofsgsbase, on a CPU of 2012 or later",
    )
}

fn sync_core() -> Check {
    let name = "membarrier";
    // SAFETY: the query command has no memory arguments.
    let commands = unsafe { libc::syscall(libc::SYS_membarrier, libc::MEMBARRIER_CMD_QUERY, 0, 0) };
    if commands > 0
        && commands & libc::c_long::from(libc::MEMBARRIER_CMD_PRIVATE_EXPEDITED_SYNC_CORE) != 0
    {
        return Check::ok(name, "call sites can be patched while other threads run");
    }
    Check::limited(
        name,
        "SYNC_CORE is not offered: every call takes the slow path",
        "use a kernel with CONFIG_MEMBARRIER, and allow membarrier in the seccomp profile",
    )
}

/// Tries what a recording does at each exec: attach, open the memory for writing, detach.
fn ptrace() -> Check {
    let name = "ptrace";
    // SAFETY: the child makes only system calls until it is killed.
    let pid = unsafe { libc::fork() };
    match pid {
        -1 => {
            let error = io::Error::last_os_error();
            return Check::missing(name, format!("fork failed: {error}"), "raise ulimit -u");
        }
        0 => loop {
            // SAFETY: both calls take plain numbers. The alarm ends the child if the parent dies.
            unsafe {
                libc::alarm(10);
                libc::pause();
            }
        },
        _ => {}
    }
    // SAFETY: attaches to our own child, without memory arguments.
    let attached = unsafe { libc::ptrace(libc::PTRACE_SEIZE, pid, 0usize, 0usize) } == 0;
    let error = io::Error::last_os_error();
    let memory = std::fs::OpenOptions::new().write(true).open(format!("/proc/{pid}/mem"));
    // SAFETY: the child is ours, and waitpid accepts a null status.
    unsafe {
        libc::kill(pid, libc::SIGKILL);
        libc::waitpid(pid, ptr::null_mut(), libc::__WALL);
    }
    if !attached {
        return Check::missing(
            name,
            format!("attaching to a child of ours failed: {error}"),
            "allow ptrace in the container's seccomp profile (docker: --cap-add SYS_PTRACE), and \
             set kernel.yama.ptrace_scope to 0 or 1",
        );
    }
    match memory {
        Ok(_) => Check::ok(name, "programs can be attached to and written into"),
        Err(error) => Check::missing(
            name,
            format!("the memory of a child of ours cannot be written: {error}"),
            "mount /proc, and allow writes to /proc/PID/mem (proc_mem.force_override)",
        ),
    }
}

/// Tries shared memory by id, as it is mapped into programs.
fn shared_memory(name: &'static str, bytes: usize, flags: libc::c_int) -> Check {
    let remedy = format!(
        "raise kernel.shmmax, kernel.shmall and kernel.shmmni, or ask for less with --buffer; {} \
         are needed",
        show_size(bytes as u64)
    );
    // SAFETY: makes a new private segment, which is removed below.
    let id = unsafe { libc::shmget(libc::IPC_PRIVATE, bytes, libc::IPC_CREAT | 0o700) };
    if id < 0 {
        let error = io::Error::last_os_error();
        let found = format!("{} of shared memory were refused: {error}", show_size(bytes as u64));
        return Check::missing(name, found, remedy);
    }
    // SAFETY: the kernel chooses a free address for the mapping.
    let at = unsafe { libc::shmat(id, ptr::null(), flags) };
    let error = io::Error::last_os_error();
    let attached = at as isize != -1;
    // SAFETY: `at` was returned by shmat and is not used afterwards; IPC_RMID takes no memory.
    unsafe {
        if attached {
            libc::shmdt(at);
        }
        libc::shmctl(id, libc::IPC_RMID, ptr::null_mut());
    }
    if !attached {
        let how = if flags & libc::SHM_EXEC != 0 { "executable " } else { "" };
        return Check::missing(
            name,
            format!("{how}shared memory cannot be mapped: {error}"),
            "allow it in the security module's policy (SELinux: execmem), or raise ulimit -v",
        );
    }
    let found = if flags & libc::SHM_EXEC != 0 {
        "executable segments can be mapped".to_string()
    } else {
        format!("{} can be mapped", show_size(bytes as u64))
    };
    Check::ok(name, found)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn children_report_back() {
        assert_eq!(in_child(|| 0).unwrap(), 0);
        assert_eq!(in_child(|| 38).unwrap(), 38);
    }

    #[test]
    fn every_probe_says_something() {
        for check in all() {
            assert!(!check.found.is_empty(), "{check:?}");
            assert_eq!(check.remedy.is_empty(), check.verdict == crate::check::Verdict::Ok);
        }
    }
}
