//! Results of a replay, for people and programs.

use std::collections::BTreeMap;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use render::escape::escaped;
use render::json::{Json, text};
use replay::Outcome;
use replay::compare::{FinalState, Verdict};
use replay::outcome::{Computed, Latencies, Stopped};
use replay::session::Findings;
use trace::Trace;

use super::calls;
use crate::failure::Failure;
use crate::{source, terminal};
use render::amounts::{counted, show_count, show_size, show_time};

/// Limits for the groups of mismatches and for their examples in the text output.
const GROUPS_SHOWN: usize = 20;
const EXAMPLES_SHOWN: usize = 3;
/// Limit for the differences of the final state in the output.
const DIFFERENCES_SHOWN: usize = 20;
/// Limit for the listed files that could not be verified.
const UNVERIFIED_SHOWN: usize = 3;
/// Limit for the listed files with unknown bytes.
const UNKNOWN_SHOWN: usize = 3;
/// Width of the name of a call and its count in that table.
const NAME_AND_COUNT: usize = 25;
/// Limit for the calls in the table of latencies.
const CALLS_SHOWN: usize = 15;

/// Everything that the command found.
#[derive(Default)]
pub struct Report {
    /// Host and start time of the recording.
    pub recording: (String, u64),
    /// Description of the jail's protection.
    pub jail: String,
    /// Findings of the replays, in order.
    pub runs: Vec<Findings>,
    /// Directory of the last replay's files, if kept.
    pub kept: Option<PathBuf>,
    /// Descriptions of the waits, if the reported replay is stuck.
    pub stuck: Vec<String>,
}

impl Report {
    /// Returns the replay to report in full: the first with differences, else the last.
    fn told(&self) -> Option<&Findings> {
        self.runs.get(self.number_told()?)
    }

    fn number_told(&self) -> Option<usize> {
        self.runs.iter().position(|run| !run.agrees()).or_else(|| self.runs.len().checked_sub(1))
    }

    /// Adds information from the trace to the reported replay.
    pub fn look_up(&mut self, trace: &Trace) {
        if let Some(number) = self.number_told() {
            self.stuck = calls::look_up(trace, &mut self.runs[number].outcome);
        }
    }

    /// Returns the command's exit code, or the failure of the reported replay.
    pub fn verdict(&self, trace: &Path) -> Result<ExitCode, Failure> {
        let Some(run) = self.told() else { return Ok(ExitCode::SUCCESS) };
        let name = trace.display();
        match &run.outcome.stopped {
            Some(Stopped::Stuck(_)) => {
                let lines: String = self.stuck.iter().map(|line| format!("\n  {line}")).collect();
                let found = format!("{name}: the replay is stuck, nothing moves any more:{lines}");
                return Err(Failure::Stuck(found));
            }
            Some(Stopped::Full(what)) => {
                return Err(Failure::Failed(format!("{name}: the replay was stopped: {what}")));
            }
            Some(Stopped::Unreadable(what) | Stopped::Failed(what)) => {
                return Err(Failure::Failed(format!("{name}: {what}")));
            }
            Some(Stopped::Mismatch) | None => {}
        }
        if run.agrees() {
            return Ok(ExitCode::SUCCESS);
        }
        let different = run.final_state.as_ref().map_or(0, |state| state.different);
        Err(Failure::Different(format!(
            "{name}: {} not match, {} at the end",
            counted(run.outcome.mismatches.count(), "call did", "calls did"),
            counted(different, "path differs", "paths differ")
        )))
    }

    /// Prints the text output.
    pub fn text(&self) -> Result<(), Failure> {
        let mut out = Vec::new();
        if let Some(run) = self.told() {
            write_run(&mut out, run)?;
        }
        if self.runs.len() > 1 {
            let (median, low, high) = self.spread();
            writeln!(
                out,
                "{} replays: median {median:.3} s, from {low:.3} to {high:.3} s",
                self.runs.len()
            )?;
        }
        writeln!(out, "jailed by {}", self.jail)?;
        if let Some(kept) = &self.kept {
            writeln!(out, "the files are in {}", kept.display())?;
        }
        let text = String::from_utf8_lossy(&out);
        let text = terminal::fit(&text, terminal::width(), terminal::below);
        let mut stdout = io::stdout().lock();
        stdout.write_all(text.as_bytes())?;
        Ok(stdout.flush()?)
    }

