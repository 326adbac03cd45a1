//! Results of a replay.

use std::collections::{BTreeMap, HashMap};

use serde::{Deserialize, Serialize};
use syscalls::abi::errno;

use crate::lane::Counts;
use crate::latency::ByCall;
pub use crate::latency::Latencies;
use crate::resource::hash_of;

/// Most groups of mismatches; the rest is counted together.
const GROUPS_MAX: usize = 200;
/// Most examples of a group.
const EXAMPLES_MAX: usize = 5;
/// Longest text of an example.
const TEXT_BYTES_MAX: usize = 200;

/// All results of a replay.
#[derive(Debug, Default, Clone, Serialize, Deserialize)]
pub struct Outcome {
    /// Calls replayed.
    pub replayed: u64,
    /// Calls whose recorded result was used.
    pub simulated: u64,
    /// Those of them that were made for their time alone.
    pub timed: u64,
    /// Calls left out, by name and reason.
    pub skipped: BTreeMap<String, u64>,
    /// Calls that this file system or user cannot make, by name and error.
    pub unsupported_here: BTreeMap<String, u64>,
    /// Calls with results other than recorded.
    pub mismatches: Mismatches,
    /// Results that could not be checked.
    pub unverified: u64,
    /// Those of them that differed, but depend on concurrent calls.
    pub raced: u64,
    /// Those of them that differed, on files that were also written in unrecorded ways.
    pub unseen: u64,
    /// Results that agreed.
    pub verified: u64,
    /// Files whose final content is uncertain, by hashes of their paths.
    #[serde(skip)]
    pub doubted: HashMap<u64, Doubt>,
    /// Paths at or below which the recording may have other files in the end than the replay, and
    /// why.
    #[serde(skip)]
    pub hidden: BTreeMap<Vec<u8>, &'static str>,
    /// Bytes that calls moved.
    pub bytes: u64,
    /// Things withheld for safety, such as set-user-id bits and device nodes, with counts.
    pub withheld: BTreeMap<String, u64>,
    /// Gaps in the recording.
    pub gaps: u64,
    /// Events of the recording that this version does not know.
    pub unknown_events: u64,
    /// Seconds from the first call to the end of the last.
    pub calls_s: f64,
    /// Duration of the recording in seconds.
    pub recorded_s: f64,
    /// Why the replay stopped early, if it did.
    pub stopped: Option<Stopped>,
    /// At the recorded pace: how late calls started, in nanoseconds.
    pub start_error: Option<Latencies>,
    /// What tasks were to compute, if they were to.
    pub computed: Option<Computed>,
    /// Waits of all threads for the outside in the recording, and what tasks were to wait for it, in
    /// nanoseconds.
    pub outside_ns: [u64; 2],
    /// CPU time of the tasks, which is that of the calls, of what they compute, and of checking.
    pub cpu: CpuTime,
    /// Recorded and replayed durations of calls, by name.
    pub latencies: BTreeMap<String, Pair>,
}

/// What tasks were to compute in a replay that does what the recorded threads did between calls.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Computed {
    /// What the program computed between its calls, in nanoseconds.
    pub between_ns: u64,
    /// Calls before which that is not known.
    pub unknown: u64,
    /// What calls took that are not made, in nanoseconds.
    pub answered_ns: u64,
}

/// CPU time of threads, as the kernel counts it.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct CpuTime {
    /// In user space, in nanoseconds.
    pub user_ns: u64,
    /// In the kernel.
    pub system_ns: u64,
}

impl CpuTime {
    /// Returns what the calling thread has used.
    pub fn of_thread() -> CpuTime {
        // SAFETY: an all-zero rusage is valid, and the pointer is to it.
        let used = unsafe {
            let mut used: libc::rusage = std::mem::zeroed();
            libc::getrusage(libc::RUSAGE_THREAD, &raw mut used);
            used
        };
        let ns =
            |time: libc::timeval| time.tv_sec as u64 * 1_000_000_000 + time.tv_usec as u64 * 1000;
        CpuTime { user_ns: ns(used.ru_utime), system_ns: ns(used.ru_stime) }
    }
}

