//! Calls that look at bytes in a pipe or socket and leave them there.

use std::time::Duration;

use syscalls::abi::files::MSG_PEEK;
use syscalls::flags::MSG;
use syscalls::{Act, Ret};

use crate::batch::Call;

/// Shortest and longest sleep between polls.
const PAUSE_MIN: Duration = Duration::from_micros(10);
const PAUSE_MAX: Duration = Duration::from_millis(1);

impl Call {
    /// Whether it leaves the bytes in the queue, so that repeating it returns them again.
    pub fn leaves_bytes(&self) -> bool {
        let peeks = || self.reads() && self.flags(&MSG) & MSG_PEEK != 0;
        self.ret_kind == Ret::Size && (self.act == Act::Tee || peeks())
    }
}

/// Waits until `wanted` bytes are in a pipe or socket, or no more will come.
pub fn wait_for_bytes(fd: i32, wanted: i64) {
    const NO_MORE: libc::c_short = libc::POLLHUP | libc::POLLRDHUP | libc::POLLERR | libc::POLLNVAL;
    let mut pause = PAUSE_MIN;
    loop {
        let mut poll = libc::pollfd { fd, events: libc::POLLIN | libc::POLLRDHUP, revents: 0 };
        let mut there: libc::c_int = 0;
        // SAFETY: one pollfd is passed, and FIONREAD writes one int.
        let told = unsafe {
            libc::poll(&raw mut poll, 1, 100);
            libc::ioctl(fd, libc::FIONREAD, &raw mut there)
        };
        if told < 0 || i64::from(there) >= wanted || poll.revents & NO_MORE != 0 {
            return;
        }
        std::thread::sleep(pause);
        pause = (pause * 2).min(PAUSE_MAX);
    }
}
