//! The frame of the file, common to writer and reader; docs/format.md is the specification.
//!
//! ```text
//! | file header | PREAMBLE | EVENTS or DATA ... | INDEX | ... | INDEX | END | trailer |
//!                head | payload
//! ```
//!
//! Invariants:
//! - every block is at the offset in its head, right behind the block before it;
//! - a blob precedes all events that refer to it;
//! - events of one thread are in order; `first` and `first_call` of their heads continue without a
//!   hole;
//! - values in a head are bounded by the constants below, even in a hostile file.

/// The first bytes of every trace. Transfers as text damage them: a high byte, both line ends.
pub const FILE_MAGIC: [u8; 8] = *b"\x89RNT\r\n\x1a\n";
/// The version that is written, and the newest that is read.
pub const VERSION: u32 = 2;
/// Bytes before the first block: magic, version, zero.
pub const FILE_HEADER_BYTES: usize = 16;

/// The first bytes of every block.
pub const BLOCK_MAGIC: [u8; 4] = *b"\xb1RNB";
/// Bytes of a block's head.
pub const HEAD_BYTES: usize = 80;
/// The last bytes of a trace that was finished.
pub const TRAILER_MAGIC: [u8; 4] = *b"\xb1RNE";
/// Length of the trailer: offset of END, its checksum, magic.
pub const TRAILER_BYTES: usize = 16;

/// Maximum length of a block's payload, stored or unpacked.
pub const PAYLOAD_BYTES_MAX: usize = 4 << 20;
/// A payload unpacks to at most this many times its stored size.
pub const RATIO_MAX: usize = 4096;
/// Maximum length of an encoded event.
pub const EVENT_BYTES_MAX: usize = 2 << 20;
/// Maximum number of heads in an INDEX.
pub const INDEX_HEADS_MAX: usize = 4096;
/// Number of slots of the call predictor.
pub const SLOTS: usize = 256;
/// Bytes of a blob's entry at the start of DATA: length and hash.
pub const BLOB_ENTRY_BYTES: usize = 20;

/// Kinds of blocks, as in the file. Readers skip unknown ones.
pub mod kind {
    /// Where, when and how the trace was recorded. The first block.
    pub const PREAMBLE: u8 = 1;
    /// Events of one thread.
    pub const EVENTS: u8 = 2;
    /// Distinct buffers.
    pub const DATA: u8 = 3;
    /// Copies of the heads of the blocks since the last INDEX.
    pub const INDEX: u8 = 4;
    /// Totals. The last block of a trace that was finished.
    pub const END: u8 = 5;
    /// State of the paths that the program changed, at the end of the recording.
    pub const MANIFEST: u8 = 6;
    /// Contents of files from which the kernel copied.
    pub const SOURCES: u8 = 7;
}

/// How a payload is stored.
pub mod codec {
    /// Uncompressed.
    pub const NONE: u8 = 0;
    /// One zstd frame.
    pub const ZSTD: u8 = 1;
    /// One lz4 block, without frame or length.
    pub const LZ4: u8 = 2;
}

/// The first byte of an event. If the top bit is clear it is a call, and these bits show what
/// differs from the previous call in its slot and what follows.
pub mod call_tag {
    /// Number, flags, number of arguments and site follow.
    pub const SHAPE: u8 = 1;
    /// Arguments follow.
    pub const ARGS: u8 = 2;
    /// The result follows.
    pub const RET: u8 = 4;
    /// The call did not return: neither duration nor result follow.
    pub const UNFINISHED: u8 = 8;
    /// Memory follows.
    pub const DATA: u8 = 16;
    /// Identities follow.
    pub const IDENTITIES: u8 = 32;
    /// Optional parts follow. From version 2.
    pub const PARTS: u8 = 64;
}

/// The first byte of an event other than a call: these, and the number of its kind.
pub mod event_tag {
    /// Always set.
    pub const EVENT: u8 = 0x80;
    /// Optional parts follow. From version 2.
    pub const PARTS: u8 = super::call_tag::PARTS;
    /// The bits of the number.
    pub const NUMBER: u8 = 0x3f;
    /// In version 1, a state that is followed by the number of descriptors left out.
    pub const V1_STATE_CUT: u8 = 0x89;
}

