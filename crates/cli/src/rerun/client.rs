//! `--network live`: the client that runs again, against the re-executed program.
//!
//! The supervisor waits for all children. So a process between starts the client, waits for it, and tells
//! how it has ended.

use std::ffi::OsStr;
use std::fs::File;
use std::io::{self, Read, Write};
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::process::CommandExt;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use crate::failure::Failure;

/// How long to look at a time whether it has ended.
const LOOK_EVERY: Duration = Duration::from_millis(20);
/// Exit code of a shell if the command cannot be started.
const NOT_STARTED: i32 = 127;

/// A client that may run.
pub struct Runner {
    go: Option<File>,
    told: File,
    group: i32,
    status: Option<i32>,
}

/// What the driver sees of it.
pub struct Started {
    go: Option<File>,
    told: File,
}

impl Runner {
    /// Prepares it. This process must have one thread.
    pub fn prepare(command: &OsStr, is_quiet: bool) -> Result<Runner, Failure> {
        let fail = |error: io::Error| Failure::Failed(format!("--client: {error}"));
        let (going, go) = io::pipe().map_err(fail)?;
        let (told, tells) = io::pipe().map_err(fail)?;
        // SAFETY: getpid has no arguments.
        let parent = unsafe { libc::getpid() };
        // SAFETY: nobody holds a lock: no other thread is there yet.
        let group = match unsafe { libc::fork() } {
            -1 => return Err(fail(io::Error::last_os_error())),
            0 => {
                drop((go, told));
                // SAFETY: numbers only.
                unsafe {
                    libc::setpgid(0, 0);
                    libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL);
                    if libc::getppid() == parent {
                        let (going, tells) = (OwnedFd::from(going), OwnedFd::from(tells));
                        wait_and_run(command, is_quiet, going.into(), tells.into());
                        // Its id is nobody else's until it is killed.
                        loop {
                            libc::pause();
                        }
                    }
                    libc::_exit(0)
                }
            }
            pid => pid,
        };
        // SAFETY: takes numbers. The child does the same: whoever comes first.
        unsafe { libc::setpgid(group, group) };
        let (go, told) = (File::from(OwnedFd::from(go)), File::from(OwnedFd::from(told)));
        Ok(Runner { go: Some(go), told, group, status: None })
    }

    /// What the driver sees of it.
    pub fn started(&mut self) -> Result<Started, Failure> {
        let told = self.told.try_clone();
        let told = told.map_err(|error| Failure::Failed(format!("--client: {error}")))?;
        Ok(Started { go: self.go.take(), told })
    }

    /// Waits until it has ended. Returns its exit code; 128 and a signal, if one has killed it; `None` if it
    /// has not ended in that time, or never began.
    pub fn finish(mut self, within: Duration) -> Option<i32> {
        let since = Instant::now();
        while !has_told(&self.told, LOOK_EVERY) {
            if since.elapsed() > within {
                return None;
            }
        }
        let mut code = [0; 4];
        if self.told.read_exact(&mut code).is_ok() {
            self.status = Some(i32::from_le_bytes(code));
        }
        self.status
    }
}

impl Drop for Runner {
    fn drop(&mut self) {
        // SAFETY: takes numbers. The process between is the first of its group, and ours, and is waited for here.
        unsafe {
            libc::kill(-self.group, libc::SIGKILL);
            libc::waitpid(self.group, std::ptr::null_mut(), 0);
        }
    }
}

impl rerun::Client for Started {
    fn start(&mut self) -> Result<(), String> {
        let Some(mut go) = self.go.take() else { return Ok(()) };
        go.write_all(b"!").map_err(|error| format!("--client: {error}"))
    }

    fn has_ended(&mut self) -> bool {
        has_told(&self.told, Duration::ZERO)
    }
}

fn has_told(told: &File, within: Duration) -> bool {
    let mut poll = libc::pollfd { fd: told.as_raw_fd(), events: libc::POLLIN, revents: 0 };
    // SAFETY: one struct, which is ours.
    unsafe { libc::poll(&raw mut poll, 1, within.as_millis() as i32) > 0 }
}

/// What the process between does.
fn wait_and_run(command: &OsStr, is_quiet: bool, mut going: File, mut tells: File) {
    let mut word = [0];
    if going.read_exact(&mut word).is_err() {
        return;
    }
    let mut shell = Command::new("sh");
    shell.arg("-c").arg(command).stdin(Stdio::null());
    if is_quiet {
        shell.stdout(Stdio::null()).stderr(Stdio::null());
    }
    // SAFETY: the child makes one call, with numbers.
    unsafe {
        shell.pre_exec(|| {
            libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL);
            Ok(())
        });
    }
    let code = shell.status().map_or(NOT_STARTED, |status| {
        use std::os::unix::process::ExitStatusExt;
        status.code().unwrap_or_else(|| 128 + status.signal().unwrap_or(0))
    });
    let _ = tells.write_all(&code.to_le_bytes());
}
