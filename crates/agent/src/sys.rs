//! System calls that the agent makes for itself.

use core::sync::atomic::{AtomicBool, AtomicU32, Ordering};

use linux_raw_sys::general as raw;

use crate::arch::processor;
use crate::course;
use crate::needs::{Need, needed};

/// Makes a system call of the agent: not recorded, and not intercepted because it is in agent text.
#[inline(always)]
pub fn call(need: Need, args: [u64; 6]) -> i64 {
    let row = need.row();
    debug_assert!(row.allows(&args), "filters were asked about other arguments");
    // SAFETY: callers pass only pointers to agent memory or values that the program passed.
    unsafe { processor::system_call(row.nr, args) }
}

/// What the filters of a process deny the agent: the beginning of the state of each process.
#[repr(C)]
pub struct Denied {
    /// [`needed`] bits.
    pub bits: AtomicU32,
}

/// Returns true if the filters of this process deny any of these [`needed`] bits.
#[inline(always)]
pub fn denies(what: u32) -> bool {
    // SAFETY: a thread refers to the state of its process for as long as it lives.
    let denied = unsafe { &*processor::own_process().cast::<Denied>() };
    denied.bits.load(Ordering::Relaxed) & what != 0
}

pub fn is_quiet() -> bool {
    denies(needed::ALL)
}

/// Spin iterations before giving up when no futex call may be made.
const QUIET_SPINS: u32 = 10_000;

pub fn getpid() -> u32 {
    call(Need::Pid, [0; 6]) as u32
}

pub fn gettid() -> u32 {
    call(Need::Tid, [0; 6]) as u32
}

/// Formats a number in decimal.
pub fn decimal(number: u32, digits: &mut [u8; 10]) -> &[u8] {
    let mut first = digits.len();
    let mut left = number;
    loop {
        first -= 1;
        digits[first] = b'0' + (left % 10) as u8;
        left /= 10;
        if left == 0 {
            return &digits[first..];
        }
    }
}

/// Sets the thread's signal mask and returns the old one. Does nothing if a filter denies that.
pub fn set_mask(mask: u64) -> u64 {
    if denies(needed::MASKS) {
        return mask;
    }
    set_mask_whatever(mask)
}

/// Sets the signal mask without asking `denies`, at a time when no filter can object.
pub fn set_mask_whatever(mask: u64) -> u64 {
    let mut old = 0u64;
    let how = u64::from(raw::SIG_SETMASK);
    call(Need::SetMask, [how, &raw const mask as u64, &raw mut old as u64, 8, 0, 0]);
    old
}

/// Waits while the word has this value, for at most `timeout_ns`.
pub fn futex_wait(word: &AtomicU32, value: u32, timeout_ns: u64) {
    if is_quiet() {
        for _ in 0..QUIET_SPINS {
            if word.load(Ordering::Relaxed) != value {
                return;
            }
            core::hint::spin_loop();
        }
        return;
    }
    let timeout = raw::__kernel_timespec {
        tv_sec: (timeout_ns / 1_000_000_000) as i64,
        tv_nsec: (timeout_ns % 1_000_000_000) as i64,
    };
    let op = u64::from(raw::FUTEX_WAIT);
    call(
        Need::Futex,
        [word.as_ptr() as u64, op, u64::from(value), &raw const timeout as u64, 0, 0],
    );
}

pub fn futex_wake(word: &AtomicU32) {
    if is_quiet() {
        return; // the recorder polls from time to time
    }
    let op = u64::from(raw::FUTEX_WAKE);
    call(Need::Futex, [word.as_ptr() as u64, op, i32::MAX as u64, 0, 0, 0]);
}

/// The same for one thread that waits.
pub fn futex_wake_one(word: &AtomicU32) {
    if !is_quiet() {
        let op = u64::from(raw::FUTEX_WAKE);
        call(Need::Futex, [word.as_ptr() as u64, op, 1, 0, 0, 0]);
    }
}

/// Maps private anonymous memory; `None` if that fails.
pub fn map_memory(len: usize) -> Option<*mut u8> {
    let prot = u64::from(raw::PROT_READ | raw::PROT_WRITE);
    let flags = u64::from(raw::MAP_PRIVATE | raw::MAP_ANONYMOUS | raw::MAP_NORESERVE);
    let hint = course::next_place(len as u64);
    let at = call(Need::MapMemory, [hint, len as u64, prot, flags, u64::MAX, 0]);
    if at > 0 {
        keep_unlocked(at as u64, len as u64);
    }
    (at > 0).then_some(at as *mut u8)
}

/// Set if the program wants all future mappings locked.
pub static LOCKS_FUTURE: AtomicBool = AtomicBool::new(false);

/// Unlocks a new mapping of the agent, so that it does not count as locked by the program.
pub fn keep_unlocked(at: u64, len: u64) {
    if LOCKS_FUTURE.load(Ordering::Relaxed) && !is_quiet() {
        unlock(at, len);
    }
}

pub fn unlock(at: u64, len: u64) {
    call(Need::Unlock, [at, len, 0, 0, 0, 0]);
}

/// Returns the magic number of the file system that a descriptor's file is on.
pub fn file_system(fd: u64) -> Option<i64> {
    // SAFETY: `statfs` consists of integers, for which zero is a valid value.
    let mut stat: raw::statfs = unsafe { core::mem::zeroed() };
    let told = call(Need::FileSystem, [fd, &raw mut stat as u64, 0, 0, 0, 0]) == 0;
    told.then_some(stat.f_type)
}

/// Keeps agent memory out of core files.
pub fn keep_out_of_cores(at: u64, len: u64) {
    call(Need::KeepOutOfCores, [at, len, u64::from(raw::MADV_DONTDUMP), 0, 0, 0]);
}

/// Maps the pages of a segment in one call, instead of one page at each access: for System V
/// segments the kernel does not map the pages around an access as it does for files.
pub fn map_pages(at: u64, len: u64) {
    call(Need::MapPages, [at, len, u64::from(raw::MADV_POPULATE_READ), 0, 0, 0]);
}

const READ_EXEC: u64 = 5;
const READ_WRITE_EXEC: u64 = 7;

/// Makes text writable. Returns false if the system does not allow that.
pub fn make_writable(at: u64, len: u64) -> bool {
    call(Need::ProtectWritable, [at, len, READ_WRITE_EXEC, 0, 0, 0]) == 0
}

/// Makes text as it is usual.
pub fn make_text(at: u64, len: u64) {
    call(Need::ProtectCode, [at, len, READ_EXEC, 0, 0, 0]);
}