/// Why a file's content proves nothing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Doubt {
    /// Message for users.
    pub why: &'static str,
    /// Its length proves nothing either.
    pub ends: bool,
    /// Nothing about the file proves anything.
    pub all: bool,
}

/// Recorded and replayed durations.
#[derive(Debug, Default, Clone, Serialize, Deserialize)]
pub struct Pair {
    /// Of the recording.
    pub recorded: Latencies,
    /// Of the replay.
    pub replayed: Latencies,
}

/// Why a replay stopped early.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub enum Stopped {
    /// At the first mismatch, as requested.
    Mismatch,
    /// Stuck: which tasks wait for what.
    Stuck(Vec<Waiting>),
    /// The disk space that it may use was used up.
    Full(String),
    /// The trace is unreadable from here on.
    Unreadable(String),
    /// The replay itself failed.
    Failed(String),
}

/// A task of a replay that is stuck.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Waiting {
    /// Number of its thread in the trace; 0 if unknown.
    pub thread: u32,
    /// Sequence number of its current call.
    pub seq: u64,
    /// What it waits for.
    pub waits: Waits,
}

/// What a task waits for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Waits {
    /// The return of its call.
    Return,
    /// The recorded result of its call, which it repeats.
    Result,
    /// Progress of this thread, before its call.
    Thread(u32),
    /// More actions, or its end, which others may wait for.
    Work,
}

/// Calls with results other than recorded.
#[derive(Debug, Default, Clone, Serialize, Deserialize)]
pub struct Mismatches {
    /// Mismatches of return values.
    #[serde(rename = "return")]
    pub returned: u64,
    /// Mismatches of buffers.
    pub data: u64,
    /// All of them, grouped by cause.
    pub groups: Vec<Group>,
    /// Number of those in no group.
    pub ungrouped: u64,
}

/// Mismatches of one cause.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Group {
    /// The common cause.
    pub cause: String,
    /// Number of mismatches.
    pub count: u64,
    /// The first ones.
    pub examples: Vec<Example>,
}

/// One mismatch.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Example {
    /// Sequence number of the call.
    pub seq: u64,
    /// Path that it concerns; empty if none.
    pub path: String,
    /// Recorded value.
    pub expected: String,
    /// Our value.
    pub found: String,
}

/// Which part of a call differs.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum DifferingPart {
    /// The result.
    Return,
    /// A buffer.
    Data,
}

impl Mismatches {
    /// Number of mismatches.
    pub fn count(&self) -> u64 {
        self.returned + self.data
    }

    /// Adds a mismatch.
    pub fn add(&mut self, kind: DifferingPart, cause: String, mut example: Example) {
        match kind {
            DifferingPart::Return => self.returned += 1,
            DifferingPart::Data => self.data += 1,
        }
        for text in [&mut example.path, &mut example.expected, &mut example.found] {
            shorten(text);
        }
        let known = self.groups.iter().position(|group| group.cause == cause);
        let at = match known {
            Some(at) => at,
            None if self.groups.len() < GROUPS_MAX => {
                self.groups.push(Group { cause, count: 0, examples: Vec::new() });
                self.groups.len() - 1
            }
            None => {
                self.ungrouped += 1;
                return;
            }
        };
        let group = &mut self.groups[at];
        group.count += 1;
        if group.examples.len() < EXAMPLES_MAX {
            group.examples.push(example);
        }
    }
}

/// Formats a result for users.
pub fn shown(ret: i64) -> String {
    let Some(error) = errno::of_result(ret) else { return ret.to_string() };
    errno::describe(error).map_or_else(|| format!("error {error}"), |(name, _)| name.to_string())
}

