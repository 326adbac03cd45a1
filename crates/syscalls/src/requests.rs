//! What a program submits, as the agent needs it.

use crate::abi::rings::{CANCEL_ALL, CANCEL_OTHERWISE, RECV_MULTISHOT, RECVSEND_BUNDLE};
use crate::operations::{OPERATIONS_FIRST, Request, Take, number, place_of_source};
use crate::table::operations::AIO;
use crate::table::ring_operations::{FILE_INDEX, RING, UNKNOWN, UNKNOWN_NR};

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

/// Number of an operation of a ring of which nothing but its end is known.
pub const UNSEEN: u16 = UNKNOWN_NR;
/// Number of the operation that posts a completion to another ring, which it names first.
pub const MESSAGE: u16 = OPERATIONS_FIRST + 40;

/// An entry of a submission queue.
#[derive(Clone, Copy, Debug)]
pub struct Entry(pub [u8; ENTRY_BYTES]);

/// What the kernel chooses for an entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Chooses {
    /// Nothing.
    Nothing,
    /// A buffer.
    Buffer,
    /// As many buffers as there are bytes for.
    Buffers,
    /// A buffer that gets a message with its header, name and control data.
    Frame,
}

/// Buffers of one length, one behind the other.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(C)]
pub struct Provided {
    /// Where the first one is.
    pub at: u64,
    /// The length of each.
    pub bytes: u32,
    /// How many they are.
    pub count: u32,
    /// The group to which they belong.
    pub group: u16,
    /// The number of the first one.
    pub first: u16,
}

impl Provided {
    /// Returns address and length of one of them.
    pub fn buffer(&self, group: u16, number: u16) -> Option<(u64, u32)> {
        let place = u32::from(number.checked_sub(self.first)?);
        let is_here = self.group == group && place < self.count;
        let at = self.at.wrapping_add(u64::from(place).wrapping_mul(self.bytes.into()));
        is_here.then_some((at, self.bytes))
    }
}

