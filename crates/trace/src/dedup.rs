//! Distinct buffers: each is stored once, as far back as is remembered.
//!
//! Invariants:
//! - two buffers get the same number only when their bytes were compared and are equal;
//! - the bytes that are kept, and the entries of the index, are bounded whatever the length of the
//!   recording; the oldest block is forgotten first.

use std::collections::{HashMap, VecDeque};
use std::hash::{BuildHasherDefault, Hasher};
use std::sync::Arc;

use twox_hash::XxHash3_128;

use crate::event::{BLOB_BYTES_MAX, BlobId};
use crate::format::BLOB_ENTRY_BYTES;

/// A DATA block is closed when it holds this many bytes.
const BLOCK_BYTES: usize = 512 << 10;
/// Blobs of one block: small ones are many.
const BLOCK_BLOBS_MAX: usize = 8192;
/// Most buffers in the index.
const ENTRIES_MAX: usize = 1 << 20;

/// Distinct buffers that make one DATA block.
pub struct DataBlock {
    /// Number of the first.
    pub first: u64,
    /// Their bytes, one after the other.
    bytes: Vec<u8>,
    blobs: Vec<Blob>,
}

#[derive(Clone, Copy)]
struct Blob {
    hash: u128,
    end: u32,
}

impl DataBlock {
    fn new(first: u64, bytes: Vec<u8>) -> DataBlock {
        DataBlock { first, bytes, blobs: Vec::new() }
    }

    /// Buffers in it.
    pub fn count(&self) -> u32 {
        self.blobs.len() as u32
    }

    /// Bytes of its payload.
    pub fn payload_bytes(&self) -> usize {
        self.bytes.len() + self.blobs.len() * BLOB_ENTRY_BYTES
    }

    /// The payload: length and hash of each, then the bytes.
    pub fn payload_into(&self, out: &mut Vec<u8>) {
        out.clear();
        out.reserve(self.payload_bytes());
        let mut begin = 0;
        for blob in &self.blobs {
            out.extend_from_slice(&(blob.end - begin).to_le_bytes());
            out.extend_from_slice(&blob.hash.to_le_bytes());
            begin = blob.end;
        }
        out.extend_from_slice(&self.bytes);
    }

    fn get(&self, id: u64) -> Option<&[u8]> {
        let index = usize::try_from(id.checked_sub(self.first)?).ok()?;
        let end = self.blobs.get(index)?.end as usize;
        let begin = if index == 0 { 0 } else { self.blobs[index - 1].end as usize };
        Some(&self.bytes[begin..end])
    }
}

/// The keys are hashes already.
#[derive(Default)]
struct Unhashed(u64);

impl Hasher for Unhashed {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, bytes: &[u8]) {
        for byte in bytes {
            self.0 = self.0.rotate_left(8) ^ u64::from(*byte);
        }
    }

    fn write_u64(&mut self, key: u64) {
        self.0 = key;
    }
}

/// Numbers buffers and remembers the last of them.
pub struct Dedup {
    open: DataBlock,
    kept: VecDeque<Arc<DataBlock>>,
    kept_bytes: usize,
    kept_bytes_max: usize,
    index: HashMap<u64, u64, BuildHasherDefault<Unhashed>>,
    entries: usize,
    /// The buffer that was asked for last.
    last: u64,
    stored_bytes: u64,
    spare: Vec<Vec<u8>>,
}

impl Dedup {
    /// Remembers up to that many bytes beside the open block.
    pub fn new(kept_bytes_max: usize) -> Dedup {
        Dedup {
            open: DataBlock::new(0, Vec::with_capacity(BLOCK_BYTES)),
            kept: VecDeque::new(),
            kept_bytes: 0,
            kept_bytes_max,
            index: HashMap::default(),
            entries: 0,
            last: 0,
            stored_bytes: 0,
            spare: Vec::new(),
        }
    }

    /// The number of a buffer, and whether the open block is now to be closed.
    pub fn add(&mut self, bytes: &[u8]) -> (BlobId, bool) {
        debug_assert!(bytes.len() <= BLOB_BYTES_MAX);
        // What is repeated comes often in the same order: to compare costs less than to hash.
        for guess in [self.last + 1, self.last] {
            if self.get(guess) == Some(bytes) {
                self.last = guess;
                return (BlobId(guess), false);
            }
        }
        let hash = XxHash3_128::oneshot(bytes);
        let key = hash as u64;
        if let Some(id) = self.index.get(&key)
            && self.get(*id) == Some(bytes)
        {
            self.last = *id;
            return (BlobId(*id), false);
        }
        let id = self.next_id();
        self.last = id;
        self.index.insert(key, id);
        self.open.bytes.extend_from_slice(bytes);
        self.open.blobs.push(Blob { hash, end: self.open.bytes.len() as u32 });
        self.stored_bytes += bytes.len() as u64;
        let full = self.open.bytes.len() >= BLOCK_BYTES || self.open.blobs.len() >= BLOCK_BLOBS_MAX;
        (BlobId(id), full)
    }

    /// The number that the next distinct buffer gets.
    pub fn next_id(&self) -> u64 {
        self.open.first + self.open.blobs.len() as u64
    }

    /// The number of the first buffer that is not yet in a closed block.
    pub fn open_from(&self) -> u64 {
        self.open.first
    }

    /// Bytes in the open block.
    pub fn open_bytes(&self) -> usize {
        self.open.bytes.len()
    }

    /// Bytes of all distinct buffers so far.
    pub fn stored_bytes(&self) -> u64 {
        self.stored_bytes
    }

    /// Closes the open block, if there is anything in it.
    pub fn close(&mut self) -> Option<Arc<DataBlock>> {
        if self.open.blobs.is_empty() {
            return None;
        }
        let first = self.next_id();
        let spare = self.spare.pop().unwrap_or_else(|| Vec::with_capacity(BLOCK_BYTES));
        let closed = Arc::new(std::mem::replace(&mut self.open, DataBlock::new(first, spare)));
        self.kept_bytes += closed.payload_bytes();
        self.entries += closed.blobs.len();
        self.kept.push_back(Arc::clone(&closed));
        while self.kept_bytes > self.kept_bytes_max || self.entries > ENTRIES_MAX {
            self.forget_oldest();
        }
        Some(closed)
    }

    fn forget_oldest(&mut self) {
        let Some(oldest) = self.kept.pop_front() else { return };
        self.kept_bytes -= oldest.payload_bytes();
        self.entries -= oldest.blobs.len();
        for (id, blob) in (oldest.first..).zip(&oldest.blobs) {
            let key = blob.hash as u64;
            if self.index.get(&key) == Some(&id) {
                self.index.remove(&key);
            }
        }
        // Fresh pages are dear: the memory is used again, once it is written.
        if let Some(block) = Arc::into_inner(oldest) {
            let mut bytes = block.bytes;
            bytes.clear();
            self.spare.push(bytes);
        }
    }

    fn get(&self, id: u64) -> Option<&[u8]> {
        if id >= self.open.first {
            return self.open.get(id);
        }
        let after = self.kept.partition_point(|block| block.first <= id);
        self.kept.get(after.checked_sub(1)?)?.get(id)
    }
}
