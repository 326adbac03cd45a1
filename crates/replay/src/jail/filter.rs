//! The seccomp filter: allows the system calls that rows of the table are replayed with, and those
//! that the replay itself makes. All others are refused, should a trace ever make a task call them.
//!
//! Calls allowed unconditionally, reads and writes among them, are answered from a bitmap that the
//! kernel computes at installation; only the few others run the program.

use std::collections::BTreeMap;
use std::io;

use libc::sock_filter;
use syscalls::shape::{ArgKind, Replay, Syscall, Variant, of_set};
use syscalls::table::{CALL_LIMIT, ROWS};
use syscalls::{Act, Gives, flags};

/// Condition on an argument: its masked bits must equal one of the values.
#[derive(Clone, PartialEq, Eq, Debug)]
struct Condition {
    argument: u8,
    /// For the lower 32 bits: the kernel ignores the others for these arguments.
    mask: u32,
    values: Vec<u32>,
}

/// Conditions of a call: allowed if one of them holds, or if there are none.
type When = Vec<Condition>;

/// Calls that the replay itself needs, besides those of the rows.
const OWN: &[libc::c_long] = &[
    // Memory and threads.
    libc::SYS_brk,
    libc::SYS_munmap,
    libc::SYS_mremap,
    libc::SYS_madvise,
    libc::SYS_msync,
    libc::SYS_mincore,
    libc::SYS_futex,
    libc::SYS_set_robust_list,
    libc::SYS_rseq,
    libc::SYS_sched_yield,
    libc::SYS_sched_getaffinity,
    libc::SYS_sigaltstack,
    libc::SYS_rt_sigaction,
    libc::SYS_rt_sigprocmask,
    libc::SYS_rt_sigreturn,
    libc::SYS_restart_syscall,
    libc::SYS_exit,
    libc::SYS_exit_group,
    libc::SYS_wait4,
    libc::SYS_tgkill,
    libc::SYS_gettid,
    libc::SYS_getpid,
    libc::SYS_getrandom,
    // Requests to reopen descriptors, see `reopen`.
    libc::SYS_sendmsg,
    libc::SYS_recvmsg,
    libc::SYS_shutdown,
    // Time.
    libc::SYS_clock_gettime,
    libc::SYS_clock_nanosleep,
    libc::SYS_nanosleep,
    libc::SYS_poll,
    libc::SYS_ppoll,
    // Identity and limits.
    libc::SYS_getuid,
    libc::SYS_geteuid,
    libc::SYS_getgid,
    libc::SYS_getegid,
    libc::SYS_getgroups,
    libc::SYS_capget,
    libc::SYS_capset,
    libc::SYS_getrlimit,
    libc::SYS_sysinfo,
];

/// Likewise, with conditions: number, argument, mask and values.
const OWN_IF: &[(libc::c_long, u8, u32, &[u32])] = &[
    // Nothing becomes executable.
    (libc::SYS_mmap, 2, libc::PROT_EXEC as u32, &[0]),
    (libc::SYS_mprotect, 2, libc::PROT_EXEC as u32, &[0]),
    // Only of the calling thread, whose privileges are gone.
    (libc::SYS_sched_setattr, 0, u32::MAX, &[0]),
    // No namespaces, no tracing.
    (libc::SYS_clone, 0, NAMESPACES | libc::CLONE_PTRACE as u32, &[0]),
    (libc::SYS_unshare, 0, !((libc::CLONE_FILES | libc::CLONE_FS) as u32), &[0]),
    (libc::SYS_prctl, 0, u32::MAX, &[libc::PR_SET_NAME as u32, libc::PR_SET_TIMERSLACK as u32]),
    // Terminal checks of its own output.
    (libc::SYS_ioctl, 1, u32::MAX, &[libc::TCGETS as u32, libc::TIOCGWINSZ as u32]),
    // Room of sockets, of which a user has a share.
    (libc::SYS_setsockopt, 2, u32::MAX, &[libc::SO_SNDBUF as u32]),
    (libc::SYS_fcntl, 1, u32::MAX, &[libc::F_GETPIPE_SZ as u32, libc::F_GETFD as u32]),
];

const NAMESPACES: u32 = (libc::CLONE_NEWNS
    | libc::CLONE_NEWCGROUP
    | libc::CLONE_NEWUTS
    | libc::CLONE_NEWIPC
    | libc::CLONE_NEWUSER
    | libc::CLONE_NEWPID
    | libc::CLONE_NEWNET) as u32
    | libc::CLONE_NEWTIME as u32;

