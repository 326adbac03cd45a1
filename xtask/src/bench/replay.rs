//! `cargo xtask bench replay`: how long a replay takes, against a loop of the same calls in the same
//! run. Everything is on tmpfs, and results are verified. Runs are interleaved; medians are shown.

use std::fs;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use super::{RUNS, target_dir};
use crate::{Complaint, cargo, repository};

/// Memory that a replay may use at most.
const PEAK_BYTES_MAX: f64 = 256.0 * 1024.0 * 1024.0;

/// A file system in memory.
const TMPFS: &str = "/dev/shm";

/// What is replayed.
struct Loop {
    name: &'static str,
    bytes: u32,
    rounds: u32,
    threads: u32,
    /// More options of the replay.
    options: &'static [&'static str],
    /// How much longer than the loop the replay may take.
    mark: Option<f64>,
}

const LOOPS: &[Loop] = &[
    Loop {
        name: "64 bytes",
        bytes: 64,
        rounds: 250_000,
        threads: 1,
        options: &[],
        mark: Some(1.8),
    },
    Loop { name: "4 KiB", bytes: 4096, rounds: 250_000, threads: 1, options: &[], mark: Some(2.2) },
    Loop {
        name: "64 bytes, 2 threads",
        bytes: 64,
        rounds: 250_000,
        threads: 2,
        options: &["--order", "thread"],
        mark: None,
    },
];

/// Two threads replay so many times the calls of one in the same time.
const TWO_THREADS_MARK: f64 = 1.6;

/// One replay or loop.
struct Run {
    seconds: f64,
    peak_bytes: f64,
}

/// Runs the benchmark and prints the table.
pub fn run(args: &[&str]) -> Result<(), Complaint> {
    let runs = match args {
        [] => RUNS,
        ["--runs", count] => count.parse().map_err(|_| format!("--runs {count}: not a count"))?,
        _ => return Err(format!("unknown options {args:?}; there is --runs COUNT")),
    };
    cargo(&["build", "--release", "--package", "reenact"], &[])?;
    let place = tempfile::Builder::new().prefix("reenact-bench-").tempdir_in(TMPFS);
    let place = place.map_err(|error| format!("{TMPFS}: {error}"))?;
    let bench = Bench {
        dir: place.path().to_path_buf(),
        reenact: target_dir()?.join("release/reenact"),
        program: build(place.path())?,
    };
    println!(
        "{:<22} {:>10} {:>12} {:>12} {:>8} {:>8} {:>10}",
        "", "calls", "loop", "replay", "ratio", "mark", "peak"
    );
    let mut missed = Vec::new();
    let mut rates = Vec::new();
    for work in LOOPS {
        let (alone, replayed) = bench.compare(work, runs)?;
        let calls = f64::from(2 * work.rounds * work.threads);
        let ratio = replayed.seconds / alone.seconds;
        rates.push(calls / replayed.seconds);
        println!(
            "{:<22} {calls:>10} {:>9.3} us {:>9.3} us {ratio:>8.2} {:>8} {:>6.0} MiB",
            work.name,
            alone.seconds / calls * 1e6,
            replayed.seconds / calls * 1e6,
            work.mark.map_or_else(|| "-".into(), |mark| format!("{mark:.2}")),
            replayed.peak_bytes / 1024.0 / 1024.0
        );
        if work.mark.is_some_and(|mark| ratio > mark) {
            missed.push(format!("{}: {ratio:.2} times the loop", work.name));
        }
        if replayed.peak_bytes > PEAK_BYTES_MAX {
            missed.push(format!("{}: {:.0} bytes of memory", work.name, replayed.peak_bytes));
        }
    }
    let gain = rates[2] / rates[0];
    println!("two threads: {gain:.2} times the rate of one (mark {TWO_THREADS_MARK})");
    if gain < TWO_THREADS_MARK {
        missed.push(format!("two threads: {gain:.2} times the rate of one"));
    }
    if missed.is_empty() { Ok(()) } else { Err(format!("marks missed:\n{}", missed.join("\n"))) }
}

