//! Calls as the recorder hands them over: borrowed, so that no call needs an allocation.

use crate::event::{BlobId, Identity, Outcome};
use crate::parts::Part;

/// A system call, see [`crate::event::Call`].
#[derive(Clone, Copy, Debug)]
pub struct CallRef<'a> {
    /// x86_64 number.
    pub nr: u16,
    /// `syscalls::record::enter_flag` bits.
    pub flags: u8,
    /// Address of the `syscall` instruction.
    pub site: u64,
    /// Number of arguments, at most 6.
    pub nargs: u8,
    /// Argument values; those beyond `nargs` are 0.
    pub args: [u64; 6],
    /// How it ended.
    pub outcome: Outcome,
    /// Memory behind the arguments.
    pub data: &'a [DataRef<'a>],
    /// Files at their first use.
    pub identities: &'a [(u8, Identity)],
    /// Optional parts.
    pub parts: &'a [Part],
}

/// Memory behind an argument, see [`crate::event::Data`].
#[derive(Clone, Copy, Debug)]
pub struct DataRef<'a> {
    /// Index of the argument.
    pub arg: u8,
    /// `syscalls::record::part`: which part of the argument this is.
    pub part: u8,
    /// Index of the array element that it belongs to.
    pub index: u16,
    /// `syscalls::record::data_flag` bits.
    pub flags: u8,
    /// Length of the buffer in the program.
    pub true_len: u64,
    /// Hash of the whole buffer (XXH3-128), when `data_flag::HASH` is set.
    pub hash: Option<u128>,
    /// The bytes to be stored.
    pub content: ContentRef<'a>,
}

/// Bytes to be stored.
#[derive(Clone, Copy, Debug)]
pub enum ContentRef<'a> {
    /// Bytes of any length: the writer stores short ones in the event and long ones in blobs.
    Bytes(&'a [u8]),
    /// Bytes that [`crate::Writer::blob`] has stored already.
    Blobs {
        /// Total number of bytes.
        len: u64,
        /// The blobs.
        ids: &'a [BlobId],
    },
}
