//! A replay that is led: another process says call by call how far it may go, and learns when each
//! call was made.
//!
//! Both share a piece of memory, made before the jail. What a jailed task writes there are numbers
//! that the leader reads, no more: at worst it tells wrong times.

use std::io;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// Polls before somebody sleeps.
const SPINS: u32 = 100;
/// How long a sleep lasts at most: whoever should wake the sleeper may be gone.
const SLEEP: Duration = Duration::from_millis(100);
/// Maximum number of calls: their numbers are futex words.
const CALLS_MAX: u64 = u32::MAX as u64 - 1;
/// Everything may be made.
const ALL: u32 = u32::MAX;

/// States of a call; a greater number is the time that it took, in nanoseconds, plus [`TIMED`].
const UNKNOWN: u64 = 0;
const AWAITED: u64 = 1;
const MADE: u64 = 2;
const TIMED: u64 = 3;

/// What both sides share.
#[repr(C)]
struct Head {
    /// Calls with lower numbers may be made: a futex.
    open_to: AtomicU32,
    open_sleepers: AtomicU32,
    /// Changes whenever a call was made or planned: a futex.
    bell: AtomicU32,
    bell_sleepers: AtomicU32,
    /// Of calls with lower numbers it is known whether they are made.
    planned: AtomicU64,
    /// CPU time of the calls.
    cpu_ns: AtomicU64,
    /// The leader waits until it is known what became of this call, plus one.
    awaited: AtomicU64,
    /// The leader is gone.
    abandoned: AtomicBool,
    /// The replay has stopped, or ended.
    stopped: AtomicBool,
}

/// What became of a call.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Came {
    /// It was made, and took so many nanoseconds; `None`: it may have waited for another task.
    Made(Option<u64>),
    /// It is none of those that are made.
    NotMade,
    /// It is not known yet.
    Pending,
    /// The replay has stopped.
    Stopped,
}

/// The memory that leader and replay share.
#[derive(Debug)]
pub struct Gate {
    base: NonNull<u8>,
    bytes: usize,
    calls: u64,
}

// SAFETY: the memory consists of atomics, and is unmapped when nobody has the gate any more.
unsafe impl Send for Gate {}
// SAFETY: as above.
unsafe impl Sync for Gate {}

impl Gate {
    /// For a trace with this number of calls.
    pub fn new(calls: u64) -> io::Result<Gate> {
        let too_many = || io::Error::other("the trace has too many calls");
        let words = usize::try_from(calls.min(CALLS_MAX)).map_err(|_| too_many())?;
        if calls > CALLS_MAX {
            return Err(too_many());
        }
        let bytes = size_of::<Head>() + words * size_of::<AtomicU64>();
        let (access, flags) = (
            libc::PROT_READ | libc::PROT_WRITE,
            libc::MAP_SHARED | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE,
        );
        // SAFETY: new memory, at an address that the kernel chooses.
        let base = unsafe { libc::mmap(std::ptr::null_mut(), bytes, access, flags, -1, 0) };
        if base == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        let base = NonNull::new(base.cast()).ok_or_else(too_many)?;
        Ok(Gate { base, bytes, calls })
    }

    fn head(&self) -> &Head {
        // SAFETY: the mapping begins with a head, for which zeros are valid; atomics only.
        unsafe { self.base.cast::<Head>().as_ref() }
    }

    fn word(&self, seq: u64) -> Option<&AtomicU64> {
        if seq >= self.calls {
            return None;
        }
        let at = size_of::<Head>() + seq as usize * size_of::<AtomicU64>();
        // SAFETY: the mapping holds a word for each call.
        Some(unsafe { self.base.add(at).cast::<AtomicU64>().as_ref() })
    }

    // The leader.

    /// The call with this number begins.
    pub fn open(&self, seq: u64) {
        self.open_to(u32::try_from(seq.saturating_add(1)).unwrap_or(ALL));
    }

    /// All that is left may be made.
    pub fn open_all(&self) {
        self.open_to(ALL);
    }

