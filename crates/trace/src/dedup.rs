//! Distinct buffers: each is stored once, as long as it is remembered.
//!
//! Invariants:
//! - two buffers get the same number only when their fingerprints are equal;
//! - memory is bounded, whatever the length of the recording.
//!
//! Short buffers are stored in their events, unless most of them recur at a distance (far.rs).

use std::io;

use twox_hash::XxHash3_128;

use crate::event::{BLOB_BYTES_MAX, BlobId};
use crate::far::Far;
use crate::fingerprint::Fingerprints;
use crate::format::BLOB_ENTRY_BYTES;
use crate::known::Known;

/// A DATA block is closed when it holds this many bytes ...
const BLOCK_BYTES: usize = 512 << 10;
/// ... or this many buffers, if they are small.
const BLOCK_BLOBS_MAX: usize = 4096;
/// Offset of the bytes in a block: the table in front of them is written last.
const TABLE_ROOM: usize = BLOCK_BLOBS_MAX * BLOB_ENTRY_BYTES;

/// Distinct buffers that form a DATA block.
pub struct DataBlock {
    /// Number of the first buffer.
    pub first: u64,
    /// Room for the table, then the bytes of all buffers.
    bytes: Vec<u8>,
    /// End of each buffer in `bytes`.
    ends: Vec<u32>,
}

impl DataBlock {
    /// Returns an empty block that reuses `spare`.
    fn new(first: u64, mut spare: Vec<u8>) -> DataBlock {
        // The table is overwritten later, so its former content does not matter.
        spare.resize(TABLE_ROOM, 0);
        spare.reserve(BLOCK_BYTES + BLOB_BYTES_MAX);
        DataBlock { first, bytes: spare, ends: Vec::new() }
    }

    fn push(&mut self, bytes: &[u8]) {
        self.bytes.extend_from_slice(bytes);
        self.ends.push(self.bytes.len() as u32);
    }

    fn is_full(&self) -> bool {
        self.content_bytes() >= BLOCK_BYTES || self.ends.len() >= BLOCK_BLOBS_MAX
    }

    /// Number of buffers.
    pub fn count(&self) -> u32 {
        self.ends.len() as u32
    }

    fn content_bytes(&self) -> usize {
        self.bytes.len() - TABLE_ROOM
    }

    /// Length of its payload.
    pub fn payload_bytes(&self) -> usize {
        self.content_bytes() + self.ends.len() * BLOB_ENTRY_BYTES
    }

    /// Returns the payload: length and hash of each buffer, then the bytes. The hashes are computed
    /// here to relieve the thread that reads the rings.
    pub fn payload(&mut self) -> &[u8] {
        let start = TABLE_ROOM - self.ends.len() * BLOB_ENTRY_BYTES;
        let (table, content) = self.bytes.split_at_mut(TABLE_ROOM);
        let mut begin = 0;
        for (entry, end) in table[start..].chunks_exact_mut(BLOB_ENTRY_BYTES).zip(&self.ends) {
            let end = *end as usize - TABLE_ROOM;
            let hash = XxHash3_128::oneshot(&content[begin..end]);
            entry[..4].copy_from_slice(&((end - begin) as u32).to_le_bytes());
            entry[4..].copy_from_slice(&hash.to_le_bytes());
            begin = end;
        }
        &self.bytes[start..]
    }

    /// Returns the memory for reuse.
    pub fn into_spare(self) -> Vec<u8> {
        self.bytes
    }
}

/// Numbers buffers and remembers the most recent ones.
pub struct Dedup {
    open: DataBlock,
    known: Known,
    far: Far,
    in_haste: bool,
    fingerprints: Fingerprints,
    stored_bytes: u64,
}

impl Dedup {
    /// Remembers up to about that many buffers.
    pub fn new(remembered_max: usize) -> io::Result<Dedup> {
        Ok(Dedup {
            open: DataBlock::new(0, Vec::new()),
            known: Known::new(remembered_max),
            far: Far::new(),
            in_haste: false,
            fingerprints: Fingerprints::new()?,
            stored_bytes: 0,
        })
    }

    /// Returns the number of a buffer, and whether the open block must now be closed.
    pub fn add(&mut self, bytes: &[u8]) -> (BlobId, bool) {
        let id = self.next_id();
        if let Some(known) = self.known.find_or_add(self.fingerprints.of(bytes), id) {
            return (BlobId(known), false);
        }
        self.open.push(bytes);
        self.stored_bytes += bytes.len() as u64;
        (BlobId(id), self.open.is_full())
    }

    /// Like [`Dedup::add`] for a short buffer; `None` if storing it as a blob is not worth it.
    #[inline]
    pub fn add_short(&mut self, bytes: &[u8]) -> Option<(BlobId, bool)> {
        (self.far.worth_it(bytes) && !self.in_haste).then(|| self.add(bytes))
    }

    /// In haste, short buffers are not looked up.
    pub fn set_haste(&mut self, in_haste: bool) {
        self.in_haste = in_haste;
    }

    /// The number of the next distinct buffer.
    pub fn next_id(&self) -> u64 {
        self.open.first + u64::from(self.open.count())
    }

    /// The number of the first buffer that is not yet in a closed block.
    pub fn open_from(&self) -> u64 {
        self.open.first
    }

    /// Number of bytes in the open block.
    pub fn open_bytes(&self) -> usize {
        self.open.content_bytes()
    }

    /// Total bytes of distinct buffers.
    pub fn stored_bytes(&self) -> u64 {
        self.stored_bytes
    }

    /// Closes the open block, unless it is empty. The next one reuses `spare`.
    pub fn close(&mut self, spare: impl FnOnce() -> Vec<u8>) -> Option<DataBlock> {
        if self.open.count() == 0 {
            return None;
        }
        let next = DataBlock::new(self.next_id(), spare());
        Some(std::mem::replace(&mut self.open, next))
    }
}
