//! Compresses and unpacks payloads.

use std::cell::RefCell;
use std::time::{Duration, Instant};

use crate::block_bytes::BlockBytes;
use crate::format::{PAYLOAD_BYTES_MAX, RATIO_MAX, codec};

/// How blocks are compressed. A block that does not shrink is stored as it is.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Compress {
    /// zstd at level 1 while that keeps up, otherwise lz4. When the program would have to wait: lz4
    /// only if that and writing less takes less time than writing all of it. Where large blocks do not
    /// shrink, most of those that follow are only looked at.
    #[default]
    Adaptive,
    /// zstd at this level.
    Zstd(i32),
    /// lz4.
    Lz4,
    /// No compression.
    None,
}

/// Payloads shorter than this are not compressed.
const PAYLOAD_BYTES_MIN: usize = 64;
/// The cheapest level.
const LEVEL_ADAPTIVE: i32 = 1;
/// Number of blocks that an adaptive compressor makes with haste after the last request for it.
const HASTE_BLOCKS: u32 = 32;
/// Number of blocks that it makes with great haste after the last request for that.
const GREAT_HASTE_BLOCKS: u32 = 8;

/// Number and size of the samples by which the effect of compression is estimated.
const SAMPLES: usize = 8;
const SAMPLE_BYTES: usize = 2 << 10;
/// Of so many large blocks in a row that do not shrink one is compressed, whatever samples say: they do not
/// show what repeats itself far apart.
const TRIED_EVERY: u32 = 8;

/// How much work is queued behind a payload.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Haste {
    /// As usual.
    None,
    /// Too much.
    Some,
    /// So much that the program may have to wait.
    Great,
}

/// Running average of the cost of a byte, in picoseconds. Interruptions can only raise a
/// measurement, so lower ones are weighted more.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Cost(pub u64);

impl Cost {
    /// Adds a measurement.
    pub fn measured(&mut self, bytes: usize, time: Duration) {
        let one = (time.as_nanos() as u64).saturating_mul(1000) / bytes.max(1) as u64;
        self.0 = match self.0 {
            0 => one,
            known if one > known => known + (one - known) / 16,
            known => known - (known - one) / 4,
        };
    }
}

/// Compresses payloads one after the other.
pub struct Compressor {
    how: Compress,
    /// Number of blocks still to be made with haste.
    haste: u32,
    /// Number of blocks still to be made with great haste.
    great_haste: u32,
    /// Number of large blocks in a row that did not shrink, or seemed not to.
    dense: u32,
    /// Cost of a byte in lz4.
    packing: Cost,
    zstd: Option<zstd::bulk::Compressor<'static>>,
    packed: Vec<u8>,
    samples: Vec<u8>,
}

impl Compressor {
    /// Fails if zstd cannot get its memory, or does not support the level.
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
            dense: 0,
            packing: Cost::default(),
            zstd,
            packed: Vec::new(),
            samples: Vec::new(),
        })
    }

    /// Ends all haste, and compresses what seems not to shrink: size matters more than time.
    pub fn take_time(&mut self) {
        (self.haste, self.great_haste, self.dense) = (0, 0, 0);
    }

    /// Returns the codec and the bytes to store. `writing` is the cost of a stored byte.
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
        let is_large = raw.len() >= 16 * SAMPLES * SAMPLE_BYTES;
        let is_spared = is_large && !hastened && self.seems_dense(raw);
        let shrunk = if is_spared { None } else { self.shrink(raw) };
        if is_large {
            self.dense = if shrunk.is_some() { 0 } else { self.dense.wrapping_add(1) };
        }
        match shrunk {
            Some((codec, len)) => (codec, &self.packed[..len]),
            None => (codec::NONE, raw),
        }
    }

    /// Whether zstd is not to be tried: the large blocks before did not shrink, and samples do not either.
    fn seems_dense(&mut self, raw: &[u8]) -> bool {
        if self.how != Compress::Adaptive || self.dense.is_multiple_of(TRIED_EVERY) {
            return false;
        }
        self.take_samples(raw);
        let len = self.samples.len();
        self.packed.resize(zstd::zstd_safe::compress_bound(len).max(self.packed.len()), 0);
        let Some(zstd) = &mut self.zstd else { return false };
        let packed = zstd.compress_to_buffer(&self.samples, &mut self.packed[..]);
        packed.is_ok_and(|packed| !saves(packed, len))
    }

    fn take_samples(&mut self, raw: &[u8]) {
        self.samples.clear();
        for stretch in raw.chunks_exact(raw.len() / SAMPLES) {
            self.samples.extend_from_slice(&stretch[..SAMPLE_BYTES]);
        }
    }

    /// Whether to use lz4, estimated from samples: if the payload shrinks, and, in great haste, is
    /// in the file sooner. Short payloads are always compressed.
    fn is_to_be_packed(&mut self, raw: &[u8], writing: Cost) -> bool {
        if raw.len() < 4 * SAMPLES * SAMPLE_BYTES {
            return true;
        }
        self.take_samples(raw);
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

    /// Compresses into `packed`; returns codec and length, or `None` if that saves too little.
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

/// Whether the saving is worth the time of unpacking.
fn saves(packed: usize, raw: usize) -> bool {
    packed <= raw - raw / 32
}

thread_local! {
    /// Unpacks zstd. Its tables are made once for each thread, not for each block.
    static UNPACKER: RefCell<Option<zstd::bulk::Decompressor<'static>>> = const { RefCell::new(None) };
}

/// Unpacks a stored payload, whose length must be exactly `raw_len`.
pub fn unpack(codec: u8, stored: BlockBytes, raw_len: usize) -> Result<BlockBytes, &'static str> {
    if raw_len > PAYLOAD_BYTES_MAX {
        return Err("it claims to be longer than any block");
    }
    let raw = match codec {
        codec::NONE => stored,
        codec::ZSTD => unzstd(&stored, raw_len).map_err(|_| "zstd cannot unpack it")?,
        codec::LZ4 => {
            let mut raw = BlockBytes::with_room(raw_len);
            raw.bytes_mut().resize(raw_len, 0);
            let unpacked = lz4_flex::block::decompress_into(&stored, raw.bytes_mut())
                .map_err(|_| "lz4 cannot unpack it")?;
            raw.bytes_mut().truncate(unpacked);
            raw
        }
        _ => return Err("it is compressed in a way that this version does not know"),
    };
    if raw.len() != raw_len {
        return Err("it unpacks to another length than its head says");
    }
    Ok(raw)
}

