//! `cargo xtask bench replay`: the duration of a replay compared with that of the whole program.
//! Compares verified replays of one-call loops on tmpfs with the same loops in C, with few distinct
//! buffers and with all buffers distinct; real work with its replay; and measures how well a replay
//! keeps recorded times. Runs are interleaved; the fastest counts, as other work disturbs the rest.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use super::measure::{self, Measured};
use super::workloads::{self, Bench, Workload};
use super::{RUNS, count, target_dir};
use crate::{Complaint, cargo, repository, tools};

/// Mark for the memory of a replay.
const PEAK_BYTES_MAX: u64 = 256 << 20;

/// A file system in memory.
const TMPFS: &str = "/dev/shm";

/// A loop to be replayed.
struct Loop {
    name: &'static str,
    bytes: u32,
    rounds: u32,
    threads: u32,
    /// Number of distinct buffers; 0 if all are distinct.
    contents: u32,
    /// Additional options of the replay.
    options: &'static [&'static str],
    /// Mark: duration of the replay relative to the loop.
    mark: Option<f64>,
}

const LOOPS: &[Loop] = &[
    Loop { name: "64 bytes", bytes: 64, mark: Some(1.8), ..LOOP },
    Loop { name: "4 KiB", bytes: 4096, mark: Some(2.2), ..LOOP },
    Loop { name: "64 bytes, none alike", bytes: 64, contents: 0, ..LOOP },
    Loop { name: "4 KiB, none alike", bytes: 4096, contents: 0, ..LOOP },
    Loop { name: TWO_THREADS, bytes: 64, threads: 2, options: &["--order", "thread"], ..LOOP },
];

const LOOP: Loop = Loop {
    name: "",
    bytes: 0,
    rounds: 250_000,
    threads: 1,
    contents: 16,
    options: &[],
    mark: None,
};
const TWO_THREADS: &str = "64 bytes, 2 threads";

/// Mark: calls replayed per second by two threads, relative to one.
const TWO_THREADS_MARK: f64 = 1.6;

/// Workloads whose replay must be faster than the work itself.
const WORKS: &[&str] = &["sqlite", "fio-randread", "fio-randwrite", "db_bench"];
const WORK_MARK: f64 = 1.0;

/// Workloads replayed at recorded pace. The marks are `PACE_MARK` for the error of the total
/// duration, and `START_NS_MARK` for the median delay of calls.
const PACED: &[&str] = &["sqlite", "fio-randread"];
/// Their files to be copied before the recording. A replay reads freshly written files, whose pages
/// cost the kernel more than pages used before; so must the recording.
const RENEWED: &[&str] = &["bench.0.0"];
const PACE_MARK: f64 = 0.02;
const START_NS_MARK: f64 = 100_000.0;

/// Programs whose threads compute between calls, replayed with that time: calls and computing together must
/// take as long as the program did when nothing recorded it.
const THINKING: &[Workload] = &[
    Workload {
        name: "computes",
        command: |bench| bench.loops(&["think", "2000", "500000", "loop.data"]),
        ..THINKER
    },
    Workload {
        name: "waits for the disk",
        command: |bench| bench.loops(&["think", "2000", "0", "loop.data", "sync"]),
        ..THINKER
    },
    Workload {
        name: "does both",
        command: |bench| bench.loops(&["think", "1000", "500000", "loop.data", "sync"]),
        ..THINKER
    },
];
const THINKER: Workload = Workload { prepare: workloads::build_loops, ..workloads::PLAIN };
const THINK_MARK: f64 = 0.03;

/// Figures of a run of a program or replay.
#[derive(Clone, Copy)]
struct Run {
    seconds: f64,
    /// Durations of initial state, calls and comparison; for replays only.
    parts_s: [f64; 3],
    cpu_s: f64,
    peak_bytes: u64,
    /// Duration of the recording, and median delay of calls; for replays only.
    recorded_s: f64,
    start_error_ns: f64,
}

/// Heading of the last column of the tables.
const PARTS: &str = "image + calls + comparison";

impl Run {
    fn parts(&self) -> String {
        let [image, calls, comparison] = self.parts_s;
        format!("{image:.3} + {calls:.3} + {comparison:.3} s")
    }
}

