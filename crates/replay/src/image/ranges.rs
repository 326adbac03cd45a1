//! Sets of byte ranges.

use std::collections::BTreeMap;
use std::ops::Range;

/// A set of bytes of a file, as ranges that neither overlap nor touch.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Ranges {
    ends: BTreeMap<u64, u64>,
}

impl Ranges {
    /// Adds a range.
    pub fn add(&mut self, range: Range<u64>) {
        if range.is_empty() {
            return;
        }
        let Range { mut start, mut end } = range;
        while let Some((&from, &to)) = self.ends.range(..=end).next_back() {
            if to < start {
                break;
            }
            (start, end) = (start.min(from), end.max(to));
            self.ends.remove(&from);
        }
        self.ends.insert(start, end);
    }

    /// Returns the parts of a range that are not in the set, in order.
    pub fn missing(&self, range: Range<u64>) -> Vec<Range<u64>> {
        let mut found = Vec::new();
        let mut at = range.start;
        let before = self.ends.range(..=range.start).next_back();
        if let Some((_, &end)) = before {
            at = at.max(end);
        }
        for (&from, &to) in self.ends.range(range.start..range.end.max(range.start)) {
            if from > at {
                found.push(at..from);
            }
            at = at.max(to);
        }
        if at < range.end {
            found.push(at..range.end);
        }
        found
    }

    /// Returns the parts of a range that are in the set, in order.
    pub fn within(&self, range: Range<u64>) -> impl Iterator<Item = Range<u64>> {
        let first = self.ends.range(..=range.start).next_back().map_or(range.start, |(&at, _)| at);
        let near = self.ends.range(first..range.end.max(first));
        let parts = near.map(move |(&from, &to)| from.max(range.start)..to.min(range.end));
        parts.filter(|part| !part.is_empty())
    }

    /// Returns the ranges in order.
    pub fn iter(&self) -> impl Iterator<Item = Range<u64>> {
        self.ends.iter().map(|(&from, &to)| from..to)
    }

    /// Number of ranges.
    pub fn count(&self) -> usize {
        self.ends.len()
    }

    /// Whether the set is empty.
    pub fn is_empty(&self) -> bool {
        self.ends.is_empty()
    }

    /// Number of bytes.
    pub fn bytes(&self) -> u64 {
        self.iter().fold(0u64, |sum, range| sum.saturating_add(range.end - range.start))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn set(ranges: &[Range<u64>]) -> Ranges {
        let mut set = Ranges::default();
        ranges.iter().for_each(|range| set.add(range.clone()));
        set
    }

    #[test]
    fn ranges_that_touch_become_one() {
        let all = set(&[0..10, 20..30, 10..20, 5..25, 40..50, 7..7]);
        assert_eq!(all.iter().collect::<Vec<_>>(), [0..30, 40..50]);
        assert_eq!((all.count(), all.bytes()), (2, 40));
    }

    #[test]
    fn what_is_missing_is_found() {
        let all = set(&[10..20, 30..40]);
        assert_eq!(all.missing(0..50), [0..10, 20..30, 40..50]);
        assert_eq!(all.missing(12..35), vec![20..30]);
        assert_eq!(all.missing(15..20), []);
        assert_eq!(all.missing(20..30), vec![20..30]);
        assert_eq!(all.missing(5..5), []);
        assert_eq!(set(&[]).missing(3..4), vec![3..4]);
    }
}
