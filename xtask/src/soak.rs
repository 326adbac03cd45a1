//! `cargo xtask soak`: the acceptance tests with the counts that a release needs.

use crate::test::{PYTHON, TOOLS, run_tests};
use crate::{Complaint, cargo, fuzz, tools};

/// What the long tier uses besides.
const MORE_TOOLS: &[&str] =
    &["java", "db_bench", "postgresql", "mkfs.ext4", "mkfs.xfs", "mkfs.btrfs"];

/// Runs all acceptance tests in their long tier, then all fuzz targets for ten minutes each.
pub fn run(args: &[&str]) -> Result<(), Complaint> {
    tools::provide(&[TOOLS, MORE_TOOLS].concat());
    tools::provide_python(&[PYTHON, &["pyspark"]].concat());
    cargo(&["build", "--release", "--package", "reenact"], &[])?;
    let all = [&["--package", "acceptance", "--no-fail-fast"], args].concat();
    run_tests(&all, &[("REENACT_SOAK", "1")])?;
    fuzz::run(&["--seconds", &fuzz::SOAK_SECONDS.to_string()])
}