/// Numbers of the kinds of events that have code of their own; all are in `event_table`.
pub mod event_number {
    /// A signal handler was entered.
    pub const SIGNAL: u8 = 1;
    /// The thread started.
    pub const START: u8 = 2;
    /// The thread began a new program.
    pub const IMAGE: u8 = 3;
    /// The thread ended.
    pub const END: u8 = 4;
    /// The thread waited for room.
    pub const STALL: u8 = 5;
    /// Data is missing.
    pub const GAP: u8 = 6;
    /// State of a process when its program began.
    pub const STATE: u8 = 7;
    /// A process ended.
    pub const EXIT: u8 = 8;
    /// The program stored to a mapped file.
    pub const MMAP_WRITE: u8 = 9;
    /// The program read a mapped file.
    pub const MMAP_READ: u8 = 10;
    /// All mapped files of a process were looked at.
    pub const MMAP_LOOK: u8 = 11;
    /// Where times of what a process reads of mapped files come from.
    pub const MMAP_TIMES: u8 = 12;
    /// What is in events of the kernel of one kind.
    pub const KERNEL_LAYOUT: u8 = 20;
    /// An event of the kernel.
    pub const KERNEL: u8 = 21;
    /// A thread of the machine, as events of the kernel began to be taken.
    pub const KERNEL_TASK: u8 = 22;
    /// Whose events of the kernel were taken.
    pub const KERNEL_SCOPE: u8 = 23;
    /// A process mapped a file.
    pub const LOADED_FILE: u8 = 24;
    /// A thread was told to let others run.
    pub const TIME_SLICE: u8 = 25;
    /// A device of the machine, as events of the kernel began to be taken.
    pub const KERNEL_DEVICE: u8 = 26;
    /// The highest number. The tests use those above, which need another version to be given out.
    pub const MAX: u8 = 59;
}

/// The two bytes at the beginning of an item of memory.
pub mod data_tag {
    /// First byte: the argument, or one of the next two values.
    pub const ARG: u8 = 0x07;
    /// The item belongs to an image.
    pub const ARG_IMAGE: u8 = 6;
    /// The argument follows as a byte.
    pub const ARG_BYTE: u8 = 7;
    /// First byte, position of three bits: the part, or the next value.
    pub const PART_SHIFT: u8 = 3;
    /// The part follows as a byte.
    pub const PART_BYTE: u8 = 7;
    /// First byte, position of two bits: how the stored bytes are given.
    pub const CONTENT_SHIFT: u8 = 6;
    /// Nothing is stored.
    pub const NOTHING: u8 = 0;
    /// The bytes follow.
    pub const INLINE: u8 = 1;
    /// The number of a blob follows.
    pub const BLOB: u8 = 2;
    /// The numbers of several blobs follow.
    pub const BLOBS: u8 = 3;
    /// Second byte: the low bits of the flags.
    pub const FLAGS: u8 = 0x0f;
    /// Second byte: all flags follow as a byte.
    pub const FLAGS_BYTE: u8 = 0x10;
    /// Second byte: the index follows; otherwise it is 0.
    pub const INDEX: u8 = 0x20;
    /// Second byte: the stored length follows; otherwise it is the true length.
    pub const STORED_LEN: u8 = 0x40;
    /// Second byte: a hash follows.
    pub const HASH: u8 = 0x80;
}

/// The head of a block.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Head {
    /// Kind of block: [`kind`].
    pub kind: u8,
    /// How the payload is stored: [`codec`].
    pub codec: u8,
    /// Length of the unpacked payload.
    pub raw_len: u32,
    /// Length of the stored payload.
    pub stored_len: u32,
    /// Offset of the head in the file.
    pub offset: u64,
    /// CRC-32 of the stored payload.
    pub payload_crc: u32,
    /// EVENTS: the thread.
    pub thread: u32,
    /// EVENTS: number of the first event in its thread. DATA: number of the first blob.
    /// INDEX: offset of the INDEX before it, 0 if there is none.
    pub first: u64,
    /// EVENTS: number of calls of the thread before this block.
    pub first_call: u64,
    /// Number of events (EVENTS), blobs (DATA) or heads (INDEX).
    pub count: u32,
    /// EVENTS: number of calls among the events.
    pub calls: u32,
    /// EVENTS: time stamp of the first event.
    pub first_tsc: u64,
    /// EVENTS: the latest time stamp, including ends of calls.
    pub last_tsc: u64,
}

