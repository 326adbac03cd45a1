//! What a program submits, as the agent needs it.

use crate::operations::{Request, number};
use crate::table::operations::AIO;
use crate::table::ring_operations::{FILE_INDEX, RING, UNKNOWN};

/// Size of a control block.
pub const CONTROL_BLOCK_BYTES: usize = 64;

/// A control block as the agent needs it.
#[derive(Clone, Copy, Debug)]
pub struct ControlBlock(pub [u8; CONTROL_BLOCK_BYTES]);

impl ControlBlock {
    /// Returns what it asks for, if the kernel has such an operation.
    pub fn request(&self) -> Option<&'static Request> {
        let [low, high] = [self.0[OPCODE_AT], self.0[OPCODE_AT + 1]];
        AIO.get(usize::from(u16::from_le_bytes([low, high])))?.as_ref()
    }

    /// Returns the number by which the program knows the operation.
    pub fn tag(&self) -> u64 {
        number(&self.0, 0, 8)
    }
}

/// An entry of a submission queue.
#[derive(Clone, Copy, Debug)]
pub struct Entry(pub [u8; ENTRY_BYTES]);

/// Size of an entry of the submission queue.
pub const ENTRY_BYTES: usize = 64;
const USER_DATA_AT: usize = 32;
const DESCRIPTOR_AT: usize = 4;
const FILE_INDEX_AT: usize = 44;
const FIXED_FILE: u8 = 1;
/// The flag for an entry that begins when all before it have ended.
const DRAIN: u8 = 1 << 1;
/// Flags for an entry that the next one waits for.
const LINKS: u8 = 1 << 2 | 1 << 3;
/// The flag for a buffer that the kernel chooses.
const BUFFER_SELECT: u8 = 1 << 5;
/// The flag for no completion if it succeeds.
const SKIP_SUCCESS: u8 = 1 << 6;

impl Entry {
    /// Returns what it asks for.
    pub fn request(&self) -> &'static Request {
        RING.get(usize::from(self.0[0])).unwrap_or(&UNKNOWN)
    }

    /// Returns what the program gets back with the completion.
    pub fn user_data(&self) -> u64 {
        number(&self.0, USER_DATA_AT, 8)
    }

    /// Sets it.
    pub fn set_user_data(&mut self, data: u64) {
        self.0[USER_DATA_AT..USER_DATA_AT + 8].copy_from_slice(&data.to_le_bytes());
    }

    /// Returns the place of its file in the table of the ring, if it has none by a number.
    pub fn place_of_file(&self) -> Option<u32> {
        (self.0[1] & FIXED_FILE != 0).then(|| number(&self.0, DESCRIPTOR_AT, 4) as u32)
    }

    /// Returns the place in that table to which it gives another file.
    pub fn changes_place(&self) -> Option<u32> {
        self.request().takes.contains(&FILE_INDEX).then_some(())?;
        (number(&self.0, FILE_INDEX_AT, 4) as u32).checked_sub(1)
    }

    /// Returns true if the next entry begins when this one has ended.
    pub fn is_linked(&self) -> bool {
        self.0[1] & LINKS != 0
    }

    /// Returns true if it begins when all entries before it have ended.
    pub fn waits_for_all(&self) -> bool {
        self.0[1] & DRAIN != 0
    }

    /// Returns true if nothing is told when it succeeds.
    pub fn skips_success(&self) -> bool {
        self.0[1] & SKIP_SUCCESS != 0
    }

    /// Returns true if the kernel chooses the buffer: it is not known where that is.
    pub fn selects_buffer(&self) -> bool {
        self.0[1] & BUFFER_SELECT != 0
    }
}

/// Offset of the operation in a control block.
const OPCODE_AT: usize = 16;

#[cfg(test)]
mod tests {
    use super::*;

    fn block(opcode: u16) -> ControlBlock {
        let mut bytes = [0; CONTROL_BLOCK_BYTES];
        for (at, byte) in bytes.iter_mut().enumerate() {
            *byte = at as u8;
        }
        bytes[OPCODE_AT..OPCODE_AT + 2].copy_from_slice(&opcode.to_le_bytes());
        ControlBlock(bytes)
    }

    #[test]
    fn arguments_come_from_the_fields_of_the_control_block() {
        let read = block(0);
        let request = read.request().unwrap();
        let word = |at: u64| (0..8).fold(0, |word, byte| word | (at + byte) << (8 * byte));
        let expected = [0x1716_1514, word(24), word(32), word(40), 0x0f0e_0d0c, 0x1000];
        assert_eq!(request.args(&read.0, 0x1000), expected);
        assert_eq!(crate::by_number(request.nr.into()).unwrap().name, "aio:PREAD");
        assert_eq!(read.tag(), word(0));
    }

    #[test]
    fn operations_that_the_kernel_does_not_have_are_none() {
        for opcode in [4, 9, 0x100, u16::MAX] {
            assert!(block(opcode).request().is_none(), "{opcode}");
        }
    }
}
