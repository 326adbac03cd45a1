//! What processes had mapped as they began programs, until they tell of these themselves.

use std::collections::{HashMap, VecDeque};
use std::sync::{Mutex, PoisonError};

/// Processes, and programs of each, that are remembered.
const PROCESSES_MAX: usize = 1 << 13;
const PROGRAMS_MAX: usize = 16;

/// A process's id, and what /proc says of its memory.
pub type Seen = (u32, Vec<u8>);

/// Filled by who stops processes at an exec, before they go on; emptied by who reads their records.
#[derive(Default)]
pub struct SeenMaps(Mutex<HashMap<u32, VecDeque<Seen>>>);

impl SeenMaps {
    /// A process begins a program: its number, its id, and what /proc says.
    pub fn leave(&self, process: u32, pid: u32, text: Vec<u8>) {
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if all.len() < PROCESSES_MAX || all.contains_key(&process) {
            let of_process = all.entry(process).or_default();
            if of_process.len() < PROGRAMS_MAX {
                of_process.push_back((pid, text));
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
        seen.leave(1, 7, b"a".into());
        seen.leave(1, 7, b"b".into());
        assert_eq!(seen.take(1), Some((7, b"a".into())));
        assert_eq!(seen.take(1), Some((7, b"b".into())));
        assert_eq!((seen.take(1), seen.take(2)), (None, None));
    }
}
