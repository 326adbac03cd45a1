//! Thread and process numbers that an arena's programs may use: those of the arena, and of
//! processes that moved there. Otherwise they could forge records of other users' programs.

use std::cell::RefCell;
use std::collections::HashSet;
use std::ops::Range;

use syscalls::record::Start;

/// The allowed numbers of one arena.
pub(crate) struct Numbers {
    own: Range<u32>,
    /// The user that owns the arena.
    pub user: u32,
    guests: RefCell<Guests>,
}

#[derive(Default)]
struct Guests {
    processes: HashSet<u32>,
    /// The launched program's thread moves before its START is read.
    launched: Option<u32>,
}

/// Number of guest processes from which those that have ended are removed.
const GUESTS_MAX: usize = 64 << 10;

impl Numbers {
    /// Returns the numbers of the arena with this index, which is owned by `user`.
    pub fn of(arena: usize, user: u32) -> Numbers {
        Numbers { own: ring::numbers(arena), user, guests: RefCell::default() }
    }

    /// Allows a process whose thread has moved here. `runs`: whether a process still has threads.
    pub fn admit(&self, process: u32, runs: impl Fn(u32) -> bool) {
        let mut guests = self.guests.borrow_mut();
        if guests.processes.len() >= GUESTS_MAX {
            guests.processes.retain(|&process| runs(process));
        }
        guests.processes.insert(process);
    }

    /// Allows the launched program, whose thread has this number.
    pub fn admit_launched(&self, process: u32, thread: u32) {
        let mut guests = self.guests.borrow_mut();
        guests.processes.insert(process);
        guests.launched = Some(thread);
    }

    /// Whether the thread and process numbers of a START are allowed.
    pub fn allow(&self, start: &Start) -> bool {
        let guests = self.guests.borrow();
        let thread = self.own.contains(&start.thread) || guests.launched == Some(start.thread);
        let process =
            self.own.contains(&start.process) || guests.processes.contains(&start.process);
        thread && process
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nobody_speaks_for_another_arenas_programs() {
        let start = |thread, process| Start { tsc: 0, thread, process, parent: 0, pid: 1, tid: 1 };
        let (first, second) = (Numbers::of(0, 0), Numbers::of(1, 0));
        let own = ring::numbers(1).start;
        assert!(first.allow(&start(1, 1)) && second.allow(&start(own, own)));
        assert!(!first.allow(&start(own, 1)) && !first.allow(&start(1, own)));
        assert!(!second.allow(&start(1, own)) && !second.allow(&start(own, 1)));
        second.admit(1, |_| true);
        assert!(second.allow(&start(own, 1)) && !second.allow(&start(1, 1)));
        second.admit_launched(2, 7);
        assert!(second.allow(&start(7, 2)) && !second.allow(&start(8, 2)));
    }

    #[test]
    fn those_that_are_gone_are_forgotten() {
        let numbers = Numbers::of(1, 0);
        (0..GUESTS_MAX as u32).for_each(|process| numbers.admit(process, |_| true));
        numbers.admit(99_999_999, |process| process == 5);
        assert_eq!(numbers.guests.borrow().processes.len(), 2);
    }
}
