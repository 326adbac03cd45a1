//! The manifest: the state of every path that the program changed, at the end of the recording.
//!
//! It is stored in MANIFEST blocks before END, sorted by path. Readers may rely on the order: a
//! manifest that breaks it is damaged.

use crate::block_bytes::BlockBytes;
use crate::error::{ReadError, WriteError};
use crate::format::{Head, kind};
use crate::reader::Trace;
use crate::wire::{Cursor, Fields, Get, Malformed, put, put_number};
use crate::writer::Writer;

/// A block is closed when it holds this many bytes.
const BLOCK_BYTES: usize = 256 << 10;
/// Maximum number of extended attributes stored for a file.
pub const XATTRS_MAX: usize = 1024;
/// Size of the smallest piece of a file that has its own checksum.
pub const PIECE_BYTES_MIN: u64 = 4096;
/// Size of a leaf: the checksum of a longer file is that of the checksums of its leaves.
pub const LEAF_BYTES: u64 = 4 << 20;
/// Maximum number of pieces of a file.
pub const PIECES_MAX: u64 = 1 << 17;

/// The state of a path.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Entry {
    /// Absolute path.
    pub path: Vec<u8>,
    /// Type. If it was absent or could not be looked at, the other fields are unset.
    pub kind: FileKind,
    /// Permissions, with the set-id and sticky bits.
    pub mode: u32,
    /// Owner.
    pub uid: u32,
    /// Group.
    pub gid: u32,
    /// Number of links.
    pub nlink: u64,
    /// Size in bytes.
    pub size: u64,
    /// Device number of a device node.
    pub rdev: u64,
    /// Paths with the same number, other than 0, are names of the same file.
    pub same: u64,
    /// Content of a regular file.
    pub content: Content,
    /// Target of a symbolic link.
    pub target: Vec<u8>,
    /// Extended attributes of regular files and directories by name, without those of security
    /// modules.
    pub xattrs: Vec<Xattr>,
}

/// An extended attribute.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Xattr {
    /// Its name.
    pub name: Vec<u8>,
    /// XXH3-128 of its value.
    pub hash: u128,
}

/// Type of a file, as in the trace.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Default)]
#[repr(u8)]
pub enum FileKind {
    /// There was no file.
    #[default]
    Absent = 0,
    /// Regular file.
    Regular = 1,
    /// Directory.
    Directory = 2,
    /// Symbolic link.
    Link = 3,
    /// Named pipe.
    Pipe = 4,
    /// Socket.
    Socket = 5,
    /// Character device.
    Character = 6,
    /// Block device.
    Block = 7,
    /// The recorder was not permitted to look.
    Unreachable = 8,
}

impl FileKind {
    /// The type with this value.
    pub const fn from_wire(value: u32) -> Option<FileKind> {
        Some(match value {
            0 => FileKind::Absent,
            1 => FileKind::Regular,
            2 => FileKind::Directory,
            3 => FileKind::Link,
            4 => FileKind::Pipe,
            5 => FileKind::Socket,
            6 => FileKind::Character,
            7 => FileKind::Block,
            8 => FileKind::Unreachable,
            _ => return None,
        })
    }
}

/// Checksums of a file's content, or why there are none.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub enum Content {
    /// It is not a regular file.
    #[default]
    None,
    /// It was read.
    Hashed(Sums),
    /// It could not be opened for reading.
    Unreadable,
    /// It was changed through a shared mapping, which no system call shows.
    Mapped,
    /// It changed while it was read.
    Unsteady,
    /// It is too long to be read, and most of it a hole.
    TooLong,
}

/// Checksums of a file's content.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Sums {
    /// XXH3-128 of the content; if that is longer than a leaf, of the XXH3-128 of its leaves.
    pub whole: u128,
    /// Size of a piece, a power of two; 0 if there are no checksums of pieces.
    pub piece_bytes: u64,
    /// Low half of the XXH3-128 of each piece; the last piece may be shorter.
    pub pieces: Vec<u64>,
}

/// Properties of a whole manifest.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Ending {
    /// How complete it is.
    pub scope: Scope,
    /// Number of changed paths in other roots and mount namespaces, which are left out.
    pub left_out: u64,
}

/// How complete a manifest is, as in the trace.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
#[repr(u8)]
pub enum Scope {
    /// Every path that was changed.
    #[default]
    Whole = 0,
    /// There were more paths than a manifest can hold.
    Truncated = 1,
    /// No paths: the recording was stopped while the program continued.
    StoppedEarly = 2,
}

