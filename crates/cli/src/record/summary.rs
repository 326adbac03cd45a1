//! Notes at the end of a recording.

use std::fmt::Write;
use std::io::{self, IsTerminal};
use std::path::Path;

use model::names;
use recorder::Summary;
use render::amounts::{counted, show_count, show_size, show_time};
use syscalls::record::SNAPSHOT_BYTES_MAX;

use crate::{message, stat};

/// Returns one note, and one more for each thing that the trace lacks. `path` is the trace's.
pub fn notes(summary: &Summary, path: Option<&Path>) -> Vec<String> {
    let mut first = format!(
        "{}, {}, {}, {} data, {} trace, lost {}, stalled {}",
        counted(summary.calls, "call", "calls"),
        counted(summary.threads.into(), "thread", "threads"),
        counted(summary.processes.into(), "process", "processes"),
        show_size(summary.data_bytes),
        show_size(summary.trace_bytes),
        show_count(lost(summary)),
        show_time(summary.stall_ns),
    );
    if summary.kernel_events > 0 {
        let _ =
            write!(first, ", {}", counted(summary.kernel_events, "kernel event", "kernel events"));
    }
    if summary.kernel_events_dropped > 0 {
        let _ = write!(first, " ({} of others dropped)", summary.kernel_events_dropped);
    }
    if let Some(path) = path {
        first.push_str(&format!(" -> {}", path.display()));
    }
    let mut notes = vec![first];
    if summary.files_not_whole > 0 {
        notes.push(format!(
            "{} not stored whole: not readable, or longer than {}",
            counted(summary.files_not_whole, "changed file is", "changed files are"),
            show_size(SNAPSHOT_BYTES_MAX)
        ));
    }
    if let Some((_, why)) = &summary.stopped {
        notes.push(format!("recording stopped early: {why}"));
    }
    if let Some(why) = &summary.unfinished {
        notes.push(format!("the trace could not be finished: {why}"));
    }
    let more = path.map(|path| format!("; `reenact info {}` says more", path.display()));
    let more = more.unwrap_or_default();
    if let Some(dangers) = summary.not_seen.dangers() {
        notes.push(format!("data not seen: {dangers}{more}"));
    }
    if let Some(missing) = missing(summary) {
        notes.push(format!("not complete: {missing}{more}"));
    }
    notes
}

/// Prints what `stat` shows of the trace, if that is asked for, or on a terminal the command to type.
pub fn more(path: Option<&Path>, is_asked: bool) {
    let Some(path) = path else { return };
    if is_asked {
        if let Err(failure) = stat::print_calls(path, &mut io::stderr()) {
            message::warn(&format!("--summary: {failure}"));
        }
    } else if io::stderr().is_terminal() {
        message::note(&format!("`reenact stat {}` shows where the time went", path.display()));
    }
}

/// Number of calls made while recording that are not in the trace.
fn lost(summary: &Summary) -> u64 {
    summary.lost.saturating_add(summary.discarded)
}

/// Returns what the trace lacks, if anything.
fn missing(summary: &Summary) -> Option<String> {
    let mut parts = Vec::new();
    if lost(summary) > 0 {
        parts.push(format!("{} lost", counted(lost(summary), "call", "calls")));
    }
    if let Some((why, said)) = &summary.first_gap {
        // Another line has the reason why the recording stopped.
        let is_told = summary.stopped.as_ref().is_some_and(|(_, told)| told == said);
        let mut reason = names::gap(*why).1.to_string();
        if !said.is_empty() {
            let _ = write!(reason, ": {said}");
        }
        parts.push(match (summary.gaps, is_told) {
            (1, true) => "1 gap".to_string(),
            (1, false) => format!("1 gap: {reason}"),
            (gaps, true) => format!("{gaps} gaps"),
            (gaps, false) => format!("{gaps} gaps, the first: {reason}"),
        });
    }
    (!parts.is_empty()).then(|| parts.join(", "))
}

#[cfg(test)]
mod tests {
    use model::unseen::{Blind, NotSeen, Way};
    use syscalls::record::GapWhy;

    use super::*;

    fn lines(summary: &Summary) -> Vec<String> {
        notes(summary, Some(Path::new("a.rnt")))
    }

    #[test]
    fn a_complete_recording_has_one_line() {
        assert_eq!(lines(&Summary::default()).len(), 1);
    }

    #[test]
    fn gaps_are_told() {
        let first_gap = Some((GapWhy::NotFollowed, "it is a 32-bit program".into()));
        let one = Summary { gaps: 1, first_gap, ..Summary::default() };
        let expected = "not complete: 1 gap: a program that cannot be followed was started: \
                        it is a 32-bit program; `reenact info a.rnt` says more";
        assert_eq!(lines(&one)[1..], [expected]);
        let nameless = Some((GapWhy::NotFollowed, String::new()));
        let two = Summary { gaps: 2, first_gap: nameless, ..Summary::default() };
        assert!(lines(&two)[1].contains("2 gaps, the first: a program that cannot be followed"));
    }

    #[test]
    fn data_that_moved_unseen_is_told() {
        let blind = |way| Blind {
            way,
            file: None,
            descriptor: None,
            count: Some(3),
            bytes: None,
            why: Way::why(way).into(),
        };
        let not_seen = NotSeen {
            blind: vec![blind(Way::Ring), blind(Way::Stores), blind(Way::Loads)],
            notes: Vec::new(),
        };
        let summary = Summary { not_seen, ..Summary::default() };
        let expected = "data not seen: io_uring requests, stores to mapped files (1 file); \
                        `reenact info a.rnt` says more";
        assert_eq!(lines(&summary)[1..], [expected]);
        let not_seen = NotSeen { blind: vec![blind(Way::Loads)], notes: Vec::new() };
        assert_eq!(lines(&Summary { not_seen, ..Summary::default() }).len(), 1);
    }

    #[test]
    fn calls_that_came_too_late_are_lost() {
        let stop = Some((GapWhy::WriteFailed, "the disk is full".to_string()));
        let (stopped, first_gap) = (stop.clone(), stop);
        let full =
            Summary { lost: 2, discarded: 5, gaps: 1, stopped, first_gap, ..Summary::default() };
        let lines = lines(&full);
        assert!(lines[0].contains("lost 7,"), "{lines:?}");
        assert_eq!(lines[1], "recording stopped early: the disk is full");
        assert!(lines[2].starts_with("not complete: 7 calls lost, 1 gap;"), "{lines:?}");
    }
}
