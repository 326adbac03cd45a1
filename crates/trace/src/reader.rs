//! Reads traces.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::Write;
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};

use twox_hash::XxHash3_128;

use crate::blobs::{Blob, Cache, DataPayload};
use crate::block_bytes::BlockBytes;
use crate::decode::Decoder;
use crate::described;
use crate::error::ReadError;
use crate::event::{BlobId, Content, Event, Preamble, Totals};
use crate::format::{FILE_HEADER_BYTES, FILE_MAGIC, HEAD_BYTES, Head, VERSION, kind, u32_at};
use crate::scan::{Damage, End, Scan, read_payload, read_stored};
use crate::source::{ReadSeek, Source};
use crate::wire::{Cursor, Get};

/// Maximum length of a buffer that [`Trace::content`] returns in one piece.
pub const CONTENT_BYTES_MAX: u64 = 256 << 20;

/// Below these, conversions from ticks to nanoseconds fit into 64 bits.
const HZ_FAST_MAX: u64 = 1 << 34;
const SECONDS_FAST_MAX: u64 = 1 << 33;

/// An open trace. All reading goes through `&self`, from any number of threads.
pub struct Trace {
    /// The version of its format.
    version: u32,
    source: Source,
    preamble: Preamble,
    scan: Scan,
    /// Positions of the DATA blocks in `scan.blocks`, by ascending buffer numbers.
    data: Vec<usize>,
    /// Number of scanned blocks that `data` covers.
    sorted: usize,
    cache: Mutex<Cache>,
    unknown: Arc<UnknownCount>,
}

/// Numbers of events that this version does not know, by the offsets of the blocks in which they
/// were met: a block may be read several times.
type UnknownCount = Mutex<BTreeMap<u64, u64>>;

impl Trace {
    /// Opens a file.
    pub fn open(path: &Path) -> Result<Trace, ReadError> {
        let file = File::open(path)
            .map_err(|error| ReadError::Io { offset: 0, source: Arc::new(error) })?;
        Trace::from_source(Source::File(file))
    }

    /// Opens a file that is open already.
    pub fn from_file(file: File) -> Result<Trace, ReadError> {
        Trace::from_source(Source::File(file))
    }

    /// Opens any stream that can be read and sought in.
    pub fn from_stream(stream: impl ReadSeek + 'static) -> Result<Trace, ReadError> {
        Trace::from_source(Source::Stream(Mutex::new(Box::new(stream))))
    }

    fn from_source(source: Source) -> Result<Trace, ReadError> {
        let len = source.len()?;
        let mut header = [0; FILE_HEADER_BYTES];
        let there = header.len().min(usize::try_from(len).unwrap_or(usize::MAX));
        source.read(0, &mut header[..there])?;
        if header[..8] != FILE_MAGIC {
            let found = match there.min(8) {
                0 => "nothing".into(),
                some => header[..some].escape_ascii().to_string(),
            };
            return Err(ReadError::NotATrace { found });
        }
        let version = u32_at(&header, 8);
        if !(1..=VERSION).contains(&version) {
            return Err(ReadError::Version { found: version, newest: VERSION });
        }
        let reserved = (u32_at(&header, 12) != 0).then_some(Damage {
            offset: 12,
            bytes: 4,
            what: "the last bytes of the file's header are not zero",
        });
        let offset = FILE_HEADER_BYTES as u64;
        let damaged = |what| ReadError::Damaged { offset, what };
        if len < offset + HEAD_BYTES as u64 {
            return Err(damaged("the trace is cut off before its first block"));
        }
        let mut head = [0; HEAD_BYTES];
        source.read(offset, &mut head)?;
        let head = Head::from_bytes(&head, offset).map_err(|bad| damaged(bad.0))?;
        if head.kind != kind::PREAMBLE {
            return Err(damaged("the first block is no preamble"));
        }
        if head.end() > len {
            return Err(damaged("the trace is cut off in its first block"));
        }
        let payload = read_payload(&source, &head)?;
        let mut preamble = Preamble::default();
        described::preamble(&mut Get(&mut Cursor::new(&payload, 0)), &mut preamble)
            .map_err(|malformed| damaged(malformed.0))?;
        let mut scan = Scan::open(&source, head)?;
        scan.damage.splice(..0, reserved);
        let mut trace = Trace {
            version,
            source,
            preamble,
            scan,
            data: Vec::new(),
            sorted: 0,
            cache: Mutex::default(),
            unknown: Arc::default(),
        };
        trace.sort_data();
        Ok(trace)
    }

    /// Reads what was appended meanwhile. Returns whether there are new blocks.
    pub fn refresh(&mut self) -> Result<bool, ReadError> {
        let before = self.scan.blocks.len();
        self.scan.go_on(&self.source)?;
        self.sort_data();
        Ok(self.scan.blocks.len() > before)
    }

