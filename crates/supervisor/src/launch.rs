//! Starts the program, held until the supervisor has attached.

use std::ffi::{CString, OsStr, OsString};
use std::io;
use std::os::fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;

use crate::launch_error::LaunchError;
use crate::{Error, program, signals};

/// The program to run.
#[derive(Clone, Copy)]
pub struct Program<'a> {
    /// Its path, or its name in one of the directories in PATH.
    pub name: &'a OsStr,
    /// Its arguments.
    pub args: &'a [OsString],
    /// Makes its standard output our standard error, because ours is used for the trace.
    pub stdout_to_stderr: bool,
    /// Its memory lies where it lay the last time: the kernel chooses no random addresses.
    pub fixed_addresses: bool,
    /// For a program that is to begin exactly as another one did.
    pub exactly: Option<Exactly<'a>>,
}

/// How another program began.
#[derive(Clone, Copy)]
pub struct Exactly<'a> {
    /// Its arguments, with that before the first one.
    pub args: &'a [CString],
    /// Its environment.
    pub environment: &'a [CString],
    /// Signals that it ignores, and that it blocks, as bit masks.
    pub ignored: u64,
    /// See `ignored`.
    pub blocked: u64,
    /// The size of its stack: soft and hard limit. The kernel places memory by it.
    pub stack: Option<(u64, u64)>,
    /// A set of Landlock rules that it and its children are held by.
    pub held_by: Option<BorrowedFd<'a>>,
    /// No call of theirs writes to a file or makes it longer: the limit of sizes is 0.
    pub writes_no_file: bool,
}

/// A child that waits before it executes its program.
pub struct Held {
    /// Its process id.
    pub pid: i32,
    go: OwnedFd,
    failure: OwnedFd,
}

fn pipe() -> Result<(OwnedFd, OwnedFd), Error> {
    let mut ends = [0; 2];
    // SAFETY: `ends` has room for both descriptors, which nothing else owns.
    unsafe {
        if libc::pipe2(ends.as_mut_ptr(), libc::O_CLOEXEC) != 0 {
            return Err(Error::last("creating a pipe"));
        }
        Ok((OwnedFd::from_raw_fd(ends[0]), OwnedFd::from_raw_fd(ends[1])))
    }
}

/// Everything that the child needs, prepared before the fork: it must not allocate.
struct Plan {
    candidates: Vec<CString>,
    argv: Vec<*const libc::c_char>,
    /// `None`: ours.
    envp: Option<Vec<*const libc::c_char>>,
    stack: Option<(u64, u64)>,
    /// Signals that are ignored, and blocked; `None`: as they are.
    signals: Option<(u64, u64)>,
    fixed_addresses: bool,
    held_by: Option<i32>,
    writes_no_file: bool,
    _args: Vec<CString>,
}

fn plan(wanted: &Program<'_>) -> Result<Plan, LaunchError> {
    let (program, args) = (wanted.name, wanted.args);
    let c_string = |text: &OsStr| {
        CString::new(text.as_bytes()).map_err(|_| LaunchError::Program {
            program: program.to_owned(),
            source: io::Error::from(io::ErrorKind::InvalidInput),
        })
    };
    let candidates = match wanted.exactly {
        Some(_) => vec![c_string(program)?],
        None => program::candidates(program)
            .iter()
            .map(|path| c_string(path.as_os_str()))
            .collect::<Result<_, _>>()?,
    };
    let args: Vec<CString> = match wanted.exactly {
        Some(exactly) => exactly.args.to_vec(),
        None => std::iter::once(program)
            .chain(args.iter().map(OsString::as_os_str))
            .map(c_string)
            .collect::<Result<_, _>>()?,
    };
    let pointers = |strings: &[CString]| -> Vec<*const libc::c_char> {
        strings.iter().map(|one| one.as_ptr()).chain([std::ptr::null()]).collect()
    };
    Ok(Plan {
        candidates,
        argv: pointers(&args),
        envp: wanted.exactly.map(|exactly| pointers(exactly.environment)),
        stack: wanted.exactly.and_then(|exactly| exactly.stack),
        signals: wanted.exactly.map(|exactly| (exactly.ignored, exactly.blocked)),
        fixed_addresses: wanted.fixed_addresses,
        held_by: wanted.exactly.and_then(|exactly| exactly.held_by).map(|rules| rules.as_raw_fd()),
        writes_no_file: wanted.exactly.is_some_and(|exactly| exactly.writes_no_file),
        _args: args,
    })
}