/// Runs the benchmark and prints the tables.
pub fn run(args: &[&str]) -> Result<(), Complaint> {
    let runs = match args {
        [] => RUNS,
        ["--runs", value] => count("--runs", value)?,
        _ => return Err(format!("unknown options {args:?}; there is --runs COUNT")),
    };
    tools::provide(&["sqlite3", "fio", "db_bench"]);
    cargo(&["build", "--release", "--package", "reenact"], &[])?;
    let reenact = target_dir()?.join("release/reenact");
    let mut missed = Vec::new();
    loops(&reenact, runs, &mut missed)?;
    works(&reenact, runs, &mut missed)?;
    thinking(&reenact, runs, &mut missed)?;
    if missed.is_empty() { Ok(()) } else { Err(format!("marks missed:\n{}", missed.join("\n"))) }
}

fn directory(place: Option<&str>) -> Result<tempfile::TempDir, Complaint> {
    let mut named = tempfile::Builder::new();
    let named = named.prefix("reenact-bench-");
    let made = place.map_or_else(|| named.tempdir(), |place| named.tempdir_in(place));
    made.map_err(|error| format!("no temporary directory: {error}"))
}

fn loops(reenact: &Path, runs: usize, missed: &mut Vec<String>) -> Result<(), Complaint> {
    let place = directory(Some(TMPFS))?;
    let loops = Loops {
        dir: place.path().to_path_buf(),
        reenact: reenact.to_path_buf(),
        program: build(place.path())?,
    };
    println!("on tmpfs, for one call, the whole command; the fastest of {runs} runs");
    println!(
        "{:<20} {:>9} {:>11} {:>11} {:>6} {:>6} {:>6} {:>8}  {}",
        "", "calls", "loop", "replay", "ratio", "mark", "CPU", "peak", PARTS
    );
    let mut rates = Vec::new();
    for work in LOOPS {
        let (alone, replayed) = loops.compare(work, runs)?;
        let calls = f64::from(2 * work.rounds * work.threads);
        let ratio = replayed.seconds / alone.seconds;
        rates.push([alone, replayed].map(|run| calls / run.seconds));
        println!(
            "{:<20} {calls:>9} {:>8.3} us {:>8.3} us {ratio:>6.2} {:>6} {:>6.2} {:>4} MiB  {}",
            work.name,
            alone.seconds / calls * 1e6,
            replayed.seconds / calls * 1e6,
            work.mark.map_or_else(|| "-".into(), |mark| format!("{mark:.2}")),
            replayed.cpu_s / alone.cpu_s,
            replayed.peak_bytes >> 20,
            replayed.parts()
        );
        if work.mark.is_some_and(|mark| ratio > mark) {
            missed.push(format!("{}: {ratio:.2} times the loop", work.name));
        }
        if replayed.peak_bytes > PEAK_BYTES_MAX {
            missed.push(format!("{}: {} bytes of memory", work.name, replayed.peak_bytes));
        }
    }
    let two = LOOPS.iter().position(|work| work.name == TWO_THREADS).unwrap_or(0);
    let [of_loop, gain] = [0, 1].map(|which| rates[two][which] / rates[0][which]);
    println!(
        "two threads: {gain:.2} times the rate of one (mark {TWO_THREADS_MARK}); the loop itself: \
         {of_loop:.2}\n"
    );
    if gain < TWO_THREADS_MARK {
        missed.push(format!("two threads: {gain:.2} times the rate of one"));
    }
    Ok(())
}

fn build(dir: &Path) -> Result<PathBuf, Complaint> {
    let program = dir.join("loop");
    let source = repository().join("benches/replay.c");
    let mut compiler = Command::new("cc");
    compiler.args(["-O2", "-static", "-pthread", "-o"]).arg(&program).arg(source);
    let status = compiler.status().map_err(|error| format!("cannot run cc: {error}"))?;
    if status.success() { Ok(program) } else { Err("the loop does not compile".into()) }
}

struct Loops {
    dir: PathBuf,
    reenact: PathBuf,
    program: PathBuf,
}

