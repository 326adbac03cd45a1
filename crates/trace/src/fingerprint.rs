//! Fingerprints by which equal buffers are recognised: a universal hash with a secret key.
//!
//! A buffer is cut into pieces of two 64-bit words (a, b); piece 0 is its length. With a key of
//! random pairs (x, y), both halves of the fingerprint are sums over the field of 2^64 elements:
//!
//! ```text
//! low  = sum over i of (a[i] + x[i])   * (b[i] + y[i])
//! high = sum over i of (a[i] + x[i+1]) * (b[i] + y[i+1])
//! ```
//!
//! Two different buffers have equal fingerprints for at most 4 of 2^128 keys. Take the last piece
//! in which they differ, t. The difference of their high sums contains the pair t+1 of the key in
//! this piece alone; where both have the piece, it is linear in x[t+1] or y[t+1] with a factor that
//! is not 0, so one value of it at most makes the difference 0. Where only one buffer has it, the
//! product has a given value for at most 2 of 2^64 pairs. The same holds for the low sums and the
//! pair t, which was drawn independently. The key is drawn for each recording and kept secret, so
//! no program can choose its data to make fingerprints collide.

use std::io;

use rustix::rand::{GetRandomFlags, getrandom};

use crate::event::BLOB_BYTES_MAX;

/// Pairs for the length and the pieces, and one more.
const PAIRS: usize = BLOB_BYTES_MAX / PIECE + 2;
const PIECE: usize = 16;
/// x^64 = x^4 + x^3 + x + 1: the field's modulus.
const MODULUS: u64 = 0b11011;

/// Computes fingerprints with one key.
pub struct Fingerprints {
    key: Vec<[u64; 2]>,
    clmul: bool,
}

impl Fingerprints {
    /// Draws a new key.
    pub fn new() -> io::Result<Fingerprints> {
        let mut bytes = vec![0; PAIRS * PIECE];
        let mut filled = 0;
        while filled < bytes.len() {
            filled += getrandom(&mut bytes[filled..], GetRandomFlags::empty())?;
        }
        let (pairs, _) = bytes.as_chunks::<PIECE>();
        Ok(Fingerprints { key: pairs.iter().map(words).collect(), clmul: fast::is_there() })
    }

    /// The low and high half of the fingerprint of at most `BLOB_BYTES_MAX` bytes.
    #[inline]
    pub fn of(&self, bytes: &[u8]) -> [u64; 2] {
        let (pieces, rest) = bytes.as_chunks::<PIECE>();
        assert!(bytes.len() <= BLOB_BYTES_MAX, "the key is as long as the longest buffer");
        let mut last = [0; PIECE];
        last[..rest.len()].copy_from_slice(rest);
        let last = (!rest.is_empty()).then_some(last);
        let length = [bytes.len() as u64, 0];
        let sums = if self.clmul {
            fast::sums(&self.key, length, pieces, last)
        } else {
            portable::sums(&self.key, length, pieces, last)
        };
        sums.map(reduce)
    }
}

fn words(piece: &[u8; PIECE]) -> [u64; 2] {
    let word = u128::from_le_bytes(*piece);
    [word as u64, (word >> 64) as u64]
}

/// Reduces a product modulo the field's modulus.
fn reduce(product: u128) -> u64 {
    // Fold the bits above bit 64 twice: the first fold leaves 4 of them.
    let fold = |high: u64| {
        (0..5)
            .filter(|bit| MODULUS >> bit & 1 == 1)
            .fold(0, |sum, bit| sum ^ u128::from(high) << bit)
    };
    let once = u128::from(product as u64) ^ fold((product >> 64) as u64);
    once as u64 ^ fold((once >> 64) as u64) as u64
}

/// Uses the processor's carry-less multiplication.
#[cfg(target_arch = "x86_64")]
mod fast {
    use core::arch::x86_64::{
        __m128i, _mm_clmulepi64_si128, _mm_cvtsi128_si64, _mm_set_epi64x, _mm_setzero_si128,
        _mm_unpackhi_epi64, _mm_xor_si128,
    };

    use super::{PIECE, words};

    pub fn is_there() -> bool {
        is_x86_feature_detected!("pclmulqdq")
    }

    pub fn sums(
        key: &[[u64; 2]],
        length: [u64; 2],
        pieces: &[[u8; PIECE]],
        last: Option<[u8; PIECE]>,
    ) -> [u128; 2] {
        // SAFETY: `Fingerprints::new` uses this only if `is_there` has found pclmulqdq.
        unsafe { sums_by_clmul(key, length, pieces, last) }
    }