    /// Finds the DATA blocks. One whose numbers do not follow those before is damage.
    fn sort_data(&mut self) {
        for at in self.sorted..self.scan.blocks.len() {
            let head = &self.scan.blocks[at];
            if head.kind != kind::DATA {
                continue;
            }
            let before = self.data.last().map_or(0, |last| {
                let last = &self.scan.blocks[*last];
                last.first + u64::from(last.count)
            });
            if head.first >= before {
                self.data.push(at);
            } else {
                let what = "its buffers have numbers that are taken";
                let (offset, bytes) = (head.offset, head.total_bytes());
                self.scan.damage.push(Damage { offset, bytes, what });
            }
        }
        self.sorted = self.scan.blocks.len();
    }

    /// Where, when and how the trace was recorded.
    pub fn preamble(&self) -> &Preamble {
        &self.preamble
    }

    /// The recorder's counts; `None` if the trace was not finished.
    pub fn totals(&self) -> Option<&Totals> {
        self.scan.end.as_ref().map(|end| &end.totals)
    }

    /// Damaged or missing parts: bytes that are no blocks, and a missing end. Empty for a sound
    /// trace. (Damaged payloads only show when they are read.)
    pub fn damage(&self) -> Vec<Damage> {
        self.scan.damage.iter().copied().chain(self.scan.tail()).collect()
    }

    /// Number of blocks of kinds that this version does not know; they are skipped.
    pub fn unknown_blocks(&self) -> u64 {
        self.scan.unknown
    }

    /// Length of the file.
    pub fn file_bytes(&self) -> Result<u64, ReadError> {
        self.source.len()
    }

    /// Ticks per second: measured over the whole recording, otherwise the first estimate.
    pub fn tsc_hz(&self) -> u64 {
        let measured = self.totals().map_or(0, |totals| totals.tsc_hz);
        if measured != 0 { measured } else { self.preamble.tsc_hz.max(1) }
    }

    /// Nanoseconds from the trace's start to a time stamp.
    pub fn ticks_to_ns(&self, tsc: u64) -> i64 {
        let hz = self.tsc_hz();
        // For all but hostile traces 64 bits suffice, which is much faster.
        if let Some(ticks) = tsc.checked_sub(self.preamble.epoch_tsc)
            && hz < HZ_FAST_MAX
            && ticks / hz < SECONDS_FAST_MAX
        {
            return (ticks / hz * 1_000_000_000 + ticks % hz * 1_000_000_000 / hz) as i64;
        }
        let ticks = i128::from(tsc) - i128::from(self.preamble.epoch_tsc);
        let ns = ticks * 1_000_000_000 / i128::from(hz);
        ns.clamp(i64::MIN.into(), i64::MAX.into()) as i64
    }

    /// Heads of all EVENTS and DATA blocks, in the order of the file.
    pub fn blocks(&self) -> &[Head] {
        &self.scan.blocks
    }

    /// The events of one EVENTS block, in order. Blocks can be decoded in parallel.
    pub fn decode_block(&self, head: &Head) -> Result<BlockEvents, ReadError> {
        if head.kind != kind::EVENTS {
            return Err(ReadError::Damaged { offset: head.offset, what: "it holds no events" });
        }
        let payload = read_payload(&self.source, head)?;
        let decoder = Decoder::new(self.version, head, payload);
        Ok(BlockEvents { decoder, offset: head.offset, unknown: Arc::clone(&self.unknown) })
    }

    /// Number of events, in all that was read so far, that this version does not know. They are
    /// [`crate::event::EventKind::Unknown`].
    pub fn unknown_events(&self) -> u64 {
        self.unknown.lock().unwrap_or_else(PoisonError::into_inner).values().sum()
    }

    /// The buffers of one DATA block.
    pub fn decode_data(&self, head: &Head) -> Result<DataPayload, ReadError> {
        let damaged = |what| ReadError::Damaged { offset: head.offset, what };
        if head.kind != kind::DATA {
            return Err(damaged("it holds no buffers"));
        }
        let payload = read_payload(&self.source, head)?;
        DataPayload::new(head, payload).map_err(|malformed| damaged(malformed.0))
    }

    /// A distinct buffer.
    pub fn blob(&self, id: BlobId) -> Result<Blob, ReadError> {
        Blob::new(self.data_of(id)?, id.0).ok_or(ReadError::NoBlob { id: id.0 })
    }

    /// The block of buffers that contains a distinct buffer.
    pub fn data_of(&self, id: BlobId) -> Result<Arc<DataPayload>, ReadError> {
        let missing = ReadError::NoBlob { id: id.0 };
        let after = self.data.partition_point(|at| self.scan.blocks[*at].first <= id.0);
        let Some(at) = after.checked_sub(1) else { return Err(missing) };
        let head = &self.scan.blocks[self.data[at]];
        if id.0 - head.first >= u64::from(head.count) {
            return Err(missing);
        }
        let kept = self.cache.lock().unwrap_or_else(PoisonError::into_inner).get(head.offset);
        if let Some(block) = kept {
            return Ok(block);
        }
        let block = Arc::new(self.decode_data(head)?);
        let mut cache = self.cache.lock().unwrap_or_else(PoisonError::into_inner);
        cache.add(head.offset, Arc::clone(&block));
        Ok(block)
    }

