//! Reads distinct buffers back.

use std::collections::HashSet;
use std::ops::{Deref, Range};
use std::sync::{Arc, OnceLock};

use twox_hash::XxHash3_128;

use crate::block_bytes::BlockBytes;
use crate::event::BLOB_BYTES_MAX;
use crate::format::{BLOB_ENTRY_BYTES, Head, u32_at};
use crate::wire::Malformed;

/// Default limit for the bytes of unpacked DATA blocks that are kept.
const CACHE_BYTES_MAX: usize = 64 << 20;
/// Limit to begin with.
const CACHE_BYTES_MIN: usize = 4 << 20;
/// Maximum number of unpacked DATA blocks that are kept.
const CACHE_BLOCKS_MAX: usize = 1024;

/// The unpacked payload of a DATA block.
pub struct DataPayload {
    first: u64,
    payload: BlockBytes,
    /// End of each buffer's bytes in the payload; they begin where those of the one before end.
    ends: Vec<u32>,
    /// Whether the stored hashes match the buffers; computed on demand.
    sound: OnceLock<bool>,
}

impl DataPayload {
    /// Checks that the payload has the layout that its head describes.
    pub fn new(head: &Head, payload: BlockBytes) -> Result<DataPayload, Malformed> {
        let count = head.count as usize;
        let table = count * BLOB_ENTRY_BYTES;
        if table > payload.len() {
            return Err(Malformed("it holds fewer buffers than its head says"));
        }
        let mut ends = Vec::with_capacity(count);
        let mut end = table;
        for entry in payload[..table].chunks_exact(BLOB_ENTRY_BYTES) {
            let len = u32_at(entry, 0) as usize;
            end += len;
            if len > BLOB_BYTES_MAX || end > payload.len() {
                return Err(Malformed("a buffer is longer than it may be"));
            }
            ends.push(end as u32);
        }
        if end != payload.len() {
            return Err(Malformed("bytes follow its last buffer"));
        }
        Ok(DataPayload { first: head.first, payload, ends, sound: OnceLock::new() })
    }

    /// Numbers of the buffers in the block.
    pub fn ids(&self) -> Range<u64> {
        self.first..self.first + self.ends.len() as u64
    }

    /// Bytes of memory that it holds.
    pub fn held_bytes(&self) -> usize {
        self.payload.len() + self.ends.len() * size_of::<u32>()
    }

    /// The bytes of a buffer.
    pub fn get(&self, id: u64) -> Option<&[u8]> {
        Some(&self.payload[self.range(id)?])
    }

    /// The stored hash of a buffer.
    pub fn hash(&self, id: u64) -> Option<u128> {
        let entry = (id.checked_sub(self.first)? as usize).checked_mul(BLOB_ENTRY_BYTES)?;
        self.range(id)?;
        let mut hash = [0; 16];
        hash.copy_from_slice(&self.payload[entry + 4..entry + 20]);
        Some(u128::from_le_bytes(hash))
    }

    /// Whether all stored hashes match, so that they can be used instead of the bytes.
    pub fn is_sound(&self) -> bool {
        let is_right = |id| self.get(id).map(XxHash3_128::oneshot) == self.hash(id);
        *self.sound.get_or_init(|| self.ids().all(is_right))
    }

    fn range(&self, id: u64) -> Option<Range<usize>> {
        let index = usize::try_from(id.checked_sub(self.first)?).ok()?;
        let end = *self.ends.get(index)? as usize;
        let begin = match index {
            0 => self.ends.len() * BLOB_ENTRY_BYTES,
            _ => self.ends[index - 1] as usize,
        };
        Some(begin..end)
    }
}

/// The bytes of one distinct buffer.
#[derive(Clone)]
pub struct Blob {
    block: Arc<DataPayload>,
    range: Range<usize>,
    hash: u128,
}

impl Blob {
    /// A buffer of a block.
    pub fn new(block: Arc<DataPayload>, id: u64) -> Option<Blob> {
        let (range, hash) = (block.range(id)?, block.hash(id)?);
        Some(Blob { block, range, hash })
    }

    /// XXH3-128 of the bytes, as stored in the file.
    pub fn hash(&self) -> u128 {
        self.hash
    }
}

impl Deref for Blob {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        &self.block.payload[self.range.clone()]
    }
}

/// A DATA block in the cache.
struct Kept {
    /// Its offset in the file.
    offset: u64,
    block: Arc<DataPayload>,
    /// Whether it was used since the hand passed it last.
    used: bool,
}

/// A cache of DATA blocks that were used recently (clock replacement).
///
/// It is small until a block is asked for again that it no longer had: where each is used once,
/// memory that is still in the processor's cache is better than more memory.
pub struct Cache {
    /// Sorted by offset.
    blocks: Vec<Kept>,
    /// Index of the block to be evicted next, unless it was used since the last pass.
    hand: usize,
    bytes: usize,
    /// Number of bytes kept for now.
    bytes_kept: usize,
    /// Maximum number of bytes kept.
    pub bytes_max: usize,
    /// Offsets of the blocks that were evicted.
    evicted: HashSet<u64>,
}