fn shorten(text: &mut String) {
    if text.len() > TEXT_BYTES_MAX {
        let end = (0..=TEXT_BYTES_MAX).rev().find(|at| text.is_char_boundary(*at)).unwrap_or(0);
        text.truncate(end);
        text.push_str("...");
    }
}

impl Outcome {
    /// Returns why the final state of a file proves nothing, if so.
    pub fn doubt_of(&self, path: &[u8]) -> Option<Doubt> {
        let slashes = path.iter().enumerate().skip(1).filter(|(_, byte)| **byte == b'/');
        let mut ends = slashes.map(|(end, _)| end).chain([path.len()]);
        let hidden = ends.find_map(|end| self.hidden.get(&path[..end]));
        let hidden = hidden.map(|why| Doubt { why, ends: true, all: true });
        hidden.or_else(|| self.doubted.get(&hash_of(path)).copied())
    }

    /// Whether there was no mismatch, and the replay ran to its end.
    pub fn agrees(&self) -> bool {
        self.mismatches.count() == 0 && self.stopped.is_none()
    }

    /// Adds `number` to a named counter.
    pub fn count(counts: &mut BTreeMap<String, u64>, name: &str, number: u64) {
        match counts.get_mut(name) {
            Some(count) => *count += number,
            None => {
                counts.insert(name.to_string(), number);
            }
        }
    }

    /// Takes the counts of a task.
    pub fn add_counts(&mut self, counts: &Counts) {
        self.replayed += counts.replayed.take();
        self.timed += counts.timed.take();
        self.verified += counts.verified.take();
        self.unverified += counts.unverified.take();
        self.raced += counts.raced.take();
        self.unseen += counts.unseen.take();
        self.bytes += counts.bytes.take();
    }

    /// Adds the tally of a task.
    pub fn add(&mut self, tally: Tally) {
        for (name, number) in tally.unsupported {
            Self::count(&mut self.unsupported_here, &name, number);
        }
        for (name, number) in tally.skipped {
            Self::count(&mut self.skipped, &name, number);
        }
        for (name, number) in tally.withheld {
            Self::count(&mut self.withheld, &name, number);
        }
        self.cpu.user_ns += tally.cpu.user_ns;
        self.cpu.system_ns += tally.cpu.system_ns;
        for (nr, latencies) in tally.latencies.into_calls() {
            let name = syscalls::by_number(u64::from(nr)).map_or("unknown", |row| row.name);
            self.latencies.entry(name.to_string()).or_default().replayed.add(&latencies);
        }
        if let Some(error) = tally.start_error {
            self.start_error.get_or_insert_default().add(&error);
        }
    }
}

/// Results that each task collects for itself, besides [`Counts`], to avoid locks.
#[derive(Default)]
pub struct Tally {
    /// For [`Outcome::unsupported_here`].
    pub unsupported: BTreeMap<String, u64>,
    /// For [`Outcome::skipped`].
    pub skipped: BTreeMap<String, u64>,
    /// For [`Outcome::withheld`].
    pub withheld: BTreeMap<String, u64>,
    /// For [`Outcome::cpu`].
    pub cpu: CpuTime,
    /// Durations by call number.
    pub latencies: ByCall,
    /// For [`Outcome::start_error`].
    pub start_error: Option<Latencies>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn mismatches_are_grouped_and_bounded() {
        let mut all = Mismatches::default();
        for seq in 0..1000 {
            let example = Example {
                seq,
                path: "ä".repeat(1000),
                expected: String::new(),
                found: String::new(),
            };
            all.add(DifferingPart::Return, format!("cause {}", seq % 300), example);
        }
        assert_eq!(all.groups.len(), GROUPS_MAX);
        let grouped: u64 = all.groups.iter().map(|group| group.count).sum();
        assert_eq!(grouped + all.ungrouped, all.count());
        assert!(all.groups[0].examples[0].path.len() < 300);
    }
}
