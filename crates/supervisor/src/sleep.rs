//! Sleeps until one of several futex words changes.

use std::ffi::c_long;
use std::sync::atomic::AtomicU32;
use std::time::Duration;

/// The kernel's `struct futex_waitv`.
#[repr(C)]
struct Waiter {
    value: u64,
    address: u64,
    flags: u32,
    reserved: u32,
}

/// Polling interval where the kernel cannot wait for several words (before Linux 5.16).
const LOOK_EVERY: Duration = Duration::from_millis(1);

/// Sleeps for at most `longest` while the words have these values. A signal ends the sleep.
pub fn while_unchanged(words: &[(&AtomicU32, u32)], longest: Duration) {
    if words.len() > 1 && wait_for_several(words, longest) {
        return;
    }
    let Some((word, value)) = words.first() else { return };
    let longest = if words.len() > 1 { LOOK_EVERY } else { longest };
    let timeout = timespec(longest);
    // SAFETY: the word and the timeout live during the call.
    unsafe {
        let wait = libc::FUTEX_WAIT;
        libc::syscall(libc::SYS_futex, word.as_ptr(), wait, *value, &raw const timeout);
    }
}

/// Returns false if the kernel has no futex_waitv.
fn wait_for_several(words: &[(&AtomicU32, u32)], longest: Duration) -> bool {
    let waiters: Vec<Waiter> = words
        .iter()
        .map(|(word, value)| Waiter {
            value: u64::from(*value),
            address: word.as_ptr() as u64,
            flags: libc::FUTEX2_SIZE_U32 as u32,
            reserved: 0,
        })
        .collect();
    // SAFETY: the words, their descriptions and the absolute time live during the call.
    let result: c_long = unsafe {
        let mut until: libc::timespec = std::mem::zeroed();
        libc::clock_gettime(libc::CLOCK_MONOTONIC, &raw mut until);
        let now = Duration::new(until.tv_sec as u64, until.tv_nsec as u32);
        until = timespec(now + longest);
        let count = waiters.len();
        let clock = libc::CLOCK_MONOTONIC;
        libc::syscall(libc::SYS_futex_waitv, waiters.as_ptr(), count, 0, &raw const until, clock)
    };
    result >= 0 || std::io::Error::last_os_error().raw_os_error() != Some(libc::ENOSYS)
}

fn timespec(time: Duration) -> libc::timespec {
    libc::timespec { tv_sec: time.as_secs() as i64, tv_nsec: i64::from(time.subsec_nanos()) }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::Ordering;
    use std::time::Instant;

    use super::*;

    #[test]
    fn any_of_the_words_ends_it() {
        let long = Duration::from_secs(60);
        let words = [AtomicU32::new(0), AtomicU32::new(0)];
        for changed in &words {
            let seen = words.each_ref().map(|word| (word, word.load(Ordering::SeqCst)));
            changed.fetch_add(1, Ordering::SeqCst);
            let start = Instant::now();
            while_unchanged(&seen, long);
            assert!(start.elapsed() < long, "it had changed before");
        }
        while_unchanged(&[(&words[0], 1)], Duration::from_millis(1));
    }
}
