//! Common parts of the benchmarks of commands that read traces: options, builds, loops, medians.

use std::path::{Path, PathBuf};

use tempfile::TempDir;

use super::measure::{self, Measured};
use super::workloads::{Bench, build_loops};
use super::{count, target_dir};
use crate::{Complaint, cargo};

const RUNS: usize = 3;

/// A prepared benchmark.
pub struct Reading {
    /// Number of runs of each command.
    pub runs: usize,
    /// Directories and binary of the benchmark.
    pub bench: Bench,
    /// The program to compare with.
    pub beside: String,
    _temporary: TempDir,
}

impl Reading {
    /// Builds `reenact` and the example program to compare with.
    pub fn set_up(args: &[&str], package: &str, example: &str) -> Result<Reading, Complaint> {
        let mut runs = RUNS;
        let mut dir: Option<PathBuf> = None;
        let mut words = args.iter();
        while let Some(word) = words.next() {
            let mut value = || words.next().ok_or_else(|| format!("{word} needs a value"));
            match *word {
                "--runs" => runs = count(word, value()?)?,
                "--dir" => dir = Some(value()?.into()),
                _ => return Err(format!("unknown option {word}")),
            }
        }
        cargo(&["build", "--release", "--package", "reenact"], &[])?;
        cargo(&["build", "--release", "--package", package, "--example", example], &[])?;
        let built = target_dir()?.join("release");
        let beside = built.join("examples").join(example).display().to_string();
        let temporary = tempfile::Builder::new().prefix("reenact-bench-").tempdir();
        let temporary = temporary.map_err(|error| format!("no temporary directory: {error}"))?;
        let dir = dir.unwrap_or_else(|| temporary.path().to_path_buf());
        let bench = Bench::new(dir.clone(), dir, &built.join("reenact"))?;
        build_loops(&bench)?;
        Ok(Reading { runs, bench, beside, _temporary: temporary })
    }

    /// Returns a command line of `reenact`.
    pub fn reenact(&self, words: &[&str]) -> Vec<String> {
        let program = self.bench.reenact.display().to_string();
        std::iter::once(program).chain(words.iter().map(|word| word.to_string())).collect()
    }

    /// Records a loop.
    pub fn record(&self, loops: &[&str], trace: &Path) -> Result<(), Complaint> {
        let trace = trace.display().to_string();
        let mut words = self.reenact(&["record", "--quiet", "--force", "--output", &trace, "--"]);
        words.extend(self.bench.loops(loops));
        self.once(&words).map(drop)
    }

    /// Returns the run with the median CPU time; `prepare` is called before each run.
    pub fn median(&self, words: &[String], prepare: impl Fn()) -> Result<Measured, Complaint> {
        let mut all = Vec::new();
        for _ in 0..self.runs {
            prepare();
            all.push(self.once(words)?);
        }
        all.sort_by(|a, b| a.cpu_s.total_cmp(&b.cpu_s));
        Ok(all.swap_remove(self.runs / 2))
    }

    fn once(&self, words: &[String]) -> Result<Measured, Complaint> {
        measure::run(words, &self.bench.dir, None, &self.bench.output(), None)
    }
}
