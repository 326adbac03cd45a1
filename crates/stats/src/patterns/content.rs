//! Repeated and compressible content of writes.

use std::collections::HashSet;

use model::Contents;
use model::contents::is_out;
use trace::event::{Call, Content, Data};

/// Limits for the buffers that are remembered, as bits by number or as hashes.
const BLOBS_MAX: u64 = 1 << 27;
const HASHES_MAX: usize = 1 << 20;
/// Number of samples after which the sampling rate is halved.
const SAMPLES_MAX: u64 = 256;
/// Limit for the bytes of a sample.
const SAMPLE_BYTES: usize = 4096;
/// Shorter buffers are too small to estimate their entropy.
const SAMPLE_BYTES_MIN: usize = 256;
/// Shorter buffers are not worth a reference to what was written before.
const KNOWN_BYTES_MIN: u64 = 512;

/// Statistics of written content.
#[derive(Default)]
pub struct Written {
    seen: Vec<u64>,
    hashes: HashSet<u64>,
    /// Bytes of buffers that could be compared.
    pub bytes: u64,
    /// Bytes of buffers that had been written before.
    pub duplicate_bytes: u64,
    /// Number of buffers that had been written before.
    pub duplicates: u64,
    fresh: u64,
    stride: u64,
    samples: u64,
    sampled_bytes: u64,
    packed_bytes: f64,
}

impl Written {
    /// Processes the data of a call that wrote to a file. Returns the number of repeated bytes.
    pub fn add(&mut self, call: &Call, contents: &mut dyn Contents) -> u64 {
        let mut known_bytes = 0;
        let is_told = |data: &&Data| !is_out(data) && data.true_len >= KNOWN_BYTES_MIN;
        for data in call.data.iter().filter(is_told) {
            let known = match (&data.content, data.hash) {
                (_, Some(hash)) => self.hash(hash as u64),
                (Content::Blobs { ids, .. }, None) => {
                    // Not `all`: every id must be recorded.
                    ids.iter().filter(|id| !self.blob(id.0)).count() == 0
                }
                (Content::Inline(_), None) => continue,
            };
            self.bytes = self.bytes.saturating_add(data.true_len);
            if known {
                self.duplicates += 1;
                known_bytes += data.true_len;
            } else {
                self.sample(&data.content, contents);
            }
        }
        self.duplicate_bytes = self.duplicate_bytes.saturating_add(known_bytes);
        known_bytes
    }

    fn hash(&mut self, hash: u64) -> bool {
        self.hashes.contains(&hash) || self.hashes.len() < HASHES_MAX && !self.hashes.insert(hash)
    }

    /// Records a buffer. Returns true if it was recorded before.
    fn blob(&mut self, id: u64) -> bool {
        if id >= BLOBS_MAX {
            return false;
        }
        let (word, bit) = ((id / 64) as usize, 1 << (id % 64));
        if word >= self.seen.len() {
            self.seen.resize(word + 1, 0);
        }
        let known = self.seen[word] & bit != 0;
        self.seen[word] |= bit;
        known
    }

    fn sample(&mut self, content: &Content, contents: &mut dyn Contents) {
        self.stride = self.stride.max(1);
        self.fresh += 1;
        if !self.fresh.is_multiple_of(self.stride) {
            return;
        }
        let Ok(bytes) = contents.read(content, SAMPLE_BYTES) else { return };
        if bytes.len() < SAMPLE_BYTES_MIN {
            return;
        }
        self.samples += 1;
        if self.samples.is_multiple_of(SAMPLES_MAX) {
            self.stride *= 2;
        }
        self.sampled_bytes += bytes.len() as u64;
        self.packed_bytes += bytes.len() as f64 * entropy(&bytes) / 8.0;
    }

    /// Returns the ratio of compressed to original size, estimated by the entropy of the bytes.
    pub fn packed_share(&self) -> Option<f64> {
        (self.sampled_bytes > 0).then(|| self.packed_bytes / self.sampled_bytes as f64)
    }
}

/// Returns the entropy per byte in bits, ignoring the order of bytes.
fn entropy(bytes: &[u8]) -> f64 {
    let mut counts = [0u32; 256];
    bytes.iter().for_each(|byte| counts[usize::from(*byte)] += 1);
    let all = bytes.len() as f64;
    let shares = counts.iter().filter(|count| **count > 0).map(|count| f64::from(*count) / all);
    shares.map(|share| -share * share.log2()).sum()
}

#[cfg(test)]
mod tests {
    use model::InlineOnly;
    use trace::event::BlobId;

    use super::*;
    use crate::sample::call;

    fn write(ids: &[u64]) -> Call {
        let mut call = call("write", &[3, 0, 4096], 4096).with(1, b"").call;
        let ids = ids.iter().map(|id| BlobId(*id)).collect();
        (call.data[0].true_len, call.data[0].content) = (4096, Content::Blobs { len: 4096, ids });
        call
    }

    #[test]
    fn buffers_are_known_by_number_or_hash() {
        let mut written = Written::default();
        assert_eq!(written.add(&write(&[1, 2]), &mut InlineOnly), 0);
        assert_eq!(written.add(&write(&[2, 1]), &mut InlineOnly), 4096);
        assert_eq!(written.add(&write(&[1, 3]), &mut InlineOnly), 0);
        assert_eq!(written.add(&write(&[u64::MAX]), &mut InlineOnly), 0);
        assert_eq!(written.add(&write(&[u64::MAX]), &mut InlineOnly), 0);
        let mut hashed = write(&[]);
        hashed.data[0].hash = Some(7);
        assert_eq!(written.add(&hashed, &mut InlineOnly), 0);
        assert_eq!(written.add(&hashed, &mut InlineOnly), 4096);
        assert_eq!((written.duplicates, written.duplicate_bytes), (2, 8192));
    }

    #[test]
    fn entropy_of_bytes() {
        assert_eq!(entropy(&[7; 100]), 0.0);
        let all: Vec<u8> = (0..=255).collect();
        assert!((entropy(&all) - 8.0).abs() < 1e-9);
    }
}
