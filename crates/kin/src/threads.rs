//! Starting threads.

use std::io;
use std::thread::{Builder, JoinHandle};

/// Starts a thread with all signals blocked. Its error names the likely limit.
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

/// Blocks all signals in this thread, so that others handle them.
fn leave_signals_to_others() {
    // SAFETY: the set is local and initialised before it is read.
    unsafe {
        let mut all: libc::sigset_t = std::mem::zeroed();
        libc::sigfillset(&raw mut all);
        libc::pthread_sigmask(libc::SIG_SETMASK, &raw const all, std::ptr::null_mut());
    }
}
