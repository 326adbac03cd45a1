//! What recording needs of a machine, and whether it is there.

mod check;
mod machine;
mod probes;

pub use check::{Check, Verdict};

/// Checks everything.
pub fn all() -> Vec<Check> {
    let mut checks = probes::all();
    checks.extend(machine::all());
    checks
}
