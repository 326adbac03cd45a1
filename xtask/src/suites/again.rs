//! Runs tests that failed once more, each alone: on a busy machine some fail that pass by themselves.
//! Such a test is unsteady. It is named with how it failed, and some of them fail the run.

use super::{Ended, Show, run_one};
use crate::Complaint;

/// How many unsteady tests a run may have.
const UNSTEADY_MAX: usize = 2;
/// How often an unsteady test has to pass.
const PASSES: usize = 3;

/// Runs the failed tests of suites again. Fails unless all pass.
pub fn run(failed: &[Ended], variables: &[(&str, &str)], show: Show<'_>) -> Result<(), Complaint> {
    let mut tests = Vec::new();
    for Ended { suite, output, .. } in failed {
        let names = tests_that(FAILED, &String::from_utf8_lossy(output));
        if names.is_empty() {
            return Err("a suite has ended without saying which test failed".into());
        }
        tests.extend(names.into_iter().map(|name| (suite, name)));
    }
    if tests.len() > UNSTEADY_MAX {
        return Err(format!("{} tests failed", tests.len()));
    }
    for (suite, name) in tests {
        for _ in 0..PASSES {
            let again = run_one(suite.clone(), &[&name, "--exact"], variables)?;
            let passed = tests_that(PASSED, &String::from_utf8_lossy(&again.output));
            if !again.passed || passed != [name.as_str()] {
                show(&again.output)?;
                return Err(format!("{name} fails again (-p {})", suite.options));
            }
        }
        let text = format!("xtask: unsteady: {name} (-p {}) failed, see above, ", suite.options);
        show(format!("{text}and passes {PASSES} times by itself\n").as_bytes())?;
    }
    Ok(())
}

/// How the line of a test ends.
const FAILED: &str = " ... FAILED";
pub const PASSED: &str = " ... ok";

/// Reads the names of tests that have failed, or passed, out of what a test binary prints.
fn tests_that(end: &str, output: &str) -> Vec<String> {
    let of_line = |line: &str| {
        let name = line.strip_prefix("test ")?.trim_end().strip_suffix(end)?;
        // Some have their kind before them, and the others as much room.
        let name = match name.strip_prefix('[').and_then(|rest| rest.split_once("] ")) {
            Some((_, name)) => name,
            None => name,
        };
        Some(name.trim().to_string())
    };
    output.lines().filter_map(of_line).collect()
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;
    use std::time::Duration;

    use super::super::Suite;
    use super::*;

    const ONE: &[u8] = b"test a ... FAILED\ntest b ... ok\n";

    /// A suite that is a shell script.
    fn suite(folder: &tempfile::TempDir, script: &str) -> Suite {
        let binary = folder.path().join("suite");
        std::fs::write(&binary, format!("#!/bin/sh\n{script}")).unwrap();
        std::fs::set_permissions(&binary, PermissionsExt::from_mode(0o755)).unwrap();
        let package = folder.path().to_path_buf();
        let options = "unsteady --test suite".into();
        Suite { options, name: "suite".into(), source: String::new(), binary, package }
    }

    fn outcome(script: &str, printed: &[u8]) -> (Result<(), Complaint>, String) {
        let folder = tempfile::tempdir().unwrap();
        let mut shown = Vec::new();
        let mut show = |text: &[u8]| {
            shown.extend_from_slice(text);
            Ok(())
        };
        let suite = suite(&folder, script);
        let failed =
            [Ended { suite, passed: false, took: Duration::ZERO, output: printed.to_vec() }];
        let outcome = run(&failed, &[], &mut show);
        (outcome, String::from_utf8(shown).unwrap())
    }

    #[test]
    fn names_of_failed_tests_are_read() {
        let text = "test [needs gdb] root/a ... FAILED\ntest             user/b ... FAILED\n\
                    test c ... ok\ntest d   ... FAILED\nfailures:\n    user/b\n";
        assert_eq!(tests_that(FAILED, text), ["root/a", "user/b", "d"]);
        assert_eq!(tests_that(PASSED, text), ["c"]);
    }

    #[test]
    fn who_passes_alone_is_unsteady() {
        let (outcome, shown) = outcome("test $2 = --exact && echo \"test $1 ... ok\"", ONE);
        assert_eq!(outcome, Ok(()));
        assert!(shown.contains("unsteady: a (-p unsteady --test suite) failed"), "{shown}");
    }

    #[test]
    fn who_fails_again_fails() {
        let counted = "echo x >> count; echo test a ... ok; test $(wc -l < count) -lt 3";
        let (outcome, shown) = outcome(counted, ONE);
        assert!(outcome.unwrap_err().contains("a fails again"), "{shown}");
    }

    #[test]
    fn tests_that_are_not_run_again_have_failed() {
        assert!(outcome("echo test b ... ok", ONE).0.is_err());
        assert!(outcome("exit 1", b"Segmentation fault\n").0.is_err());
        let many = "test a ... FAILED\ntest b ... FAILED\ntest c ... FAILED\n";
        let (outcome, _) = outcome("echo test $1 ... ok", many.as_bytes());
        assert_eq!(outcome, Err("3 tests failed".into()));
    }
}
