//! Sets of byte ranges of a file.

use std::collections::BTreeMap;

/// Limit for the ranges of one file; beyond it, the set is not exact.
const RANGES_MAX: usize = 1 << 18;

/// A set of bytes, as ranges that neither touch nor overlap.
#[derive(Clone, Debug, Default)]
pub struct Ranges {
    /// End of each range, by its start.
    by_start: BTreeMap<u64, u64>,
    /// Number of bytes in all ranges.
    covered: u64,
}

impl Ranges {
    /// Number of ranges.
    pub fn count(&self) -> usize {
        self.by_start.len()
    }

    /// Number of bytes in the set.
    pub fn covered(&self) -> u64 {
        self.covered
    }

    /// Adds bytes. Returns how many of them were in the set already. Adds nothing if there are too
    /// many ranges.
    pub fn add(&mut self, offset: u64, bytes: u64) -> u64 {
        let (mut start, mut end) = (offset, offset.saturating_add(bytes));
        if start == end {
            return 0;
        }
        let mut known = 0;
        // Walk backwards from the last range that begins at or before the new end.
        while let Some((&from, &to)) = self.by_start.range(..=end).next_back() {
            if to < start {
                break;
            }
            known += to.min(offset.saturating_add(bytes)).saturating_sub(from.max(offset));
            if from <= start && to >= end {
                return known;
            }
            self.by_start.remove(&from);
            self.covered -= to - from;
            (start, end) = (start.min(from), end.max(to));
        }
        if self.by_start.len() < RANGES_MAX {
            self.by_start.insert(start, end);
            self.covered += end - start;
        }
        known
    }

    /// Gives start and length of each range.
    pub fn each(&self, mut give: impl FnMut(u64, u64)) {
        self.by_start.iter().for_each(|(start, end)| give(*start, end - start));
    }

    /// Removes all bytes from `length` on.
    pub fn truncate(&mut self, length: u64) {
        self.by_start.split_off(&length);
        if let Some(mut last) = self.by_start.last_entry() {
            let end = last.get_mut();
            *end = (*end).min(length);
        }
        self.covered = self.by_start.iter().map(|(start, end)| end - start).sum();
    }

    /// Removes all bytes.
    pub fn clear(&mut self) {
        *self = Ranges::default();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_are_counted_once() {
        let mut ranges = Ranges::default();
        assert_eq!(ranges.add(0, 100), 0);
        assert_eq!(ranges.add(100, 100), 0);
        assert_eq!((ranges.count(), ranges.covered()), (1, 200));
        assert_eq!(ranges.add(50, 10), 10);
        assert_eq!(ranges.add(300, 100), 0);
        assert_eq!(ranges.add(150, 200), 100);
        assert_eq!((ranges.count(), ranges.covered()), (1, 400));
        ranges.truncate(10);
        assert_eq!((ranges.count(), ranges.covered()), (1, 10));
        assert_eq!(ranges.add(u64::MAX, 10), 0);
        ranges.clear();
        assert_eq!(ranges.add(5, 0), 0);
        assert_eq!((ranges.count(), ranges.covered()), (0, 0));
    }

    #[test]
    fn as_a_set_of_single_bytes_would_have_it() {
        let (mut ranges, mut bytes) = (Ranges::default(), std::collections::BTreeSet::new());
        let mut state = 1u64;
        for _ in 0..2000 {
            state = state.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
            let (offset, len) = (state >> 33 & 0x3ff, state >> 50 & 0xf);
            let known = (offset..offset + len).filter(|byte| !bytes.insert(*byte)).count() as u64;
            assert_eq!(ranges.add(offset, len), known);
            if state >> 60 == 0 {
                ranges.truncate(offset);
                bytes.retain(|byte| *byte < offset);
            }
            assert_eq!(ranges.covered(), bytes.len() as u64);
        }
    }
}
