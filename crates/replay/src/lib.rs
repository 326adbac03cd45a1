//! Replays a trace and verifies that it behaves as recorded.
//!
//! A trace is read twice. [`image`] rebuilds the files that existed before the recording. Then a
//! planner turns the merged events into the actions of each task and their dependencies, kernel
//! tasks make the calls inside a [`jail`], and each result is compared with the recorded one.
//! [`compare`] compares the files left at the end with those of the recording.

mod actor;
mod batch;
mod certainty;
mod clock;
pub mod compare;
mod descriptors;
mod execute;
mod gate;
pub mod image;
pub mod jail;
mod lane;
mod latency;
mod limits;
pub mod log;
mod made;
mod mapped;
mod memory;
mod moves;
mod options;
mod order;
pub mod outcome;
mod plan;
mod reopen;
mod replayer;
mod resource;
mod scan;
pub mod session;
mod shared;
pub mod space;
pub mod task;
mod treatment;
mod turns;
mod verify;
mod watch;

pub use gate::{Came, Gate};
pub use model::realm;
pub use options::{Fill, Options, Verify};
pub use outcome::Outcome;
