//! Runs a trace again and proves that it came out the same.
//!
//! A trace is read twice. [`image`] rebuilds what was there before; then a planner turns the merged
//! events into what each task has to do and to wait for, tasks of the kernel's own make the calls
//! inside a [`jail`], and each result is held against the recorded one. [`compare`] holds the files
//! that are left against those of the recording.

mod actor;
mod batch;
mod clock;
pub mod compare;
mod descriptors;
mod execute;
pub mod image;
pub mod jail;
mod lane;
mod latency;
mod limits;
pub mod log;
mod memory;
mod order;
pub mod outcome;
mod plan;
mod reopen;
mod replayer;
mod scan;
pub mod session;
mod shared;
pub mod space;
pub mod task;
mod treatment;
mod verify;
mod watch;

pub use model::realm;
pub use outcome::Outcome;
pub use shared::{Fill, Options, Verify};