    /// Sets the cache size for unpacked DATA blocks, in bytes, for frequent random access.
    pub fn keep_data(&self, bytes: usize) {
        self.cache.lock().unwrap_or_else(PoisonError::into_inner).bytes_max = bytes;
    }

    /// Returns stored bytes in one piece.
    pub fn content(&self, content: &Content) -> Result<Vec<u8>, ReadError> {
        if content.len() > CONTENT_BYTES_MAX {
            let (len, max) = (content.len(), CONTENT_BYTES_MAX);
            return Err(ReadError::ContentTooLong { len, max });
        }
        let mut bytes = Vec::new();
        self.write_content(content, &mut bytes)?;
        Ok(bytes)
    }

    /// Writes stored bytes of any length, blob by blob.
    pub fn write_content(&self, content: &Content, out: &mut dyn Write) -> Result<(), ReadError> {
        self.each_piece(content, |piece| {
            out.write_all(piece).map_err(|error| ReadError::Output { source: Arc::new(error) })
        })
    }

    /// XXH3-128 of stored bytes.
    pub fn content_hash(&self, content: &Content) -> Result<u128, ReadError> {
        if let Content::Inline(bytes) = content {
            return Ok(XxHash3_128::oneshot(bytes));
        }
        let mut hash = XxHash3_128::new();
        self.each_piece(content, |piece| {
            hash.write(piece);
            Ok(())
        })?;
        Ok(hash.finish_128())
    }

    fn each_piece(
        &self,
        content: &Content,
        mut give: impl FnMut(&[u8]) -> Result<(), ReadError>,
    ) -> Result<(), ReadError> {
        let (len, ids) = match content {
            Content::Inline(bytes) => return give(bytes),
            Content::Blobs { len, ids } => (*len, ids),
        };
        let mut found = 0;
        for id in ids {
            let blob = self.blob(*id)?;
            found += blob.len() as u64;
            if found > len {
                break;
            }
            give(&blob)?;
        }
        if found == len { Ok(()) } else { Err(ReadError::ContentLen { found, needed: len }) }
    }

    pub(crate) fn end(&self) -> Option<&End> {
        self.scan.end.as_ref()
    }

    pub(crate) fn blocks_seen(&self) -> u64 {
        self.scan.blocks_seen
    }

    /// Heads of all blocks other than EVENTS, DATA and END.
    pub(crate) fn other_blocks(&self) -> &[Head] {
        &self.scan.others
    }

    /// The payload of a block of any kind, checked and unpacked.
    pub(crate) fn payload(&self, head: &Head) -> Result<BlockBytes, ReadError> {
        read_payload(&self.source, head)
    }

    /// The stored payload of a block of any kind, checked.
    pub(crate) fn stored(&self, head: &Head) -> Result<BlockBytes, ReadError> {
        read_stored(&self.source, head)
    }
}

/// The events of one block.
pub struct BlockEvents {
    decoder: Decoder,
    offset: u64,
    unknown: Arc<UnknownCount>,
}

impl BlockEvents {
    /// Bytes of memory that it holds.
    pub(crate) fn held_bytes(&self) -> usize {
        self.decoder.held_bytes()
    }

    /// Time stamp of the next event.
    pub(crate) fn next_tsc(&self) -> Result<Option<u64>, ReadError> {
        let offset = self.offset;
        self.decoder.next_tsc().map_err(|bad| ReadError::Damaged { offset, what: bad.0 })
    }

    /// Decodes the next event into `event`, reusing its memory. Returns false if there are no more.
    pub fn next_into(&mut self, event: &mut Event) -> Result<bool, ReadError> {
        let (offset, unknown) = (self.offset, self.decoder.unknown());
        let next = self.decoder.next_event(event);
        if self.decoder.unknown() > unknown {
            self.note_unknown();
        }
        next.map_err(|bad| ReadError::Damaged { offset, what: bad.0 })
    }

    #[cold]
    fn note_unknown(&self) {
        let mut all = self.unknown.lock().unwrap_or_else(PoisonError::into_inner);
        let of_block = all.entry(self.offset).or_default();
        *of_block = (*of_block).max(self.decoder.unknown());
    }
}

impl Iterator for BlockEvents {
    type Item = Result<Event, ReadError>;

    fn next(&mut self) -> Option<Result<Event, ReadError>> {
        let mut event = Event::default();
        self.next_into(&mut event).map(|there| there.then_some(event)).transpose()
    }
}
