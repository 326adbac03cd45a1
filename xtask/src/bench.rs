//! `cargo xtask bench record`: the cost of recording, compared with the same work untraced and
//! under strace. Runs are interleaved; medians are printed.

mod beside_calls;
pub mod export;
pub mod kernel;
mod measure;
mod reading;
pub mod replay;
pub mod stat;
mod table;
mod workloads;

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use crate::{Complaint, cargo, repository, tools};
use measure::{Measured, Sample, median};
use table::Row;
use workloads::{Bench, Workload};

/// Options of the command line.
struct Options {
    only: Vec<String>,
    runs: usize,
    strace: bool,
    dir: Option<PathBuf>,
    trace_dir: Option<PathBuf>,
}

const RUNS: usize = 5;
/// strace may take a hundred times as long as the work itself, so it is cut off.
const STRACE_LIMIT: Duration = Duration::from_secs(60);

fn parse(args: &[&str]) -> Result<Options, Complaint> {
    let mut options =
        Options { only: Vec::new(), runs: RUNS, strace: true, dir: None, trace_dir: None };
    let mut words = args.iter();
    while let Some(word) = words.next() {
        let mut value = || words.next().ok_or_else(|| format!("{word} needs a value"));
        match *word {
            "--only" => options.only.push(value()?.to_string()),
            "--runs" => {
                options.runs = count(word, value()?)?;
            }
            "--no-strace" => options.strace = false,
            "--dir" => options.dir = Some(value()?.into()),
            "--trace-dir" => options.trace_dir = Some(value()?.into()),
            _ => return Err(format!("unknown option {word}")),
        }
    }
    let names: Vec<&str> = workloads::all().map(|workload| workload.name).collect();
    if let Some(unknown) = options.only.iter().find(|name| !names.contains(&name.as_str())) {
        return Err(format!("no workload {unknown}; there are {}", names.join(", ")));
    }
    Ok(options)
}

/// Parses the value of an option that is a positive count.
fn count(option: &str, value: &str) -> Result<usize, Complaint> {
    let parsed = value.parse().ok().filter(|count| *count > 0);
    parsed.ok_or_else(|| format!("{option} {value}: not a count"))
}

/// Runs the benchmarks and prints the table.
pub fn run(args: &[&str]) -> Result<(), Complaint> {
    let options = parse(args)?;
    let chosen: Vec<&Workload> = workloads::all()
        .filter(|w| options.only.is_empty() || options.only.iter().any(|name| name == w.name))
        .collect();
    let mut needed: Vec<&str> = chosen.iter().flat_map(|w| w.needs.iter().copied()).collect();
    needed.extend(options.strace.then_some("strace"));
    tools::provide(&needed);
    cargo(&["build", "--release", "--package", "reenact"], &[])?;

    let temporary = tempfile::Builder::new().prefix("reenact-bench-").tempdir();
    let temporary = temporary.map_err(|error| format!("no temporary directory: {error}"))?;
    let dir = options.dir.clone().unwrap_or_else(|| temporary.path().to_path_buf());
    let trace_dir = options.trace_dir.clone().unwrap_or_else(|| dir.clone());
    let bench = Bench::new(dir, trace_dir, &target_dir()?.join("release/reenact"))?;
    let disk = bench.trace_disk_bytes_per_s()?;
    println!("trace disk: {:.0} MB/s written; {} runs, medians\n", disk / 1e6, options.runs);
    println!("{}", table::HEAD);
    let mut missed = Vec::new();
    for workload in chosen {
        if let Some(absent) = workload.needs.iter().find(|tool| !tools::is_there(tool)) {
            println!("{:<22} left out: {absent} is not installed", workload.name);
            continue;
        }
        let row = compare(&bench, workload, &options, disk)
            .map_err(|complaint| format!("{}: {complaint}", workload.name))?;
        println!("{row}");
        missed.extend(row.misses());
    }
    verdict(&missed)
}

/// Fails if marks were missed.
fn verdict(missed: &[String]) -> Result<(), Complaint> {
    if missed.is_empty() { Ok(()) } else { Err(format!("marks missed:\n{}", missed.join("\n"))) }
}

