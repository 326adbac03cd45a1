//! A block of the program's memory as it was read: where a fault could not be caught, one question to the
//! kernel for what would need one for each word and string.

use core::cell::{Cell, UnsafeCell};
use core::mem::MaybeUninit;

/// A page is readable or not as a whole, and so is a block in it.
const BLOCK_BYTES: u64 = 1024;
/// No block of the program is there.
const NOTHING: u64 = u64::MAX;

/// The block that was read last.
pub struct Copied {
    /// Where the program has it.
    at: Cell<u64>,
    bytes: UnsafeCell<MaybeUninit<[u8; BLOCK_BYTES as usize]>>,
}

impl Copied {
    pub const fn new() -> Copied {
        Copied { at: Cell::new(NOTHING), bytes: UnsafeCell::new(MaybeUninit::uninit()) }
    }

    /// Copies from program memory, with a function that does so, and returns as this does the number of
    /// bytes at the end that could not be read.
    ///
    /// # Safety
    /// `to` must be memory of `len` bytes, and `read` must write all that it does not call missing.
    pub unsafe fn copy(
        &self,
        to: *mut u8,
        from: u64,
        len: u64,
        read: impl Fn(*mut u8, u64, u64) -> u64,
    ) -> u64 {
        let mut done = 0;
        while done < len {
            let (at, left) = (from.wrapping_add(done), len - done);
            let start = at & !(BLOCK_BYTES - 1);
            if self.at.get() != start {
                if left >= BLOCK_BYTES {
                    return read(to.wrapping_add(done as usize), at, left);
                }
                self.at.set(NOTHING);
                if read(self.bytes.get().cast(), start, BLOCK_BYTES) != 0 {
                    return left;
                }
                self.at.set(start);
            }
            let offset = at - start;
            let piece = left.min(BLOCK_BYTES - offset);
            // SAFETY: the piece is in the block, which was read, and the caller has room for `len`.
            unsafe {
                let bytes = self.bytes.get().cast::<u8>().add(offset as usize);
                to.add(done as usize).copy_from_nonoverlapping(bytes, piece as usize);
            }
            done += piece;
        }
        0
    }
}

#[cfg(test)]
mod tests {
    use std::vec::Vec;
    use std::{assert, assert_eq, vec};

    use super::*;

    #[test]
    fn what_is_near_is_read_once() {
        let memory: Vec<u8> = (0..8192u32).map(|n| (n * 7 / 3) as u8).collect();
        let (base, reads) = (0x1000u64, Cell::new(0));
        let read = |to: *mut u8, from: u64, len: u64| {
            reads.set(reads.get() + 1);
            let at = (from - base) as usize;
            let there = memory.len().saturating_sub(at).min(len as usize);
            // SAFETY: the callers below have room for `len`.
            unsafe { to.copy_from_nonoverlapping(memory[at..].as_ptr(), there) };
            len - there as u64
        };
        let copied = Copied::new();
        let copy = |from: usize, len: usize| {
            let mut bytes = vec![0; len];
            // SAFETY: there is room for `len`.
            let missing =
                unsafe { copied.copy(bytes.as_mut_ptr(), base + from as u64, len as u64, read) };
            assert!(missing != 0 || bytes == memory[from..from + len]);
            (missing, reads.take())
        };
        assert_eq!(copy(0, 8), (0, 1));
        assert_eq!([copy(8, 8), copy(1000, 24)], [(0, 0), (0, 0)]);
        assert_eq!(copy(1020, 8), (0, 1), "over the border of two blocks");
        assert_eq!(copy(2040, 3000), (0, 1), "what is there, and the rest at once");
        assert_eq!(copy(8190, 4), (2, 2), "beyond the end");
        assert_eq!(copy(3000, 100), (0, 2), "in two blocks");
    }
}