    /// Returns median, minimum and maximum time of the replays.
    fn spread(&self) -> (f64, f64, f64) {
        let mut times: Vec<f64> = self.runs.iter().map(|run| run.elapsed_s).collect();
        times.sort_by(f64::total_cmp);
        match (times.first(), times.last()) {
            (Some(low), Some(high)) => (times[times.len() / 2], *low, *high),
            _ => (0.0, 0.0, 0.0),
        }
    }

    /// Prints the JSON output.
    pub fn json(&self) -> Result<(), Failure> {
        let Some(run) = self.told() else { return Ok(()) };
        let (median, low, high) = self.spread();
        let line = text(|json| {
            json.object(|json| {
                write_json(json, run, &self.stuck);
                json.key("recording").object(|json| {
                    json.key("host").str(&self.recording.0);
                    json.key("began_ns").uint(self.recording.1);
                });
                json.key("runs").array(|json| {
                    self.runs.iter().for_each(|run| json.float(run.elapsed_s));
                });
                json.key("elapsed_median_s").float(median);
                json.key("elapsed_min_s").float(low);
                json.key("elapsed_max_s").float(high);
                let kept = self.kept.as_ref().map(|path| path.to_string_lossy());
                json.key("root").optional_str(kept.as_deref());
                json.key("jail").str(&self.jail);
                json.key("ok").bool(self.runs.iter().all(Findings::agrees));
            });
        });
        let mut out = io::stdout().lock();
        writeln!(out, "{line}")?;
        Ok(out.flush()?)
    }
}

