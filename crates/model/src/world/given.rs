//! Numbers that calls have given to files lately: an operation that closes a number stands where it was
//! found completed, when the kernel may have given the number anew.

use std::collections::VecDeque;

/// Maximum number of those that are remembered.
const GIVEN_MAX: usize = 4096;

/// A number that was given.
#[derive(Debug)]
struct Number {
    process: u32,
    fd: i32,
    tsc: u64,
}

/// The last ones, once a program submits operations.
#[derive(Debug, Default)]
pub(super) struct Given {
    submits: bool,
    last: VecDeque<Number>,
}

impl Given {
    /// The program submits operations.
    pub fn submits(&mut self) {
        self.submits = true;
    }

    /// Whether numbers are to be noted.
    pub fn is_followed(&self) -> bool {
        self.submits
    }

    /// Notes that a process has had a number since then.
    pub fn note(&mut self, process: u32, fd: i32, tsc: u64) {
        if self.last.len() >= GIVEN_MAX {
            self.last.pop_front();
        }
        self.last.push_back(Number { process, fd, tsc });
    }

    /// Returns true if a process was given a number after that time.
    pub fn has(&self, process: u32, fd: i32, since: u64) -> bool {
        let is_it = |it: &Number| it.process == process && it.fd == fd && it.tsc > since;
        self.last.iter().rev().any(is_it)
    }
}