/// Size of the pieces of a file of this size.
pub fn piece_bytes(size: u64) -> u64 {
    size.div_ceil(PIECES_MAX).next_power_of_two().max(PIECE_BYTES_MIN)
}

/// Writes or reads an entry.
fn entry(fields: &mut impl Fields, entry: &mut Entry) -> Result<(), Malformed> {
    fields.bytes(&mut entry.path)?;
    let mut code = entry.kind as u32;
    fields.u32(&mut code)?;
    entry.kind = FileKind::from_wire(code).ok_or(Malformed("a file is of an unknown type"))?;
    if matches!(entry.kind, FileKind::Absent | FileKind::Unreachable) {
        return Ok(());
    }
    fields.u32(&mut entry.mode)?;
    fields.u32(&mut entry.uid)?;
    fields.u32(&mut entry.gid)?;
    fields.u64(&mut entry.nlink)?;
    fields.u64(&mut entry.size)?;
    fields.u64(&mut entry.rdev)?;
    fields.u64(&mut entry.same)?;
    content(fields, &mut entry.content, entry.size)?;
    fields.bytes(&mut entry.target)?;
    fields.list(&mut entry.xattrs, |fields, xattr| {
        fields.bytes(&mut xattr.name)?;
        hash(fields, &mut xattr.hash)
    })
}

fn content(fields: &mut impl Fields, content: &mut Content, size: u64) -> Result<(), Malformed> {
    let mut code = match content {
        Content::None => 0,
        Content::Hashed(_) => 1,
        Content::Unreadable => 2,
        Content::Mapped => 3,
        Content::Unsteady => 4,
        Content::TooLong => 5,
    };
    fields.u32(&mut code)?;
    match code {
        0 => *content = Content::None,
        1 => {
            let mut sums = match std::mem::take(content) {
                Content::Hashed(sums) => sums,
                _ => Sums::default(),
            };
            self::sums(fields, &mut sums, size)?;
            *content = Content::Hashed(sums);
        }
        2 => *content = Content::Unreadable,
        3 => *content = Content::Mapped,
        4 => *content = Content::Unsteady,
        5 => *content = Content::TooLong,
        _ => return Err(Malformed("the content of a file is told in an unknown way")),
    }
    Ok(())
}

fn sums(fields: &mut impl Fields, sums: &mut Sums, size: u64) -> Result<(), Malformed> {
    hash(fields, &mut sums.whole)?;
    fields.u64(&mut sums.piece_bytes)?;
    let mut packed: Vec<u8> = sums.pieces.iter().flat_map(|sum| sum.to_le_bytes()).collect();
    fields.bytes(&mut packed)?;
    let (words, rest) = packed.as_chunks::<8>();
    let needed = match sums.piece_bytes {
        0 => 0,
        bytes if bytes >= PIECE_BYTES_MIN && bytes.is_power_of_two() => size.div_ceil(bytes),
        _ => return Err(Malformed("a file has pieces of a size that there is not")),
    };
    if !rest.is_empty() || words.len() as u64 != needed {
        return Err(Malformed("a file has more or fewer pieces than its size tells"));
    }
    sums.pieces = words.iter().map(|word| u64::from_le_bytes(*word)).collect();
    Ok(())
}

fn hash(fields: &mut impl Fields, hash: &mut u128) -> Result<(), Malformed> {
    let mut bytes = hash.to_le_bytes().to_vec();
    fields.bytes(&mut bytes)?;
    let bytes = bytes.try_into().map_err(|_| Malformed("a hash has not 16 bytes"))?;
    *hash = u128::from_le_bytes(bytes);
    Ok(())
}

/// Writes a manifest, entry by entry.
#[derive(Default)]
pub struct ManifestWriter {
    entries: Vec<u8>,
    count: u32,
    first: u64,
}

impl ManifestWriter {
    /// Adds an entry; its path must be greater than the previous one.
    pub fn add(&mut self, writer: &mut Writer, added: &mut Entry) -> Result<(), WriteError> {
        put(&mut self.entries, |fields| entry(fields, added));
        self.count += 1;
        if self.entries.len() >= BLOCK_BYTES { self.close(writer, None) } else { Ok(()) }
    }

    /// Writes the ending, without which there is no manifest.
    pub fn end(mut self, writer: &mut Writer, ending: Ending) -> Result<(), WriteError> {
        self.close(writer, Some(ending))
    }