fn write_run(out: &mut dyn Write, run: &Findings) -> io::Result<()> {
    let outcome = &run.outcome;
    let mismatches = &outcome.mismatches;
    for group in mismatches.groups.iter().take(GROUPS_SHOWN) {
        writeln!(out, "{}: {}", counted(group.count, "time", "times"), group.cause)?;
        for example in group.examples.iter().take(EXAMPLES_SHOWN) {
            let [path, expected, found] = [&example.path, &example.expected, &example.found]
                .map(|text| escaped(text.as_bytes()));
            let path = if path.is_empty() { path } else { format!(" {path}") };
            writeln!(out, "  call {}{path}: {expected} expected, {found} found", example.seq)?;
        }
    }
    if mismatches.groups.len() > GROUPS_SHOWN {
        writeln!(out, "and {} other causes", mismatches.groups.len() - GROUPS_SHOWN)?;
    }
    for (title, counts) in [
        ("not as it was before", &run.image_left_out),
        ("left out", &outcome.skipped),
        ("not supported here", &outcome.unsupported_here),
        ("withheld", &outcome.withheld),
    ] {
        write_counts(out, title, counts)?;
    }
    write_latencies(out, outcome)?;
    let reasons = [
        (outcome.raced, "as others used the same files at the time"),
        (outcome.unseen, "as data moved of which the trace has nothing"),
    ];
    let reasons = reasons.iter().filter(|(count, _)| *count > 0);
    let reasons: Vec<String> = reasons.map(|(count, why)| format!("{count} {why}")).collect();
    let reasons = match reasons.is_empty() {
        true => String::new(),
        false => format!(" ({})", reasons.join(", ")),
    };
    writeln!(
        out,
        "{} replayed, {} taken from the recording instead; {} verified, {} not verifiable{reasons}, {} mismatched",
        counted(outcome.replayed, "call", "calls"),
        show_count(outcome.simulated),
        show_count(outcome.verified),
        show_count(outcome.unverified),
        mismatches.count()
    )?;
    writeln!(
        out,
        "{} in {:.3} s (image {:.3}, calls {:.3}, comparison {:.3}, jail and cleaning up {:.3} s); \
         the recording took {:.3} s",
        show_size(outcome.bytes),
        run.elapsed_s,
        run.image_s,
        outcome.calls_s,
        run.comparison_s,
        run.rest_s(),
        outcome.recorded_s
    )?;
    if let Some(late) = &outcome.start_error {
        let [median, p99] = [500, 990].map(|permille| show_time(late.permille(permille)));
        writeln!(out, "calls started late by {median} (median), {p99} (p99)")?;
    }
    if let Some(Computed { between_ns, unknown, answered_ns }) = outcome.computed {
        let [between, answered] = [between_ns, answered_ns].map(show_time);
        writeln!(
            out,
            "{between} of it to compute between calls; before {unknown} calls it is not known; {} made \
             for their time alone; {answered} for calls that are not made",
            counted(outcome.timed, "call", "calls")
        )?;
    }
    let [waited, waits] = outcome.outside_ns;
    if waited > 0 {
        let counted = if waits == 0 { ", which take no time" } else { ", as long as they took" };
        writeln!(out, "waits for the outside {}{counted}", show_time(waited))?;
    }
    if let Some(dangers) = run.not_seen.dangers() {
        writeln!(out, "not in the trace: {dangers}; see `reenact info`")?;
    }
    if outcome.gaps > 0 {
        let gaps = outcome.gaps;
        let s = if gaps == 1 { "" } else { "s" };
        writeln!(out, "the recording has {gaps} gap{s}: what is missing there was not made again")?;
    }
    if let Some(note) = source::unknown_events(outcome.unknown_events) {
        writeln!(out, "{note}")?;
    }
    let Some(state) = &run.final_state else { return Ok(()) };
    for difference in state.differences.iter().take(DIFFERENCES_SHOWN) {
        let [path, expected, found] =
            [&difference.path[..], difference.expected.as_bytes(), difference.found.as_bytes()]
                .map(escaped);
        writeln!(out, "{path}: {}: {expected} expected, {found} found", difference.what)?;
    }
    if let Some(limited) = &state.limited {
        writeln!(out, "{limited}")?;
    }
    for unverified in state.unverified.iter().take(UNVERIFIED_SHOWN) {
        writeln!(out, "{}: not verifiable: {}", escaped(&unverified.path), unverified.why)?;
    }
    writeln!(out, "final state: {}", state_in_words(state))
}

/// Describes the comparison of the final state, and its limits.
fn state_in_words(state: &FinalState) -> String {
    let FinalState { compared, different, unverified_count: unverified, .. } = *state;
    let unknown = state.unknown_bytes;
    let mut words = match state.verdict() {
        Verdict::Nothing => return "nothing to compare".into(),
        Verdict::Identical => {
            return format!("identical, {} compared", counted(compared, "path", "paths"));
        }
        Verdict::AsFarAsChecked => {
            let checked = compared.saturating_sub(unverified);
            let compared = counted(compared, "path", "paths");
            format!("identical as far as checked: {} of {compared}", show_count(checked))
        }
        Verdict::Different => format!(
            "{} of {} at the end",
            show_count(different),
            counted(compared, "path differs", "paths differ")
        ),
    };
    if unverified > 0 {
        let mut reasons: BTreeMap<&str, u64> = BTreeMap::new();
        for one in &state.unverified {
            *reasons.entry(&one.why).or_default() += 1;
        }
        let reasons: Vec<String> = match reasons.len() {
            1 => reasons.into_keys().map(String::from).collect(),
            _ => reasons.iter().map(|(why, count)| format!("{why} ({count})")).collect(),
        };
        words.push_str(&format!(
            "; {} not verifiable: {}",
            show_count(unverified),
            reasons.join(", ")
        ));
    }
    if unknown > 0 {
        let files = unknown_files(state);
        words.push_str(&format!(
            "; {} that no call shows{files}",
            counted(unknown, "byte", "bytes")
        ));
    }
    if state.left_out > 0 {
        let changes = counted(state.left_out, "change", "changes");
        words.push_str(&format!("; {changes} in other roots or mount namespaces not checked"));
    }
    words
}