impl Default for Cache {
    fn default() -> Cache {
        Cache {
            blocks: Vec::new(),
            hand: 0,
            bytes: 0,
            bytes_kept: CACHE_BYTES_MIN,
            bytes_max: CACHE_BYTES_MAX,
            evicted: HashSet::new(),
        }
    }
}

impl Cache {
    /// Returns a block if it is in the cache.
    pub fn get(&mut self, offset: u64) -> Option<Arc<DataPayload>> {
        let at = self.blocks.binary_search_by_key(&offset, |kept| kept.offset).ok()?;
        let kept = &mut self.blocks[at];
        kept.used = true;
        Some(Arc::clone(&kept.block))
    }

    /// Adds a block, and evicts others to make room.
    pub fn add(&mut self, offset: u64, block: Arc<DataPayload>) {
        let Err(at) = self.blocks.binary_search_by_key(&offset, |kept| kept.offset) else { return };
        if self.evicted.remove(&offset) {
            self.bytes_kept = self.bytes_kept.saturating_mul(2);
        }
        let bytes_kept = self.bytes_kept.min(self.bytes_max);
        self.bytes += block.payload.len();
        self.blocks.insert(at, Kept { offset, block, used: false });
        if at <= self.hand {
            self.hand += 1;
        }
        while self.bytes > bytes_kept || self.blocks.len() > CACHE_BLOCKS_MAX {
            let at = if self.hand < self.blocks.len() { self.hand } else { 0 };
            let is_only = self.blocks.len() == 1;
            let Some(kept) = self.blocks.get_mut(at) else { return };
            if std::mem::take(&mut kept.used) || kept.offset == offset && !is_only {
                self.hand = at + 1;
            } else {
                let kept = self.blocks.remove(at);
                self.bytes -= kept.block.payload.len();
                self.evicted.insert(kept.offset);
                self.hand = at;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hashes_stand_for_the_bytes_only_where_all_are_right() {
        let block = |hashes: [u128; 2]| {
            let mut payload = Vec::new();
            for (bytes, hash) in [&b"first"[..], b"second"].iter().zip(hashes) {
                payload.extend_from_slice(&(bytes.len() as u32).to_le_bytes());
                payload.extend_from_slice(&hash.to_le_bytes());
            }
            payload.extend_from_slice(b"firstsecond");
            DataPayload::new(&Head { first: 7, count: 2, ..Head::default() }, payload.into())
                .unwrap()
        };
        let [first, second] = [&b"first"[..], b"second"].map(XxHash3_128::oneshot);
        let sound = block([first, second]);
        assert!(sound.is_sound());
        assert_eq!((sound.get(8), sound.hash(8)), (Some(&b"second"[..]), Some(second)));
        assert!(!block([first, second ^ 1]).is_sound());
        assert!(!block([0, second]).is_sound());
    }

    #[test]
    fn blocks_that_are_used_stay_longest_and_no_more_are_kept_than_should() {
        let block = || {
            let head = Head { count: 1, ..Head::default() };
            let payload = [&80_u32.to_le_bytes()[..], &[0; 16], &[7; 80]].concat();
            Arc::new(DataPayload::new(&head, payload.into()).unwrap())
        };
        let mut cache = Cache { bytes_max: 1000, ..Cache::default() };
        for offset in 0..100 {
            cache.add(offset * 7 % 100, block());
            cache.blocks.iter_mut().for_each(|kept| kept.used = true);
            assert!(cache.bytes <= 1000 && cache.blocks.len() <= 10);
            assert_eq!(cache.bytes, cache.blocks.len() * 100);
            assert!(cache.blocks.iter().any(|kept| kept.offset == offset * 7 % 100));
            assert!(cache.blocks.is_sorted_by_key(|kept| kept.offset));
        }
        cache.blocks.iter_mut().for_each(|kept| kept.used = false);
        let kept = cache.blocks[3].offset;
        for offset in 100..109 {
            assert!(cache.get(kept).is_some(), "it was used before each of the others");
            cache.add(offset, block());
        }
        let before = cache.blocks.len();
        cache.add(kept, block());
        assert_eq!(cache.blocks.len(), before, "a block is kept once");
        let mut none = Cache { bytes_max: 0, ..Cache::default() };
        none.add(1, block());
        assert!(none.get(1).is_none());
    }

    #[test]
    fn more_is_kept_once_a_block_is_missed() {
        let block = || {
            let head = Head { count: 0, ..Head::default() };
            Arc::new(DataPayload::new(&head, Vec::new().into()).unwrap())
        };
        let mut cache = Cache::default();
        let least = cache.bytes_kept;
        (0..CACHE_BLOCKS_MAX as u64 + 1).for_each(|offset| cache.add(offset, block()));
        assert_eq!(cache.bytes_kept, least, "each was used once");
        cache.add(0, block());
        assert_eq!(cache.bytes_kept, 2 * least);
    }
}
