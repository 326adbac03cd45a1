//! Which process numbers the programs of an arena may use: those given out there, and those of
//! processes that moved there later. Otherwise they could act for programs of other users.

use std::collections::HashMap;

use kin::status;

/// Ids of the moved processes, by arena and number.
#[derive(Default)]
pub(crate) struct Guests(HashMap<(usize, u32), i32>);

/// Number of guests from which those that have ended are removed.
const GUESTS_MAX: usize = 64 << 10;

impl Guests {
    /// Allows a process of which a thread moves to the arena.
    pub fn admit(&mut self, arena: usize, process: u32, pid: i32) {
        if self.0.len() >= GUESTS_MAX {
            self.0.retain(|_, pid| status::read(*pid).is_some_and(|status| !status.dead));
        }
        self.0.insert((arena, process), pid);
    }

    /// Whether the arena's programs may use this process number.
    pub fn may_name(&self, arena: usize, process: u32) -> bool {
        ring::numbers(arena).contains(&process) || self.0.contains_key(&(arena, process))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_own_processes_and_guests_are_named() {
        let mut guests = Guests::default();
        let [first, second] = [0, 1].map(|arena| ring::numbers(arena).start);
        assert!(guests.may_name(0, first) && guests.may_name(1, second));
        assert!(!guests.may_name(1, first) && !guests.may_name(0, second));
        guests.admit(1, first, 1);
        assert!(guests.may_name(1, first) && !guests.may_name(0, second));
    }

    #[test]
    fn those_that_are_gone_are_forgotten() {
        let mut guests = Guests::default();
        (0..GUESTS_MAX as u32).for_each(|process| guests.admit(1, process, i32::MAX));
        guests.admit(1, 7, std::process::id() as i32);
        assert_eq!(guests.0.len(), 1);
    }
}
