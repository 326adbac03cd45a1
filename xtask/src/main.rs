//! Developer tasks, as `cargo xtask TASK`.

mod bench;
mod dist;
mod fuzz;
mod soak;
mod suites;
mod test;
mod tidy;
mod tools;

use std::path::Path;
use std::process::{Command, ExitCode};

/// An error message for the user.
type Complaint = String;

const HELP: &str = "\
cargo xtask TASK

  test [ARGS...]          install what the tests use, run all of them; ARGS go to cargo test
  tidy                    check the style that no compiler checks
  bench record [OPTIONS]  what recording costs, beside strace
    --only NAME             this workload (may be given several times)
    --runs N                how often each is run (default 5)
    --no-strace             leave strace out
    --dir DIR               where the workloads keep their files (default: a temporary directory)
    --trace-dir DIR         where the traces are written (default: the same)
  bench kernel [OPTIONS]  what events of the kernel cost, beside perf and trace-cmd
    --runs N                how often each is run (default 11)
    --scale X               how long the jobs are (default 1)
    --only NAME             make, tar, bzip2 or mix (may be given several times)
  bench replay [OPTIONS]  how fast a replay is, beside a loop of the same calls
    --runs N                how often each is run (default 5)
  bench stat [OPTIONS]    how fast a trace of ten million calls is looked at
    --runs N                how often each view is made (default 3)
    --dir DIR               where the trace is kept meanwhile (default: a temporary directory)
  bench export [OPTIONS]  how fast traces become files of other tools
    --runs N                how often each is exported (default 3)
    --dir DIR               where all files are kept meanwhile (default: a temporary directory)
  dist [--dir DIR]        a static binary, a Debian package of it, and a wheel for Python
                          (default: target/dist/out)
  dist binary, dist wheel one of them
  fuzz [TARGET...]        run fuzz targets, all unless some are named
    --seconds N             how long each is run (default 60)
    --keep                  add what was found to the corpus that is kept
  soak [ARGS...]          the long acceptance: Python's own tests, 100 killed recorders, ...
  soak ring [TESTS...]    the protocol of the shared memory alone, in all orders of its steps
  soak wild [ARGS...]     150 behaviour programs and the big programs alone, recorded and replayed
";

fn main() -> ExitCode {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = args.iter().map(String::as_str).collect();
    let done = match words.as_slice() {
        ["test", rest @ ..] => test::run(rest),
        ["tidy"] => tidy::run(repository()),
        ["bench", "record", rest @ ..] => bench::run(rest),
        ["bench", "stat", rest @ ..] => bench::stat::run(rest),
        ["bench", "kernel", rest @ ..] => bench::kernel::run(rest),
        ["bench", "replay", rest @ ..] => bench::replay::run(rest),
        ["bench", "export", rest @ ..] => bench::export::run(rest),
        ["dist", rest @ ..] => dist::run(rest),
        ["fuzz", rest @ ..] => fuzz::run(rest),
        ["soak", rest @ ..] => soak::run(rest),
        ["help" | "--help" | "-h"] => {
            print!("{HELP}");
            Ok(())
        }
        _ => Err(format!("no such task\n\n{HELP}")),
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(complaint) => {
            eprintln!("xtask: {complaint}");
            ExitCode::FAILURE
        }
    }
}

/// The root of the repository.
fn repository() -> &'static Path {
    Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/.."))
}

/// Runs cargo in the repository; fails unless it exits with 0.
fn cargo(args: &[&str], variables: &[(&str, &str)]) -> Result<(), Complaint> {
    let status = cargo_command(args, variables).status();
    let status = status.map_err(|error| format!("cannot run cargo: {error}"))?;
    if status.success() { Ok(()) } else { Err(format!("cargo {}: {status}", args.join(" "))) }
}

/// Returns a cargo command that runs in the repository.
fn cargo_command(args: &[&str], variables: &[(&str, &str)]) -> Command {
    let program = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let mut command = Command::new(program);
    command.args(args).current_dir(repository()).envs(variables.iter().copied());
    command
}
