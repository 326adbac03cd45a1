//! A set of hashes for millions of entries.
//!
//! Open addressing: a lookup costs one cache miss. The standard library's sets cost two, and an
//! export spends much of its time on lookups.

use std::hash::{BuildHasher, RandomState};

/// Initial number of slots.
const PLACES_MIN: usize = 1 << 10;

/// The set.
pub struct Hashes {
    /// Slots, 0 if empty. Their number is a power of two, or 0.
    places: Vec<u128>,
    len: usize,
    has_zero: bool,
    /// Random keys, so that a hostile trace cannot provoke collisions.
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
    /// Number of hashes.
    pub fn len(&self) -> usize {
        self.len + usize::from(self.has_zero)
    }

    /// Returns true if the set contains a hash.
    pub fn contains(&self, hash: u128) -> bool {
        match hash {
            0 => self.has_zero,
            _ => !self.places.is_empty() && self.places[self.place(hash)] == hash,
        }
    }

    /// Adds a hash. Returns true if it is new.
    pub fn insert(&mut self, hash: u128) -> bool {
        if hash == 0 {
            return !std::mem::replace(&mut self.has_zero, true);
        }
        // Keep one slot in four free, to avoid long runs of taken ones.
        if 4 * self.len >= 3 * self.places.len() {
            self.grow();
        }
        let place = self.place(hash);
        let is_new = self.places[place] != hash;
        self.places[place] = hash;
        self.len += usize::from(is_new);
        is_new
    }

    /// Loads the slots of several hashes into the cache at once, so that the following lookups do
    /// not miss one after the other.
    pub fn fetch(&self, hashes: &[u128]) {
        if !self.places.is_empty() {
            let found = hashes.iter().map(|hash| self.places[self.first_place(*hash)]);
            std::hint::black_box(found.fold(0, |all, found| all ^ found));
        }
    }

    /// Returns the slot where the search for a hash begins.
    fn first_place(&self, hash: u128) -> usize {
        let [low, high] = [hash as u64 ^ self.keys[0], (hash >> 64) as u64 ^ self.keys[1]];
        let product = u128::from(low) * u128::from(high);
        (product as u64 ^ (product >> 64) as u64) as usize & (self.places.len() - 1)
    }

    /// Returns the slot of a hash, or the free slot for it.
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