/// Returns cargo's target directory.
fn target_dir() -> Result<PathBuf, Complaint> {
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let output = Command::new(cargo)
        .args(["metadata", "--format-version=1", "--no-deps"])
        .current_dir(repository())
        .output()
        .map_err(|error| format!("cannot run cargo: {error}"))?;
    let metadata: serde_json::Value = serde_json::from_slice(&output.stdout)
        .map_err(|error| format!("cargo metadata: {error}"))?;
    let dir = metadata["target_directory"].as_str().map(PathBuf::from);
    dir.ok_or_else(|| "cargo metadata names no target directory".into())
}

fn compare(
    bench: &Bench,
    workload: &Workload,
    options: &Options,
    disk: f64,
) -> Result<Row, Complaint> {
    (workload.prepare)(bench)?;
    let command = (workload.command)(bench);
    let trace = bench.trace_dir.join("bench.rnt");
    let lines = bench.trace_dir.join("bench.strace");
    let (mut alone, mut recorded) = (Vec::new(), Vec::new());
    let (mut straced, mut strace_cut) = (None, false);
    // An uncounted run fills the caches; its writes, and those of the workload before, are flushed.
    sample(bench, workload, &command)?;
    // SAFETY: `sync` takes no arguments and touches no memory of ours.
    unsafe { libc::sync() };
    for run in 0..options.runs {
        alone.push(sample(bench, workload, &command)?);
        let _ = std::fs::remove_file(&trace);
        recorded.push(sample(bench, workload, &bench.recorded(workload, &trace, &command))?);
        // strace takes minutes where the others take a second, so it runs only once.
        if options.strace && run == 0 {
            let mut words =
                vec!["strace".into(), "-f".into(), "-s".into(), "1048576".into(), "-o".into()];
            words.push(lines.display().to_string());
            words.extend(command.iter().cloned());
            let measured = measured(bench, workload, &words, Some(STRACE_LIMIT))?;
            strace_cut = measured.cut;
            straced = match (workload.cost)(&measured) {
                Ok(cost) => Some(measured.sample(cost)),
                // The cost is printed at the end of a run.
                Err(_) if strace_cut => None,
                Err(complaint) => return Err(complaint),
            };
            let _ = std::fs::remove_file(&lines);
        }
    }
    let info = info(&bench.reenact, &trace)?;
    let _ = std::fs::remove_file(&trace);
    let number = |name: &str| info[name].as_f64().unwrap_or(0.0);
    if info["lost"].as_u64() != Some(0) {
        return Err(format!("the recording is not complete: {info}"));
    }
    let alone = median(&alone);
    let mark = workload.mark.ratio(&alone, number("stored_bytes"), disk);
    Ok(Row {
        name: workload.name,
        mark,
        size_mark: workload.size_mark,
        recorded: median(&recorded),
        straced,
        strace_cut,
        alone,
        calls: number("calls"),
        data_bytes: number("data_bytes"),
        trace_bytes: number("trace_bytes"),
        stall_ns: number("stall_ns"),
    })
}

fn sample(bench: &Bench, workload: &Workload, command: &[String]) -> Result<Sample, Complaint> {
    let measured = measured(bench, workload, command, None)?;
    let cost = (workload.cost)(&measured)?;
    Ok(measured.sample(cost))
}

fn measured(
    bench: &Bench,
    workload: &Workload,
    command: &[String],
    limit: Option<Duration>,
) -> Result<Measured, Complaint> {
    (workload.before_each)(bench)?;
    measure::run(command, &bench.dir, workload.user, &bench.output(), limit)
}

fn info(reenact: &Path, trace: &Path) -> Result<serde_json::Value, Complaint> {
    let output = Command::new(reenact).args(["info", "--json"]).arg(trace).output();
    let output = output.map_err(|error| format!("reenact info: {error}"))?;
    serde_json::from_slice(&output.stdout).map_err(|error| {
        format!("reenact info: {error}; it said {}", String::from_utf8_lossy(&output.stderr))
    })
}