    #[target_feature(enable = "pclmulqdq")]
    fn sums_by_clmul(
        key: &[[u64; 2]],
        length: [u64; 2],
        pieces: &[[u8; PIECE]],
        last: Option<[u8; PIECE]>,
    ) -> [u128; 2] {
        let pair = |[a, b]: [u64; 2]| _mm_set_epi64x(b as i64, a as i64);
        let (mut low, mut high) = (_mm_setzero_si128(), _mm_setzero_si128());
        let mut add = |piece: __m128i, key: __m128i, next: __m128i| {
            let (one, two) = (_mm_xor_si128(piece, key), _mm_xor_si128(piece, next));
            low = _mm_xor_si128(low, _mm_clmulepi64_si128::<0x10>(one, one));
            high = _mm_xor_si128(high, _mm_clmulepi64_si128::<0x10>(two, two));
        };
        add(pair(length), pair(key[0]), pair(key[1]));
        for (piece, keys) in pieces.iter().zip(key[1..].windows(2)) {
            add(pair(words(piece)), pair(keys[0]), pair(keys[1]));
        }
        if let Some(last) = last {
            let at = pieces.len() + 1;
            add(pair(words(&last)), pair(key[at]), pair(key[at + 1]));
        }
        [low, high].map(|sum| {
            let high = _mm_cvtsi128_si64(_mm_unpackhi_epi64(sum, sum)) as u64;
            u128::from(high) << 64 | u128::from(_mm_cvtsi128_si64(sum) as u64)
        })
    }
}

#[cfg(not(target_arch = "x86_64"))]
mod fast {
    pub use super::portable::sums;

    pub fn is_there() -> bool {
        false
    }
}

/// Works on every processor.
mod portable {
    use super::{PIECE, words};

    pub fn sums(
        key: &[[u64; 2]],
        length: [u64; 2],
        pieces: &[[u8; PIECE]],
        last: Option<[u8; PIECE]>,
    ) -> [u128; 2] {
        let all = [length].into_iter().chain(pieces.iter().chain(&last).map(words));
        all.zip(key.windows(2)).fold([0; 2], |[low, high], ([a, b], keys)| {
            let [one, two] = [keys[0], keys[1]];
            [low ^ multiply(a ^ one[0], b ^ one[1]), high ^ multiply(a ^ two[0], b ^ two[1])]
        })
    }

    /// Carry-less product by multiplications of spread bits, between which carries find room.
    fn multiply(a: u64, b: u64) -> u128 {
        const SPREAD: u64 = 0x1084_2108_4210_8421;
        let mut product = 0;
        for i in 0..5 {
            for k in 0..5 {
                let (a, b) = (a & SPREAD << i, b & SPREAD << k);
                let kept = u128::from(SPREAD) | u128::from(SPREAD) << 65;
                product ^= (u128::from(a) * u128::from(b)) & (kept << (i + k));
            }
        }
        product
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fingerprints() -> Fingerprints {
        let mut state = 7_u64;
        let mut random = || {
            state = state.wrapping_mul(0x5851_f42d_4c95_7f2d).wrapping_add(1);
            state ^ state >> 29
        };
        let key = (0..PAIRS).map(|_| [random(), random()]).collect();
        Fingerprints { key, clmul: fast::is_there() }
    }

    #[test]
    fn multiplication_follows_the_laws_of_the_field() {
        let one = |a: u64, b: u64| {
            let key = [[0, 0], [0, 0]];
            reduce(portable::sums(&key, [a, b], &[], None)[0])
        };
        let (a, b, c) = (0x8421_dead_beef_1248, u64::MAX, 0x0123_4567_89ab_cdef);
        assert_eq!(one(a, 1), a);
        assert_eq!(one(1 << 63, 2), MODULUS);
        assert_eq!(one(a, b), one(b, a));
        assert_eq!(one(a, b ^ c), one(a, b) ^ one(a, c));
        assert_eq!(one(one(a, b), c), one(a, one(b, c)));
        // Fermat: a to the power of 2^64 is a.
        assert_eq!((0..64).fold(a, |power, _| one(power, power)), a);
    }

    #[test]
    fn both_ways_of_computing_agree() {
        let (fast, slow) = (fingerprints(), Fingerprints { clmul: false, ..fingerprints() });
        let bytes: Vec<u8> = (0..BLOB_BYTES_MAX as u32).map(|i| ((i * i) >> 7) as u8).collect();
        for len in (0..200).chain([4095, 4096, bytes.len() - 1, bytes.len()]) {
            assert_eq!(fast.of(&bytes[..len]), slow.of(&bytes[..len]), "{len} bytes");
        }
    }

    #[test]
    fn every_bit_and_the_length_count() {
        let fingerprints = fingerprints();
        let mut bytes = vec![0; 100];
        let mut seen = std::collections::HashSet::new();
        for len in 0..=100 {
            assert!(seen.insert(fingerprints.of(&bytes[..len])));
        }
        for bit in 0..800 {
            bytes[bit / 8] ^= 1 << (bit % 8);
            let [low, high] = fingerprints.of(&bytes);
            bytes[bit / 8] ^= 1 << (bit % 8);
            assert!(seen.insert([low, high]));
        }
        let halves = |half: usize| seen.iter().map(|both| both[half]).collect();
        let distinct: [std::collections::HashSet<u64>; 2] = [halves(0), halves(1)];
        assert_eq!(distinct.map(|half| half.len()), [seen.len(); 2]);
    }
}