impl Loops {
    /// Returns the fastest run of the loop alone and of its replay.
    fn compare(&self, work: &Loop, runs: usize) -> Result<(Run, Run), Complaint> {
        let trace = self.dir.join("loop.rnt");
        let numbers = [work.bytes, work.rounds, work.threads, work.contents];
        let numbers = numbers.map(|number| number.to_string());
        let mut program = vec![shown(&self.program)];
        program.extend(numbers);
        program.push(shown(&self.dir.join("file")));
        let mut record = vec![shown(&self.reenact)];
        record.extend(["record", "--quiet", "--force", "--output"].map(String::from));
        record.extend([shown(&trace), "--".into()]);
        record.extend(program.iter().cloned());
        measured(&record, &self.dir)?;
        let (mut alone, mut replayed) = (Vec::new(), Vec::new());
        for _ in 0..runs {
            for thread in 0..work.threads {
                let _ = fs::remove_file(self.dir.join(format!("file{thread}")));
            }
            let run = measured(&program, &self.dir)?;
            alone.push(Run {
                seconds: run.wall_s,
                parts_s: [0.0; 3],
                cpu_s: run.cpu_s,
                peak_bytes: 0,
                recorded_s: 0.0,
                start_error_ns: 0.0,
            });
            replayed.push(replay(&self.reenact, &trace, &self.dir, work.options)?);
        }
        Ok((fastest(&alone)?, fastest(&replayed)?))
    }
}

fn works(reenact: &Path, runs: usize, missed: &mut Vec<String>) -> Result<(), Complaint> {
    let place = directory(None)?;
    let dir = place.path().to_path_buf();
    let bench = Bench::new(dir.clone(), dir, reenact)?;
    println!("real work on disk, in seconds, the whole command; the fastest of {runs} runs");
    println!(
        "{:<20} {:>9} {:>9} {:>9} {:>6} {:>6} {:>8}  {}",
        "", "untraced", "recorded", "replay", "ratio", "mark", "peak", PARTS
    );
    for work in chosen(WORKS) {
        let Some(trace) = record(&bench, work, &[])? else { continue };
        let (mut alone, mut replayed) = (Vec::new(), Vec::new());
        for _ in 0..runs {
            (work.before_each)(&bench)?;
            alone.push(measured(&(work.command)(&bench), &bench.dir)?.wall_s);
            replayed.push(replay(&bench.reenact, &trace, &bench.dir, &[])?);
        }
        let alone = alone.into_iter().fold(f64::INFINITY, f64::min);
        let replayed = fastest(&replayed)?;
        let ratio = replayed.seconds / alone;
        println!(
            "{:<20} {alone:>9.3} {:>9.3} {:>9.3} {ratio:>6.2} {WORK_MARK:>6.2} {:>4} MiB  {}",
            work.name,
            replayed.recorded_s,
            replayed.seconds,
            replayed.peak_bytes >> 20,
            replayed.parts()
        );
        if ratio > WORK_MARK {
            missed.push(format!("{}: {ratio:.2} times the program's time", work.name));
        }
        if replayed.peak_bytes > PEAK_BYTES_MAX {
            missed.push(format!("{}: {} bytes of memory", work.name, replayed.peak_bytes));
        }
    }
    println!("\nat the recorded pace; medians of {runs} runs");
    println!("{:<20} {:>9} {:>8} {:>12}", "", "recorded", "off by", "start error");
    for work in chosen(PACED) {
        let Some(trace) = record(&bench, work, RENEWED)? else { continue };
        let paced = (0..runs)
            .map(|_| replay(&bench.reenact, &trace, &bench.dir, &["--pace", "recorded"]))
            .collect::<Result<Vec<_>, _>>()?;
        let median = |of: &dyn Fn(&Run) -> f64| measure::middle(paced.iter().map(of).collect());
        let off = median(&|run| (run.parts_s[1] / run.recorded_s - 1.0).abs());
        let late_ns = median(&|run| run.start_error_ns);
        println!(
            "{:<20} {:>9.3} {:>6.1} % {:>9.1} us",
            work.name,
            median(&|run| run.recorded_s),
            off * 100.0,
            late_ns / 1e3
        );
        if off > PACE_MARK {
            missed.push(format!("{} at the recorded pace: {:.1} % off", work.name, off * 100.0));
        }
        if late_ns > START_NS_MARK {
            let late = late_ns / 1e3;
            missed.push(format!("{} at the recorded pace: {late:.0} us late", work.name));
        }
    }
    Ok(())
}

