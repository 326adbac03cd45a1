//! Which bytes of a file are known.

use std::collections::BTreeMap;
use std::ops::Range;

/// Limit for the number of ranges: what would make more is not known.
const RANGES_MAX: usize = 1 << 16;

/// Ranges that neither overlap nor touch: ends by beginnings.
#[derive(Default, Debug)]
pub struct Ranges(BTreeMap<u64, u64>);

impl Ranges {
    /// Adds a range.
    pub fn add(&mut self, range: Range<u64>) {
        if range.is_empty() {
            return;
        }
        let (mut start, mut end) = (range.start, range.end);
        let touching: Vec<u64> = self.within(start..end.saturating_add(1), true);
        if touching.is_empty() && self.0.len() >= RANGES_MAX {
            return;
        }
        for at in touching {
            start = start.min(at);
            end = end.max(self.0.remove(&at).unwrap_or(0));
        }
        self.0.insert(start, end);
    }

    /// Removes a range.
    pub fn remove(&mut self, range: Range<u64>) {
        if range.is_empty() {
            return;
        }
        for at in self.within(range.clone(), false) {
            let end = self.0.remove(&at).unwrap_or(0);
            if at < range.start {
                self.0.insert(at, range.start);
            }
            if end > range.end {
                self.0.insert(range.end, end);
            }
        }
    }

    /// What is missing in a range.
    pub fn missing(&self, range: Range<u64>) -> Vec<Range<u64>> {
        let (mut at, mut missing) = (range.start, Vec::new());
        for start in self.within(range.clone(), false) {
            if start > at {
                missing.push(at..start);
            }
            at = at.max(self.0[&start]);
        }
        if at < range.end {
            missing.push(at..range.end);
        }
        missing
    }

    /// Returns true if a range is there as a whole.
    pub fn has(&self, range: Range<u64>) -> bool {
        range.is_empty() || self.missing(range).is_empty()
    }

    /// Number of bytes.
    pub fn bytes(&self) -> u64 {
        self.0.iter().map(|(start, end)| end - start).sum()
    }

    /// Beginnings of those that overlap a range, in order; also of one that ends where it begins.
    fn within(&self, range: Range<u64>, or_touch: bool) -> Vec<u64> {
        let reaches = |end: u64| end > range.start || or_touch && end == range.start;
        let before = self.0.range(..range.end).rev().take_while(|(_, end)| reaches(**end));
        let mut all: Vec<u64> = before.map(|(start, _)| *start).collect();
        all.reverse();
        all
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Against a bit for each byte, over all short operations of a fixed sequence.
    #[test]
    fn ranges_are_sets_of_bytes() {
        let (mut ranges, mut bits) = (Ranges::default(), [false; 40]);
        let mut state = 1u64;
        for _ in 0..20_000 {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            let start = (state >> 40) as usize % 40;
            let end = (start + (state >> 50) as usize % 8).min(40);
            let range = start as u64..end as u64;
            if state >> 63 == 0 {
                ranges.add(range.clone());
                bits[start..end].fill(true);
            } else {
                ranges.remove(range.clone());
                bits[start..end].fill(false);
            }
            let bytes = bits.iter().filter(|bit| **bit).count() as u64;
            assert_eq!(ranges.bytes(), bytes);
            let runs = bits.chunk_by(|a, b| a == b).filter(|run| run[0]).count();
            assert_eq!(ranges.0.len(), runs);
            let missing: u64 = ranges.missing(3..33).iter().map(|r| r.end - r.start).sum();
            assert_eq!(missing, bits[3..33].iter().filter(|bit| !**bit).count() as u64);
            assert_eq!(ranges.has(10..15), bits[10..15].iter().all(|bit| *bit));
        }
    }
}
