//! Output of `reenact info`.

use std::fmt::Write as _;
use std::io::{self, Write as _};

use model::names;
use model::unseen::{Blind, NotSeen, Way};
use render::escape::{escape, escaped};
use render::json::Json;
use render::origin;
use trace::Trace;

use crate::{pager, source, terminal};
use render::amounts::{counted, show_count, show_size, show_time};
use stats::overview::{self, End, Gap, KnownTimes, Loss, MappedTimes, Overview, UpTo};
use stats::same_device;

/// Limit for the problems in the text output.
const PROBLEMS_SHOWN: usize = 20;
/// Column in which values begin.
const VALUE_AT: usize = 13;
/// Limit for the files listed per way in which data moved unseen.
const UNSEEN_SHOWN: usize = 5;

/// Prints the text for people.
pub fn text(trace: &Trace, overview: &Overview, verified: bool) -> io::Result<()> {
    let mut out = String::new();
    whence(&mut out, trace, overview);
    numbers(&mut out, trace, overview);
    proof(&mut out, trace, overview, verified);
    up_to(&mut out, &overview.up_to);
    mapped_times(&mut out, &overview.mapped_times);
    cpu_time(&mut out, trace, &overview.known_times);
    not_seen(&mut out, &overview.not_seen);
    mounts(&mut out, overview);
    calls(&mut out, overview);
    pager::start();
    let mut stdout = io::stdout().lock();
    stdout.write_all(terminal::fit(&out, terminal::width(), hang).as_bytes())?;
    stdout.flush()
}

/// Returns where a line goes on that has no room: below its value, if it has a name.
fn hang(line: &str) -> usize {
    match terminal::below(line) {
        2 => VALUE_AT,
        place if place > VALUE_AT => VALUE_AT,
        place => place,
    }
}

fn line(out: &mut String, name: &str, value: &str) {
    let _ = writeln!(out, "{name:<12} {value}");
}

fn whence(out: &mut String, trace: &Trace, overview: &Overview) {
    let preamble = trace.preamble();
    line(out, "command", &origin::command(preamble));
    line(out, "recorded", &escaped(origin::recorded(preamble).as_bytes()));
    if !preamble.options.is_empty() {
        line(out, "options", &escaped(preamble.options.as_bytes()));
    }
    if let Some(part) = origin::selection(preamble) {
        let part = escaped(part.as_bytes());
        let text = "what follows processes, descriptors and directories has no contents";
        line(out, "filtered", &format!("calls of {part}; {text}; other calls are not there"));
    }
    line(out, "kernel", &escaped(origin::kernel(preamble).as_bytes()));
    line(out, "machine", &escaped(origin::machine(preamble).as_bytes()));
    line(out, "span", &show_time(overview.span_ns));
}

fn numbers(out: &mut String, trace: &Trace, overview: &Overview) {
    let s = overview;
    let threads = counted(s.threads, "thread", "threads");
    line(out, "processes", &format!("{}, with {threads}", show_count(s.processes)));
    let share = s.slow_path_calls as f64 * 100.0 / s.calls.max(1) as f64;
    line(
        out,
        "calls",
        &format!(
            "{}, {} ({share:.1}%) of them by the slow path",
            show_count(s.calls),
            show_count(s.slow_path_calls)
        ),
    );
    line(
        out,
        "data",
        &format!(
            "{} in buffers, {} of it distinct, {} in the trace",
            show_size(s.data_bytes),
            show_size(s.stored_bytes),
            show_size(s.trace_bytes)
        ),
    );
    line(out, "stalled", &format!("{} waiting for the recorder", show_time(s.stall_ns)));
    if trace.unknown_blocks() > 0 {
        let text =
            format!("{} blocks of a kind that this version does not know", trace.unknown_blocks());
        line(out, "passed over", &text);
    }
    if let Some(note) = source::unknown_events(s.unknown_events) {
        line(out, "passed over", &note);
    }
}

