//! Threads of ours.

use std::io;
use std::thread::{Builder, JoinHandle};

/// Starts one, for which no signals are. The error says what is missing.
pub fn start_thread<T: Send + 'static>(
    name: &str,
    work: impl FnOnce() -> T + Send + 'static,
) -> io::Result<JoinHandle<T>> {
    let work = || {
        leave_signals_to_others();
        work()
    };
    Builder::new().name(name.into()).spawn(work).map_err(|error| {
        let limits = match error.raw_os_error() {
            Some(libc::EINVAL) => "unshare --pid needs --fork",
            _ => "ulimit -u, or a cgroup's pids.max, may forbid it",
        };
        io::Error::new(error.kind(), format!("a thread could not be started ({limits}): {error}"))
    })
}

/// Signals are not for this thread.
fn leave_signals_to_others() {
    // SAFETY: blocks all signals in the calling thread.
    unsafe {
        let mut all: libc::sigset_t = std::mem::zeroed();
        libc::sigfillset(&raw mut all);
        libc::pthread_sigmask(libc::SIG_SETMASK, &raw const all, std::ptr::null_mut());
    }
}
