//! Starting threads.

use std::io;
use std::sync::{Mutex, PoisonError};
use std::thread::{Builder, JoinHandle};

/// Ids of threads that have begun and were not asked for yet; `None` while nobody asks.
static BEGUN: Mutex<Option<Vec<u32>>> = Mutex::new(None);
/// Maximum length of it.
const BEGUN_MAX: usize = 4096;

/// The ids of this process's threads that have begun since the last call, the first of which begins
/// to keep them. Only those that [`has_begun`] was called on are known.
pub fn begun() -> Vec<u32> {
    let mut begun = BEGUN.lock().unwrap_or_else(PoisonError::into_inner);
    begun.replace(Vec::new()).unwrap_or_default()
}

/// Notes that this thread has begun.
pub fn has_begun() {
    let mut begun = BEGUN.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(begun) = begun.as_mut().filter(|begun| begun.len() < BEGUN_MAX) {
        // SAFETY: has no arguments.
        begun.push(unsafe { libc::gettid() }.cast_unsigned());
    }
}

/// Starts a thread with all signals blocked. Its error names the likely limit.
pub fn start_thread<T: Send + 'static>(
    name: &str,
    work: impl FnOnce() -> T + Send + 'static,
) -> io::Result<JoinHandle<T>> {
    let work = || {
        leave_signals_to_others();
        has_begun();
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
