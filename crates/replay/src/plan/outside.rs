//! Waits for the outside: sleeps, timers, time-outs, and peers and terminals that were not recorded.
//!
//! A thread waits for the outside while all others wait as well, from where one of them has done something
//! last. Else it may wait for these, or for the system.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, HashMap};

/// A shorter call is no wait.
pub const SHORT_NS: u64 = 20_000;
/// Others go on that long after what they have waited for.
const WAKING_NS: u64 = 1_000_000;

/// How a call may wait.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Kind {
    /// For the system alone.
    Works,
    /// For another thread, or the outside.
    Waits,
    /// For the clock.
    Sleeps,
}

/// A wait that is under way, by its end.
#[derive(PartialEq, Eq, PartialOrd, Ord)]
struct Open {
    exit_ns: u64,
    enter_ns: u64,
    thread: u32,
    kind: Kind,
}

/// Follows what threads wait for.
#[derive(Default)]
pub struct Outside {
    /// Threads that live; true for those that do not wait.
    threads: HashMap<u32, bool>,
    running: usize,
    open: BinaryHeap<Reverse<Open>>,
    /// Who has done something last, and when; and the last other one.
    last: [Option<(u32, u64)>; 2],
}

impl Outside {
    /// A thread begins.
    pub fn begin(&mut self, thread: u32, at_ns: u64) {
        self.set(thread, true);
        self.done(thread, at_ns);
    }

    /// A thread ends.
    pub fn end(&mut self, thread: u32) {
        if self.threads.remove(&thread) == Some(true) {
            self.running -= 1;
        }
    }

    /// A thread makes a call; `exit_ns` is its end, if it has one.
    pub fn call(&mut self, thread: u32, kind: Kind, enter_ns: u64, exit_ns: Option<u64>) {
        let end_ns = exit_ns.unwrap_or(u64::MAX).max(enter_ns);
        if kind == Kind::Works || end_ns - enter_ns < SHORT_NS {
            self.set(thread, true);
            return self.done(thread, exit_ns.unwrap_or(enter_ns));
        }
        self.done(thread, enter_ns);
        self.set(thread, false);
        if exit_ns.is_some() {
            self.open.push(Reverse(Open { exit_ns: end_ns, enter_ns, thread, kind }));
        }
    }

    /// Takes the next wait that had ended by then: its thread, and for how long it was one for the outside.
    pub fn next(&mut self, now_ns: u64) -> Option<(u32, u64)> {
        if self.open.peek()?.0.exit_ns > now_ns {
            return None;
        }
        let Reverse(Open { exit_ns, enter_ns, thread, kind }) = self.open.pop()?;
        let others = self.last.iter().flatten().find(|(other, _)| *other != thread);
        let met_ns = others.map(|(_, at_ns)| *at_ns).filter(|at_ns| *at_ns > enter_ns);
        let outside_ns = match (kind, met_ns) {
            (Kind::Sleeps, _) => exit_ns - enter_ns,
            // Somebody works for whom it may wait.
            _ if self.running != 0 => 0,
            (_, Some(at_ns)) => {
                Some(exit_ns.saturating_sub(at_ns)).filter(|ns| *ns > WAKING_NS).unwrap_or(0)
            }
            (_, None) => exit_ns - enter_ns,
        };
        self.set(thread, true);
        self.done(thread, exit_ns);
        Some((thread, outside_ns))
    }

    fn set(&mut self, thread: u32, runs: bool) {
        let before = self.threads.insert(thread, runs);
        self.running += usize::from(runs);
        self.running -= usize::from(before == Some(true));
    }

    fn done(&mut self, thread: u32, at_ns: u64) {
        if self.last[0].is_some_and(|(last, _)| last != thread) {
            self.last[1] = self.last[0];
        }
        self.last[0] = Some((thread, at_ns));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: u64 = 1_000_000;

    #[test]
    fn who_sleeps_waits_for_the_outside_whatever_others_do() {
        let mut outside = Outside::default();
        outside.begin(1, 0);
        outside.begin(2, 0);
        outside.call(1, Kind::Sleeps, MS, Some(51 * MS));
        assert_eq!(outside.next(50 * MS), None);
        assert_eq!(outside.next(51 * MS), Some((1, 50 * MS)));
        assert_eq!(outside.next(u64::MAX), None);
    }

    #[test]
    fn who_waits_while_others_work_waits_for_them() {
        for (is_there, expected) in [(true, 0), (false, 50 * MS)] {
            let mut outside = Outside::default();
            outside.begin(1, 0);
            if is_there {
                outside.begin(2, 0);
            }
            outside.call(1, Kind::Waits, MS, Some(51 * MS));
            assert_eq!(outside.next(u64::MAX), Some((1, expected)));
        }
    }

    #[test]
    fn a_short_wait_of_who_is_alone_is_one_for_the_outside() {
        let mut outside = Outside::default();
        outside.begin(1, 0);
        outside.call(1, Kind::Waits, MS, Some(MS + 50_000));
        assert_eq!(outside.next(u64::MAX), Some((1, 50_000)));
        outside.call(1, Kind::Waits, 2 * MS, Some(2 * MS + 2000));
        assert_eq!(outside.next(u64::MAX), None, "it found what it wanted");
    }

    #[test]
    fn a_wait_counts_from_what_others_have_done_last() {
        let mut outside = Outside::default();
        outside.begin(1, 0);
        outside.begin(2, 0);
        outside.call(1, Kind::Waits, MS, Some(51 * MS));
        outside.call(2, Kind::Works, 20 * MS, Some(21 * MS));
        outside.call(2, Kind::Waits, 21 * MS, None);
        assert_eq!(outside.next(u64::MAX), Some((1, 30 * MS)));
        // What follows at once was brought about by it.
        outside.call(1, Kind::Waits, 60 * MS, Some(80 * MS));
        outside.call(2, Kind::Works, 79 * MS, Some(79 * MS + 500_000));
        outside.end(2);
        assert_eq!(outside.next(u64::MAX), Some((1, 0)));
    }
}