fn unzstd(stored: &[u8], raw_len: usize) -> std::io::Result<BlockBytes> {
    UNPACKER.with_borrow_mut(|unpacker| {
        let unpacker = match unpacker {
            Some(unpacker) => unpacker,
            none => none.insert(zstd::bulk::Decompressor::new()?),
        };
        let mut raw = BlockBytes::with_room(raw_len);
        unpacker.decompress_to_buffer(stored, raw.bytes_mut())?;
        Ok(raw)
    })
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
                assert_eq!(unpack(codec, stored.to_vec().into(), raw.len()).as_deref(), Ok(raw));
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

    /// A disk so slow that any effort pays off, and one that costs nothing.
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
        // A fifth of this is text.
        let mixed = [&noise(240_000)[..], &text[..60_000]].concat();
        let mut compressor = Compressor::new(Compress::Adaptive).unwrap();
        for (raw, haste, writing, expected) in [
            (&text, Haste::Some, FREE, codec::LZ4),
            (&mixed, Haste::Some, FREE, codec::LZ4),
            (&noise(300_000), Haste::Some, SLOW, codec::NONE),
            (&text, Haste::Great, SLOW, codec::LZ4),
            (&mixed, Haste::Great, SLOW, codec::LZ4),
            (&text, Haste::Great, FREE, codec::NONE),
            // Great haste lasts for a while as well.
            (&text, Haste::None, FREE, codec::NONE),
        ] {
            assert_eq!(compressor.compress(raw, haste, writing).0, expected, "{haste:?}");
        }
        // Except where space is short.
        compressor.take_time();
        assert_eq!(compressor.compress(&mixed, Haste::None, FREE).0, codec::ZSTD);
    }

    #[test]
    fn what_follows_large_noise_is_looked_at_first() {
        let noise = noise(1 << 19);
        let text: Vec<u8> = (0..50_000).flat_map(|n: u32| format!("{n} ").into_bytes()).collect();
        // Each piece comes twice: samples, which are farther apart, do not show that.
        let twice: Vec<u8> = noise.chunks(32 << 10).flat_map(|piece| piece.repeat(2)).collect();
        let how = |compressor: &mut Compressor, raw| compressor.compress(raw, Haste::None, SLOW).0;
        let mut compressor = Compressor::new(Compress::Adaptive).unwrap();
        assert_eq!(how(&mut compressor, &twice), codec::ZSTD);
        assert_eq!(how(&mut compressor, &noise), codec::NONE);
        let seen: Vec<u8> = (0..TRIED_EVERY).map(|_| how(&mut compressor, &twice)).collect();
        let tried = TRIED_EVERY as usize - 1;
        assert!(seen[..tried].iter().all(|codec| *codec == codec::NONE), "{seen:?}");
        assert_eq!(seen[tried], codec::ZSTD, "it was compressed all the same");
        assert_eq!(how(&mut compressor, &noise), codec::NONE);
        assert_eq!(how(&mut compressor, &text), codec::ZSTD, "samples show it");
        assert_eq!(how(&mut compressor, &noise), codec::NONE);
        compressor.take_time();
        assert_eq!(how(&mut compressor, &twice), codec::ZSTD, "space is short");
        let mut told = Compressor::new(Compress::Zstd(1)).unwrap();
        assert_eq!([how(&mut told, &noise), how(&mut told, &twice)], [codec::NONE, codec::ZSTD]);
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
                assert!(unpack(codec, stored.to_vec().into(), wrong).is_err());
            }
        }
        assert!(unpack(77, raw.clone().into(), raw.len()).is_err());
    }
}