/// File types for mknod: no devices.
const NODES: &[u32] = &[0, libc::S_IFREG, libc::S_IFIFO, libc::S_IFSOCK];

/// Returns the restriction on an argument of a row's calls, where they are replayed.
fn narrowed(row: &Syscall) -> Option<Condition> {
    let mode = row.args.iter().zip(0u8..).find(|(arg, _)| matches!(arg.kind, ArgKind::Mode));
    let mode = mode.map(|(_, number)| number);
    let condition =
        |argument, mask, values: &[u32]| Condition { argument, mask, values: values.into() };
    match row.act {
        Act::MakeNode => return Some(condition(mode?, libc::S_IFMT, NODES)),
        Act::Mode => return Some(condition(mode?, libc::S_ISUID, &[0])),
        _ if row.gives == Gives::SocketPair => {
            let family = of_set(row.args, &flags::AF)?;
            return Some(condition(family, u32::MAX, &[libc::AF_UNIX as u32]));
        }
        _ => {}
    }
    // Huge pages are a resource of the whole machine.
    of_set(row.args, &flags::MFD).map(|flags| condition(flags, libc::MFD_HUGETLB, &[0]))
}

/// Returns the conditions of all allowed calls, by number.
fn allowed() -> BTreeMap<u16, When> {
    let mut all: BTreeMap<u16, When> = BTreeMap::new();
    for row in ROWS.iter().flat_map(|rows| rows.iter()).filter(|row| row.queue.is_none()) {
        if let Some(mut when) = of_row(row) {
            when.extend(narrowed(row));
            all.insert(row.nr, when);
        }
    }
    for nr in OWN {
        all.insert(*nr as u16, Vec::new());
    }
    for (nr, argument, mask, values) in OWN_IF {
        let values = values.to_vec();
        let when = Condition { argument: *argument, mask: *mask, values };
        all.entry(*nr as u16).or_default().push(when);
    }
    all
}

/// Returns when calls of a row are replayed; `None`: never.
fn of_row(row: &Syscall) -> Option<When> {
    let is_made = |replay| {
        matches!(replay, Replay::Real | Replay::Numbers | Replay::Timed | Replay::TimedUnlessAside)
    };
    if row.variants.is_empty() {
        return is_made(row.replay).then(Vec::new);
    }
    let replay = |variant: &Variant| variant.replay.unwrap_or(row.replay);
    let made: Vec<_> = row.variants.iter().filter(|v| is_made(replay(v))).collect();
    if made.len() == row.variants.len() && made.iter().any(|v| v.mask == 0) {
        return Some(Vec::new());
    }
    let when = |variant: &&Variant| {
        let (mask, value) = (variant.mask as u32, variant.value as u32);
        Condition { argument: variant.key_arg, mask, values: vec![value] }
    };
    (!made.is_empty()).then(|| made.iter().map(when).collect())
}

/// Offsets in `struct seccomp_data`: number, architecture and arguments.
const NUMBER_AT: u32 = 0;
const ARCHITECTURE_AT: u32 = 4;
const ARGUMENTS_AT: u32 = 16;
/// AUDIT_ARCH_X86_64.
const ARCHITECTURE: u32 = 0xc000_003e;

const LOAD: u32 = libc::BPF_LD | libc::BPF_W | libc::BPF_ABS;
const AND: u32 = libc::BPF_ALU | libc::BPF_AND | libc::BPF_K;
const JUMP_IF_EQUAL: u32 = libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K;
const JUMP_IF_AT_LEAST: u32 = libc::BPF_JMP | libc::BPF_JGE | libc::BPF_K;
const RETURN: u32 = libc::BPF_RET | libc::BPF_K;

const ALLOW: u32 = libc::SECCOMP_RET_ALLOW;
const KILL: u32 = libc::SECCOMP_RET_KILL_PROCESS;

const fn refuse(error: i32) -> u32 {
    libc::SECCOMP_RET_ERRNO | error as u32
}

fn step(code: u32, k: u32, jt: u8, jf: u8) -> sock_filter {
    sock_filter { code: code as u16, jt, jf, k }
}

