//! `cargo xtask test`: all tests of the short tier.

use std::collections::BTreeMap;
use std::io::{self, BufRead, BufReader, Read, Write};
use std::process::Stdio;

use crate::{Complaint, cargo, cargo_command, tools};

/// Programs that the acceptance tests record or compare with. Tests whose program is missing are
/// ignored and name it.
pub const TOOLS: &[&str] = &[
    "strace",
    "gdb",
    "babeltrace2",
    "python3-bt2",
    "sqlite3",
    "python3",
    "zstd",
    "setcap",
    "git",
    "gcc",
    "make",
    "go",
    "fio",
    "libpython3.11-testsuite",
    "python3-venv",
    "chromium",
    "perf",
    "trace-cmd",
];

/// PyPI packages that read the output of `reenact export`.
pub const PYTHON: &[&str] = &["duckdb", "pyarrow", "pandas", "polars", "perfetto"];

/// Installs missing tools if possible, and runs the tests of the whole workspace.
pub fn run(args: &[&str]) -> Result<(), Complaint> {
    tools::provide(TOOLS);
    tools::provide_python(PYTHON);
    // Every acceptance test needs the binary; building it first keeps cargo's output out of theirs.
    cargo(&["build", "--release", "--package", "reenact"], &[])?;
    run_tests(&[&["--workspace", "--no-fail-fast"], args].concat(), &[])
}

/// Runs `cargo test`, and reports at the end which tests were ignored for want of something.
pub fn run_tests(args: &[&str], variables: &[(&str, &str)]) -> Result<(), Complaint> {
    let mut command = cargo_command(&[&["test"], args].concat(), variables);
    let mut tests = command
        .stdout(Stdio::piped())
        .spawn()
        .map_err(|error| format!("cannot run cargo: {error}"))?;
    let output = tests.stdout.take().expect("it is piped");
    let left_out = pass_on(output, &mut io::stdout().lock())
        .map_err(|error| format!("cannot read what cargo prints: {error}"))?;
    let status = tests.wait().map_err(|error| format!("cannot wait for cargo: {error}"))?;
    for (what, count) in left_out {
        eprintln!("xtask: left out: {count} tests that need {what}");
    }
    if status.success() { Ok(()) } else { Err(format!("cargo test: {status}")) }
}

/// Passes on the output of tests. Returns what ignored tests need, with the number of tests.
fn pass_on(from: impl Read, to: &mut dyn Write) -> io::Result<BTreeMap<String, u64>> {
    let mut left_out = BTreeMap::new();
    let mut from = BufReader::new(from);
    let mut line = Vec::new();
    while from.read_until(b'\n', &mut line)? > 0 {
        to.write_all(&line)?;
        if let Some(need) = need_of_ignored(&String::from_utf8_lossy(&line)) {
            *left_out.entry(need.to_string()).or_default() += 1;
        }
        line.clear();
    }
    Ok(left_out)
}

/// Parses what a test needs from a line like `test [needs gdb] user/attach ... ignored`.
fn need_of_ignored(line: &str) -> Option<&str> {
    let (name, result) = line.trim_end().rsplit_once(" ... ")?;
    let (need, _) = name.strip_prefix("test [needs ")?.split_once(']')?;
    result.starts_with("ignored").then_some(need)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tests_that_are_left_out_are_counted_by_what_they_need() {
        let text = "test [needs setcap] user/a ... ignored\ntest user/b ... ok\n\
                    test [needs setcap] user/c ... ignored\ntest [needs gdb] root/d ... FAILED\n\
                    test by_hand ... ignored\ntest [needs the long tier] e ... ignored\n";
        let mut passed_on = Vec::new();
        let left_out = pass_on(text.as_bytes(), &mut passed_on).unwrap();
        assert_eq!(passed_on, text.as_bytes());
        let expected = [("setcap".to_string(), 2), ("the long tier".to_string(), 1)];
        assert_eq!(left_out, expected.into());
    }
}
