//! Python's own tests give the same results recorded and alone. Long tier only.

use std::collections::BTreeMap;
use std::process::ExitCode;

use acceptance::place::{Place, Who};
use acceptance::shown::Info;
use acceptance::stage::Stage;
use acceptance::{Complaint, ensure, tier, trials};

const MODULES: &[&str] = &[
    "test_os",
    "test_posix",
    "test_io",
    "test_fileio",
    "test_subprocess",
    "test_signal",
    "test_threading",
    "test_socket",
    "test_select",
    "test_mmap",
    "test_fcntl",
    "test_tempfile",
    "test_shutil",
];

/// Number of unrecorded runs; results that differ between them are ignored.
const RUNS_ALONE: usize = 3;

const PYTHON: &str = "/usr/bin/python3";

fn main() -> ExitCode {
    trials::main(|trials| {
        let installed = trials::succeeds(PYTHON, &["-c", "import test.test_os"]);
        let missing = (!installed).then_some("libpython3.11-testsuite");
        let missing = missing.or((!tier::is_long()).then_some("the long tier"));
        for module in MODULES {
            trials.add(module, Who::User, missing, |stage, who| same_results(stage, who, module));
        }
        Ok(())
    })
}

/// Results by test.
type Results = BTreeMap<String, String>;

fn same_results(stage: &Stage, who: Who, module: &str) -> Result<(), Complaint> {
    let place = Place::new(stage, who)?;
    let words = ["-m", "unittest", "-v"].into_iter().map(str::to_string);
    let words: Vec<String> = words.chain([format!("test.{module}")]).collect();
    let mut steady: Option<Results> = None;
    let mut unsteady = Vec::new();
    for _ in 0..RUNS_ALONE {
        place.clear()?;
        let run = place.run(place.command(PYTHON).args(&words).env("TMPDIR", place.work()))?;
        let results = parse(&run.errors());
        let ran = tests_run(&run.errors());
        let known = results.len();
        ensure!(
            known > 0 && known * 10 >= ran * 9,
            "{known} results of {ran} tests are understood"
        );
        steady = Some(match steady {
            None => results,
            Some(mut before) => {
                let differ = |name: &String| results.get(name) != before.get(name);
                let names = before.keys().chain(results.keys());
                let differing: Vec<String> = names.filter(|name| differ(name)).cloned().collect();
                before.retain(|name, _| !differing.contains(name));
                unsteady.extend(differing);
                before
            }
        });
    }
    let steady = steady.unwrap_or_default();

    place.clear()?;
    let trace = place.trace("python.rnt");
    let mut record = place.command(&stage.reenact);
    record.args(["record", "--quiet", "--output"]).arg(&trace).arg("--").arg(PYTHON).args(&words);
    let run = place.run(record.env("TMPDIR", place.work()))?;
    let recorded = parse(&run.errors());
    let wrong: Vec<String> = steady
        .iter()
        .filter(|(name, _)| !unsteady.contains(name))
        .filter(|(name, result)| recorded.get(*name) != Some(result))
        .map(|(name, result)| format!("{name}: alone {result}, recorded {:?}", recorded.get(name)))
        .collect();
    if !unsteady.is_empty() {
        println!("{module}: left out, because they differ from run to run: {unsteady:?}");
    }
    ensure!(wrong.is_empty(), "results differ:\n{}\n{}", wrong.join("\n"), run.errors());
    let info = Info::of(stage, &trace)?;
    ensure!(info.lost == 0, "lost {}", info.lost);
    Ok(())
}

/// Parses `Ran 285 tests in 3.1s`.
fn tests_run(printed: &str) -> usize {
    let counts = printed
        .lines()
        .filter_map(|line| line.strip_prefix("Ran ")?.split(' ').next()?.parse::<usize>().ok());
    counts.sum()
}

/// Parses the output of unittest -v: `name (class) ... ok`, where the test's own output may precede
/// the result.
fn parse(printed: &str) -> Results {
    let mut results = Results::new();
    let mut open: Option<String> = None;
    for line in printed.lines() {
        let (name, rest) = match line.split_once(" ... ") {
            Some((name, rest)) if name.starts_with("test") => (Some(name.to_string()), rest),
            _ => (open.clone(), line),
        };
        let Some(name) = name else { continue };
        let result =
            ["ok", "FAIL", "ERROR", "skipped", "expected failure"].into_iter().find(|word| {
                rest.trim() == *word || rest.starts_with("skipped '") && *word == "skipped"
            });
        match result {
            Some(result) => {
                results.insert(name, result.to_string());
                open = None;
            }
            None => open = Some(name),
        }
    }
    results
}
