//! What came of a replay.

use std::collections::{BTreeMap, HashMap};

use serde::{Deserialize, Serialize};

use crate::lane::Counts;
use crate::latency::ByCall;
pub use crate::latency::Latencies;
use crate::plan::hash_of;

/// Groups of mismatches that are told apart; more are counted together.
const GROUPS_MAX: usize = 200;
/// Examples of each group.
const EXAMPLES_MAX: usize = 5;
/// Longest text of an example.
const TEXT_BYTES_MAX: usize = 200;

/// Everything that a replay found.
#[derive(Debug, Default, Clone, Serialize, Deserialize)]
pub struct Outcome {
    /// Calls made again.
    pub replayed: u64,
    /// Calls whose recorded result was taken as it is.
    pub simulated: u64,
    /// Calls left out, by name and reason.
    pub skipped: BTreeMap<String, u64>,
    /// Calls that this file system or user cannot do, by name and error.
    pub unsupported_here: BTreeMap<String, u64>,
    /// Calls that came out otherwise.
    pub mismatches: Mismatches,
    /// Results that could not be compared, since the trace does not hold their bytes.
    pub unverified: u64,
    /// Of those: results that depend on what others wrote at the time, and came out otherwise.
    pub raced: u64,
    /// Of those: results of calls on files that were written in ways of which the trace has nothing,
    /// which came out otherwise.
    pub unseen: u64,
    /// Results that were compared and agreed.
    pub verified: u64,
    /// Files of which the trace does not tell what is in them in the end, by hashes of their paths.
    #[serde(skip)]
    pub doubted: HashMap<u64, Doubt>,
    /// Paths behind which, and below which, other files may be in the end than in the replay, and why.
    #[serde(skip)]
    pub hidden: BTreeMap<Vec<u8>, &'static str>,
    /// Bytes that calls moved.
    pub bytes: u64,
    /// Set-user-id and set-group-id bits that were not set, device nodes that were not made.
    pub withheld: BTreeMap<String, u64>,
    /// Places where the recording says that something is missing.
    pub gaps: u64,
    /// Seconds from the first call to the end of the last.
    pub calls_s: f64,
    /// Seconds that the recording took.
    pub recorded_s: f64,
    /// Why it came to a stop before its end, if it did.
    pub stopped: Option<Stopped>,
    /// With the recorded pace: how late calls began, in nanoseconds.
    pub start_error: Option<Latencies>,
    /// How long calls took, by name: recorded and replayed.
    pub latencies: BTreeMap<String, Pair>,
}

/// Why a file's content proves nothing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Doubt {
    /// For people.
    pub why: &'static str,
    /// Where it ends proves nothing either.
    pub ends: bool,
    /// Nor does anything else about it.
    pub all: bool,
}

/// Recorded against replayed.
#[derive(Debug, Default, Clone, Serialize, Deserialize)]
pub struct Pair {
    /// In the recording.
    pub recorded: Latencies,
    /// In the replay.
    pub replayed: Latencies,
}

/// Why a replay ended early.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub enum Stopped {
    /// It was asked to stop at the first mismatch.
    Mismatch,
    /// A wait would never end: who waits for what.
    Stuck(Vec<Waiting>),
    /// There was no more room on the disk that it may take.
    Full(String),
    /// The trace could not be read on.
    Unreadable(String),
    /// The replay itself failed.
    Failed(String),
}

/// A task of a replay that is stuck.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Waiting {
    /// Its thread's number in the trace; 0 if that never showed up.
    pub thread: u32,
    /// The call that it is at.
    pub seq: u64,
    /// What it waits for.
    pub waits: Waits,
}

/// What a task waits for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Waits {
    /// Its call to return.
    Return,
    /// Its call to come out as recorded: it repeats it.
    Result,
    /// Before its call, this thread to get further.
    Thread(u32),
    /// More to do, or its end: others may wait for that.
    Work,
}

/// Calls that came out otherwise than recorded.
#[derive(Debug, Default, Clone, Serialize, Deserialize)]
pub struct Mismatches {
    /// Results.
    #[serde(rename = "return")]
    pub returned: u64,
    /// Buffers.
    pub data: u64,
    /// The same by cause.
    pub groups: Vec<Group>,
    /// Mismatches that belong to none of the groups.
    pub ungrouped: u64,
}

