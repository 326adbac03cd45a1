//! `cargo xtask test`: everything that the short tier tests.

use crate::{Complaint, cargo, tools};

/// Programs that the acceptance tests record or compare with. A test whose program is missing says
/// so and is ignored.
pub const TOOLS: &[&str] = &[
    "strace",
    "gdb",
    "sqlite3",
    "python3",
    "git",
    "gcc",
    "make",
    "go",
    "fio",
    "libpython3.11-testsuite",
    "python3-venv",
    "chromium",
];

/// Packages from PyPI that read what `reenact export` writes.
pub const PYTHON: &[&str] = &["duckdb", "pyarrow", "pandas", "polars", "perfetto"];

/// Installs what is missing, where that is possible, and runs the tests of the whole workspace.
pub fn run(args: &[&str]) -> Result<(), Complaint> {
    tools::provide(TOOLS);
    tools::provide_python(PYTHON);
    // The binary first: every acceptance test uses it, and its output would stand between theirs.
    cargo(&["build", "--release", "--package", "reenact"], &[])?;
    let mut all = vec!["test", "--workspace", "--no-fail-fast"];
    all.extend(args);
    cargo(&all, &[])
}