fn proof(out: &mut String, trace: &Trace, overview: &Overview, verified: bool) {
    let report = &overview.report;
    let lost = if report.complete || trace.totals().is_some() {
        format!("{} lost", counted(report.lost, "call", "calls"))
    } else {
        "what came after its last block is unknown".into()
    };
    let checked = if verified { "every byte was checked" } else { "checked by counts" };
    let unseen = overview.not_seen.in_words(|_| true);
    let is_partial = origin::selection(trace.preamble()).is_some();
    let complete = match report {
        report if report.complete && is_partial => "yes, of the calls that were asked for",
        report if report.complete && unseen.is_some() => "every call is recorded",
        report if report.complete => "yes",
        report if report.sound() => "no, but sound",
        _ => "NO",
    };
    let gaps = report.gaps.max(overview.gap_count);
    let unseen = unseen.map_or(String::new(), |words| format!("; data not seen: {words}"));
    let gaps = counted(gaps, "gap", "gaps");
    line(out, "complete", &format!("{complete} ({lost}, {gaps}; {checked}){unseen}"));
    if let Some(totals) = trace.totals() {
        let equal = |values: &[u64]| {
            if values.windows(2).all(|w| w[0] == w[1]) { "" } else { "these differ: " }
        };
        let t = totals;
        let counts = [t.calls_made, t.calls_read, t.calls_written, report.calls];
        let [made, read, written, file] = counts.map(show_count);
        let text = format!("calls made {made}, read {read}, written {written}, in the file {file}");
        line(out, "", &format!("{}{text}", equal(&counts)));
        let (published, read) = (t.ring_bytes_published, t.ring_bytes_read);
        let [handed, taken] = [published, read].map(show_count);
        let text = format!("bytes handed to the recorder {handed}, taken by it {taken}");
        line(out, "", &format!("{}{text}", equal(&[published, read])));
    } else {
        let at = show_time(overview.span_ns);
        line(out, "", &format!("the trace was not ended: the recorder was lost after {at}"));
    }
    for gap in &overview.gaps {
        line(out, "gap", &told(gap));
    }
    let problems = report.problems.iter();
    for problem in problems.take(PROBLEMS_SHOWN) {
        let text = match problem.offset {
            Some(offset) => format!("at byte {offset}: {}", problem.what),
            None => problem.what.clone(),
        };
        line(out, "problem", &text);
    }
    let more = report.problems.len().saturating_sub(PROBLEMS_SHOWN) as u64 + report.problems_more;
    if more > 0 {
        line(out, "", &format!("and {more} more problems"));
    }
    for error in &overview.errors {
        line(out, "unreadable", error);
    }
    if overview.shared_device {
        line(out, "warning", same_device::SAID);
    }
}

/// Formats up to when there is what moves beside calls, where that is not everything.
fn up_to(out: &mut String, found: &UpTo) {
    for Loss { pid, until_ns, end } in found.mapped.iter().take(UNSEEN_SHOWN) {
        let why = match end {
            End::Killed => "it was killed",
            End::RecorderEnded => "the recording ended before it",
        };
        let until = show_time(*until_ns);
        line(out, "up to", &format!("mapped files: stores of process {pid} up to {until} ({why})"));
    }
    if found.mapped.len() > UNSEEN_SHOWN {
        let more = found.mapped.len() - UNSEEN_SHOWN;
        line(out, "", &format!("mapped files: and of {more} more processes; --json has all"));
    }
    if let (under_way @ 1.., Some(since)) = (found.under_way, found.under_way_since_ns) {
        let since = show_time(since);
        let text = format!(
            "operations: {under_way} were under way, the first since {since}; whether they were \
             completed is not known"
        );
        line(out, "up to", &text);
    }
    if found.missing > 0 {
        let text = format!("operations: {} that were submitted are not there", found.missing);
        line(out, "up to", &text);
    }
}

/// Formats where the times of what was read of mapped files come from.
fn mapped_times(out: &mut String, found: &MappedTimes) {
    let counted = |count: u64| counted(count, "process", "processes");
    if found.by_faults != 0 {
        let text = format!("page faults, in {}", counted(found.by_faults));
        line(out, "page times", &format!("times by {text}"));
    }
    for (why, count) in found.by_looks.iter().take(UNSEEN_SHOWN) {
        let mut text = format!("times by looks at the memory, in {} (", counted(*count));
        escape(&mut text, why.as_bytes(), &[]);
        line(out, "page times", &(text + ")"));
    }
    if found.lost != 0 {
        let lost = self::counted(found.lost, "page fault", "page faults");
        line(out, "page times", &format!("{lost} lost: times of those pages are by looks"));
    }
}

/// Formats by what it is known how long threads computed between calls.
fn cpu_time(out: &mut String, trace: &Trace, found: &KnownTimes) {
    let preamble = trace.preamble();
    let all = &found.all;
    // Other recorders have none of it.
    if all.any() == 0 && (all.unknown == 0 || preamble.recorder_version.starts_with('(')) {
        return;
    }
    let text = match all.any() {
        0 if preamble.has_option("--no-cpu-time") => "not recorded (--no-cpu-time)".into(),
        0 if found.areas == 0 && !preamble.has_option("--rerunnable") => {
            "not known: no thread had an area for restartable sequences when it made calls".into()
        }
        0 => "not known of any call".into(),
        _ => {
            let of_all = all.any() + all.unknown;
            let share = all.any() as f64 * 100.0 / of_all as f64;
            let ways = [
                (all.time_stamps, "by the time stamp counter, as the thread kept its CPU"),
                (all.cpu_clock, "by the thread's CPU clock"),
            ];
            let ways = ways.iter().filter(|(count, _)| *count > 0);
            let ways = ways.map(|(count, how)| format!("{} {how}", show_count(*count)));
            let ways = ways.collect::<Vec<_>>().join(", ");
            format!("what threads computed is known before {share:.1}% of the calls: {ways}")
        }
    };
    line(out, "cpu time", &text);
    let none = found.threads.values().filter(|(.., known)| known.any() == 0 && known.unknown > 1);
    let none = none.count();
    if all.any() > 0 && none > 0 {
        let threads = counted(none as u64, "thread", "threads");
        line(out, "", &format!("of {threads} it is not known at all; --json has each thread"));
    }
}

