//! Contents of files from which the kernel copied: no call carries them, so the recorder reads them
//! at the end of the recording.
//!
//! They are stored in SOURCES blocks before END.

use crate::block_bytes::BlockBytes;
use crate::error::{ReadError, WriteError};
use crate::event::{BlobId, Content};
use crate::format::{Head, kind};
use crate::reader::Trace;
use crate::wire::{Cursor, Fields, Get, Malformed, put};
use crate::writer::Writer;

/// A block is closed when it holds this many bytes.
const BLOCK_BYTES: usize = 256 << 10;
/// Maximum length of a piece.
pub const PIECE_BYTES: u64 = 1 << 20;

/// A file, or a part of a long one.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Source {
    /// Path that was read: that of the file, or of one that the kernel copied it to.
    pub path: Vec<u8>,
    /// The paths under which the files with this content were opened.
    pub names: Vec<Vec<u8>>,
    /// Whether it was read, or why not.
    pub fate: Fate,
    /// The parts that were read.
    pub pieces: Vec<Piece>,
}

/// A stretch of a file.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Piece {
    /// Its offset in the file.
    pub offset: u64,
    /// Its length.
    pub len: u64,
    /// Its XXH3-128, if its bytes are not stored.
    pub hash: Option<u128>,
    /// Its bytes, if they are stored.
    pub blobs: Vec<BlobId>,
}

impl Piece {
    /// Its bytes in the form that calls use.
    pub fn content(&self) -> Content {
        match self.blobs.is_empty() {
            true => Content::Inline(Vec::new()),
            false => Content::Blobs { len: self.len, ids: self.blobs.clone() },
        }
    }
}

/// Whether the content of a source was read, or why not. The values are those in the trace.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
#[repr(u8)]
pub enum Fate {
    /// It was read.
    #[default]
    Read = 0,
    /// Recorded calls wrote all of it, so they show its content.
    Written = 1,
    /// It did not exist any more.
    Gone = 2,
    /// It was changed by others than the recorded program.
    Changed = 3,
    /// The recorder could not read it.
    Unreadable = 4,
    /// It is too long.
    TooLong = 5,
    /// There was no room in the trace, or no time.
    NoRoom = 6,
    /// Its contents were not to be kept.
    Withheld = 7,
    /// Only a part of what was copied could be read.
    Partly = 8,
}

impl Fate {
    /// The fate with this value.
    pub const fn from_wire(value: u32) -> Option<Fate> {
        Some(match value {
            0 => Fate::Read,
            1 => Fate::Written,
            2 => Fate::Gone,
            3 => Fate::Changed,
            4 => Fate::Unreadable,
            5 => Fate::TooLong,
            6 => Fate::NoRoom,
            7 => Fate::Withheld,
            8 => Fate::Partly,
            _ => return None,
        })
    }
}

/// Writes or reads a source.
fn source(fields: &mut impl Fields, source: &mut Source) -> Result<(), Malformed> {
    fields.bytes(&mut source.path)?;
    fields.list(&mut source.names, |fields, name| fields.bytes(name))?;
    let mut fate = source.fate as u32;
    fields.u32(&mut fate)?;
    source.fate = Fate::from_wire(fate).ok_or(Malformed("a source has an unknown fate"))?;
    fields.list(&mut source.pieces, |fields, piece| {
        fields.u64(&mut piece.offset)?;
        fields.u64(&mut piece.len)?;
        if piece.len > PIECE_BYTES || piece.offset.checked_add(piece.len).is_none() {
            return Err(Malformed("a piece of a source is longer than any"));
        }
        let mut hash = piece.hash.map_or_else(Vec::new, |hash| hash.to_le_bytes().to_vec());
        fields.bytes(&mut hash)?;
        piece.hash = match hash.len() {
            0 => None,
            _ => {
                let hash = hash.try_into().map_err(|_| Malformed("a hash has not 16 bytes"))?;
                Some(u128::from_le_bytes(hash))
            }
        };
        let mut blobs: Vec<u64> = piece.blobs.iter().map(|blob| blob.0).collect();
        fields.list(&mut blobs, |fields, blob| fields.u64(blob))?;
        piece.blobs = blobs.into_iter().map(BlobId).collect();
        Ok(())
    })
}

/// Writes sources into a trace.
#[derive(Default)]
pub struct SourcesWriter {
    entries: Vec<u8>,
    count: u32,
    first: u64,
}

impl SourcesWriter {
    /// Adds a source.
    pub fn add(&mut self, writer: &mut Writer, added: &mut Source) -> Result<(), WriteError> {
        put(&mut self.entries, |fields| source(fields, added));
        self.count += 1;
        if self.entries.len() >= BLOCK_BYTES { self.close(writer) } else { Ok(()) }
    }

    /// Writes the sources that are not written yet.
    pub fn close(&mut self, writer: &mut Writer) -> Result<(), WriteError> {
        if self.count == 0 {
            return Ok(());
        }
        let payload = std::mem::take(&mut self.entries);
        let (first, count) = (self.first, std::mem::take(&mut self.count));
        self.first += u64::from(count);
        writer.block(Head { kind: kind::SOURCES, first, count, ..Head::default() }, payload)
    }
}

/// The sources of a trace, in the order in which they were written.
pub struct Sources<'a> {
    trace: &'a Trace,
    heads: std::vec::IntoIter<Head>,
    payload: BlockBytes,
    at: usize,
    left: u32,
    offset: u64,
}

impl Trace {
    /// Contents of files from which the kernel copied. After an error there are no more.
    pub fn sources(&self) -> Sources<'_> {
        let heads = self.other_blocks().iter().filter(|head| head.kind == kind::SOURCES);
        let heads = heads.copied().collect::<Vec<_>>().into_iter();
        Sources { trace: self, heads, payload: BlockBytes::default(), at: 0, left: 0, offset: 0 }
    }
}

impl Sources<'_> {
    fn source(&mut self) -> Result<Option<Source>, ReadError> {
        let damaged = |offset, what| ReadError::Damaged { offset, what };
        while self.left == 0 {
            if self.at != self.payload.len() {
                return Err(damaged(self.offset, "bytes follow its last source"));
            }
            let Some(head) = self.heads.next() else { return Ok(None) };
            self.offset = head.offset;
            self.payload = self.trace.payload(&head)?;
            (self.at, self.left) = (0, head.count);
        }
        self.left -= 1;
        let mut from = Cursor::new(&self.payload, self.at);
        let mut read = Source::default();
        source(&mut Get(&mut from), &mut read).map_err(|bad| damaged(self.offset, bad.0))?;
        self.at = from.position();
        Ok(Some(read))
    }
}

impl Iterator for Sources<'_> {
    type Item = Result<Source, ReadError>;

    fn next(&mut self) -> Option<Result<Source, ReadError>> {
        let read = self.source();
        if read.is_err() {
            self.heads = Vec::new().into_iter();
            (self.left, self.at) = (0, self.payload.len());
        }
        read.transpose()
    }
}