fn thinking(reenact: &Path, runs: usize, missed: &mut Vec<String>) -> Result<(), Complaint> {
    let place = directory(None)?;
    let dir = place.path().to_path_buf();
    let bench = Bench::new(dir.clone(), dir, reenact)?;
    println!("\nwith the time that threads computed; medians of {runs} pairs, in seconds");
    println!("{:<20} {:>9} {:>9} {:>8} {:>6}", "", "untraced", "replayed", "off by", "mark");
    for work in THINKING {
        let Some(trace) = record(&bench, work, &[])? else { continue };
        let (mut alone, mut replayed) = (Vec::new(), Vec::new());
        for _ in 0..runs {
            bench.remove(&["loop.data"])?;
            alone.push(measured(&(work.command)(&bench), &bench.dir)?.wall_s);
            let run = replay(&bench.reenact, &trace, &bench.dir, &["--pace", "think"])?;
            replayed.push(run.parts_s[1]);
        }
        let (alone, replayed) = (measure::middle(alone), measure::middle(replayed));
        let off = replayed / alone - 1.0;
        println!(
            "{:<20} {alone:>9.3} {replayed:>9.3} {:>6.1} % {:>4.0} %",
            work.name,
            off * 100.0,
            THINK_MARK * 100.0
        );
        if off.abs() > THINK_MARK {
            missed.push(format!("{}, with its own time: {:.1} % off", work.name, off * 100.0));
        }
    }
    Ok(())
}

fn chosen(names: &[&str]) -> impl Iterator<Item = &'static Workload> {
    workloads::all().filter(|work| names.contains(&work.name))
}

/// Records a workload, copying some of its files before; `None` if its tools are missing.
fn record(bench: &Bench, work: &Workload, renewed: &[&str]) -> Result<Option<PathBuf>, Complaint> {
    if let Some(absent) = work.needs.iter().find(|tool| !tools::is_there(tool)) {
        println!("{:<20} left out: {absent} is not installed", work.name);
        return Ok(None);
    }
    (work.prepare)(bench)?;
    (work.before_each)(bench)?;
    for file in renewed.iter().map(|name| bench.dir.join(name)).filter(|file| file.exists()) {
        let copy = file.with_extension("copy");
        fs::copy(&file, &copy)
            .and_then(|_| fs::rename(&copy, &file))
            .map_err(|error| format!("{}: {error}", file.display()))?;
    }
    let trace = bench.trace_dir.join("bench.rnt");
    let command = (work.command)(bench);
    measured(&bench.recorded(work, &trace, &command), &bench.dir)?;
    Ok(Some(trace))
}

fn replay(reenact: &Path, trace: &Path, dir: &Path, options: &[&str]) -> Result<Run, Complaint> {
    // The replay's root is on the same file system.
    let mut words = vec!["env".into(), format!("TMPDIR={}", dir.display()), shown(reenact)];
    words.extend(["replay".into(), shown(trace), "--json".into()]);
    words.extend(options.iter().map(|option| option.to_string()));
    let run = measured(&words, dir)?;
    let said: serde_json::Value = serde_json::from_str(&run.stdout)
        .map_err(|error| format!("reenact replay: {error}: {}", run.stdout))?;
    let number = |value: &serde_json::Value| value.as_f64();
    let part = |name: &str| number(&said[name]).ok_or(format!("reenact replay tells no {name}"));
    Ok(Run {
        seconds: run.wall_s,
        parts_s: [part("image_s")?, part("calls_s")?, part("comparison_s")?],
        cpu_s: run.cpu_s,
        peak_bytes: run.peak_bytes,
        recorded_s: number(&said["recorded_s"]).ok_or("reenact replay tells no recorded time")?,
        start_error_ns: number(&said["start_error_ns"]["median"]).unwrap_or(0.0),
    })
}

fn measured(words: &[String], dir: &Path) -> Result<Measured, Complaint> {
    measure::run(words, dir, None, &dir.join("output"), None)
}

fn shown(path: &Path) -> String {
    path.display().to_string()
}

fn fastest(runs: &[Run]) -> Result<Run, Complaint> {
    let fastest = runs.iter().min_by(|a, b| a.seconds.total_cmp(&b.seconds));
    fastest.copied().ok_or_else(|| "nothing was run".into())
}
