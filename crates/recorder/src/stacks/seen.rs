//! What processes had mapped as they began programs, until they tell of these themselves.

use std::collections::{HashMap, VecDeque};
use std::sync::{Mutex, PoisonError};

/// Processes, and programs of each, that are remembered.
const PROCESSES_MAX: usize = 1 << 13;
const PROGRAMS_MAX: usize = 16;

/// What /proc says of a process that begins a program.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Seen {
    /// Its id.
    pub pid: u32,
    /// The text about its memory.
    pub maps: Vec<u8>,
    /// Its working directory; empty if that is not known.
    pub directory: Vec<u8>,
}

/// Filled by who stops processes at an exec, before they go on; emptied by who reads their records.
#[derive(Default)]
pub struct SeenMaps(Mutex<HashMap<u32, VecDeque<Seen>>>);

impl SeenMaps {
    /// A process begins a program.
    pub fn leave(&self, process: u32, seen: Seen) {
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if all.len() < PROCESSES_MAX || all.contains_key(&process) {
            let of_process = all.entry(process).or_default();
            if of_process.len() < PROGRAMS_MAX {
                of_process.push_back(seen);
            }
        }
    }

    /// What was left first of a process.
    pub fn take(&self, process: u32) -> Option<Seen> {
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let of_process = all.get_mut(&process)?;
        let first = of_process.pop_front();
        if of_process.is_empty() {
            all.remove(&process);
        }
        first
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn programs_are_taken_in_their_order() {
        let seen = SeenMaps::default();
        let of = |maps: &[u8]| Seen { pid: 7, maps: maps.into(), directory: b"/".into() };
        seen.leave(1, of(b"a"));
        seen.leave(1, of(b"b"));
        assert_eq!(seen.take(1), Some(of(b"a")));
        assert_eq!(seen.take(1), Some(of(b"b")));
        assert_eq!((seen.take(1), seen.take(2)), (None, None));
    }
}
