//! Writes the text that `strace -f -ttt -T -xx -v -s 1000000` prints, and reads it back into a
//! trace.
//!
//! [`spelling`] lists where strace differs from the table of system calls, for both directions.

pub mod read;
mod spelling;
pub mod words;
pub mod write;
