//! Remembers buffers in a hash table of bounded size, which forgets old entries by itself.
//!
//! Buckets have eight entries. The most frequent question, whether a hash is known, touches one
//! cache line. The table grows when a bucket is full; at its full size, a new entry replaces the
//! oldest in its bucket, so that no entry needs to be looked up for removal.

/// Entries of a bucket: their first words fill a cache line.
const WAYS: usize = 8;
const BUCKETS_MIN: usize = 64;
/// Marks a free entry; no number is this large.
const NOBODY: u64 = u64::MAX;

#[derive(Clone)]
#[repr(align(64))]
struct Bucket {
    low: [u64; WAYS],
    high: [u64; WAYS],
    ids: [u64; WAYS],
}

impl Bucket {
    const EMPTY: Bucket = Bucket { low: [0; WAYS], high: [0; WAYS], ids: [NOBODY; WAYS] };

    fn find(&self, [low, high]: [u64; 2]) -> Option<u64> {
        (0..WAYS)
            .find(|&way| self.low[way] == low && self.high[way] == high && self.ids[way] != NOBODY)
            .map(|way| self.ids[way])
    }

    fn is_full(&self) -> bool {
        !self.ids.contains(&NOBODY)
    }

    /// Adds an entry, replacing the oldest one in a full bucket.
    fn add(&mut self, [low, high]: [u64; 2], id: u64) {
        let free = self.ids.iter().position(|&id| id == NOBODY);
        let oldest = || (0..WAYS).min_by_key(|&way| self.ids[way]).unwrap_or(0);
        let way = free.unwrap_or_else(oldest);
        (self.low[way], self.high[way], self.ids[way]) = (low, high, id);
    }
}

/// Maps hashes to the numbers of the buffers that have them.
pub struct Known {
    buckets: Vec<Bucket>,
    buckets_max: usize,
}

impl Known {
    /// Returns a table for about that many entries, and for at least a few hundred.
    pub fn new(entries_max: usize) -> Known {
        let buckets_max = (entries_max / WAYS).next_power_of_two().max(BUCKETS_MIN);
        Known { buckets: vec![Bucket::EMPTY; BUCKETS_MIN], buckets_max }
    }

    /// Returns the number known for a hash. If there is none, `id` becomes that number.
    pub fn find_or_add(&mut self, hash: [u64; 2], id: u64) -> Option<u64> {
        let mut place = self.place(hash[0]);
        if let Some(known) = self.buckets[place].find(hash) {
            return Some(known);
        }
        while self.buckets[place].is_full() && self.buckets.len() < self.buckets_max {
            self.grow();
            place = self.place(hash[0]);
        }
        self.buckets[place].add(hash, id);
        None
    }

    fn place(&self, low: u64) -> usize {
        low as usize & (self.buckets.len() - 1)
    }

    #[cold]
    fn grow(&mut self) {
        let buckets = vec![Bucket::EMPTY; self.buckets.len() * 2];
        for old in std::mem::replace(&mut self.buckets, buckets) {
            for way in (0..WAYS).filter(|&way| old.ids[way] != NOBODY) {
                let hash = [old.low[way], old.high[way]];
                let place = self.place(hash[0]);
                self.buckets[place].add(hash, old.ids[way]);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hash(i: u64) -> [u64; 2] {
        [i.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 20, i]
    }

    #[test]
    fn what_was_added_is_found_until_there_is_no_room() {
        let mut known = Known::new(1 << 12);
        for i in 0..1 << 11 {
            assert_eq!(known.find_or_add(hash(i), i), None);
            assert_eq!(known.find_or_add(hash(i), 9), Some(i));
        }
        assert!((0..1 << 11).all(|i| known.find_or_add(hash(i), 9) == Some(i)));
        for i in 1 << 11..1 << 16 {
            assert_eq!(known.find_or_add(hash(i), i), None);
        }
        assert!(known.buckets.len() == 1 << 9, "bounded");
        let found = |known: &mut Known, i| known.find_or_add(hash(i), NOBODY) == Some(i);
        assert!(((1 << 16) - 1000..1 << 16).all(|i| found(&mut known, i)), "the last stay");
    }

    #[test]
    fn both_halves_of_a_hash_count() {
        let mut known = Known::new(0);
        assert_eq!(known.find_or_add([1, 1], 0), None);
        assert_eq!(known.find_or_add([1, 2], 1), None);
        assert_eq!(known.find_or_add([0, 0], 2), None);
        assert_eq!(known.find_or_add([1, 2], 3), Some(1));
        assert_eq!(known.find_or_add([1, 1], 3), Some(0));
    }
}
