//! Payloads as stored, and back.

use std::time::{Duration, Instant};

use crate::format::{PAYLOAD_BYTES_MAX, RATIO_MAX, codec};

/// How blocks are compressed. A block that does not shrink is stored as it is.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Compress {
    /// zstd at level 1 as long as that keeps up, else lz4, and where the program would have to wait
    /// whichever is done sooner: packing with lz4 and writing less, or writing all of it.
    #[default]
    Adaptive,
    /// zstd at this level.
    Zstd(i32),
    /// lz4.
    Lz4,
    /// Not at all.
    None,
}

/// Shorter payloads are not worth the attempt.
const PAYLOAD_BYTES_MIN: usize = 64;
/// The level that costs least.
const LEVEL_ADAPTIVE: i32 = 1;
/// Blocks that an adaptive compressor makes with haste after one that was to be hastened.
const HASTE_BLOCKS: u32 = 32;
/// The same for great haste.
const GREAT_HASTE_BLOCKS: u32 = 8;

/// With haste, what lz4 would do is found out by samples: so many of them, of so many bytes each.
const SAMPLES: usize = 8;
const SAMPLE_BYTES: usize = 2 << 10;

/// How much waits behind a payload.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Haste {
    /// No more than usual.
    None,
    /// Too much.
    Some,
    /// So much that the program may have to wait.
    Great,
}

/// What a byte costs, in picoseconds, as it was measured again and again. Who is measured may have
/// been interrupted, so that the lower figures are believed sooner.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Cost(pub u64);

impl Cost {
    /// Takes one more measurement into account.
    pub fn measured(&mut self, bytes: usize, time: Duration) {
        let one = (time.as_nanos() as u64).saturating_mul(1000) / bytes.max(1) as u64;
        self.0 = match self.0 {
            0 => one,
            known if one > known => known + (one - known) / 16,
            known => known - (known - one) / 4,
        };
    }
}