/// Why bytes are not a valid head.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct BadHead(pub &'static str);

impl Head {
    /// Encodes the head, with its checksum.
    pub fn to_bytes(&self) -> [u8; HEAD_BYTES] {
        let mut out = [0; HEAD_BYTES];
        out[0..4].copy_from_slice(&BLOCK_MAGIC);
        out[4] = self.kind;
        out[5] = self.codec;
        out[8..12].copy_from_slice(&self.raw_len.to_le_bytes());
        out[12..16].copy_from_slice(&self.stored_len.to_le_bytes());
        out[16..24].copy_from_slice(&self.offset.to_le_bytes());
        out[24..28].copy_from_slice(&self.payload_crc.to_le_bytes());
        out[28..32].copy_from_slice(&self.thread.to_le_bytes());
        out[32..40].copy_from_slice(&self.first.to_le_bytes());
        out[40..48].copy_from_slice(&self.first_call.to_le_bytes());
        out[48..52].copy_from_slice(&self.count.to_le_bytes());
        out[52..56].copy_from_slice(&self.calls.to_le_bytes());
        out[56..64].copy_from_slice(&self.first_tsc.to_le_bytes());
        out[64..72].copy_from_slice(&self.last_tsc.to_le_bytes());
        let crc = crc32fast::hash(&out[..76]);
        out[76..80].copy_from_slice(&crc.to_le_bytes());
        out
    }

    /// Decodes and checks a head found at `offset`.
    pub fn from_bytes(bytes: &[u8; HEAD_BYTES], offset: u64) -> Result<Head, BadHead> {
        if bytes[0..4] != BLOCK_MAGIC {
            return Err(BadHead("no block begins here"));
        }
        if u32_at(bytes, 76) != crc32fast::hash(&bytes[..76]) {
            return Err(BadHead("the checksum of a block's head is wrong"));
        }
        let head = Head {
            kind: bytes[4],
            codec: bytes[5],
            raw_len: u32_at(bytes, 8),
            stored_len: u32_at(bytes, 12),
            offset: u64_at(bytes, 16),
            payload_crc: u32_at(bytes, 24),
            thread: u32_at(bytes, 28),
            first: u64_at(bytes, 32),
            first_call: u64_at(bytes, 40),
            count: u32_at(bytes, 48),
            calls: u32_at(bytes, 52),
            first_tsc: u64_at(bytes, 56),
            last_tsc: u64_at(bytes, 64),
        };
        if head.offset != offset {
            return Err(BadHead("a block's head says that it belongs elsewhere"));
        }
        if head.raw_len as usize > PAYLOAD_BYTES_MAX || head.stored_len > head.raw_len {
            return Err(BadHead("a block's lengths are beyond the limits"));
        }
        if head.raw_len as usize > (head.stored_len as usize).saturating_mul(RATIO_MAX) {
            return Err(BadHead("a block claims to unpack to more than any block does"));
        }
        if head.calls > head.count || head.count > head.raw_len {
            return Err(BadHead("a block claims more than its bytes can hold"));
        }
        if head.first.checked_add(u64::from(head.count)).is_none()
            || head.first_call.checked_add(u64::from(head.calls)).is_none()
        {
            return Err(BadHead("a block's numbers are beyond the limits"));
        }
        Ok(head)
    }

    /// Length of head and payload.
    pub fn total_bytes(&self) -> u64 {
        HEAD_BYTES as u64 + u64::from(self.stored_len)
    }

    /// Offset of the next block.
    pub fn end(&self) -> u64 {
        self.offset.saturating_add(self.total_bytes())
    }
}