/// Compiles the filter program.
fn program(allowed: &BTreeMap<u16, When>) -> Vec<sock_filter> {
    let mut program = vec![
        step(LOAD, ARCHITECTURE_AT, 0, 0),
        step(JUMP_IF_EQUAL, ARCHITECTURE, 1, 0),
        step(RETURN, KILL, 0, 0),
        step(LOAD, NUMBER_AT, 0, 0),
    ];
    for (nr, when) in allowed.iter().filter(|(_, when)| !when.is_empty()) {
        let looks = looks_at(when);
        program.push(step(JUMP_IF_EQUAL, u32::from(*nr), 0, looks.len() as u8));
        program.extend(looks);
    }
    // The C library tries this first, then falls back to clone, whose flags can be checked.
    program.push(step(JUMP_IF_EQUAL, libc::SYS_clone3 as u32, 0, 1));
    program.push(step(RETURN, refuse(libc::ENOSYS), 0, 0));
    let always: Vec<u32> =
        allowed.iter().filter(|(_, when)| when.is_empty()).map(|(nr, _)| (*nr).into()).collect();
    for run in always.chunk_by(|a, b| a + 1 == *b) {
        let (first, behind) = (run[0], run[run.len() - 1] + 1);
        program.push(step(JUMP_IF_AT_LEAST, first, 0, 2));
        program.push(step(JUMP_IF_AT_LEAST, behind, 1, 0));
        program.push(step(RETURN, ALLOW, 0, 0));
    }
    // ENOSYS for unknown calls, which libraries can do without.
    program.push(step(JUMP_IF_AT_LEAST, CALL_LIMIT as u32, 1, 0));
    program.push(step(RETURN, refuse(libc::EPERM), 0, 0));
    program.push(step(RETURN, refuse(libc::ENOSYS), 0, 0));
    program
}

/// Compiles the checks of one call's arguments, which end in a decision.
fn looks_at(when: &When) -> Vec<sock_filter> {
    let mut looks = Vec::new();
    for Condition { argument, mask, values } in when {
        looks.push(step(LOAD, ARGUMENTS_AT + 8 * u32::from(*argument), 0, 0));
        looks.push(step(AND, *mask, 0, 0));
        for value in values {
            looks.push(step(JUMP_IF_EQUAL, *value, 0, 1));
            looks.push(step(RETURN, ALLOW, 0, 0));
        }
    }
    looks.push(step(RETURN, refuse(libc::EPERM), 0, 0));
    looks
}

