//! `cargo xtask bench export`: speed and memory of exports to formats of other tools, compared with
//! copying the same payload with the same compression.

use std::fs;
use std::path::Path;

use super::measure::Measured;
use super::reading::Reading;
use super::verdict;
use crate::Complaint;

/// Mark for the memory of an export.
const PEAK_BYTES_MAX: u64 = 512 << 20;
/// Marks per core. An export that misses one may instead take this many times the copy's time.
const CALLS_PER_S: f64 = 500_000.0;
const PAYLOAD_BYTES_PER_S: f64 = 200e6;
const COPY_RATIO_MAX: f64 = 3.0;

/// A recording to be exported.
struct Sample {
    name: &'static str,
    /// Arguments of the loop program; for loops that write, the last one is a file.
    loops: &'static [&'static str],
    calls: f64,
    payload_bytes: f64,
    /// True if the mark is bytes per second, not calls per second.
    bulk: bool,
}

/// The file that loops use, and its size.
const FILE: &str = "export.data";
const FILE_BYTES: f64 = (64 << 20) as f64;

const SAMPLES: &[Sample] = &[
    Sample {
        name: "getppid",
        loops: &["getppid", "3000000"],
        calls: 3e6,
        payload_bytes: 0.0,
        bulk: false,
    },
    Sample {
        name: "64-byte pwrite",
        loops: &["write", "64", "2000000", FILE],
        calls: 2e6,
        payload_bytes: 128e6,
        bulk: false,
    },
    Sample {
        name: "4-KiB pread, repeating",
        loops: &["read", "4096", "500000", FILE],
        calls: 5e5,
        payload_bytes: 2048e6,
        bulk: true,
    },
    Sample {
        name: "4-KiB pwrite, all distinct",
        loops: &["distinct", "262144", FILE],
        calls: 262_144.0,
        payload_bytes: 1_073_741_824.0,
        bulk: true,
    },
];

/// An export format: its name and options.
struct Format {
    name: &'static str,
    options: &'static [&'static str],
    /// True if there are marks for its speed.
    marked: bool,
}

const FORMATS: &[Format] = &[
    Format { name: "parquet", options: &["--to", "parquet"], marked: true },
    Format {
        name: "ds none",
        options: &["--to", "dataseries", "--compress", "none"],
        marked: true,
    },
    Format { name: "ds lzf", options: &["--to", "dataseries", "--compress", "lzf"], marked: true },
    Format {
        name: "ds zlib",
        options: &["--to", "dataseries", "--compress", "zlib"],
        marked: false,
    },
];

/// Records each sample, exports it in every format, and prints a table.
pub fn run(args: &[&str]) -> Result<(), Complaint> {
    let reading = Reading::set_up(args, "tables", "copy_payload")?;
    let trace = reading.bench.trace_dir.join("export.rnt");
    println!(
        "medians of {} runs; calls and bytes of payload per second of CPU time\n",
        reading.runs
    );
    println!(
        "{:<27} {:<10} {:>10} {:>10} {:>8} {:>8} {:>9}",
        "recording", "format", "calls/s", "MB/s", "wall s", "x copy", "peak"
    );
    let mut missed = Vec::new();
    for sample in SAMPLES {
        reading.record(sample.loops, &trace)?;
        let copied = match sample.bulk {
            true => Some(copying(&reading, sample)?),
            false => None,
        };
        for format in FORMATS {
            let measured = export(&reading, &trace, format)?;
            missed.extend(row(sample, format, &measured, copied.as_ref()));
        }
        let _ = fs::remove_file(&trace);
    }
    verdict(&missed)
}

/// Prints a row. Returns the marks that it misses.
fn row(
    sample: &Sample,
    format: &Format,
    measured: &Measured,
    copied: Option<&Measured>,
) -> Vec<String> {
    let calls_per_s = sample.calls / measured.cpu_s;
    let bytes_per_s = sample.payload_bytes / measured.cpu_s;
    let ratio = copied.map(|copied| measured.cpu_s / copied.cpu_s);
    println!(
        "{:<27} {:<10} {:>8.2} M {:>10.0} {:>8.2} {:>8} {:>5.0} MiB",
        sample.name,
        format.name,
        calls_per_s / 1e6,
        bytes_per_s / 1e6,
        measured.wall_s,
        ratio.map_or_else(|| "-".into(), |ratio| format!("{ratio:.2}")),
        measured.peak_bytes as f64 / f64::from(1 << 20),
    );
    let what = format!("{}, {}", sample.name, format.name);
    let mut missed = Vec::new();
    let near_the_copy = ratio.is_some_and(|ratio| ratio <= COPY_RATIO_MAX);
    if format.marked && sample.bulk && bytes_per_s < PAYLOAD_BYTES_PER_S && !near_the_copy {
        missed.push(format!("{what}: {:.0} MB/s per core", bytes_per_s / 1e6));
    }
    if format.marked && !sample.bulk && calls_per_s < CALLS_PER_S {
        missed.push(format!("{what}: {calls_per_s:.0} calls/s per core"));
    }
    if measured.peak_bytes > PEAK_BYTES_MAX {
        missed.push(format!("{what}: {} bytes at its peak", measured.peak_bytes));
    }
    missed
}

fn export(reading: &Reading, trace: &Path, format: &Format) -> Result<Measured, Complaint> {
    let out = reading.bench.dir.join("exported");
    let (from, to) = (trace.display().to_string(), out.display().to_string());
    let mut words = reading.reenact(&["export", &from, "--quiet", "--output", &to]);
    words.extend(format.options.iter().map(|word| word.to_string()));
    median(reading, &words, &out)
}

fn copying(reading: &Reading, sample: &Sample) -> Result<Measured, Complaint> {
    let out = reading.bench.dir.join("copied");
    let times = (sample.payload_bytes / FILE_BYTES).round().to_string();
    let from = reading.bench.dir.join(FILE).display().to_string();
    let words = [reading.beside.clone(), from, times, out.display().to_string()];
    median(reading, &words, &out)
}

/// Measures the median run and removes the exported files.
fn median(reading: &Reading, words: &[String], out: &Path) -> Result<Measured, Complaint> {
    let remove = || {
        let _ = fs::remove_dir_all(out).or_else(|_| fs::remove_file(out));
    };
    let measured = reading.median(words, remove);
    remove();
    measured
}
