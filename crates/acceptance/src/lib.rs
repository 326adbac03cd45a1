//! What the acceptance tests share: test programs, places to run them in, traces as `reenact`
//! itself shows them, and counts as strace has them.
//!
//! A trial runs a program alone and recorded, with the same input at the same place, and compares.
//! All that is known of a trace comes from `reenact show --json` and `reenact info --json`.

pub mod big;
pub mod conversation;
pub mod expectation;
pub mod ground;
pub mod manifest;
pub mod place;
pub mod program;
pub mod shown;
pub mod stage;
pub mod strace;
pub mod tier;
pub mod trials;
pub mod twins;
pub mod wild;
pub mod works;

/// Says what is wrong: the error of every check.
pub type Complaint = String;

/// Fails with a complaint unless the condition holds.
#[macro_export]
macro_rules! ensure {
    ($held:expr, $($complaint:tt)+) => {
        if !$held {
            return Err(format!($($complaint)+));
        }
    };
}
