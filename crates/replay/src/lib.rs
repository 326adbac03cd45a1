//! Runs a trace again and proves that it came out the same.
//!
//! A trace is read twice. [`image`] rebuilds what was there before; then a planner turns the merged
//! events into what each task has to do and to wait for, tasks of the kernel's own make the calls
//! inside a [`jail`], and each result is held against the recorded one. [`compare`] holds the files
//! that are left against those of the recording.

pub mod compare;
pub mod image;
pub mod jail;
pub mod realm;
pub mod task;
