//! Finds the blocks of a file: by its index, or from head to head.

use crate::block_bytes::BlockBytes;
use crate::compress;
use crate::described::{self, Counted};
use crate::error::ReadError;
use crate::event::Totals;
use crate::format::{
    BLOCK_MAGIC, FILE_HEADER_BYTES, HEAD_BYTES, Head, TRAILER_BYTES, codec, end_offset, kind,
    u64_at,
};
use crate::source::Source;
use crate::wire::{Cursor, Get};

/// Bytes searched at a time for the next block.
const SEARCH_BYTES: usize = 1 << 20;

/// A part of the file that makes no sense.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Damage {
    /// Offset of its first byte.
    pub offset: u64,
    /// Its length.
    pub bytes: u64,
    /// What is wrong.
    pub what: &'static str,
}

/// Content of the END block.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct End {
    /// The writer's counts.
    pub counted: Counted,
    /// The recorder's counts.
    pub totals: Totals,
}

/// The blocks found so far.
#[derive(Default)]
pub struct Scan {
    /// Heads of EVENTS and DATA blocks in the order of the file.
    pub blocks: Vec<Head>,
    /// Heads of all other blocks except END, in the order of the file.
    pub others: Vec<Head>,
    /// Number of blocks of all kinds except END.
    pub blocks_seen: u64,
    /// Number of blocks of unknown kinds.
    pub unknown: u64,
    /// END, once it was read.
    pub end: Option<End>,
    /// Where END begins, until the trailer was read that says so.
    untold_end: Option<u64>,
    /// Parts that were skipped.
    pub damage: Vec<Damage>,
    /// Offset up to which the file was scanned.
    at: u64,
    /// Start of bytes that are no block, until a block is found after them.
    lost_since: Option<(u64, &'static str)>,
    /// Length of the file when it was last checked.
    len: u64,
}

impl Scan {
    /// Takes the blocks from the index if the file has a sound one, otherwise searches for them.
    /// `preamble` is the head of the first block.
    pub fn open(source: &Source, preamble: Head) -> Result<Scan, ReadError> {
        let len = source.len()?;
        if let Some(scan) = indexed(source, preamble, len) {
            return Ok(scan);
        }
        let mut scan = Scan { at: preamble.end(), ..Scan::default() };
        scan.add(preamble);
        scan.go_on(source)?;
        Ok(scan)
    }

    /// Scans what was appended meanwhile.
    pub fn go_on(&mut self, source: &Source) -> Result<(), ReadError> {
        self.len = source.len()?;
        while self.end.is_none() && self.len.saturating_sub(self.at) >= HEAD_BYTES as u64 {
            let mut bytes = [0; HEAD_BYTES];
            source.read(self.at, &mut bytes)?;
            match Head::from_bytes(&bytes, self.at) {
                Ok(head) if head.end() > self.len => break,
                Ok(head) => {
                    if let Some((offset, what)) = self.lost_since.take() {
                        self.damage.push(Damage { offset, bytes: self.at - offset, what });
                    }
                    self.accept(source, head)?;
                }
                Err(bad) => {
                    self.lost_since.get_or_insert((self.at, bad.0));
                    self.at = search(source, self.at + 1, self.len)?;
                }
            }
        }
        self.read_trailer(source)
    }

    fn read_trailer(&mut self, source: &Source) -> Result<(), ReadError> {
        let mut trailer = [0; TRAILER_BYTES];
        if self.untold_end.is_some() && self.len - self.at >= TRAILER_BYTES as u64 {
            source.read(self.at, &mut trailer)?;
            if end_offset(&trailer) == self.untold_end {
                self.at += TRAILER_BYTES as u64;
                self.untold_end = None;
            }
        }
        Ok(())
    }

    /// Damage behind the last whole block, where a sound trace ends.
    pub fn tail(&self) -> Option<Damage> {
        let tail = |offset: u64, what| {
            Some(Damage { offset, bytes: self.len.saturating_sub(offset), what })
        };
        match (self.lost_since, &self.end) {
            (Some((offset, what)), _) => tail(offset, what),
            (None, Some(_)) if self.at == self.len && self.untold_end.is_none() => None,
            (None, Some(_)) if self.at == self.len => tail(self.at, "the trailer is missing"),
            (None, Some(_)) => tail(self.at, "bytes follow the end of the trace"),
            (None, None) if self.at >= self.len => {
                tail(self.len, "the trace was not ended: what came after was not written")
            }
            (None, None) => tail(self.at, "the last block is cut off, and the trace not ended"),
        }
    }

    fn accept(&mut self, source: &Source, head: Head) -> Result<(), ReadError> {
        self.at = head.end();
        if head.kind == kind::END {
            match read_payload(source, &head).and_then(|payload| end_of(&payload, head.offset)) {
                Ok(end) => {
                    (self.end, self.untold_end) = (Some(end), Some(head.offset));
                }
                Err(error) => self.note(&head, &error),
            }
            return Ok(());
        }
        self.add(head);
        Ok(())
    }

    fn note(&mut self, head: &Head, error: &ReadError) {
        let what = match error {
            ReadError::Damaged { what, .. } => what,
            _ => "it cannot be read",
        };
        self.damage.push(Damage { offset: head.offset, bytes: head.total_bytes(), what });
    }

