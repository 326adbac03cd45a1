//! Reads a trace with no work at all, on as many threads as views do: what `cargo xtask bench stat`
//! holds them against.
//!
//! `cargo run --release -p stats --example bare_reading TRACE`

use std::path::PathBuf;
use std::process::ExitCode;

use stats::pass::{self, Fold, Occasion};
use trace::Trace;

struct Nothing;

impl Fold for Nothing {
    fn add(&mut self, _: &Occasion<'_>) {}
    fn merge(&mut self, _: Nothing) {}
}

fn main() -> ExitCode {
    let Some(path) = std::env::args_os().nth(1).map(PathBuf::from) else {
        eprintln!("bare_reading TRACE");
        return ExitCode::from(2);
    };
    let trace = match Trace::open(&path) {
        Ok(trace) => trace,
        Err(error) => {
            eprintln!("{}: {error}", path.display());
            return ExitCode::FAILURE;
        }
    };
    let workers = std::thread::available_parallelism().map_or(1, usize::from);
    let (_, unread) = pass::in_parallel(&trace, workers, &|| Nothing, &|_| false);
    if unread.count > 0 { ExitCode::FAILURE } else { ExitCode::SUCCESS }
}
