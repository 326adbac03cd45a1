//! Payloads as stored, and back.

use crate::format::{PAYLOAD_BYTES_MAX, RATIO_MAX, codec};

/// How blocks are compressed. A block that does not shrink is stored as it is.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Compress {
    /// zstd at level 1 as long as that keeps up, else lz4, and nothing where the program would have
    /// to wait.
    #[default]
    Adaptive,
    /// zstd at this level.
    Zstd(i32),
    /// lz4.
    Lz4,
    /// Not at all.
    None,
}

/// How much waits behind a payload.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Haste {
    /// No more than usual.
    None,
    /// Too much.
    Some,
    /// So much that the program is about to wait.
    Great,
}

/// Shorter payloads are not worth the attempt.
const PAYLOAD_BYTES_MIN: usize = 64;
/// The level that costs least.
const LEVEL_ADAPTIVE: i32 = 1;
/// Blocks that an adaptive compressor makes with haste after one that was to be hastened.
const HASTE_BLOCKS: u32 = 32;

/// With haste, noise is found out by samples: so many of them, of so many bytes each.
const SAMPLES: usize = 8;
const SAMPLE_BYTES: usize = 2 << 10;

/// Compresses payload after payload.
pub struct Compressor {
    how: Compress,
    /// Blocks that are still to be made with haste.
    haste: u32,
    zstd: Option<zstd::bulk::Compressor<'static>>,
    packed: Vec<u8>,
    samples: Vec<u8>,
}

impl Compressor {
    /// Fails where zstd cannot have its memory, or does not know the level.
    pub fn new(how: Compress) -> std::io::Result<Compressor> {
        let zstd = match how {
            Compress::Zstd(level) => Some(zstd::bulk::Compressor::new(level)?),
            Compress::Adaptive => Some(zstd::bulk::Compressor::new(LEVEL_ADAPTIVE)?),
            Compress::Lz4 | Compress::None => None,
        };
        Ok(Compressor { how, haste: 0, zstd, packed: Vec::new(), samples: Vec::new() })
    }

    /// What to store for a payload, and as what.
    pub fn compress<'a>(&'a mut self, raw: &'a [u8], haste: Haste) -> (u8, &'a [u8]) {
        let calm = haste == Haste::None;
        self.haste = if calm { self.haste.saturating_sub(1) } else { HASTE_BLOCKS };
        let as_it_is = self.how == Compress::Adaptive && haste == Haste::Great;
        let mut hopeless =
            || self.how == Compress::Adaptive && self.haste > 0 && self.is_noise(raw);
        if as_it_is || raw.len() < PAYLOAD_BYTES_MIN || hopeless() {
            return (codec::NONE, raw);
        }
        match self.shrink(raw) {
            Some((codec, len)) => (codec, &self.packed[..len]),
            None => (codec::NONE, raw),
        }
    }

    /// Whether samples of a long payload do not shrink.
    fn is_noise(&mut self, raw: &[u8]) -> bool {
        if raw.len() < 4 * SAMPLES * SAMPLE_BYTES {
            return false;
        }
        self.samples.clear();
        for stretch in raw.chunks_exact(raw.len() / SAMPLES) {
            self.samples.extend_from_slice(&stretch[..SAMPLE_BYTES]);
        }
        let room = lz4_flex::block::get_maximum_output_size(self.samples.len());
        self.packed.resize(room.max(self.packed.len()), 0);
        let packed = lz4_flex::block::compress_into(&self.samples, &mut self.packed);
        packed.is_ok_and(|len| !saves(len, self.samples.len()))
    }

    /// Compresses into `packed` and tells codec and length, if that is worth while.
    fn shrink(&mut self, raw: &[u8]) -> Option<(u8, usize)> {
        let how = match self.how {
            Compress::Adaptive if self.haste > 0 => Compress::Lz4,
            how => how,
        };
        let (codec, len) = match how {
            Compress::None => return None,
            Compress::Zstd(_) | Compress::Adaptive => {
                self.packed.resize(zstd::zstd_safe::compress_bound(raw.len()), 0);
                (
                    codec::ZSTD,
                    self.zstd.as_mut()?.compress_to_buffer(raw, &mut self.packed[..]).ok()?,
                )
            }
            Compress::Lz4 => {
                self.packed.resize(lz4_flex::block::get_maximum_output_size(raw.len()), 0);
                (codec::LZ4, lz4_flex::block::compress_into(raw, &mut self.packed).ok()?)
            }
        };
        (saves(len, raw.len()) && raw.len() <= len * RATIO_MAX).then_some((codec, len))
    }
}

/// Whether so many bytes are worth unpacking them.
fn saves(packed: usize, raw: usize) -> bool {
    packed <= raw - raw / 32
}

