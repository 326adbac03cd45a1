//! Memory for payloads, used again and again: to get half a MiB from the kernel, page by page, takes
//! longer than to unpack what goes there.

use std::ops::Deref;
use std::sync::{Mutex, PoisonError};

/// Most spare buffers, and the most bytes of one.
const SPARE_MAX: usize = 8;
const SPARE_BYTES_MAX: usize = 1 << 20;
/// Buffers have a multiple of this size, so that one fits the next block as well.
const STEP_BYTES: usize = 64 << 10;

static SPARE: Mutex<Vec<Vec<u8>>> = Mutex::new(Vec::new());

/// The bytes of a payload. Their memory is kept for another one when they are dropped.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct BlockBytes(Vec<u8>);

impl BlockBytes {
    /// Makes room for this many bytes. There may be bytes of an earlier payload in it.
    pub fn with_room(len: usize) -> BlockBytes {
        let mut spare = SPARE.lock().unwrap_or_else(PoisonError::into_inner);
        let fits = spare.iter().position(|bytes| bytes.capacity() >= len);
        let bytes = fits.map(|at| spare.swap_remove(at));
        drop(spare);
        BlockBytes(bytes.unwrap_or_else(|| Vec::with_capacity(len.next_multiple_of(STEP_BYTES))))
    }

    /// The bytes, to be written.
    pub fn bytes_mut(&mut self) -> &mut Vec<u8> {
        &mut self.0
    }

    /// The memory that it takes.
    pub fn held_bytes(&self) -> usize {
        self.0.capacity()
    }
}

impl From<Vec<u8>> for BlockBytes {
    fn from(bytes: Vec<u8>) -> BlockBytes {
        BlockBytes(bytes)
    }
}

impl Deref for BlockBytes {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        &self.0
    }
}

impl Drop for BlockBytes {
    fn drop(&mut self) {
        if !(STEP_BYTES..=SPARE_BYTES_MAX).contains(&self.0.capacity()) {
            return;
        }
        let mut spare = SPARE.lock().unwrap_or_else(PoisonError::into_inner);
        if spare.len() < SPARE_MAX {
            spare.push(std::mem::take(&mut self.0));
        }
    }
}
