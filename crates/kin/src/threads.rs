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

/// How the names of our threads begin, as others see them.
const OURS: &str = "reenact/";
/// Characters of a thread's name that the kernel keeps.
const NAME_MAX: usize = 15;

/// Starts a thread with all signals blocked, whose name says that it is ours. Its error names the likely limit.
pub fn start_thread<T: Send + 'static>(
    name: &str,
    work: impl FnOnce() -> T + Send + 'static,
) -> io::Result<JoinHandle<T>> {
    debug_assert!(OURS.len() + name.len() <= NAME_MAX, "{name} is too long for a thread");
    let work = || {
        leave_signals_to_others();
        has_begun();
        work()
    };
    Builder::new().name(format!("{OURS}{name}")).spawn(work).map_err(|error| {
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_threads_say_whose_they_are() {
        let name = || std::fs::read_to_string("/proc/thread-self/comm").unwrap();
        let found = start_thread("patient", name).unwrap().join().unwrap();
        assert_eq!(found, "reenact/patient\n");
    }
}
