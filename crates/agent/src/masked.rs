//! Waits, before a filter is installed for all threads, until none of them is in an agent handler
//! with signals masked by the kernel: it could not return from it any more.
//!
//! The handlers were exchanged before, so a thread that was seen outside never masks again. The
//! kernel says who is inside: only there SIGSYS is blocked. The agent's own words could not, as a
//! thread may lose the processor before a handler's first instruction, or before its last call.

use core::ffi::CStr;
use core::sync::atomic::Ordering;

use linux_raw_sys::general as raw;

use crate::context::{Context, SOME_WAIT, area, space};
use crate::needs::Need;
use crate::signal::signal_bit;
use crate::{helper, sys};

/// Each try takes a millisecond and more.
const TRIES: u32 = 1000;
/// Spin iterations of a try where the agent may not sleep: about a millisecond.
const SPINS: u32 = 30_000;
/// Tries if the kernel does not say.
const BLIND_TRIES: u32 = 20;
const STATUS_BYTES: u64 = 4096;

/// Waits for the other threads of this process, but not for ever.
pub fn wait_for_others(context: &Context) {
    let millisecond = raw::__kernel_timespec { tv_sec: 0, tv_nsec: 1_000_000 };
    for tried in 0..TRIES {
        let others = || {
            space().areas().map(|area| &area.context).filter(|other| {
                !core::ptr::eq(*other, context)
                    && core::ptr::eq(other.process.get(), context.process.get())
            })
        };
        if others().all(|other| other.area_state.load(Ordering::Relaxed) != area::USED) {
            return;
        }
        if context.process().filtered.get() {
            // The filter that is there already may object to sleeping.
            (0..SPINS).for_each(|_| core::hint::spin_loop());
        } else {
            let at = &raw const millisecond as u64;
            sys::call(Need::Sleep, [at, 0, 0, 0, 0, 0]);
        }
        let is_inside = |other: &Context| {
            other.area_state.load(Ordering::Relaxed) == area::USED
                && is_masked(context, other.tid.get())
                    .unwrap_or(tried < BLIND_TRIES && other.held_frame.get() > SOME_WAIT)
        };
        if !others().any(is_inside) {
            return;
        }
    }
}

/// Returns true if the kernel blocks SIGSYS for a thread. `None`: it does not say.
fn is_masked(context: &Context, tid: u32) -> Option<bool> {
    let path = status_path(tid);
    let path = CStr::from_bytes_until_nul(&path).ok()?;
    // The helper inherits the mask: no signal may find it with our context. The helper's own
    // masking heeds the coming filter already.
    let mask = sys::set_mask_whatever(u64::MAX);
    let said = helper::read_before_filters(context, path, STATUS_BYTES, blocks_sigsys);
    sys::set_mask_whatever(mask);
    said?
}

/// Looks for the blocked signals in a status file.
fn blocks_sigsys(status: &[u8]) -> Option<bool> {
    const NAME: &[u8] = b"\nSigBlk:\t";
    const DIGITS: usize = 16;
    let at = status.windows(NAME.len()).position(|window| window == NAME)? + NAME.len();
    let digits = str::from_utf8(status.get(at..at + DIGITS)?).ok()?;
    let blocked = u64::from_str_radix(digits, 16).ok()?;
    Some(blocked & signal_bit(raw::SIGSYS) != 0)
}

/// The status file of a thread of this process, with a NUL.
fn status_path(tid: u32) -> [u8; 40] {
    const FRONT: &[u8] = b"/proc/self/task/";
    const BACK: &[u8] = b"/status";
    let mut path = [0; 40];
    path[..FRONT.len()].copy_from_slice(FRONT);
    let mut at = FRONT.len() + tid.checked_ilog10().unwrap_or(0) as usize + 1;
    path[at..at + BACK.len()].copy_from_slice(BACK);
    let mut rest = tid;
    while at > FRONT.len() {
        at -= 1;
        path[at] = b'0' + (rest % 10) as u8;
        rest /= 10;
    }
    path
}

#[cfg(test)]
mod tests {
    use std::format;

    use super::*;

    #[test]
    fn status_files_are_found() {
        for (tid, name) in [
            (1, "/proc/self/task/1/status"),
            (40, "/proc/self/task/40/status"),
            (u32::MAX, "/proc/self/task/4294967295/status"),
        ] {
            let path = status_path(tid);
            assert_eq!(CStr::from_bytes_until_nul(&path).unwrap().to_str().unwrap(), name);
        }
    }

    #[test]
    fn masks_are_read() {
        let status = |mask: &str| format!("Name:\ta\nSigPnd:\t00\nSigBlk:\t{mask}\nSigIgn:\t0\n");
        let blocks = |mask| blocks_sigsys(status(mask).as_bytes());
        assert_eq!(blocks("0000000040000000"), Some(true));
        assert_eq!(blocks("fffffffe7ffbfeff"), Some(true));
        assert_eq!(blocks("ffffffff3fffffff"), Some(false));
        assert_eq!(blocks("00"), None);
        assert_eq!(blocks_sigsys(b"Name:\ta\n"), None);
    }
}
