//! Calls by `int 0x80`, which have numbers of their own.

use super::frames::Frame;

/// fork and vfork.
const FORKS: [u64; 2] = [2, 190];
/// setuid, setreuid and setresuid, with ids of two bytes and of four.
const USER_CHANGES: [u64; 6] = [23, 70, 164, 203, 208, 213];

/// Returns true if the call creates a process.
pub fn forks(number: u64) -> bool {
    FORKS.contains(&number)
}

/// Returns true if the call may change the user.
pub fn changes_user(number: u64) -> bool {
    USER_CHANGES.contains(&number)
}

/// Returns the number of the call in this frame.
pub fn number(frame: &Frame) -> u64 {
    frame.number() & LOW
}

/// Returns the arguments of the call in this frame.
pub fn args(frame: &Frame) -> [u64; 6] {
    [frame.rbx, frame.rcx.get(), frame.rdx, frame.rsi, frame.rdi, frame.rbp].map(|arg| arg & LOW)
}

const LOW: u64 = 0xffff_ffff;
