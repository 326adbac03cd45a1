//! A set of hashes, for millions of them.
//!
//! Each stands in one place of memory or close behind it, so that looking for one waits for memory
//! once; the sets of the standard library wait twice, and an export spends much of its time on that.

use std::hash::{BuildHasher, RandomState};

/// Places of a set that is not empty, at first.
const PLACES_MIN: usize = 1 << 10;

/// The set.
pub struct Hashes {
    /// Zero where there is none; as many as a power of two, or none at all.
    places: Vec<u128>,
    len: usize,
    has_zero: bool,
    /// Nobody who makes up hashes knows where they will stand.
    keys: [u64; 2],
}

impl Default for Hashes {
    fn default() -> Hashes {
        let random = RandomState::new();
        let keys = [0u8, 1].map(|n| random.hash_one(n));
        Hashes { places: Vec::new(), len: 0, has_zero: false, keys }
    }
}

impl Hashes {
    /// How many there are.
    pub fn len(&self) -> usize {
        self.len + usize::from(self.has_zero)
    }

    /// Whether a hash is there.
    pub fn contains(&self, hash: u128) -> bool {
        match hash {
            0 => self.has_zero,
            _ => !self.places.is_empty() && self.places[self.place(hash)] == hash,
        }
    }

    /// Adds a hash, and tells whether it was not there before.
    pub fn insert(&mut self, hash: u128) -> bool {
        if hash == 0 {
            return !std::mem::replace(&mut self.has_zero, true);
        }
        // One place in four is free, so that those taken do not run together.
        if 4 * self.len >= 3 * self.places.len() {
            self.grow();
        }
        let place = self.place(hash);
        let is_new = self.places[place] != hash;
        self.places[place] = hash;
        self.len += usize::from(is_new);
        is_new
    }

    /// Makes the processor fetch where hashes stand, all at the same time: those that are looked for
    /// next do not wait for memory one after the other.
    pub fn fetch(&self, hashes: &[u128]) {
        if !self.places.is_empty() {
            let found = hashes.iter().map(|hash| self.places[self.first_place(*hash)]);
            std::hint::black_box(found.fold(0, |all, found| all ^ found));
        }
    }

    /// Where the search for a hash begins.
    fn first_place(&self, hash: u128) -> usize {
        let [low, high] = [hash as u64 ^ self.keys[0], (hash >> 64) as u64 ^ self.keys[1]];
        let product = u128::from(low) * u128::from(high);
        (product as u64 ^ (product >> 64) as u64) as usize & (self.places.len() - 1)
    }

    /// Where a hash stands, or would.
    fn place(&self, hash: u128) -> usize {
        let last = self.places.len() - 1;
        let mut place = self.first_place(hash);
        while self.places[place] != 0 && self.places[place] != hash {
            place = (place + 1) & last;
        }
        place
    }

    fn grow(&mut self) {
        let len = (2 * self.places.len()).max(PLACES_MIN);
        for hash in std::mem::replace(&mut self.places, vec![0; len]) {
            if hash != 0 {
                let place = self.place(hash);
                self.places[place] = hash;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    #[test]
    fn a_set_like_any_other() {
        let (mut set, mut other) = (Hashes::default(), HashSet::new());
        assert!(!set.contains(0) && !set.contains(1));
        let mut state = 1u64;
        for n in 0..20_000u128 {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            let far = u128::from(state) << 64 | u128::from(state);
            for hash in [far, n, n << 64, n % 7] {
                assert_eq!(set.contains(hash), other.contains(&hash), "{hash:x}");
                assert_eq!(set.insert(hash), other.insert(hash), "{hash:x}");
            }
            assert_eq!(set.len(), other.len());
        }
        assert!(other.iter().all(|hash| set.contains(*hash)));
    }
}
