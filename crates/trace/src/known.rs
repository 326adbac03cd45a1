//! Remembers buffers in a hash table of bounded size, which forgets old entries by itself.
//!
//! Buckets have eight entries. The most frequent question, whether a hash is known, touches one
//! cache line. The table grows when a bucket is full; at its full size, a new entry replaces the
//! oldest in its bucket, so that no entry needs to be looked up for removal.

use std::ops::Range;

use rustix::mm::{Advice, madvise};

/// Entries of a bucket: their first words fill a cache line.
const WAYS: usize = 8;
const BUCKETS_MIN: usize = 64;
/// Words of a bucket: the lower halves of the hashes, the upper halves, then the numbers + 1; 0: free.
const WORDS: usize = 3 * WAYS;
const LINE_WORDS: usize = 8;
/// Memory from which on large pages are asked for, and what they are aligned to.
const LARGE_BYTES: usize = 2 << 20;
const PAGE_BYTES: usize = 4096;

type Bucket = [u64; WORDS];

fn find(bucket: &Bucket, [low, high]: [u64; 2]) -> Option<u64> {
    let is_it = |&way: &usize| bucket[way] == low && bucket[WAYS + way] == high;
    let way = (0..WAYS).filter(is_it).find(|way| bucket[2 * WAYS + way] != 0)?;
    Some(bucket[2 * WAYS + way] - 1)
}

fn is_full(bucket: &Bucket) -> bool {
    !bucket[2 * WAYS..].contains(&0)
}

/// Adds an entry, replacing the oldest one in a full bucket.
fn add(bucket: &mut Bucket, [low, high]: [u64; 2], id: u64) {
    // What is free is the least.
    let way = (0..WAYS).min_by_key(|&way| bucket[2 * WAYS + way]).unwrap_or(0);
    (bucket[way], bucket[WAYS + way], bucket[2 * WAYS + way]) = (low, high, id + 1);
}

/// Maps hashes to the numbers of the buffers that have them.
pub struct Known {
    /// Buckets, behind words that make them begin with a cache line.
    words: Vec<u64>,
    first: usize,
    buckets: usize,
    buckets_max: usize,
}

impl Known {
    /// Returns a table for about that many entries, and for at least a few hundred.
    pub fn new(entries_max: usize) -> Known {
        let buckets_max = (entries_max / WAYS).next_power_of_two().max(BUCKETS_MIN);
        Known::of(BUCKETS_MIN, buckets_max)
    }

    fn of(buckets: usize, buckets_max: usize) -> Known {
        // Zeros: the kernel gives fresh pages when they are used, many at once if it can. Small ones would
        // take as long as all that is done with the table.
        let words = vec![0u64; buckets * WORDS + LINE_WORDS];
        let first = words.as_ptr().align_offset(LINE_WORDS * size_of::<u64>()).min(LINE_WORDS);
        let at = words.as_ptr() as usize;
        let pages =
            at.next_multiple_of(PAGE_BYTES)..(at + size_of_val(&words[..])) & !(PAGE_BYTES - 1);
        if pages.len() >= LARGE_BYTES {
            // SAFETY: this advice changes nothing but how the memory of the vector is backed.
            let _ = unsafe { madvise(pages.start as *mut _, pages.len(), Advice::LinuxHugepage) };
        }
        Known { words, first, buckets, buckets_max }
    }

    /// Returns the number known for a hash. If there is none, `id` becomes that number.
    pub fn find_or_add(&mut self, hash: [u64; 2], id: u64) -> Option<u64> {
        if let Some(known) = find(self.bucket(hash), hash) {
            return Some(known);
        }
        while is_full(self.bucket(hash)) && self.buckets < self.buckets_max {
            self.grow();
        }
        add(self.bucket(hash), hash, id);
        None
    }

    fn bucket(&mut self, hash: [u64; 2]) -> &mut Bucket {
        let place = self.first + (hash[0] as usize & (self.buckets - 1)) * WORDS;
        self.words[place..].first_chunk_mut().expect("the table has that many buckets")
    }

    /// Where the buckets are.
    fn all(&self) -> Range<usize> {
        self.first..self.first + self.buckets * WORDS
    }

    #[cold]
    fn grow(&mut self) {
        let old = std::mem::replace(self, Known::of(self.buckets * 2, self.buckets_max));
        for bucket in old.words[old.all()].as_chunks::<WORDS>().0 {
            for way in (0..WAYS).filter(|way| bucket[2 * WAYS + way] != 0) {
                let hash = [bucket[way], bucket[WAYS + way]];
                add(self.bucket(hash), hash, bucket[2 * WAYS + way] - 1);
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
        assert!(known.buckets == 1 << 9, "bounded");
        let found = |known: &mut Known, i| known.find_or_add(hash(i), 9) == Some(i);
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
