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
        has_begun();
        work()
    };
    let started = without_signals(|| Builder::new().name(format!("{OURS}{name}")).spawn(work));
    started.map_err(|error| {
        let limits = match error.raw_os_error() {
            Some(libc::EINVAL) => "unshare --pid needs --fork",
            _ => "ulimit -u, or a cgroup's pids.max, may forbid it",
        };
        io::Error::new(error.kind(), format!("a thread could not be started ({limits}): {error}"))
    })
}

/// Runs `act` with all signals blocked in this thread. A thread that it starts has them blocked from its
/// first instruction on, so that it takes none that another thread sleeps for.
pub fn without_signals<T>(act: impl FnOnce() -> T) -> T {
    // SAFETY: the sets are local; the first is initialised before it is read, the kernel fills the other.
    let before = unsafe {
        let (mut all, mut before) = (std::mem::zeroed(), std::mem::zeroed());
        libc::sigfillset(&raw mut all);
        libc::pthread_sigmask(libc::SIG_SETMASK, &raw const all, &raw mut before);
        before
    };
    let done = act();
    // SAFETY: the kernel reads the set that it has filled.
    unsafe { libc::pthread_sigmask(libc::SIG_SETMASK, &raw const before, std::ptr::null_mut()) };
    done
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

    #[test]
    fn threads_take_no_signals() {
        let blocked = || {
            let status = std::fs::read_to_string("/proc/thread-self/status").unwrap();
            let line = status.lines().find_map(|line| line.strip_prefix("SigBlk:\t"));
            u64::from_str_radix(line.unwrap(), 16).unwrap()
        };
        let own = blocked();
        let found = start_thread("patient", blocked).unwrap().join().unwrap();
        // SIGKILL, SIGSTOP and two of the C library stay.
        assert_eq!(found.count_ones(), 60, "{found:x}");
        assert_eq!(blocked(), own);
    }
}