    fn add(&mut self, head: Head) {
        self.blocks_seen += 1;
        match head.kind {
            kind::EVENTS | kind::DATA => self.blocks.push(head),
            kind::PREAMBLE | kind::INDEX | kind::MANIFEST | kind::SOURCES => {
                self.others.push(head);
            }
            _ => {
                self.unknown += 1;
                self.others.push(head);
            }
        }
    }
}

/// The blocks according to the index; `None` if anything about it is wrong.
fn indexed(source: &Source, preamble: Head, len: u64) -> Option<Scan> {
    let mut trailer = [0; TRAILER_BYTES];
    source.read(len.checked_sub(TRAILER_BYTES as u64)?, &mut trailer).ok()?;
    let end_head = read_head(source, end_offset(&trailer)?, len)?;
    if end_head.kind != kind::END || end_head.end() + TRAILER_BYTES as u64 != len {
        return None;
    }
    let end = end_of(&read_payload(source, &end_head).ok()?, end_head.offset).ok()?;
    let mut indexes = Vec::new();
    let mut offset = end.counted.index_offset;
    // Backwards from INDEX to INDEX: offsets decrease, so this ends.
    while offset != 0 {
        let head = read_head(source, offset, len)?;
        if head.kind != kind::INDEX || head.first >= offset {
            return None;
        }
        offset = head.first;
        indexes.push(head);
    }
    // Forwards: the blocks must be adjacent, from the first one to END.
    let mut scan = Scan { at: FILE_HEADER_BYTES as u64, len, ..Scan::default() };
    for index in indexes.iter().rev() {
        let payload = read_payload(source, index).ok()?;
        let (heads, rest) = payload.as_chunks::<HEAD_BYTES>();
        if !rest.is_empty() || heads.len() != index.count as usize {
            return None;
        }
        for bytes in heads {
            let head = Head::from_bytes(bytes, u64_at(bytes, 16)).ok()?;
            let misplaced = matches!(head.kind, kind::INDEX | kind::END);
            if head.offset != scan.at || misplaced {
                return None;
            }
            if scan.blocks_seen == 0 && head != preamble {
                return None;
            }
            scan.add(head);
            scan.at = head.end();
        }
        if index.offset != scan.at {
            return None;
        }
        scan.add(*index);
        scan.at = index.end();
    }
    let all = scan.at == end_head.offset && scan.blocks_seen == end.counted.blocks;
    scan.at = len;
    scan.end = Some(end);
    all.then_some(scan)
}

fn read_head(source: &Source, offset: u64, len: u64) -> Option<Head> {
    let mut bytes = [0; HEAD_BYTES];
    source.read(offset, &mut bytes).ok()?;
    Head::from_bytes(&bytes, offset).ok().filter(|head| head.end() <= len)
}

fn end_of(payload: &[u8], offset: u64) -> Result<End, ReadError> {
    let mut end = End { counted: Counted::default(), totals: Totals::default() };
    let mut cursor = Cursor::new(payload, 0);
    described::end(&mut Get(&mut cursor), &mut end.counted, &mut end.totals)
        .map_err(|malformed| ReadError::Damaged { offset, what: malformed.0 })?;
    Ok(end)
}

/// Reads, checks and unpacks the payload of a block.
pub fn read_payload(source: &Source, head: &Head) -> Result<BlockBytes, ReadError> {
    let damaged = |what| ReadError::Damaged { offset: head.offset, what };
    if !matches!(head.codec, codec::NONE | codec::ZSTD | codec::LZ4) {
        return Err(damaged("it is compressed in a way that this version does not know"));
    }
    let stored = read_stored(source, head)?;
    compress::unpack(head.codec, stored, head.raw_len as usize).map_err(damaged)
}

/// Reads and checks the stored payload of a block.
pub fn read_stored(source: &Source, head: &Head) -> Result<BlockBytes, ReadError> {
    let damaged = |what| ReadError::Damaged { offset: head.offset, what };
    let mut bytes = [0; HEAD_BYTES];
    source.read(head.offset, &mut bytes)?;
    if bytes != head.to_bytes() {
        return Err(damaged("its head is not the one that was found before"));
    }
    let len = head.stored_len as usize;
    let mut stored = BlockBytes::with_room(len);
    stored.bytes_mut().resize(len, 0);
    source.read(head.offset + HEAD_BYTES as u64, stored.bytes_mut())?;
    if crc32fast::hash(&stored) != head.payload_crc {
        return Err(damaged("the checksum of its payload is wrong"));
    }
    Ok(stored)
}

/// Offset of the next possible block from `from` on, or one too close to the end for a block.
fn search(source: &Source, mut from: u64, len: u64) -> Result<u64, ReadError> {
    let mut window = Vec::new();
    while len.saturating_sub(from) >= HEAD_BYTES as u64 {
        let bytes = usize::try_from(len - from).unwrap_or(usize::MAX).min(SEARCH_BYTES);
        window.resize(bytes, 0);
        source.read(from, &mut window)?;
        if let Some(at) = window.windows(4).position(|bytes| bytes == BLOCK_MAGIC) {
            return Ok(from + at as u64);
        }
        from += bytes as u64 - 3;
    }
    Ok(from)
}