/// Forks a child that waits for `Held::go`.
pub fn hold(program: Program<'_>) -> Result<Held, LaunchError> {
    let plan = plan(&program)?;
    let (wait, go) = pipe()?;
    let (failure, report) = pipe()?;
    // Until its exec the child has our signal handlers.
    let before = signals::block_all();
    // SAFETY: the child makes system calls only, so no lock held by another thread matters.
    match unsafe { libc::fork() } {
        -1 => {
            let error = Error::last(
                "starting a process (ulimit -u, or a cgroup's pids.max, may forbid it)",
            );
            signals::block_only(&before);
            Err(error.into())
        }
        0 => {
            // SAFETY: raw system calls on descriptors that are open here.
            unsafe {
                restore_inherited();
                if program.stdout_to_stderr && libc::dup2(2, 1) < 0 {
                    libc::close(1);
                }
                // Only the parent holds this end: if it dies, the child's read fails, and it exits.
                libc::close(go.as_raw_fd());
                let mut byte = 0u8;
                if libc::read(wait.as_raw_fd(), (&raw mut byte).cast(), 1) == 1 {
                    prepare(&plan);
                    let error = if hold_back(&plan) { execute(&plan) } else { libc::EPERM };
                    libc::write(report.as_raw_fd(), (&raw const error).cast(), 4);
                }
                libc::_exit(127)
            }
        }
        pid => {
            signals::block_only(&before);
            Ok(Held { pid, go, failure })
        }
    }
}

/// State inherited from our parent, saved before the Rust runtime changes it.
struct Inherited {
    /// Signals that are ignored, as a bit mask.
    ignored: u64,
    /// Which standard streams were closed; the runtime opens those.
    closed: [bool; 3],
    mask: libc::sigset_t,
}

// SAFETY: all-zero bytes are a value: nothing ignored, closed or blocked.
static mut INHERITED: Inherited = unsafe { std::mem::zeroed() };

extern "C" fn note_inherited() {
    let bit = |signal| u64::from(signals::is_ignored(signal)) << (signal - 1);
    // SAFETY: runs once, before main, in the only thread.
    unsafe {
        let inherited = &raw mut INHERITED;
        (*inherited).ignored = (1..=64).map(bit).fold(0, |all, one| all | one);
        (*inherited).closed = [0, 1, 2].map(|fd| libc::fcntl(fd, libc::F_GETFD) < 0);
        libc::sigprocmask(libc::SIG_SETMASK, std::ptr::null(), &raw mut (*inherited).mask);
    }
}

#[used]
#[unsafe(link_section = ".init_array")]
static NOTE_INHERITED: extern "C" fn() = note_inherited;

/// Restores what the Rust runtime and the supervisor have changed. Called in the child after fork.
fn restore_inherited() {
    // SAFETY: `INHERITED` is written before main only.
    unsafe {
        let inherited = &raw const INHERITED;
        for signal in 1..=64 {
            let ignored = (*inherited).ignored & 1 << (signal - 1) != 0;
            signals::set_action(signal, if ignored { libc::SIG_IGN } else { libc::SIG_DFL });
        }
        let closed = (0..).zip((*inherited).closed).filter(|&(_, closed)| closed);
        closed.for_each(|(fd, _)| {
            libc::close(fd);
        });
        libc::sigprocmask(libc::SIG_SETMASK, &raw const (*inherited).mask, std::ptr::null_mut());
    }
}