fn build(dir: &Path) -> Result<PathBuf, Complaint> {
    let program = dir.join("loop");
    let source = repository().join("benches/replay.c");
    let mut compiler = Command::new("cc");
    compiler.args(["-O2", "-static", "-pthread", "-o"]).arg(&program).arg(source);
    let status = compiler.status().map_err(|error| format!("cannot run cc: {error}"))?;
    if status.success() { Ok(program) } else { Err("the loop does not compile".into()) }
}

struct Bench {
    dir: PathBuf,
    reenact: PathBuf,
    program: PathBuf,
}

impl Bench {
    /// The medians of the loop alone and of its replay.
    fn compare(&self, work: &Loop, runs: usize) -> Result<(Run, Run), Complaint> {
        let trace = self.dir.join("loop.rnt");
        let words = [work.bytes, work.rounds, work.threads].map(|number| number.to_string());
        let files = self.dir.join("file");
        let mut record = Command::new(&self.reenact);
        record.args(["record", "--quiet", "--force", "--output"]).arg(&trace).arg("--");
        output(record.arg(&self.program).args(&words).arg(&files))?;
        let (mut alone, mut replayed) = (Vec::new(), Vec::new());
        for _ in 0..runs {
            for thread in 0..work.threads {
                let _ = fs::remove_file(self.dir.join(format!("file{thread}")));
            }
            let said = output(Command::new(&self.program).args(&words).arg(&files))?.0;
            let seconds = said.trim().parse();
            alone.push(Run {
                seconds: seconds.map_err(|_| format!("the loop said {said}"))?,
                peak_bytes: 0.0,
            });
            replayed.push(self.replay(work, &trace)?);
        }
        Ok((median(alone), median(replayed)))
    }

    fn replay(&self, work: &Loop, trace: &Path) -> Result<Run, Complaint> {
        let mut replay = Command::new(&self.reenact);
        // The fresh root is on tmpfs as well.
        replay.env("TMPDIR", &self.dir).arg("replay").arg(trace).arg("--json").args(work.options);
        let (said, peak_bytes) = output(&mut replay)?;
        let result: serde_json::Value =
            serde_json::from_str(&said).map_err(|error| format!("reenact replay: {error}"))?;
        let seconds = result["elapsed_s"].as_f64().ok_or("reenact replay tells no time")?;
        Ok(Run { seconds, peak_bytes })
    }
}

/// The run in the middle, by time.
fn median(mut runs: Vec<Run>) -> Run {
    runs.sort_by(|a, b| a.seconds.total_cmp(&b.seconds));
    runs.swap_remove(runs.len() / 2)
}

/// Runs a command to its end: what it printed, and the peak memory of it and its children.
fn output(command: &mut Command) -> Result<(String, f64), Complaint> {
    command.stdin(Stdio::null()).stdout(Stdio::piped()).process_group(0);
    let what = format!("{command:?}");
    let mut child = command.spawn().map_err(|error| format!("cannot run {what}: {error}"))?;
    let mut said = String::new();
    if let Some(mut stdout) = child.stdout.take() {
        std::io::Read::read_to_string(&mut stdout, &mut said).map_err(|error| error.to_string())?;
    }
    // SAFETY: rusage is plain numbers; both pointers are valid, and the child is ours.
    let (status, peak_kib) = unsafe {
        let (mut status, mut usage): (i32, libc::rusage) = (0, std::mem::zeroed());
        libc::wait4(child.id() as i32, &raw mut status, 0, &raw mut usage);
        (status, usage.ru_maxrss)
    };
    if status != 0 {
        return Err(format!("{what} ended with status {status}: {said}"));
    }
    Ok((said, peak_kib as f64 * 1024.0))
}
