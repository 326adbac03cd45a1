//! Where the recorded memory of a call lies in the program that makes it again.

use std::collections::HashMap;
use std::io;

use syscalls::capture::{self, How, Op};
use syscalls::record::{MESSAGE_BYTES, MESSAGE_LENGTH_AT, part};
use syscalls::shape::Behind;
use trace::event::Data;

use crate::memory::Memory;

/// Size of an iovec.
const VECTOR: u64 = 16;
/// Places in a message header.
const NAME_AT: u64 = 0;
const VECTOR_AT: u64 = 16;
const COUNT_AT: u64 = 24;
const CONTROL_AT: u64 = 32;

/// Where an operation finds a number that is stored where a struct says.
fn behind(op: &Op) -> Option<Behind> {
    match op.how {
        How::Behind(behind) => Some(behind),
        _ => None,
    }
}

/// Finds the buffers of one call, in the order of the trace.
pub struct Places {
    nr: u16,
    args: [u64; 6],
    memory: Memory,
    /// Buffers of messages that were found so far.
    found: HashMap<(u8, u16, bool), u64>,
}

impl Places {
    /// For a call of a thread with these arguments.
    pub fn new(nr: u16, args: [u64; 6], memory: Memory) -> Places {
        Places { nr, args, memory, found: HashMap::new() }
    }

    /// Returns the address of a buffer; `None` for what is no memory of the program.
    pub fn of(&mut self, data: &Data, out: bool) -> io::Result<Option<u64>> {
        let (row, _) = capture::row(self.nr.into(), &self.args);
        let ops = &row.ops[..usize::from(row.nops)];
        let Some(op) = ops.iter().find(|op| op.arg == data.arg) else { return Ok(None) };
        let at = self.args[usize::from(data.arg).min(5)];
        let index = u64::from(data.index);
        let header = match op.how {
            How::Mmsghdr => at.wrapping_add(index * MESSAGE_BYTES),
            _ => at,
        };
        let word = |at: u64| self.memory.word(at).map(Some);
        match (data.part, op.how) {
            (part::WHOLE, How::StrArray) => word(at.wrapping_add(8 * index)),
            (part::WHOLE, _) => Ok(Some(header)),
            (part::CONTENT, How::Holder(pointer)) => word(at.wrapping_add(pointer.at.into())),
            (part::CONTENT, How::Bytes) => match ops.iter().find_map(behind) {
                Some(behind) => word(at.wrapping_add(behind.at.into())),
                None => Ok(None),
            },
            (part::CONTENT, How::Iovec) => word(at.wrapping_add(VECTOR * index)),
            (part::CONTENT, How::Msghdr | How::Mmsghdr) => self.next_of_message(header, data, out),
            (part::NAME, _) => word(header.wrapping_add(NAME_AT)),
            (part::VECTOR, _) => word(header.wrapping_add(VECTOR_AT)),
            (part::LENGTH, _) => Ok(Some(header.wrapping_add(MESSAGE_LENGTH_AT))),
            (part::CONTROL, _) => word(header.wrapping_add(CONTROL_AT)),
            _ => Ok(None),
        }
    }

    /// The next buffer of a message that is not empty.
    fn next_of_message(&mut self, header: u64, data: &Data, out: bool) -> io::Result<Option<u64>> {
        let vector = self.memory.word(header.wrapping_add(VECTOR_AT))?;
        let count = self.memory.word(header.wrapping_add(COUNT_AT))?;
        let next = self.found.entry((data.arg, data.index, out)).or_insert(0);
        while *next < count {
            let at = vector.wrapping_add(VECTOR * *next);
            *next += 1;
            let base = self.memory.word(at)?;
            if self.memory.word(at.wrapping_add(8))? != 0 {
                return Ok(Some(base));
            }
        }
        Ok(None)
    }
}