/// Formats the unseen data: each way once, with its files.
fn not_seen(out: &mut String, found: &NotSeen) {
    if found.blind.is_empty() {
        return;
    }
    out.push_str("\nnot seen: data that is not in the trace\n");
    for way in found.ways().into_keys() {
        let all: Vec<&Blind> = found.blind.iter().filter(|blind| blind.way == way).collect();
        let _ = writeln!(out, "  {}: {}", way.title(), way.why());
        for blind in all.iter().take(UNSEEN_SHOWN) {
            let name = blind.file.as_ref().or(blind.descriptor.as_ref());
            let name = name.map_or_else(String::new, |name| escaped(name));
            let count = blind.count.map_or("unknown".into(), |count| count.to_string());
            let bytes = match (way, blind.bytes) {
                (_, None) => String::new(),
                (Way::Stores | Way::Loads, Some(bytes)) => {
                    format!(", at most {}", show_size(bytes))
                }
                (_, Some(bytes)) => format!(", {}", show_size(bytes)),
            };
            let why = match &blind.why {
                why if why == way.why() => String::new(),
                why => format!(" ({why})"),
            };
            let _ = writeln!(out, "    {count} {}{bytes}: {name}{why}", way.counted(blind.count));
        }
        if all.len() > UNSEEN_SHOWN {
            let _ = writeln!(out, "    and {} more; --json has all", all.len() - UNSEEN_SHOWN);
        }
        let _ = writeln!(out, "    to have it: {}", way.remedy());
    }
}

/// Formats time, count, reason, program and processes of a gap.
fn told(gap: &Gap) -> String {
    let mut text = format!("at {}", show_time(gap.ns));
    if gap.count > 1 {
        let _ = write!(text, ", {} times from then on", gap.count);
    }
    let _ = write!(text, ": {}", names::gap(gap.why).1);
    if !gap.text.is_empty() {
        text.push_str(": ");
        escape(&mut text, gap.text.as_bytes(), &[]);
    }
    if let Some((first, others)) = gap.pids.split_first() {
        let _ = write!(text, " (process {first}");
        others.iter().for_each(|pid| {
            let _ = write!(text, ", {pid}");
        });
        if gap.count > gap.pids.len() as u64 {
            text.push_str(", ...");
        }
        // Skip the program if the text already names it.
        if !gap.program.is_empty() && !gap.text.contains(&*String::from_utf8_lossy(&gap.program)) {
            let _ = write!(text, ": {}", escaped(&gap.program));
        }
        text.push(')');
    }
    text
}

fn mounts(out: &mut String, overview: &Overview) {
    let mut used = overview.mounts.used().peekable();
    if used.peek().is_none() {
        return;
    }
    out.push_str("\nmounts used\n");
    for mount in used {
        let _ = writeln!(
            out,
            "  {} {} on {} ({})",
            escaped(&mount.kind),
            escaped(&mount.source),
            escaped(&mount.point),
            escaped(&mount.options)
        );
    }
}

fn calls(out: &mut String, overview: &Overview) {
    let mut sorted: Vec<_> = overview.by_call.iter().collect();
    if sorted.is_empty() {
        return;
    }
    sorted.sort_by_key(|(_, count)| std::cmp::Reverse((count.ns, count.count)));
    let _ = writeln!(out, "\n{:>10} {:>8} {:>11}  call", "count", "errors", "time");
    for (name, count) in sorted {
        let errors = if count.errors > 0 { show_count(count.errors) } else { String::new() };
        let time = if count.ns > 0 { show_time(count.ns) } else { "0".into() };
        let _ = writeln!(out, "{:>10} {errors:>8} {time:>11}  {name}", show_count(count.count));
    }
}

/// Prints the JSON output.
pub fn json(trace: &Trace, overview: &Overview) -> io::Result<()> {
    let mut stdout = io::stdout().lock();
    let mut json = Json::new(&mut stdout);
    overview::json(&mut json, trace, overview);
    json.finish()?;
    stdout.write_all(b"\n")?;
    stdout.flush()
}