/// Mismatches of one cause.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Group {
    /// What they have in common.
    pub cause: String,
    /// How many there are.
    pub count: u64,
    /// The first ones.
    pub examples: Vec<Example>,
}

/// One mismatch.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Example {
    /// The call's number.
    pub seq: u64,
    /// The path that it was about; empty if there is none.
    pub path: String,
    /// What the recording says.
    pub expected: String,
    /// What came out.
    pub found: String,
}

/// Which part of a call came out otherwise.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Kind {
    /// The result.
    Return,
    /// A buffer.
    Data,
}

impl Mismatches {
    /// How many there are.
    pub fn count(&self) -> u64 {
        self.returned + self.data
    }

    /// One more.
    pub fn add(&mut self, kind: Kind, cause: String, mut example: Example) {
        match kind {
            Kind::Return => self.returned += 1,
            Kind::Data => self.data += 1,
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

/// A result, for people.
pub fn shown(ret: i64) -> String {
    match u16::try_from(-ret).ok().filter(|error| (1..4096).contains(error)) {
        Some(error) => {
            events::errno_name(error).map_or_else(|| format!("error {error}"), str::to_string)
        }
        None => ret.to_string(),
    }
}

fn shorten(text: &mut String) {
    if text.len() > TEXT_BYTES_MAX {
        let end = (0..=TEXT_BYTES_MAX).rev().find(|at| text.is_char_boundary(*at)).unwrap_or(0);
        text.truncate(end);
        text.push_str("...");
    }
}

impl Outcome {
    /// Why what is left of a file proves nothing, if it does not.
    pub fn doubt_of(&self, path: &[u8]) -> Option<Doubt> {
        let slashes = path.iter().enumerate().skip(1).filter(|(_, byte)| **byte == b'/');
        let mut ends = slashes.map(|(end, _)| end).chain([path.len()]);
        let hidden = ends.find_map(|end| self.hidden.get(&path[..end]));
        let hidden = hidden.map(|why| Doubt { why, ends: true, all: true });
        hidden.or_else(|| self.doubted.get(&hash_of(path)).copied())
    }

    /// Whether everything that was verified agreed, and nothing stopped it.
    pub fn agrees(&self) -> bool {
        self.mismatches.count() == 0 && self.stopped.is_none()
    }

    /// Counts one more of something under a name.
    pub fn count(counts: &mut BTreeMap<String, u64>, name: &str, number: u64) {
        match counts.get_mut(name) {
            Some(count) => *count += number,
            None => {
                counts.insert(name.to_string(), number);
            }
        }
    }

    /// Adds the numbers that a task counted, and takes them away there.
    pub fn add_counts(&mut self, counts: &Counts) {
        self.replayed += counts.replayed.take();
        self.verified += counts.verified.take();
        self.unverified += counts.unverified.take();
        self.raced += counts.raced.take();
        self.unseen += counts.unseen.take();
        self.bytes += counts.bytes.take();
    }

    /// Adds what else a task counted.
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
        for (nr, latencies) in tally.latencies.into_calls() {
            let name = events::by_number(u64::from(nr)).map_or("unknown", |row| row.name);
            self.latencies.entry(name.to_string()).or_default().replayed.add(&latencies);
        }
        if let Some(error) = tally.start_error {
            self.start_error.get_or_insert_default().add(&error);
        }
    }
}

/// What one task counts beside [`Counts`], so that counting costs no locks.
#[derive(Default)]
pub struct Tally {
    /// See [`Outcome::unsupported_here`].
    pub unsupported: BTreeMap<String, u64>,
    /// See [`Outcome::skipped`].
    pub skipped: BTreeMap<String, u64>,
    /// See [`Outcome::withheld`].
    pub withheld: BTreeMap<String, u64>,
    /// By number of the call.
    pub latencies: ByCall,
    /// See [`Outcome`].
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
            all.add(Kind::Return, format!("cause {}", seq % 300), example);
        }
        assert_eq!(all.groups.len(), GROUPS_MAX);
        let grouped: u64 = all.groups.iter().map(|group| group.count).sum();
        assert_eq!(grouped + all.ungrouped, all.count());
        assert!(all.groups[0].examples[0].path.len() < 300);
    }
}
