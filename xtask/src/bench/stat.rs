//! `cargo xtask bench stat`: the speed of `reenact stat`, compared with reading without any work;
//! and of `reenact report`, which computes most views at once.

use super::measure::Measured;
use super::reading::Reading;
use super::verdict;
use crate::Complaint;

/// Approximate number of calls in the trace.
const CALLS: &str = "10000000";
/// Mark for the memory of a view.
const PEAK_BYTES_MAX: u64 = 300 << 20;
/// A view that misses its calls per second may take this many times the time of bare reading.
const BARE_RATIO_MAX: f64 = 3.0;

/// Mark for the duration of a report.
const REPORT_S_MAX: f64 = 60.0;

/// Views and their marks in calls per second and core; 0 for none.
const VIEWS: &[(&str, f64)] = &[
    ("calls", 2e6),
    ("files", 1e6),
    ("sizes", 0.0),
    ("latency", 0.0),
    ("time", 0.0),
    ("processes", 0.0),
    ("network", 0.0),
    ("durability", 0.0),
    ("patterns", 0.0),
    ("cache", 0.0),
    ("events", 0.0),
    ("cpu", 0.0),
    ("where", 0.0),
    ("sites", 0.0),
    ("waits", 0.0),
    ("irq", 0.0),
    ("block", 0.0),
    ("pages", 0.0),
];

/// Records a long loop, reads it with every view and prints a table.
pub fn run(args: &[&str]) -> Result<(), Complaint> {
    let reading = Reading::set_up(args, "report", "bare_reading")?;
    let trace = reading.bench.trace_dir.join("stat.rnt");
    reading.record(&["write", "64", CALLS, "loop.data"], &trace)?;
    let trace = trace.display().to_string();

    let calls: f64 = CALLS.parse().map_err(|_| "no number of calls")?;
    println!("{CALLS} calls; medians of {} runs\n", reading.runs);
    println!("{:<11} {:>11} {:>13} {:>9} {:>9}", "view", "calls/s", "per core", "x bare", "peak");
    let bare = reading.median(&[reading.beside.clone(), trace.clone()], || ())?;
    let mut missed = Vec::new();
    print("(none)", calls, &bare, &bare);
    for (view, mark) in VIEWS {
        let measured = reading.median(&reading.reenact(&["stat", view, &trace]), || ())?;
        print(view, calls, &measured, &bare);
        let (per_core, ratio) = (calls / measured.cpu_s, measured.cpu_s / bare.cpu_s);
        if per_core < *mark && ratio > BARE_RATIO_MAX {
            missed.push(format!("{view}: {per_core:.0} calls/s per core, {ratio:.1} x bare"));
        }
        if measured.peak_bytes > PEAK_BYTES_MAX {
            missed.push(format!("{view}: {} bytes at its peak", measured.peak_bytes));
        }
    }
    let page = reading.bench.dir.join("report.html").display().to_string();
    let words = ["report", "--quiet", "--force", "--output", &page, &trace];
    let measured = reading.median(&reading.reenact(&words), || ())?;
    print("report", calls, &measured, &bare);
    if measured.wall_s > REPORT_S_MAX {
        missed.push(format!("report: {:.0} s", measured.wall_s));
    }
    if measured.peak_bytes > PEAK_BYTES_MAX {
        missed.push(format!("report: {} bytes at its peak", measured.peak_bytes));
    }
    let _ = std::fs::remove_file(&trace);
    verdict(&missed)
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