/// Installs the filter for the calling thread and all its children. Requires `no_new_privs`.
pub fn install() -> io::Result<()> {
    let mut program = program(&allowed());
    let told = libc::sock_fprog { len: program.len() as u16, filter: program.as_mut_ptr() };
    let (set, flags) = (libc::SECCOMP_SET_MODE_FILTER, libc::SECCOMP_FILTER_FLAG_SPEC_ALLOW);
    // SAFETY: the program is passed with its length, and lives through the call.
    match unsafe { libc::syscall(libc::SYS_seccomp, set, flags, &raw const told) } {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}

/// Forbids that memory becomes executable later, if supported. The filter forbids it as well.
pub fn keep_memory_as_it_is() {
    const REFUSE_EXEC_GAIN: libc::c_ulong = 1;
    // SAFETY: the arguments are numbers; no memory is accessed.
    unsafe { libc::prctl(libc::PR_SET_MDWE, REFUSE_EXEC_GAIN, 0, 0, 0) };
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Interprets the program for a call.
    fn verdict(program: &[sock_filter], nr: u32, arguments: [u64; 6]) -> u32 {
        let (mut at, mut value) = (0, 0);
        loop {
            let sock_filter { code, jt, jf, k } = program[at];
            let jump = |holds| usize::from(if holds { jt } else { jf });
            at += 1;
            match u32::from(code) {
                LOAD => {
                    value = match k {
                        NUMBER_AT => nr,
                        ARCHITECTURE_AT => ARCHITECTURE,
                        at => arguments[(at - ARGUMENTS_AT) as usize / 8] as u32,
                    }
                }
                AND => value &= k,
                JUMP_IF_EQUAL => at += jump(value == k),
                JUMP_IF_AT_LEAST => at += jump(value >= k),
                RETURN => return k,
                code => panic!("code {code:#x}"),
            }
        }
    }

    fn nr(name: &str) -> u32 {
        syscalls::by_name(name).unwrap_or_else(|| panic!("{name}")).nr.into()
    }

    #[test]
    fn the_program_says_what_is_allowed() {
        let allowed = allowed();
        let program = program(&allowed);
        assert!(program.len() < 4096, "the kernel takes no more");
        for nr in 0..CALL_LIMIT as u32 + 100 {
            let when = allowed.get(&(nr as u16));
            if when.is_none_or(When::is_empty) {
                let said = verdict(&program, nr, [u64::MAX; 6]);
                assert_eq!(said == ALLOW, when.is_some(), "{nr}");
            }
            for Condition { argument, mask, values } in when.into_iter().flatten() {
                for value in values {
                    let mut arguments = [u64::MAX; 6];
                    arguments[usize::from(*argument)] = u64::from(*value | !mask) | 0xdead << 32;
                    assert_eq!(verdict(&program, nr, arguments), ALLOW, "{nr}");
                }
            }
        }
        assert_eq!(verdict(&program, 0x4000_0001, [0; 6]), refuse(libc::ENOSYS));
        assert_eq!(verdict(&program, nr("clone3"), [0; 6]), refuse(libc::ENOSYS));
    }

    /// Reads and writes are allowed unconditionally: otherwise the kernel could not use its bitmap.
    #[test]
    fn transfers_are_allowed_without_a_look() {
        use syscalls::Classes;
        let allowed = allowed();
        for row in ROWS.iter().flat_map(|rows| rows.iter()) {
            let moves = row.classes.intersects(Classes::READ.or(Classes::WRITE));
            if moves && row.replay == Replay::Real && row.queue.is_none() {
                assert_eq!(allowed.get(&row.nr), Some(&Vec::new()), "{}", row.name);
            }
        }
    }

    #[test]
    fn what_no_row_is_replayed_with_is_refused() {
        let program = program(&allowed());
        for name in [
            "execve",
            "execveat",
            "ptrace",
            "process_vm_writev",
            "mount",
            "move_mount",
            "pivot_root",
            "setns",
            "bpf",
            "io_uring_setup",
            "userfaultfd",
            "keyctl",
            "socket",
            "bind",
            "connect",
            "kill",
            "tkill",
            "pidfd_open",
            "pidfd_getfd",
            "open_by_handle_at",
            "init_module",
            "shmat",
            "personality",
            "pkey_mprotect",
            "seccomp",
            "perf_event_open",
        ] {
            assert_eq!(verdict(&program, nr(name), [0; 6]), refuse(libc::EPERM), "{name}");
        }
        let with = |name: &str, argument: usize, value: i32| {
            let mut arguments = [0; 6];
            arguments[argument] = value as u64;
            verdict(&program, nr(name), arguments) == ALLOW
        };
        let code = libc::PROT_READ | libc::PROT_EXEC;
        for (name, argument, good, bad) in [
            ("mmap", 2, libc::PROT_READ | libc::PROT_WRITE, code),
            ("mprotect", 2, libc::PROT_NONE, code),
            ("clone", 0, libc::CLONE_VM | libc::CLONE_FILES, libc::CLONE_VM | libc::CLONE_NEWUSER),
            ("setsockopt", 2, libc::SO_SNDBUF, libc::SO_ATTACH_FILTER),
            ("unshare", 0, libc::CLONE_FS, libc::CLONE_FS | libc::CLONE_NEWNS),
            ("prctl", 0, libc::PR_SET_TIMERSLACK, libc::PR_SET_SECCOMP),
            ("fcntl", 1, libc::F_DUPFD, libc::F_SETOWN),
            ("fcntl", 1, libc::F_OFD_SETLKW, libc::F_SETLEASE),
            ("ioctl", 1, libc::FIONREAD as i32, libc::TIOCSTI as i32),
            ("prlimit64", 1, libc::RLIMIT_NOFILE as i32, libc::RLIMIT_AS as i32),
            ("socketpair", 0, libc::AF_UNIX, libc::AF_TIPC),
            ("memfd_create", 1, libc::MFD_CLOEXEC as i32, libc::MFD_HUGETLB as i32),
            ("fchmodat", 2, 0o2777, 0o4755),
            ("mknod", 1, 0o100_644, 0o020_644),
            ("mknodat", 2, 0o010_644, 0o060_644),
        ] {
            assert!(with(name, argument, good) && !with(name, argument, bad), "{name}");
        }
    }

    #[test]
    fn what_is_narrowed_had_no_conditions() {
        let rows = ROWS.iter().flat_map(|rows| rows.iter());
        let narrowed: Vec<_> = rows.filter(|row| narrowed(row).is_some()).collect();
        for row in &narrowed {
            assert_eq!(of_row(row), Some(Vec::new()), "{}", row.name);
        }
        assert_eq!(narrowed.len(), 8, "rows that make nodes, set modes, pair sockets ...");
    }
}