    fn open_to(&self, count: u32) {
        self.head().open_to.fetch_max(count, Ordering::SeqCst);
        wake(&self.head().open_to, &self.head().open_sleepers);
    }

    /// Nothing more is to be made.
    pub fn abandon(&self) {
        self.head().abandoned.store(true, Ordering::SeqCst);
        self.open_all();
    }

    /// Waits until it is known what became of a call, for so long at most.
    pub fn came(&self, seq: u64, most: Duration) -> Came {
        let head = self.head();
        let came = || {
            let word = self.word(seq).map_or(MADE, |word| word.load(Ordering::SeqCst));
            match word {
                MADE => Came::Made(None),
                TIMED.. => Came::Made(Some(word - TIMED)),
                _ if head.stopped.load(Ordering::SeqCst) => Came::Stopped,
                UNKNOWN if head.planned.load(Ordering::SeqCst) > seq => {
                    // It may have been planned in between.
                    match self.word(seq).map_or(UNKNOWN, |word| word.load(Ordering::SeqCst)) {
                        UNKNOWN => Came::NotMade,
                        _ => Came::Pending,
                    }
                }
                _ => Came::Pending,
            }
        };
        let since = Instant::now();
        loop {
            let bell = head.bell.load(Ordering::SeqCst);
            let now = came();
            if now != Came::Pending || since.elapsed() >= most {
                // Who is told that it is not known yet asks again.
                let awaited = if now == Came::Pending { seq.saturating_add(1) } else { 0 };
                head.awaited.store(awaited, Ordering::SeqCst);
                return now;
            }
            head.awaited.store(seq.saturating_add(1), Ordering::SeqCst);
            sleep_on(&head.bell, bell, &head.bell_sleepers, || came() != Came::Pending);
        }
    }

    /// CPU time that the calls have taken so far.
    pub fn cpu_ns(&self) -> u64 {
        self.head().cpu_ns.load(Ordering::Relaxed)
    }

    // The replay.

    /// A call is going to be made.
    pub(crate) fn await_call(&self, seq: u64) {
        if let Some(word) = self.word(seq) {
            let _ = word.compare_exchange(UNKNOWN, AWAITED, Ordering::SeqCst, Ordering::SeqCst);
        }
    }

    /// Of this call it is known whether it is made.
    pub(crate) fn planned(&self, seq: u64) {
        let planned = seq.saturating_add(1);
        self.head().planned.fetch_max(planned, Ordering::SeqCst);
        self.ring(|awaited| awaited <= planned);
    }

    /// Whether the leader waits for the replay: then nobody who waits for the leader goes on before.
    pub(crate) fn is_awaited(&self) -> bool {
        self.head().awaited.load(Ordering::SeqCst) > 0
    }

    /// Whether a call may be made at once.
    pub(crate) fn is_open(&self, seq: u64) -> bool {
        u64::from(self.head().open_to.load(Ordering::SeqCst)) > seq
    }

    /// Waits until a call may be made. Returns false if nothing more is to be made.
    pub(crate) fn enter(&self, seq: u64) -> bool {
        let head = self.head();
        loop {
            let open = head.open_to.load(Ordering::SeqCst);
            if head.abandoned.load(Ordering::SeqCst) {
                return false;
            }
            if u64::from(open) > seq {
                return true;
            }
            sleep_on(&head.open_to, open, &head.open_sleepers, || self.is_open(seq));
        }
    }

    /// A call was made.
    pub(crate) fn made(&self, seq: u64, took_ns: Option<u64>, cpu_ns: u64) {
        if let Some(word) = self.word(seq) {
            let state = took_ns.map_or(MADE, |ns| ns.saturating_add(TIMED));
            word.store(state, Ordering::SeqCst);
        }
        self.head().cpu_ns.fetch_add(cpu_ns, Ordering::Relaxed);
        self.ring(|awaited| awaited == seq.saturating_add(1));
    }