/// Compresses payload after payload.
pub struct Compressor {
    how: Compress,
    /// Blocks that are still to be made with haste.
    haste: u32,
    /// Of these, the ones with great haste.
    great_haste: u32,
    /// What lz4 takes for a byte.
    packing: Cost,
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
        Ok(Compressor {
            how,
            haste: 0,
            great_haste: 0,
            packing: Cost::default(),
            zstd,
            packed: Vec::new(),
            samples: Vec::new(),
        })
    }

    /// Forgets about haste: there is little room.
    pub fn take_time(&mut self) {
        (self.haste, self.great_haste) = (0, 0);
    }

    /// What to store for a payload, and as what. `writing` is what a byte costs that is stored.
    pub fn compress<'a>(
        &'a mut self,
        raw: &'a [u8],
        haste: Haste,
        writing: Cost,
    ) -> (u8, &'a [u8]) {
        let last = |left: &mut u32, blocks, on| {
            *left = if on { blocks } else { left.saturating_sub(1) };
        };
        last(&mut self.haste, HASTE_BLOCKS, haste != Haste::None);
        last(&mut self.great_haste, GREAT_HASTE_BLOCKS, haste == Haste::Great);
        let hastened = self.how == Compress::Adaptive && self.haste > 0;
        if raw.len() < PAYLOAD_BYTES_MIN || hastened && !self.is_to_be_packed(raw, writing) {
            return (codec::NONE, raw);
        }
        match self.shrink(raw) {
            Some((codec, len)) => (codec, &self.packed[..len]),
            None => (codec::NONE, raw),
        }
    }

    /// Whether lz4 is to pack a payload, by samples of it: where it shrinks and, with great haste, is
    /// in the file sooner for it. Of short ones that makes no difference.
    fn is_to_be_packed(&mut self, raw: &[u8], writing: Cost) -> bool {
        if raw.len() < 4 * SAMPLES * SAMPLE_BYTES {
            return true;
        }
        self.samples.clear();
        for stretch in raw.chunks_exact(raw.len() / SAMPLES) {
            self.samples.extend_from_slice(&stretch[..SAMPLE_BYTES]);
        }
        let len = self.samples.len();
        let room = lz4_flex::block::get_maximum_output_size(len);
        self.packed.resize(room.max(self.packed.len()), 0);
        let began = Instant::now();
        let packed = lz4_flex::block::compress_into(&self.samples, &mut self.packed);
        self.packing.measured(len, began.elapsed());
        let saved = packed.map_or(0, |packed| len.saturating_sub(packed)) as u64;
        let is_sooner = self.packing.0.saturating_mul(len as u64) < writing.0.saturating_mul(saved);
        saves(len - saved as usize, len) && (self.great_haste == 0 || is_sooner)
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
                let (codec, stored) = compressor.compress(raw, Haste::None, SLOW);
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
            assert!(compressor.compress(&text, Haste::None, SLOW).1.len() < text.len() / 50);
            assert_eq!(compressor.compress(&noise(300_000), Haste::None, SLOW).0, codec::NONE);
            assert_eq!(compressor.compress(&noise(3_000), Haste::None, SLOW).0, codec::NONE);
        }
    }

    /// A disk that is worth any effort, and one that costs nothing.
    const SLOW: Cost = Cost(1 << 40);
    const FREE: Cost = Cost(0);

    #[test]
    fn haste_lasts_for_a_while() {
        let text = b"the same again, ".repeat(2000);
        let mut compressor = Compressor::new(Compress::Adaptive).unwrap();
        assert_eq!(compressor.compress(&text, Haste::None, SLOW).0, codec::ZSTD);
        assert_eq!(compressor.compress(&text, Haste::Some, SLOW).0, codec::LZ4);
        for _ in 1..HASTE_BLOCKS {
            assert_eq!(compressor.compress(&text, Haste::None, SLOW).0, codec::LZ4);
        }
        assert_eq!(compressor.compress(&text, Haste::None, SLOW).0, codec::ZSTD);
        let mut told = Compressor::new(Compress::Zstd(1)).unwrap();
        assert_eq!(told.compress(&text, Haste::Great, FREE).0, codec::ZSTD);
    }

    #[test]
    fn noise_is_not_packed_with_haste_and_with_great_haste_only_what_is_sooner_packed() {
        let text = b"the same again, ".repeat(20_000);
        // A fifth of it is text.
        let mixed = [&noise(240_000)[..], &text[..60_000]].concat();
        let mut compressor = Compressor::new(Compress::Adaptive).unwrap();
        for (raw, haste, writing, expected) in [
            (&text, Haste::Some, FREE, codec::LZ4),
            (&mixed, Haste::Some, FREE, codec::LZ4),
            (&noise(300_000), Haste::Some, SLOW, codec::NONE),
            (&text, Haste::Great, SLOW, codec::LZ4),
            (&mixed, Haste::Great, SLOW, codec::LZ4),
            (&text, Haste::Great, FREE, codec::NONE),
            // Great haste lasts as well.
            (&text, Haste::None, FREE, codec::NONE),
        ] {
            assert_eq!(compressor.compress(raw, haste, writing).0, expected, "{haste:?}");
        }
        // Nor does it where there is little room.
        compressor.take_time();
        assert_eq!(compressor.compress(&mixed, Haste::None, FREE).0, codec::ZSTD);
    }

    #[test]
    fn costs_follow_what_is_measured_and_the_lower_figures_sooner() {
        let mut cost = Cost::default();
        cost.measured(1000, Duration::from_micros(16));
        assert_eq!(cost, Cost(16_000));
        cost.measured(1000, Duration::from_micros(32));
        assert_eq!(cost, Cost(17_000));
        cost.measured(1000, Duration::from_micros(1));
        assert_eq!(cost, Cost(13_000));
        cost.measured(0, Duration::MAX);
    }

    #[test]
    fn no_payload_is_stored_that_a_reader_takes_for_a_bomb() {
        let zeros = vec![0; PAYLOAD_BYTES_MAX];
        let mut compressor = Compressor::new(Compress::Zstd(1)).unwrap();
        let stored = compressor.compress(&zeros, Haste::None, SLOW).1.len();
        assert!(stored * RATIO_MAX >= zeros.len());
    }

    #[test]
    fn a_wrong_length_is_refused() {
        let raw = b"the same again, ".repeat(100);
        for how in [Compress::Zstd(1), Compress::Lz4, Compress::None] {
            let mut compressor = Compressor::new(how).unwrap();
            let (codec, stored) = compressor.compress(&raw, Haste::None, SLOW);
            for wrong in [0, raw.len() - 1, raw.len() + 1, PAYLOAD_BYTES_MAX, usize::MAX] {
                assert!(unpack(codec, stored.to_vec(), wrong).is_err());
            }
        }
        assert!(unpack(77, raw.clone(), raw.len()).is_err());
    }
}