/// Gives the child what its program is to find.
unsafe fn prepare(plan: &Plan) {
    // SAFETY: takes numbers, and local structs; a set of signals begins with the kernel's 64 bits.
    unsafe {
        if plan.fixed_addresses {
            let now = libc::personality(0xffff_ffff);
            libc::personality(
                now.cast_unsigned() as libc::c_ulong | libc::ADDR_NO_RANDOMIZE as libc::c_ulong,
            );
        }
        if let Some((ignored, blocked)) = plan.signals {
            for signal in 1..=64 {
                let is_ignored = ignored & 1 << (signal - 1) != 0;
                signals::set_action(signal, if is_ignored { libc::SIG_IGN } else { libc::SIG_DFL });
            }
            let mut mask: libc::sigset_t = std::mem::zeroed();
            (&raw mut mask).cast::<u64>().write(blocked);
            libc::sigprocmask(libc::SIG_SETMASK, &raw const mask, std::ptr::null_mut());
        }
        if plan.writes_no_file {
            let none = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
            libc::setrlimit(libc::RLIMIT_FSIZE, &raw const none);
        }
        if let Some((soft, hard)) = plan.stack {
            let limit = libc::rlimit { rlim_cur: soft, rlim_max: hard };
            if libc::setrlimit(libc::RLIMIT_STACK, &raw const limit) != 0 {
                let mut now: libc::rlimit = std::mem::zeroed();
                libc::getrlimit(libc::RLIMIT_STACK, &raw mut now);
                now.rlim_cur = soft.min(now.rlim_max);
                libc::setrlimit(libc::RLIMIT_STACK, &raw const now);
            }
        }
    }
}

/// Lets rules hold the child. Returns false if they do not.
unsafe fn hold_back(plan: &Plan) -> bool {
    let Some(rules) = plan.held_by else { return true };
    // SAFETY: takes numbers.
    unsafe {
        libc::prctl(libc::PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0
            && libc::syscall(libc::SYS_landlock_restrict_self, rules, 0) == 0
    }
}

/// Tries the candidates in order, as execvp does, and returns the error to report.
unsafe fn execute(plan: &Plan) -> i32 {
    let mut error = libc::ENOENT;
    for candidate in &plan.candidates {
        // SAFETY: NUL-terminated strings and a NULL-terminated array, made before the fork.
        unsafe {
            match &plan.envp {
                Some(envp) => libc::execve(candidate.as_ptr(), plan.argv.as_ptr(), envp.as_ptr()),
                None => libc::execv(candidate.as_ptr(), plan.argv.as_ptr()),
            };
            match *libc::__errno_location() {
                libc::ENOENT | libc::ENOTDIR => {}
                libc::EACCES => error = libc::EACCES,
                other => return other,
            }
        }
    }
    error
}

impl Held {
    /// Lets the child execute its program.
    pub fn go(&self) {
        let byte = 1u8;
        // SAFETY: writes one byte of a local to a pipe that `self` owns.
        unsafe { libc::write(self.go.as_raw_fd(), (&raw const byte).cast(), 1) };
    }

    /// Returns why a child with that wait status has ended without an exec.
    pub fn failure(&self, program: &OsStr, status: i32) -> LaunchError {
        if libc::WIFSIGNALED(status) {
            return LaunchError::Killed { program: program.to_owned(), status };
        }
        let mut error = 0i32;
        // SAFETY: reads four bytes into a local; the writing end is closed, so it does not block.
        let n = unsafe { libc::read(self.failure.as_raw_fd(), (&raw mut error).cast(), 4) };
        let error = if n == 4 { error } else { libc::ENOENT };
        let missing = || program::missing_interpreter(&program::find(program).ok()?);
        // If an interpreter fails, execve returns the error as the program's.
        if matches!(error, libc::ENOENT | libc::EACCES)
            && let Some((interpreter, source)) = missing()
        {
            return LaunchError::Interpreter { program: program.to_owned(), interpreter, source };
        }
        LaunchError::Program {
            program: program.to_owned(),
            source: io::Error::from_raw_os_error(error),
        }
    }
}
