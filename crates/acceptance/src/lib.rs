//! Common parts of the acceptance tests: test programs, directories to run them in, traces as
//! printed by `reenact`, and counts by strace.
//!
//! A trial runs a program alone and recorded, with the same input in the same place, and compares.
//! Traces are only read through `reenact show --json` and `reenact info --json`.

pub mod big;
pub mod clean_root;
pub mod conversation;
pub mod expectation;
pub mod ground;
pub mod kernel_events;
pub mod manifest;
pub mod place;
pub mod program;
pub mod screen;
pub mod shown;
pub mod stage;
pub mod strace;
pub mod tier;
pub mod trials;
pub mod twins;
pub mod wild;
pub mod works;

/// The error of a check, as a message.
pub type Complaint = String;

/// Returns a complaint unless the condition holds.
#[macro_export]
macro_rules! ensure {
    ($held:expr, $($complaint:tt)+) => {
        if !$held {
            return Err(format!($($complaint)+));
        }
    };
}