/// Unpacks a stored payload that is `raw_len` bytes long, no more and no less.
pub fn unpack(codec: u8, stored: Vec<u8>, raw_len: usize) -> Result<Vec<u8>, &'static str> {
    if raw_len > PAYLOAD_BYTES_MAX {
        return Err("it claims to be longer than any block");
    }
    let mut raw = Vec::new();
    let unpacked = match codec {
        codec::NONE => {
            raw = stored;
            raw.len()
        }
        codec::ZSTD => {
            raw.resize(raw_len, 0);
            zstd::bulk::decompress_to_buffer(&stored, &mut raw[..])
                .map_err(|_| "zstd cannot unpack it")?
        }
        codec::LZ4 => {
            raw.resize(raw_len, 0);
            lz4_flex::block::decompress_into(&stored, &mut raw)
                .map_err(|_| "lz4 cannot unpack it")?
        }
        _ => return Err("it is compressed in a way that this version does not know"),
    };
    if unpacked != raw_len {
        return Err("it unpacks to another length than its head says");
    }
    Ok(raw)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn noise(len: usize) -> Vec<u8> {
        let mut state = 1_u64;
        let mut step = || {
            state = state.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
            (state >> 56) as u8
        };
        (0..len).map(|_| step()).collect()
    }

    #[test]
    fn what_is_packed_unpacks() {
        let text = b"the same again, ".repeat(20_000);
        for how in [Compress::Zstd(1), Compress::Zstd(19), Compress::Lz4, Compress::None] {
            let mut compressor = Compressor::new(how).unwrap();
            for raw in [&text[..], &text[..100], &text[..3], &noise(300_000)] {
                let (codec, stored) = compressor.compress(raw, Haste::None);
                assert!(stored.len() <= raw.len());
                assert_eq!(unpack(codec, stored.to_vec(), raw.len()).as_deref(), Ok(raw));
            }
        }
    }

    #[test]
    fn text_shrinks_and_noise_is_left_alone() {
        let text = b"the same again, ".repeat(2000);
        for how in [Compress::Zstd(1), Compress::Lz4] {
            let mut compressor = Compressor::new(how).unwrap();
            assert!(compressor.compress(&text, Haste::None).1.len() < text.len() / 50);
            assert_eq!(compressor.compress(&noise(300_000), Haste::None).0, codec::NONE);
            assert_eq!(compressor.compress(&noise(3_000), Haste::None).0, codec::NONE);
        }
    }

    #[test]
    fn haste_lasts_for_a_while() {
        let text = b"the same again, ".repeat(2000);
        let mut compressor = Compressor::new(Compress::Adaptive).unwrap();
        assert_eq!(compressor.compress(&text, Haste::None).0, codec::ZSTD);
        assert_eq!(compressor.compress(&text, Haste::Some).0, codec::LZ4);
        for _ in 1..HASTE_BLOCKS {
            assert_eq!(compressor.compress(&text, Haste::None).0, codec::LZ4);
        }
        assert_eq!(compressor.compress(&text, Haste::None).0, codec::ZSTD);
        assert_eq!(compressor.compress(&text, Haste::Great).0, codec::NONE);
        assert_eq!(compressor.compress(&text, Haste::None).0, codec::LZ4);
        let mut told = Compressor::new(Compress::Zstd(1)).unwrap();
        assert_eq!(told.compress(&text, Haste::Great).0, codec::ZSTD);
    }

    #[test]
    fn with_haste_noise_is_found_out_by_samples() {
        let text = b"the same again, ".repeat(20_000);
        let mut compressor = Compressor::new(Compress::Adaptive).unwrap();
        for (raw, expected) in [(&text, codec::LZ4), (&noise(300_000), codec::NONE)] {
            assert_eq!(compressor.compress(raw, Haste::Some).0, expected);
            assert_eq!(compressor.is_noise(raw), expected == codec::NONE);
        }
        // A fifth of it is text.
        let mixed = [&noise(240_000)[..], &text[..60_000]].concat();
        assert_eq!(compressor.compress(&mixed, Haste::Some).0, codec::LZ4);
    }

    #[test]
    fn no_payload_is_stored_that_a_reader_takes_for_a_bomb() {
        let zeros = vec![0; PAYLOAD_BYTES_MAX];
        let mut compressor = Compressor::new(Compress::Zstd(1)).unwrap();
        let stored = compressor.compress(&zeros, Haste::None).1.len();
        assert!(stored * RATIO_MAX >= zeros.len());
    }

    #[test]
    fn a_wrong_length_is_refused() {
        let raw = b"the same again, ".repeat(100);
        for how in [Compress::Zstd(1), Compress::Lz4, Compress::None] {
            let mut compressor = Compressor::new(how).unwrap();
            let (codec, stored) = compressor.compress(&raw, Haste::None);
            for wrong in [0, raw.len() - 1, raw.len() + 1, PAYLOAD_BYTES_MAX, usize::MAX] {
                assert!(unpack(codec, stored.to_vec(), wrong).is_err());
            }
        }
        assert!(unpack(77, raw.clone(), raw.len()).is_err());
    }
}