    /// Nothing more is made.
    pub(crate) fn stop(&self) {
        self.head().stopped.store(true, Ordering::SeqCst);
        self.ring(|_| true);
    }

    /// Wakes the leader if it waits for this: to wake it for each call would cost more than most calls.
    fn ring(&self, concerns: impl Fn(u64) -> bool) {
        let head = self.head();
        head.bell.fetch_add(1, Ordering::SeqCst);
        if concerns(head.awaited.load(Ordering::SeqCst)) {
            wake(&head.bell, &head.bell_sleepers);
        }
    }
}

impl Drop for Gate {
    fn drop(&mut self) {
        // SAFETY: the mapping is ours, and nobody refers to it any more.
        unsafe { libc::munmap(self.base.as_ptr().cast(), self.bytes) };
    }
}

/// Sleeps until a word has another value, unless it need not.
fn sleep_on(word: &AtomicU32, value: u32, sleepers: &AtomicU32, is_done: impl Fn() -> bool) {
    for _ in 0..SPINS {
        if is_done() {
            return;
        }
        std::hint::spin_loop();
    }
    sleepers.fetch_add(1, Ordering::SeqCst);
    if !is_done() {
        let time =
            libc::timespec { tv_sec: 0, tv_nsec: libc::c_long::from(SLEEP.subsec_nanos() as i32) };
        // SAFETY: the word and the time live through the call.
        unsafe {
            libc::syscall(libc::SYS_futex, word.as_ptr(), libc::FUTEX_WAIT, value, &raw const time)
        };
    }
    sleepers.fetch_sub(1, Ordering::SeqCst);
}

/// Wakes all that sleep on a word.
fn wake(word: &AtomicU32, sleepers: &AtomicU32) {
    if sleepers.load(Ordering::SeqCst) > 0 {
        // SAFETY: the word is borrowed, so it lives through the call.
        unsafe { libc::syscall(libc::SYS_futex, word.as_ptr(), libc::FUTEX_WAKE, i32::MAX) };
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;

    const LONG: Duration = Duration::from_secs(60);

    #[test]
    fn calls_are_made_when_they_may_be_and_the_leader_learns_it() {
        let gate = Arc::new(Gate::new(100).unwrap());
        let follows = Arc::clone(&gate);
        let replay = std::thread::spawn(move || {
            // Every third call is none of ours.
            for seq in (0..100).filter(|seq| seq % 3 != 0) {
                follows.await_call(seq);
            }
            follows.planned(99);
            for seq in (0..100).filter(|seq| seq % 3 != 0) {
                assert!(follows.enter(seq));
                assert!(follows.is_open(seq));
                follows.made(seq, (seq % 2 == 0).then_some(seq * 10), 1);
            }
        });
        for seq in 0..100 {
            assert!(seq % 3 == 0 || gate.came(seq, Duration::ZERO) != Came::NotMade);
            gate.open(seq);
            let expected = match (seq % 3, seq % 2) {
                (0, _) => Came::NotMade,
                (_, 0) => Came::Made(Some(seq * 10)),
                _ => Came::Made(None),
            };
            assert_eq!(gate.came(seq, LONG), expected);
        }
        replay.join().unwrap();
        assert_eq!(gate.cpu_ns(), 66);
    }

    #[test]
    fn nobody_waits_for_who_is_gone() {
        let gate = Gate::new(3).unwrap();
        gate.await_call(1);
        gate.planned(2);
        assert!(!gate.is_awaited());
        assert_eq!(gate.came(1, Duration::ZERO), Came::Pending);
        assert!(gate.is_awaited());
        gate.stop();
        assert_eq!(gate.came(1, LONG), Came::Stopped);
        assert!(!gate.is_awaited());
        assert!(!gate.is_open(2));
        gate.abandon();
        assert!(!gate.enter(2));
        // Numbers that no call has.
        assert_eq!(gate.came(7, Duration::ZERO), Came::Made(None));
        gate.made(7, Some(1), 1);
        assert!(Gate::new(u64::MAX).is_err());
    }
}
