//! `cargo xtask soak`: the acceptance tests with the counts that a release needs.

use crate::test::PYTHON;
use crate::{Complaint, cargo, tools};

const TOOLS: &[&str] = &[
    "strace",
    "gdb",
    "sqlite3",
    "python3",
    "git",
    "gcc",
    "make",
    "go",
    "libpython3.11-testsuite",
    "python3-venv",
    "java",
    "chromium",
    "fio",
    "db_bench",
    "postgresql",
    "mkfs.ext4",
    "mkfs.xfs",
    "mkfs.btrfs",
];

/// Runs all acceptance tests in their long tier.
pub fn run(args: &[&str]) -> Result<(), Complaint> {
    tools::provide(TOOLS);
    tools::provide_python(&[PYTHON, &["pyspark"]].concat());
    cargo(&["build", "--release", "--package", "reenact"], &[])?;
    let mut all = vec!["test", "--package", "acceptance", "--no-fail-fast"];
    all.extend(args);
    cargo(&all, &[("REENACT_SOAK", "1")])
}