/// Describes where the unknown bytes are.
fn unknown_files(state: &FinalState) -> String {
    let files = &state.unknown_files;
    let first = files.iter().take(UNKNOWN_SHOWN);
    let named: Vec<String> = first
        .map(|file| format!("{} in {}", show_count(file.bytes), escaped(&file.path)))
        .collect();
    match named.len() {
        0 => String::new(),
        all if all == files.len() => format!(": {}", named.join(", ")),
        _ => format!(": {}, ...", named.join(", ")),
    }
}

fn write_counts(
    out: &mut dyn Write,
    title: &str,
    counts: &BTreeMap<String, u64>,
) -> io::Result<()> {
    for (what, count) in counts {
        writeln!(out, "{title}: {count} x {}", escaped(what.as_bytes()))?;
    }
    Ok(())
}

fn write_latencies(out: &mut dyn Write, outcome: &Outcome) -> io::Result<()> {
    let mut calls: Vec<_> =
        outcome.latencies.iter().filter(|(_, pair)| pair.replayed.count() > 0).collect();
    calls.sort_by_key(|(_, pair)| std::cmp::Reverse(pair.replayed.count()));
    if calls.is_empty() {
        return Ok(());
    }
    writeln!(
        out,
        "{:NAME_AND_COUNT$}{:>27}{:>27}\n{:<16}{:>9}{times}{times}",
        "",
        "recorded",
        "replayed",
        "call",
        "count",
        times = format_args!("{:>9}{:>9}{:>9}", "median", "p99", "max"),
    )?;
    for (name, pair) in calls.into_iter().take(CALLS_SHOWN) {
        let [recorded, replayed] = [&pair.recorded, &pair.replayed].map(|all| {
            let [median, p99] = [500, 990].map(|permille| show_time(all.permille(permille)));
            format!("{median:>9}{p99:>9}{:>9}", show_time(all.max()))
        });
        // A long name may take of the room before the count.
        let room = NAME_AND_COUNT.saturating_sub(name.chars().count() + 1);
        let count = show_count(pair.replayed.count());
        writeln!(out, "{name} {count:>room$}{recorded}{replayed}")?;
    }
    Ok(())
}

