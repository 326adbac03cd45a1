//! Predictions, for people and programs.

use std::io::{self, Write};

use predict::run::Means;
use predict::{Configuration, Limits, Measured};
use render::amounts::{show_size, show_time};
use render::json::{Json, text};

use crate::failure::Failure;
use crate::units::{size_word, time_word};

/// Calls that are named as changed most.
const CHANGED: usize = 3;
/// In the JSON.
const CHANGED_IN_JSON: usize = 20;

/// Shorter waits for the outside are not told of.
const OUTSIDE_S: f64 = 0.001;

/// What was predicted for one configuration in one way.
pub struct Prediction {
    configuration: Configuration,
    by: Means,
    /// How it was predicted.
    pub method: &'static str,
    runs: Vec<Measured>,
    /// Runs of the program itself, if any.
    pub actual: Vec<Measured>,
    /// Why there is none, if so.
    pub failed: Option<String>,
    /// Why a run ended early, if so: its time would be that of a part.
    incomplete: Option<String>,
}

impl Prediction {
    /// Begins without runs.
    pub fn new(configuration: Configuration, by: Means, method: &'static str) -> Prediction {
        Prediction {
            configuration,
            by,
            method,
            runs: Vec::new(),
            actual: Vec::new(),
            failed: None,
            incomplete: None,
        }
    }

    /// Adds a run, or why there is none.
    pub fn add(&mut self, run: Result<Measured, String>) {
        match run {
            Ok(Measured { incomplete: Some(why), .. }) => {
                self.incomplete.get_or_insert(why);
            }
            Ok(run) => self.runs.push(run),
            Err(error) => self.fail(error),
        }
    }

    /// Keeps the first reason.
    pub fn fail(&mut self, why: String) {
        self.failed.get_or_insert(why);
    }

    /// The configuration in words.
    pub fn name(&self) -> String {
        let memory = self.memory();
        let limits = limits_in_words(&self.configuration.limits);
        let mut name = self.configuration.place.to_string();
        for more in [memory, limits] {
            if more != "-" {
                name.push(' ');
                name.push_str(&more);
            }
        }
        name
    }

    fn memory(&self) -> String {
        self.configuration.memory.map_or("-".into(), size_word)
    }

    /// Returns predicted over actual time, less one.
    fn error(&self) -> Option<f64> {
        let (predicted, actual) = (median(&self.runs)?.seconds, median(&self.actual)?.seconds);
        (actual > 0.0).then(|| predicted / actual - 1.0)
    }

    /// Whether there is a time for it, of whole runs.
    pub fn is_there(&self) -> bool {
        self.failed.is_none() && self.incomplete.is_none()
    }

    fn different(&self) -> u64 {
        self.runs.iter().map(|run| run.different).max().unwrap_or(0)
    }
}

/// Returns the run in the middle by time.
fn median(runs: &[Measured]) -> Option<&Measured> {
    let mut order: Vec<&Measured> = runs.iter().collect();
    order.sort_by(|a, b| a.seconds.total_cmp(&b.seconds));
    order.get(order.len() / 2).copied()
}

/// Returns the shortest and the longest time.
fn spread(runs: &[Measured]) -> (f64, f64) {
    let all = runs.iter().map(|run| run.seconds);
    (all.clone().fold(f64::INFINITY, f64::min), all.fold(0.0, f64::max))
}

fn limits_in_words(limits: &Limits) -> String {
    let mut parts = Vec::new();
    let speed = |name: &str, bytes: Option<u64>| {
        bytes.map(|bytes| format!("{name}={}/s", size_word(bytes)))
    };
    parts.extend(speed("read", limits.read_bytes));
    parts.extend(speed("write", limits.write_bytes));
    parts.extend(limits.iops.map(|iops| format!("iops={iops}")));
    parts.extend(limits.latency.map(|latency| format!("latency={}", time_word(latency))));
    if parts.is_empty() { "-".into() } else { parts.join(",") }
}

/// Everything that was predicted.
pub struct Report {
    /// Host and begin of the recording.
    pub recording: (String, u64),
    /// What was cached in the beginning.
    pub cache: &'static str,
    /// One for each configuration and method.
    pub predictions: Vec<Prediction>,
}

