//! What happened often, and how often is worth a word.

/// Minimum count of a reported pattern.
pub const OFTEN: u64 = 100;
/// Minimum count of patterns that wait for a disk, and of short transfers.
pub const OFTEN_SLOW: u64 = 20;
/// Limit for the call sites and directories that are counted.
pub const COUNTED_MAX: usize = 1 << 16;

/// Calls that are told by their numbers.
const NUMBERED_MAX: usize = 3;

/// The calls that took longest: time and number, the slowest first.
#[derive(Clone, Debug, Default)]
pub struct Slowest([(u64, u64); NUMBERED_MAX], usize);

impl Slowest {
    fn add(&mut self, ns: u64, number: u64) {
        let at = self.0[..self.1].partition_point(|(of, _)| *of >= ns);
        if at < NUMBERED_MAX {
            self.1 = (self.1 + 1).min(NUMBERED_MAX);
            self.0[at..self.1].rotate_right(1);
            self.0[at] = (ns, number);
        }
    }

    /// Returns their numbers.
    pub fn numbers(&self) -> Vec<u64> {
        self.0[..self.1].iter().map(|(_, number)| *number).collect()
    }
}

/// Count and cost of a repeated event.
#[derive(Clone, Debug, Default)]
pub struct Often {
    /// How often it happened.
    pub count: u64,
    /// Bytes of all.
    pub bytes: u64,
    /// Time of all.
    pub ns: u64,
    /// Those that took longest.
    pub slowest: Slowest,
}

impl Often {
    /// Counts one more.
    pub fn add(&mut self, bytes: u64, ns: u64) {
        self.count += 1;
        self.bytes = self.bytes.saturating_add(bytes);
        self.ns = self.ns.saturating_add(ns);
    }

    /// Counts one more, which has a number in the trace.
    pub fn add_call(&mut self, bytes: u64, ns: u64, number: Option<u64>) {
        self.add(bytes, ns);
        number.into_iter().for_each(|number| self.slowest.add(ns, number));
    }

    /// Counts all that another one counted.
    pub fn merge(&mut self, other: &Often) {
        self.count += other.count;
        self.bytes = self.bytes.saturating_add(other.bytes);
        self.ns = self.ns.saturating_add(other.ns);
        let Slowest(slowest, count) = &other.slowest;
        slowest[..*count].iter().for_each(|(ns, number)| self.slowest.add(*ns, *number));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_slowest_calls_are_kept_in_order() {
        let (mut some, mut more) = (Often::default(), Often::default());
        for (number, ns) in [5, 9, 1, 7, 3].into_iter().enumerate() {
            some.add_call(0, ns, Some(number as u64));
        }
        assert_eq!(some.slowest.numbers(), [1, 3, 0]);
        more.add_call(0, 8, Some(70));
        more.add_call(0, 8, None);
        some.merge(&more);
        assert_eq!((some.slowest.numbers(), some.count), (vec![1, 70, 3], 7));
    }
}
