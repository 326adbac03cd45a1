//! `cargo xtask bench stat`: how fast `reenact stat` reads, beside reading with no work at all; and
//! `reenact report`, which makes most of the views at once.

use std::path::PathBuf;

use super::measure::{self, Measured};
use super::workloads::{Bench, build_loops};
use super::{count, target_dir};
use crate::{Complaint, cargo};

/// Calls of the trace, about.
const CALLS: &str = "10000000";
const RUNS: usize = 3;
/// Most memory that a view may take.
const PEAK_BYTES_MAX: u64 = 300 << 20;
/// A view may be this much slower than reading with no work, or make its calls per second.
const BARE_RATIO_MAX: f64 = 3.0;

/// A report may take this long.
const REPORT_S_MAX: f64 = 60.0;

/// A view and the calls per second and core that it should make; 0: it is shown only.
const VIEWS: &[(&str, f64)] = &[
    ("calls", 2e6),
    ("files", 1e6),
    ("sizes", 0.0),
    ("latency", 0.0),
    ("time", 0.0),
    ("processes", 0.0),
    ("durability", 0.0),
    ("patterns", 0.0),
    ("cache", 0.0),
];

/// Records a long loop, reads it with every view, and prints a table.
pub fn run(args: &[&str]) -> Result<(), Complaint> {
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
    cargo(&["build", "--release", "--package", "report", "--example", "bare_reading"], &[])?;
    let built = target_dir()?.join("release");
    let temporary = tempfile::Builder::new().prefix("reenact-bench-").tempdir();
    let temporary = temporary.map_err(|error| format!("no temporary directory: {error}"))?;
    let dir = dir.unwrap_or_else(|| temporary.path().to_path_buf());
    let bench = Bench::new(dir.clone(), dir, &built.join("reenact"))?;
    build_loops(&bench)?;
    let trace = bench.trace_dir.join("stat.rnt").display().to_string();
    let reenact = bench.reenact.display().to_string();
    let mut record: Vec<String> =
        ["record", "--quiet", "--output", &trace, "--"].map(String::from).to_vec();
    record.insert(0, reenact.clone());
    record.extend(bench.loops(&["write", "64", CALLS, "loop.data"]));
    sample(&bench, &record)?;

    let calls: f64 = CALLS.parse().map_err(|_| "no number of calls")?;
    let bare = built.join("examples/bare_reading").display().to_string();
    println!("{CALLS} calls; medians of {runs} runs\n");
    println!("{:<11} {:>11} {:>13} {:>9} {:>9}", "view", "calls/s", "per core", "x bare", "peak");
    let bare = median(&bench, runs, &[bare, trace.clone()])?;
    let mut missed = Vec::new();
    print("(none)", calls, &bare, &bare);
    for (view, mark) in VIEWS {
        let words = [reenact.clone(), "stat".into(), view.to_string(), trace.clone()];
        let measured = median(&bench, runs, &words)?;
        print(view, calls, &measured, &bare);
        let (per_core, ratio) = (calls / measured.cpu_s, measured.cpu_s / bare.cpu_s);
        if per_core < *mark && ratio > BARE_RATIO_MAX {
            missed.push(format!("{view}: {per_core:.0} calls/s per core, {ratio:.1} x bare"));
        }
        if measured.peak_bytes > PEAK_BYTES_MAX {
            missed.push(format!("{view}: {} bytes at its peak", measured.peak_bytes));
        }
    }
    let page = bench.dir.join("report.html").display().to_string();
    let words = [reenact.as_str(), "report", "--quiet", "--force", "--output", &page, &trace];
    let measured = median(&bench, runs, &words.map(String::from))?;
    print("report", calls, &measured, &bare);
    if measured.wall_s > REPORT_S_MAX {
        missed.push(format!("report: {:.0} s", measured.wall_s));
    }
    if measured.peak_bytes > PEAK_BYTES_MAX {
        missed.push(format!("report: {} bytes at its peak", measured.peak_bytes));
    }
    let _ = std::fs::remove_file(&trace);
    if missed.is_empty() { Ok(()) } else { Err(format!("marks missed:\n{}", missed.join("\n"))) }
}

fn sample(bench: &Bench, words: &[String]) -> Result<Measured, Complaint> {
    measure::run(words, &bench.dir, None, &bench.output(), None)
}

/// The run with the median of CPU time.
fn median(bench: &Bench, runs: usize, words: &[String]) -> Result<Measured, Complaint> {
    let mut all = Vec::new();
    for _ in 0..runs {
        all.push(sample(bench, words)?);
    }
    all.sort_by(|a, b| a.cpu_s.total_cmp(&b.cpu_s));
    Ok(all.swap_remove(runs / 2))
}

fn print(view: &str, calls: f64, measured: &Measured, bare: &Measured) {
    println!(
        "{view:<11} {:>9.1} M {:>11.1} M {:>9.2} {:>5.0} MiB",
        calls / measured.wall_s / 1e6,
        calls / measured.cpu_s / 1e6,
        measured.cpu_s / bare.cpu_s,
        measured.peak_bytes as f64 / f64::from(1 << 20),
    );
}
