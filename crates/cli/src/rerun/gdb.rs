//! Starts gdb on a re-execution.

use std::ffi::OsString;
use std::io::{self, Write};
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};
use std::os::unix::net::UnixStream;
use std::os::unix::process::CommandExt;
use std::process::{Child, Command};

use rerun::Debugger;

use crate::failure::Failure;

/// What gdb is to know, in its Python.
const SCRIPT: &str = include_str!("gdb.py");

/// gdb, and what it orders.
pub struct Gdb {
    pub debugger: Debugger,
    child: Child,
}

impl Gdb {
    /// Starts gdb, which at first goes to that call of so many.
    pub fn start(args: &[OsString], first: u64, calls: u64) -> Result<Gdb, Failure> {
        let failed = |error: io::Error| Failure::Failed(format!("gdb cannot be started: {error}"));
        let (ours, its) = UnixStream::pair().map_err(failed)?;
        let script = script().map_err(failed)?;
        let fds: [RawFd; 2] = [its.as_raw_fd(), script.as_raw_fd()];
        let load = format!("python exec(open('/proc/self/fd/{}').read())", fds[1]);
        let mut command = Command::new("gdb");
        command.args(["-q", "-ex", &load]).args(args);
        command.env("REENACT_DRIVER", fds[0].to_string()).env("REENACT_GOTO", first.to_string());
        // SAFETY: makes system calls only, on descriptors that are open.
        unsafe {
            command.pre_exec(move || {
                for fd in fds {
                    if libc::fcntl(fd, libc::F_SETFD, 0) < 0 {
                        return Err(io::Error::last_os_error());
                    }
                }
                Ok(())
            });
        }
        let child = command.spawn().map_err(failed)?;
        // What is typed to interrupt is for gdb alone.
        // SAFETY: takes numbers. It fails in the leader of a session, who is not interrupted.
        unsafe { libc::setpgid(0, 0) };
        let debugger = Debugger::new(ours, calls).map_err(failed)?;
        Ok(Gdb { debugger, child })
    }

    /// Waits until it has ended.
    pub fn wait(mut self) {
        // The supervisor may have waited for it already.
        let _ = self.child.wait();
    }
}

/// A file in memory with the script.
fn script() -> io::Result<OwnedFd> {
    // SAFETY: a string that ends with NUL; a descriptor that is returned is ours.
    let fd = unsafe {
        let fd = libc::memfd_create(c"reenact-gdb".as_ptr(), libc::MFD_CLOEXEC);
        if fd < 0 {
            return Err(io::Error::last_os_error());
        }
        OwnedFd::from_raw_fd(fd)
    };
    std::fs::File::from(fd.try_clone()?).write_all(SCRIPT.as_bytes())?;
    Ok(fd)
}