/// Size of an entry of the submission queue.
pub const ENTRY_BYTES: usize = 64;
const USER_DATA_AT: usize = 32;
const DESCRIPTOR_AT: usize = 4;
const FILE_INDEX_AT: usize = 44;
const FIXED_FILE: u8 = 1;
const GROUP_AT: usize = 40;
const ADDRESS_AT: usize = 16;
const OP_FLAGS_AT: usize = 28;
const PRIORITY_AT: usize = 2;
const POLL_REMOVE: u8 = 7;
/// Opcodes of messages.
const RECVMSG: u8 = 10;
const SEND: u8 = 26;
const RECV: u8 = 27;
const TIMEOUT_REMOVE: u8 = 12;
const ASYNC_CANCEL: u8 = 14;
/// The opcode that gives a ring buffers.
const PROVIDES: u8 = 31;
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

    /// Returns the place of the file that a splice reads from, likewise.
    pub fn place_of_source(&self) -> Option<u32> {
        // Most have nothing there.
        let place = place_of_source(&self.0)?;
        self.request().takes.contains(&Take::SourceDescriptor).then_some(place)
    }

    /// Returns the place in that table to which it gives another file.
    pub fn changes_place(&self) -> Option<u32> {
        let place = (number(&self.0, FILE_INDEX_AT, 4) as u32).checked_sub(1)?;
        self.request().takes.contains(&FILE_INDEX).then_some(place)
    }

    /// Returns the ring to which it posts a completion, where it is named by a descriptor.
    pub fn posts_to(&self) -> Option<u32> {
        let is_named = self.request().nr == MESSAGE && self.0[1] & FIXED_FILE == 0;
        is_named.then(|| number(&self.0, DESCRIPTOR_AT, 4) as u32)
    }

    /// Returns the group of buffers from which the kernel chooses.
    pub fn group(&self) -> u16 {
        number(&self.0, GROUP_AT, 2) as u16
    }

    /// Returns the buffers that it gives to its group.
    pub fn provides(&self) -> Option<Provided> {
        (self.0[0] == PROVIDES).then(|| Provided {
            group: self.group(),
            first: number(&self.0, 8, 2) as u16,
            count: number(&self.0, DESCRIPTOR_AT, 4) as u32,
            at: number(&self.0, 16, 8),
            bytes: number(&self.0, 24, 4) as u32,
        })
    }

    /// Returns the data by which it names other operations, and whether it means all of them.
    pub fn cancels(&self) -> Option<(u64, bool)> {
        let flags = number(&self.0, OP_FLAGS_AT, 4) as u32;
        let all = match self.0[0] {
            ASYNC_CANCEL if flags & CANCEL_OTHERWISE != 0 => return None,
            ASYNC_CANCEL => flags & CANCEL_ALL != 0,
            POLL_REMOVE | TIMEOUT_REMOVE => false,
            _ => return None,
        };
        Some((number(&self.0, ADDRESS_AT, 8), all))
    }

    /// Sets that data.
    pub fn set_cancelled(&mut self, data: u64) {
        self.0[ADDRESS_AT..ADDRESS_AT + 8].copy_from_slice(&data.to_le_bytes());
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

    /// Returns what the kernel chooses, of which it is not known where it is.
    pub fn chooses(&self) -> Chooses {
        let how = number(&self.0, PRIORITY_AT, 2);
        match self.0[0] {
            _ if self.0[1] & BUFFER_SELECT == 0 => Chooses::Nothing,
            RECVMSG if how & RECV_MULTISHOT != 0 => Chooses::Frame,
            SEND | RECV if how & RECVSEND_BUNDLE != 0 => Chooses::Buffers,
            _ => Chooses::Buffer,
        }
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
        assert_eq!(request.args(&read.0, (0x1000, 64)), expected);
        assert_eq!(crate::by_number(request.nr.into()).unwrap().name, "aio:PREAD");
        assert_eq!(read.tag(), word(0));
    }

    #[test]
    fn what_is_cancelled_is_known_by_its_data() {
        let mut entry = Entry([0; ENTRY_BYTES]);
        entry.set_cancelled(0x1234);
        for (opcode, flags, expected) in [
            (14, 0, Some((0x1234, false))),
            (14, 1, Some((0x1234, true))),
            (14, 3, None),
            (7, 1, Some((0x1234, false))),
            (12, 0, Some((0x1234, false))),
            (22, 0, None),
        ] {
            (entry.0[0], entry.0[OP_FLAGS_AT]) = (opcode, flags);
            assert_eq!(entry.cancels(), expected, "{opcode} {flags}");
        }
    }

    #[test]
    fn what_the_kernel_chooses_follows_from_flags() {
        let mut entry = Entry([0; ENTRY_BYTES]);
        for (opcode, flags, how, expected) in [
            (22, 0, 0, Chooses::Nothing),
            (22, BUFFER_SELECT, 16, Chooses::Buffer),
            (27, BUFFER_SELECT, 2, Chooses::Buffer),
            (27, BUFFER_SELECT, 18, Chooses::Buffers),
            (26, BUFFER_SELECT, 16, Chooses::Buffers),
            (10, BUFFER_SELECT, 0, Chooses::Buffer),
            (10, BUFFER_SELECT, 2, Chooses::Frame),
            (10, 0, 2, Chooses::Nothing),
        ] {
            (entry.0[0], entry.0[1], entry.0[PRIORITY_AT]) = (opcode, flags, how);
            assert_eq!(entry.chooses(), expected, "{opcode} {flags} {how}");
        }
    }

    #[test]
    fn buffers_are_found_by_group_and_number() {
        let mut entry = Entry([0; ENTRY_BYTES]);
        assert_eq!(entry.provides(), None);
        entry.0[0] = PROVIDES;
        for (at, value) in [(4, 3), (8, 5), (17, 0x10), (25, 2), (40, 9)] {
            entry.0[at] = value;
        }
        let provided = entry.provides().unwrap();
        let expected = Provided { at: 0x1000, bytes: 512, count: 3, group: 9, first: 5 };
        assert_eq!(provided, expected);
        assert_eq!(provided.buffer(9, 7), Some((0x1400, 512)));
        for (group, number) in [(9, 4), (9, 8), (8, 5)] {
            assert_eq!(provided.buffer(group, number), None);
        }
    }

    #[test]
    fn operations_that_the_kernel_does_not_have_are_none() {
        for opcode in [4, 9, 0x100, u16::MAX] {
            assert!(block(opcode).request().is_none(), "{opcode}");
        }
    }
}
