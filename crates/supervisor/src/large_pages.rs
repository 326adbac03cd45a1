//! Has parts of segments put together into large pages, by a process of its own. The kernel begins by waiting for
//! work on every processor, on a busy machine for seconds, and holds the address space of who asks meanwhile.

use std::ffi::CStr;

use ring::LARGE_PAGE;

/// After this time it is no short program.
const SOON: libc::timespec = libc::timespec { tv_sec: 0, tv_nsec: 10_000_000 };
/// The name of the process.
const NAME: &CStr = c"reenact/pages";

/// Puts what is in segments at these addresses together, a little later. What it holds stays; without large
/// pages everything works as well.
pub fn use_soon(pages: &[usize]) {
    if !pages.is_empty() {
        begin(pages);
    }
}

/// Returns the process that does it.
fn begin(pages: &[usize]) -> i32 {
    // A handler of ours is none for it.
    kin::without_signals(|| {
        // SAFETY: the child makes system calls only, so no lock held by another thread matters.
        match unsafe { libc::fork() } {
            0 => put_together(pages),
            pid => pid,
        }
    })
}

fn put_together(pages: &[usize]) -> ! {
    // SAFETY: the pages are in segments that are attached; all else takes numbers and constants.
    unsafe {
        libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL);
        libc::prctl(libc::PR_SET_NAME, NAME.as_ptr());
        // Who reads what we write waits for its end.
        libc::syscall(libc::SYS_close_range, 0, u32::MAX, 0);
        libc::nanosleep(&SOON, std::ptr::null_mut());
        for &page in pages {
            let at = page as *mut u8;
            // Only what has a page can be put together.
            at.read_volatile();
            libc::madvise(at.cast(), LARGE_PAGE, libc::MADV_COLLAPSE);
        }
        libc::_exit(0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::segment::Segment;

    #[test]
    fn what_pages_hold_stays() {
        let segment = Segment::new(3 * LARGE_PAGE).unwrap();
        let all: Vec<usize> =
            segment.large_pages(&[0, 2 * LARGE_PAGE + 5, 3 * LARGE_PAGE]).collect();
        assert_eq!(all, [segment.at as usize, segment.at as usize + 2 * LARGE_PAGE]);
        // SAFETY: within the segment, which nobody else has.
        let bytes = unsafe { std::slice::from_raw_parts_mut(segment.at, 3 * LARGE_PAGE) };
        let byte = |at: usize| (at / 4096) as u8 | 1;
        (0..bytes.len()).step_by(512).for_each(|at| bytes[at] = byte(at));
        let mut status = 1;
        // SAFETY: the kernel stores the status into a local.
        unsafe { libc::waitpid(begin(&all), &raw mut status, 0) };
        assert_eq!(status, 0);
        assert!((0..bytes.len()).step_by(512).all(|at| bytes[at] == byte(at)));
    }
}
