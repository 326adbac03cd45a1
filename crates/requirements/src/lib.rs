//! What recording needs of a machine, and whether it is there.

mod machine;
mod probes;
mod verdict;

pub use verdict::{Check, Verdict};

/// Checks everything.
pub fn check() -> Vec<Check> {
    let mut checks = probes::all();
    checks.extend(machine::all());
    checks
}