    fn close(&mut self, writer: &mut Writer, ending: Option<Ending>) -> Result<(), WriteError> {
        let mut payload = Vec::with_capacity(self.entries.len() + 16);
        payload.push(u8::from(ending.is_some()));
        if let Some(Ending { scope, left_out }) = ending {
            put_number(&mut payload, scope as u64);
            put_number(&mut payload, left_out);
        }
        payload.append(&mut self.entries);
        let (first, count) = (self.first, std::mem::take(&mut self.count));
        self.first += u64::from(count);
        writer.block(Head { kind: kind::MANIFEST, first, count, ..Head::default() }, payload)
    }
}

/// The entries of a trace's manifest, in ascending order of their paths.
pub struct Entries<'a> {
    trace: &'a Trace,
    heads: std::vec::IntoIter<Head>,
    payload: BlockBytes,
    at: usize,
    left: u32,
    offset: u64,
    next: u64,
    last: Option<Vec<u8>>,
}

impl Trace {
    /// Properties of the manifest; `None` if the trace has none.
    pub fn manifest_ending(&self) -> Result<Option<Ending>, ReadError> {
        let Some(head) = self.manifest_heads().pop() else { return Ok(None) };
        let payload = self.payload(&head)?;
        let (ending, _) = ending(&payload)
            .map_err(|bad| ReadError::Damaged { offset: head.offset, what: bad.0 })?;
        Ok(ending)
    }

    /// The entries of its manifest. After an error there are no more.
    pub fn manifest(&self) -> Entries<'_> {
        let heads = self.manifest_heads().into_iter();
        let (payload, last) = (BlockBytes::default(), None);
        Entries { trace: self, heads, payload, at: 0, left: 0, offset: 0, next: 0, last }
    }

    fn manifest_heads(&self) -> Vec<Head> {
        self.other_blocks().iter().filter(|head| head.kind == kind::MANIFEST).copied().collect()
    }
}

/// Decodes the beginning of a payload; returns the offset of the entries too.
fn ending(payload: &[u8]) -> Result<(Option<Ending>, usize), Malformed> {
    let mut from = Cursor::new(payload, 0);
    let ending = match from.byte()? {
        0 => None,
        1 => {
            let scope = match from.number()? {
                0 => Scope::Whole,
                1 => Scope::Truncated,
                2 => Scope::StoppedEarly,
                _ => return Err(Malformed("a manifest is cut in an unknown way")),
            };
            Some(Ending { scope, left_out: from.number()? })
        }
        _ => return Err(Malformed("a manifest's block is neither its last nor another")),
    };
    Ok((ending, from.position()))
}

impl Entries<'_> {
    fn load(&mut self) -> Result<bool, ReadError> {
        while self.left == 0 {
            if self.at != self.payload.len() {
                return Err(self.damaged("bytes follow its last entry"));
            }
            let Some(head) = self.heads.next() else { return Ok(false) };
            self.offset = head.offset;
            self.payload = self.trace.payload(&head)?;
            let (_, at) = ending(&self.payload).map_err(|bad| self.damaged(bad.0))?;
            if head.first != self.next {
                return Err(self.damaged("entries of the manifest are missing before it"));
            }
            self.next += u64::from(head.count);
            (self.at, self.left) = (at, head.count);
        }
        Ok(true)
    }

    fn damaged(&self, what: &'static str) -> ReadError {
        ReadError::Damaged { offset: self.offset, what }
    }

    fn entry(&mut self) -> Result<Option<Entry>, ReadError> {
        if !self.load()? {
            return Ok(None);
        }
        self.left -= 1;
        let mut from = Cursor::new(&self.payload, self.at);
        let mut read = Entry::default();
        entry(&mut Get(&mut from), &mut read).map_err(|bad| self.damaged(bad.0))?;
        self.at = from.position();
        if self.last.as_ref().is_some_and(|last| *last >= read.path) {
            return Err(self.damaged("the paths of the manifest do not ascend"));
        }
        self.last = Some(read.path.clone());
        Ok(Some(read))
    }
}

impl Iterator for Entries<'_> {
    type Item = Result<Entry, ReadError>;

    fn next(&mut self) -> Option<Result<Entry, ReadError>> {
        let read = self.entry();
        if read.is_err() {
            self.heads = Vec::new().into_iter();
            (self.left, self.at) = (0, self.payload.len());
        }
        read.transpose()
    }
}