fn write_json(json: &mut Json<'_>, run: &Findings, stuck: &[String]) {
    let outcome = &run.outcome;
    json.key("replayed").uint(outcome.replayed);
    json.key("simulated").uint(outcome.simulated);
    for (name, counts) in [
        ("skipped", &outcome.skipped),
        ("unsupported_here", &outcome.unsupported_here),
        ("withheld", &outcome.withheld),
    ] {
        json.key(name).object(|json| {
            counts.iter().for_each(|(what, count)| json.key(what).uint(*count));
        });
    }
    json.key("mismatches").object(|json| {
        json.key("return").uint(outcome.mismatches.returned);
        json.key("data").uint(outcome.mismatches.data);
        json.key("causes").array(|json| {
            for group in &outcome.mismatches.groups {
                json.object(|json| {
                    json.key("cause").str(&group.cause);
                    json.key("count").uint(group.count);
                    json.key("examples").array(|json| {
                        for example in &group.examples {
                            json.object(|json| {
                                json.key("seq").uint(example.seq);
                                json.key("path").str(&example.path);
                                json.key("expected").str(&example.expected);
                                json.key("found").str(&example.found);
                            });
                        }
                    });
                });
            }
        });
    });
    json.key("verified").uint(outcome.verified);
    json.key("unverified").uint(outcome.unverified);
    json.key("raced").uint(outcome.raced);
    json.key("unseen").uint(outcome.unseen);
    stats::overview::not_seen_json(json, &run.not_seen);
    let unknown = run.final_state.as_ref().map_or(0, |state| state.unknown_bytes);
    json.key("unknown_bytes").uint(unknown);
    json.key("bytes").uint(outcome.bytes);
    json.key("gaps").uint(outcome.gaps);
    if outcome.unknown_events > 0 {
        json.key("unknown_events").uint(outcome.unknown_events);
    }
    json.key("image").object(|json| {
        json.key("unknown_bytes").uint(run.image_unknown_bytes);
        json.key("left_out").object(|json| {
            run.image_left_out.iter().for_each(|(what, count)| json.key(what).uint(*count));
        });
    });
    json.key("final_state");
    match &run.final_state {
        Some(state) => json.object(|json| {
            json.key("verdict").str(state.verdict().name());
            json.key("compared").uint(state.compared);
            json.key("different").uint(state.different);
            json.key("unverified").uint(state.unverified_count);
            json.key("left_out").uint(state.left_out);
            json.key("limited").optional_str(state.limited.as_deref());
            json.key("unknown").array(|json| {
                for file in &state.unknown_files {
                    json.object(|json| {
                        json.key("path").bytes(&file.path);
                        json.key("bytes").uint(file.bytes);
                    });
                }
            });
            json.key("differences").array(|json| {
                for difference in state.differences.iter().take(DIFFERENCES_SHOWN) {
                    json.object(|json| {
                        json.key("path").bytes(&difference.path);
                        json.key("what").str(&difference.what);
                        json.key("expected").str(&difference.expected);
                        json.key("found").str(&difference.found);
                    });
                }
            });
        }),
        None => json.null(),
    }
    json.key("elapsed_s").float(run.elapsed_s);
    json.key("image_s").float(run.image_s);
    json.key("calls_s").float(outcome.calls_s);
    json.key("comparison_s").float(run.comparison_s);
    json.key("rest_s").float(run.rest_s());
    json.key("recorded_s").float(outcome.recorded_s);
    json.key("user_ns").uint(outcome.cpu.user_ns);
    json.key("system_ns").uint(outcome.cpu.system_ns);
    json.key("allocated_bytes").uint(run.allocated_bytes);
    if let Some(late) = &outcome.start_error {
        json.key("start_error_ns").object(|json| write_latency(json, late));
    }
    if let Some(Computed { between_ns, unknown, answered_ns }) = outcome.computed {
        json.key("computed_ns").uint(between_ns);
        json.key("computed_unknown").uint(unknown);
        json.key("answered_ns").uint(answered_ns);
        json.key("timed").uint(outcome.timed);
    }
    let [waited, waits] = outcome.outside_ns;
    json.key("outside_recorded_ns").uint(waited);
    json.key("outside_ns").uint(waits);
    let stopped = outcome.stopped.as_ref().map(|stopped| match stopped {
        Stopped::Mismatch => "mismatch".to_string(),
        Stopped::Stuck(_) => format!("stuck: {}", stuck.join("; ")),
        Stopped::Full(what) | Stopped::Unreadable(what) | Stopped::Failed(what) => what.clone(),
    });
    json.key("stopped").optional_str(stopped.as_deref());
    latencies_json(json, outcome);
}

/// Writes what calls took, by name.
pub fn latencies_json(json: &mut Json<'_>, outcome: &Outcome) {
    json.key("latencies_ns").object(|json| {
        for (name, pair) in &outcome.latencies {
            json.key(name).object(|json| {
                json.key("recorded").object(|json| write_latency(json, &pair.recorded));
                json.key("replayed").object(|json| write_latency(json, &pair.replayed));
            });
        }
    });
}

fn write_latency(json: &mut Json<'_>, all: &Latencies) {
    json.key("count").uint(all.count());
    json.key("sum").uint(all.sum());
    json.key("median").uint(all.permille(500));
    json.key("p99").uint(all.permille(990));
    json.key("max").uint(all.max());
}