const HEAD: [&str; 10] =
    ["on", "memory", "limits", "set by", "method", "predicted", "user", "system", "disk", "actual"];

impl Report {
    fn recorded_s(&self) -> Option<f64> {
        self.predictions.iter().flat_map(|one| &one.runs).find_map(|run| run.recorded_s)
    }

    /// Prints the table.
    pub fn text(&self) -> Result<(), Failure> {
        let mut out = io::BufWriter::new(io::stdout().lock());
        if let Some(recorded) = self.recorded_s() {
            writeln!(
                out,
                "the recording took {recorded:.3} s; page cache {} at first",
                self.cache
            )?;
        }
        let mut rows: Vec<Vec<String>> = vec![HEAD.iter().map(ToString::to_string).collect()];
        rows[0].push("error".into());
        rows.extend(self.predictions.iter().map(row));
        let width = |at: usize| rows.iter().map(|row| row[at].chars().count()).max().unwrap_or(0);
        let widths: Vec<usize> = (0..rows[0].len()).map(width).collect();
        for row in &rows {
            let cells = row.iter().zip(&widths).map(|(cell, width)| format!("{cell:<width$}"));
            writeln!(out, "{}", cells.collect::<Vec<_>>().join("  ").trim_end())?;
        }
        for one in &self.predictions {
            remarks(&mut out, one)?;
        }
        Ok(out.flush()?)
    }

    /// Prints one object.
    pub fn json(&self) -> Result<(), Failure> {
        let line = text(|json| {
            json.object(|json| {
                json.key("recording").object(|json| {
                    json.key("host").str(&self.recording.0);
                    json.key("began_ns").uint(self.recording.1);
                });
                json.key("recorded_s");
                optional(json, self.recorded_s());
                json.key("cache").str(self.cache);
                json.key("predictions").array(|json| {
                    self.predictions.iter().for_each(|one| json.object(|json| write(json, one)));
                });
            });
        });
        let mut out = io::stdout().lock();
        writeln!(out, "{line}")?;
        Ok(out.flush()?)
    }
}

fn row(one: &Prediction) -> Vec<String> {
    let limits = limits_in_words(&one.configuration.limits);
    let mut row = vec![
        one.configuration.place.to_string(),
        one.memory(),
        limits,
        one.by.name().into(),
        one.method.into(),
    ];
    let times = |runs: &[Measured]| {
        let (low, high) = spread(runs);
        median(runs).map_or("-".into(), |run| match runs.len() {
            1 => format!("{:.3} s", run.seconds),
            _ => format!("{:.3} s ({low:.3} to {high:.3})", run.seconds),
        })
    };
    row.push(times(&one.runs));
    match median(&one.runs) {
        Some(run) => row.extend([
            format!("{:.3} s", run.user_s),
            format!("{:.3} s", run.system_s),
            show_size(run.allocated_bytes),
        ]),
        None => row.extend(["-".into(), "-".into(), "-".into()]),
    }
    row.push(times(&one.actual));
    row.push(one.error().map_or("-".into(), |error| format!("{:+.1}%", error * 100.0)));
    row
}

/// What the table has no room for.
fn remarks(out: &mut dyn Write, one: &Prediction) -> io::Result<()> {
    let name = format!("{}, {}", one.name(), one.method);
    if let Some(why) = &one.failed {
        writeln!(out, "{name}: failed: {why}")?;
    }
    if let Some(why) = &one.incomplete {
        writeln!(out, "{name}: it ended early: {why}")?;
    }
    let different = one.different();
    if different > 0 {
        writeln!(out, "{name}: {different} results did not match the recording")?;
    }
    let Some(run) = median(&one.runs) else { return Ok(()) };
    if different == 0 {
        writeln!(out, "{name}: all results that were compared are as recorded")?;
    }
    if let Some([recorded, counted]) = run.outside_s.filter(|[recorded, _]| *recorded >= OUTSIDE_S)
    {
        let counts =
            if counted > 0.0 { "in the time" } else { "not in the time: --stimuli recorded" };
        writeln!(out, "{name}: it waited {recorded:.3} s for the outside when recorded, {counts}")?;
    }
    disk(out, &name, run)?;
    let changed = run.changed_most(CHANGED);
    if !changed.is_empty() {
        let each = changed.iter().map(|(call, change)| {
            let (recorded, here) = (show_time(change.recorded_ns), show_time(change.here_ns));
            format!("{call} {recorded} -> {here} (x{})", change.count)
        });
        writeln!(out, "{name}: changed most: {}", each.collect::<Vec<_>>().join(", "))?;
    }
    if let Some(actual) = median(&one.actual) {
        writeln!(
            out,
            "{name}: actual: user {:.3} s, system {:.3} s, disk {}",
            actual.user_s,
            actual.system_s,
            show_size(actual.allocated_bytes)
        )?;
        disk(out, &format!("{name}: actual"), actual)?;
    }
    Ok(())
}

