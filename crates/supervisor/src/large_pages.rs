//! Has parts of segments put together into large pages, by a process of its own. The kernel begins by waiting for
//! work on every processor, on a busy machine for seconds, and holds the address space of who asks meanwhile.

use std::ffi::CStr;
use std::time::Duration;

use ring::LARGE_PAGE;

/// After this time it is no short program.
const SOON: libc::timespec = libc::timespec { tv_sec: 0, tv_nsec: 10_000_000 };
/// The name of the process.
const NAME: &CStr = c"reenact/pages";

/// How often to look for its end, and the time in between: the kernel may not let it go.
const END_LOOKS: u32 = 400;
const END_PAUSE: Duration = Duration::from_micros(50);

/// The processes that do it and were not waited for.
#[derive(Default)]
pub struct LargePages(Vec<i32>);

impl LargePages {
    /// Puts what is in segments at these addresses together, a little later. What it holds stays; without
    /// large pages everything works as well.
    pub fn use_soon(&mut self, pages: &[usize]) {
        if pages.is_empty() {
            return;
        }
        // A handler of ours is none for it.
        let pid = kin::without_signals(|| {
            // SAFETY: the child makes system calls only, so no lock held by another thread matters.
            match unsafe { libc::fork() } {
                0 => put_together(pages),
                pid => pid,
            }
        });
        self.0.extend((pid > 0).then_some(pid));
    }

    /// A child of ours was waited for.
    pub fn reaped(&mut self, pid: i32) {
        self.0.retain(|ours| *ours != pid);
    }
}

impl Drop for LargePages {
    /// Leaves none to who may not wait for it.
    fn drop(&mut self) {
        for &pid in &self.0 {
            // SAFETY: takes numbers only; the child was not waited for, so the id is still its own.
            unsafe { libc::kill(pid, libc::SIGKILL) };
            for _ in 0..END_LOOKS {
                // SAFETY: takes numbers only.
                if unsafe { libc::waitpid(pid, std::ptr::null_mut(), libc::WNOHANG) } != 0 {
                    break;
                }
                std::thread::sleep(END_PAUSE);
            }
        }
    }
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
        let (mut pages, mut status) = (LargePages::default(), 1);
        pages.use_soon(&[]);
        assert!(pages.0.is_empty());
        pages.use_soon(&all);
        let pid = pages.0[0];
        // SAFETY: the kernel stores the status into a local.
        unsafe { libc::waitpid(pid, &raw mut status, 0) };
        assert_eq!(status, 0);
        pages.reaped(pid);
        assert!(pages.0.is_empty());
        assert!((0..bytes.len()).step_by(512).all(|at| bytes[at] == byte(at)));
    }
    #[test]
    fn none_is_left() {
        let segment = Segment::new(LARGE_PAGE).unwrap();
        let mut pages = LargePages::default();
        pages.use_soon(&segment.large_pages(&[0]).collect::<Vec<_>>());
        let pid = pages.0[0];
        drop(pages);
        // SAFETY: takes numbers only.
        assert_eq!(unsafe { libc::waitpid(pid, std::ptr::null_mut(), 0) }, -1);
    }
}
