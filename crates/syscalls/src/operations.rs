//! Operations that a program submits without a call for each: control blocks of Linux AIO and
//! entries of io_uring. Each is an event like a call, with a number beyond those of the kernel, a
//! row, and arguments that come from fields of the struct which describes it.

/// First number of an operation: that of io_uring with opcode 0. The kernel's own numbers stay below
/// for long.
pub const OPERATIONS_FIRST: u16 = 0x400;

/// Number of the operation of Linux AIO with opcode 0.
pub const AIO_FIRST: u16 = OPERATIONS_FIRST + 0x80;

/// Where operations are submitted.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Queue {
    /// A context of Linux AIO.
    Aio,
    /// A ring of io_uring.
    Ring,
}

/// The call that does what an operation does, and which of the operation's arguments it takes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Cousin {
    /// Its number.
    pub nr: u16,
    /// For each of its arguments the argument of the operation; [`NOTHING`]: zero.
    pub args: [u8; 6],
    /// The call instead if the fourth argument is -1, which stands for the file's own offset.
    pub at_own_offset: Option<u16>,
    /// The second and fourth arguments are offsets where the call has pointers to such; -1: NULL.
    pub offsets_behind: bool,
}

/// No argument of the operation.
pub const NOTHING: u8 = 0xff;

/// Where an argument comes from.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Take {
    /// Nowhere: it is zero.
    Nothing,
    /// The address of the struct.
    Address,
    /// The descriptor of an entry of a ring; -1 if it is a place in the table of the ring.
    Descriptor,
    /// The descriptor that a splice reads from, likewise.
    SourceDescriptor,
    /// The address of what follows the fields that all entries have.
    Rest,
    /// The length of that.
    RestBytes,
    /// A number in the struct.
    Field {
        /// Its offset.
        at: u8,
        /// Its size in bytes.
        bytes: u8,
    },
}

/// How an operation is read from its struct.
#[derive(Clone, Copy, Debug)]
pub struct Request {
    /// Number of the operation.
    pub nr: u16,
    /// Origins of its arguments.
    pub takes: [Take; 6],
}

impl Request {
    /// Returns the arguments of the operation that a struct describes, given its address and length.
    pub fn args(&self, body: &[u8], (address, bytes): (u64, u64)) -> [u64; 6] {
        let mut args = [0; 6];
        for (arg, take) in args.iter_mut().zip(self.takes) {
            *arg = match take {
                Take::Nothing => 0,
                Take::Address => address,
                Take::Descriptor => descriptor(body),
                Take::SourceDescriptor => source(body),
                Take::Rest => address.wrapping_add(REST_AT as u64),
                Take::RestBytes => bytes.saturating_sub(REST_AT as u64),
                Take::Field { at, bytes } => number(body, at.into(), bytes.into()),
            };
        }
        args
    }

    /// Returns the argument that is the address of the struct.
    pub fn address_at(&self) -> Option<usize> {
        self.takes.iter().position(|take| *take == Take::Address)
    }
}

/// Offsets in an entry of a ring, and the flag for a file of the ring.
const ENTRY_FLAGS_AT: usize = 1;
const DESCRIPTOR_AT: usize = 4;
const FIXED_FILE: u64 = 1;
/// Offset of what an entry has for its operation alone.
const REST_AT: usize = 48;
/// The descriptor that a splice reads from, and its flag for a file of the ring.
const SOURCE_AT: usize = 44;
const SPLICE_FLAGS_AT: usize = 28;
const SOURCE_IS_FIXED: u64 = 1 << 31;

fn descriptor(entry: &[u8]) -> u64 {
    match number(entry, ENTRY_FLAGS_AT, 1) & FIXED_FILE {
        0 => number(entry, DESCRIPTOR_AT, 4),
        _ => u64::from(u32::MAX),
    }
}

fn source(entry: &[u8]) -> u64 {
    place_of_source(entry).map_or(number(entry, SOURCE_AT, 4), |_| u64::from(u32::MAX))
}

/// Returns the place in the table of the ring of the file that a splice reads from, if it has one there.
pub(crate) fn place_of_source(entry: &[u8]) -> Option<u32> {
    let is_fixed = number(entry, SPLICE_FLAGS_AT, 4) & SOURCE_IS_FIXED != 0;
    is_fixed.then(|| number(entry, SOURCE_AT, 4) as u32)
}

/// Reads a number; what lies outside is zero.
pub(crate) fn number(body: &[u8], at: usize, bytes: usize) -> u64 {
    // Behind almost all numbers there is more of the struct.
    if let Some(word) = body.get(at..).and_then(|rest| rest.first_chunk()) {
        let word = u64::from_le_bytes(*word);
        return if bytes >= 8 { word } else { word & ((1 << (8 * bytes)) - 1) };
    }
    let mut word = [0; 8];
    for (to, from) in word.iter_mut().zip(body.iter().skip(at).take(bytes)) {
        *to = *from;
    }
    u64::from_le_bytes(word)
}