/// What the disk had to do, if that is known.
fn disk(out: &mut dyn Write, name: &str, run: &Measured) -> io::Result<()> {
    let Some([read, written]) = run.moved else { return Ok(()) };
    let (read, written) = (show_size(read), show_size(written));
    writeln!(out, "{name}: the disk read {read} and wrote {written} while it ran")
}

fn optional(json: &mut Json<'_>, value: Option<f64>) {
    match value {
        Some(value) => json.float(value),
        None => json.null(),
    }
}

fn write(json: &mut Json<'_>, one: &Prediction) {
    let limits = &one.configuration.limits;
    json.key("on").str(&one.configuration.place.to_string());
    json.key("memory_bytes").optional_uint(one.configuration.memory);
    json.key("limits").object(|json| {
        json.key("read_bytes").optional_uint(limits.read_bytes);
        json.key("write_bytes").optional_uint(limits.write_bytes);
        json.key("iops").optional_uint(limits.iops);
        let latency = limits.latency.map(|latency| latency.as_nanos() as u64);
        json.key("latency_ns").optional_uint(latency);
    });
    let by = (one.by != Means::None).then(|| one.by.name());
    json.key("set_by").optional_str(by);
    json.key("method").str(one.method);
    measured(json, &one.runs);
    let outside = median(&one.runs).and_then(|run| run.outside_s);
    json.key("outside_recorded_s");
    optional(json, outside.map(|outside| outside[0]));
    json.key("outside_s");
    optional(json, outside.map(|outside| outside[1]));
    json.key("different").uint(one.different());
    json.key("incomplete").optional_str(one.incomplete.as_deref());
    json.key("changed").array(|json| {
        let run = median(&one.runs).into_iter();
        for (call, change) in run.flat_map(|run| run.changed_most(CHANGED_IN_JSON)) {
            json.object(|json| {
                json.key("call").str(call);
                json.key("count").uint(change.count);
                json.key("recorded_ns").uint(change.recorded_ns);
                json.key("here_ns").uint(change.here_ns);
            });
        }
    });
    json.key("actual");
    match one.actual.is_empty() {
        true => json.null(),
        false => json.object(|json| measured(json, &one.actual)),
    }
    json.key("error");
    optional(json, one.error());
    json.key("failed").optional_str(one.failed.as_deref());
}

fn measured(json: &mut Json<'_>, runs: &[Measured]) {
    let middle = median(runs);
    let (low, high) = spread(runs);
    json.key("seconds");
    optional(json, middle.map(|run| run.seconds));
    json.key("min_s");
    optional(json, middle.map(|_| low));
    json.key("max_s");
    optional(json, middle.map(|_| high));
    json.key("user_s");
    optional(json, middle.map(|run| run.user_s));
    json.key("system_s");
    optional(json, middle.map(|run| run.system_s));
    json.key("allocated_bytes").optional_uint(middle.map(|run| run.allocated_bytes));
    let moved = middle.and_then(|run| run.moved);
    json.key("disk_read_bytes").optional_uint(moved.map(|moved| moved[0]));
    json.key("disk_written_bytes").optional_uint(moved.map(|moved| moved[1]));
    json.key("runs").array(|json| runs.iter().for_each(|run| json.float(run.seconds)));
}