/// The first bytes of a trace.
pub fn file_header() -> [u8; FILE_HEADER_BYTES] {
    let mut out = [0; FILE_HEADER_BYTES];
    out[..8].copy_from_slice(&FILE_MAGIC);
    out[8..12].copy_from_slice(&VERSION.to_le_bytes());
    out
}

/// The last bytes of a trace that was finished: they hold the offset of END.
pub fn trailer(end_offset: u64) -> [u8; TRAILER_BYTES] {
    let mut out = [0; TRAILER_BYTES];
    out[..8].copy_from_slice(&end_offset.to_le_bytes());
    let crc = crc32fast::hash(&out[..8]);
    out[8..12].copy_from_slice(&crc.to_le_bytes());
    out[12..].copy_from_slice(&TRAILER_MAGIC);
    out
}

/// The offset of END, if these are the last bytes of a trace that was finished.
pub fn end_offset(trailer: &[u8; TRAILER_BYTES]) -> Option<u64> {
    let whole =
        trailer[12..] == TRAILER_MAGIC && u32_at(trailer, 8) == crc32fast::hash(&trailer[..8]);
    whole.then(|| u64_at(trailer, 0))
}

/// Reads a little-endian number from a slice known to hold it.
pub fn u32_at(bytes: &[u8], at: usize) -> u32 {
    let mut word = [0; 4];
    word.copy_from_slice(&bytes[at..at + 4]);
    u32::from_le_bytes(word)
}

/// Reads a little-endian number from a slice known to hold it.
pub fn u64_at(bytes: &[u8], at: usize) -> u64 {
    let mut word = [0; 8];
    word.copy_from_slice(&bytes[at..at + 8]);
    u64::from_le_bytes(word)
}

/// Maps signed numbers to unsigned ones, with small values for numbers near 0.
pub const fn zigzag(value: i64) -> u64 {
    (value << 1) as u64 ^ (value >> 63) as u64
}

/// Undoes [`zigzag`].
pub const fn unzigzag(value: u64) -> i64 {
    (value >> 1) as i64 ^ -((value & 1) as i64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_head_is_read_as_written() {
        let head = Head {
            kind: kind::EVENTS,
            codec: codec::LZ4,
            raw_len: 1000,
            stored_len: 900,
            offset: 0x1234_5678_9abc,
            payload_crc: 0xdead_beef,
            thread: 7,
            first: 1 << 40,
            first_call: 1 << 39,
            count: 30,
            calls: 29,
            first_tsc: u64::MAX,
            last_tsc: 5,
        };
        assert_eq!(Head::from_bytes(&head.to_bytes(), head.offset), Ok(head));
    }

    #[test]
    fn every_bit_of_a_head_matters() {
        let head = Head { kind: kind::DATA, raw_len: 9, stored_len: 9, ..Head::default() };
        for bit in 0..HEAD_BYTES * 8 {
            let mut bytes = head.to_bytes();
            bytes[bit / 8] ^= 1 << (bit % 8);
            assert!(Head::from_bytes(&bytes, 0).is_err(), "bit {bit} is not checked");
        }
        assert!(Head::from_bytes(&head.to_bytes(), 1).is_err());
    }

    #[test]
    fn claims_beyond_the_limits_are_refused() {
        let sound = Head { raw_len: 8192, stored_len: 2, count: 3, calls: 2, ..Head::default() };
        let refused = |head: Head| Head::from_bytes(&head.to_bytes(), 0).is_err();
        assert!(!refused(sound));
        assert!(refused(Head { raw_len: 8193, ..sound }));
        assert!(refused(Head { raw_len: (PAYLOAD_BYTES_MAX + 1) as u32, ..sound }));
        assert!(refused(Head { stored_len: 8193, ..sound }));
        assert!(refused(Head { calls: 4, ..sound }));
        assert!(refused(Head { count: 8193, ..sound }));
        assert!(refused(Head { first: u64::MAX - 1, ..sound }));
    }

    #[test]
    fn zigzag_goes_both_ways() {
        for value in [0, 1, -1, 63, -64, i64::MAX, i64::MIN] {
            assert_eq!(unzigzag(zigzag(value)), value);
        }
        assert_eq!(zigzag(-1), 1);
        assert_eq!(zigzag(1), 2);
    }
}
