//! Messages for people on standard error: the one place that prints them, for every command.

use std::io::{self, Write};
use std::os::fd::{AsFd, AsRawFd};

use crate::terminal;

/// Time to wait for standard error before a message is dropped.
const STDERR_WAIT_MS: i32 = 2000;

/// What each message begins with.
const PREFIX: &str = "reenact: ";

/// Prints what a command did, or why it failed.
pub fn note(text: &str) {
    print(&format!("{PREFIX}{text}\n"));
}

/// Prints several notes at once.
pub fn notes(texts: &[String]) {
    print(&texts.iter().map(|text| format!("{PREFIX}{text}\n")).collect::<String>());
}

/// Ends a line that the program on the same terminal has begun.
pub fn end_line() {
    print("\n");
}

/// Prints a warning.
pub fn warn(text: &str) {
    note(&format!("warning: {text}"));
}

/// Prints to standard error, unless it is closed or blocked.
fn print(text: &str) {
    let mut stderr = io::stderr().lock();
    let mut state =
        libc::pollfd { fd: stderr.as_fd().as_raw_fd(), events: libc::POLLOUT, revents: 0 };
    // SAFETY: `state` is one valid pollfd.
    if unsafe { libc::poll(&raw mut state, 1, STDERR_WAIT_MS) } == 1 {
        let text = terminal::fit(text, terminal::error_width(), |_| PREFIX.len());
        let _ = stderr.write_all(text.as_bytes());
    }
}
