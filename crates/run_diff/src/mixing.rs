//! A fast hash for numbers that no trace chooses: of calls, files and places.

use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hasher};

/// A map by such numbers.
pub type Map<K, V> = HashMap<K, V, BuildHasherDefault<Mixer>>;

/// Mixes numbers into one.
#[derive(Clone, Copy, Debug, Default)]
pub struct Mixer(u64);

/// An odd number without a pattern.
const FACTOR: u64 = 0x9e37_79b9_7f4a_7c15;

impl Hasher for Mixer {
    fn write(&mut self, bytes: &[u8]) {
        for piece in bytes.chunks(8) {
            let mut word = [0; 8];
            word[..piece.len()].copy_from_slice(piece);
            self.write_u64(u64::from_le_bytes(word));
        }
    }

    fn write_u8(&mut self, value: u8) {
        self.write_u64(value.into());
    }

    fn write_u16(&mut self, value: u16) {
        self.write_u64(value.into());
    }

    fn write_u32(&mut self, value: u32) {
        self.write_u64(value.into());
    }

    fn write_u64(&mut self, value: u64) {
        let mixed = (self.0.rotate_left(23) ^ value).wrapping_mul(FACTOR);
        self.0 = mixed ^ (mixed >> 32);
    }

    fn write_usize(&mut self, value: usize) {
        self.write_u64(value as u64);
    }

    fn finish(&self) -> u64 {
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed ^ (mixed >> 27)
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;
    use std::hash::Hash;

    use super::*;

    #[test]
    fn numbers_have_hashes_of_their_own() {
        let hash = |value: (u64, u64)| {
            let mut mixer = Mixer::default();
            value.hash(&mut mixer);
            mixer.finish()
        };
        let all: HashSet<u64> = (0..100_000).map(|n| hash((n % 317, n / 317))).collect();
        assert_eq!(all.len(), 100_000);
        // The lowest bits, by which maps choose a place, differ too.
        let low: HashSet<u64> = (0..4096).map(|n| hash((n << 32, 0)) % 4096).collect();
        assert!(low.len() > 2000, "{}", low.len());
    }
}
