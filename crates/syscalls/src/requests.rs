//! What a program submits, as the agent needs it.

use crate::operations::{Request, number};
use crate::table::operations::AIO;

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
