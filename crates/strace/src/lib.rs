//! The text of strace: written as `strace -f -ttt -T -xx -v -s 1000000` prints it, and read back
//! into a trace.
//!
//! What strace spells otherwise than the table of system calls stands in [`spelling`], for both
//! ways.

pub mod read;
mod spelling;
pub mod words;
pub mod write;
