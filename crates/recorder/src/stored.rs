//! What a process has stored to a mapped file, on the way from its collector to the trace.

use std::sync::{Mutex, PoisonError};

use trace::event::{BlobId, Event, EventKind, Extras, FieldValue, OtherEvent, RECORDER};
use trace::event_table::row_of;
use trace::format::{event_number, zigzag};
use trace::parts::{Part, part_id};
use xxhash_rust::xxh3::xxh3_128;

/// Maximum number and length of buffers that are kept to be used again.
const SPARE_MAX: usize = 32;
const SPARE_BYTES_MAX: usize = 1 << 20;

/// Buffers to be used again: the memory of new ones costs as much as to fill them.
#[derive(Default)]
pub(crate) struct Spare(Mutex<Vec<Vec<u8>>>);

impl Spare {
    /// An empty buffer.
    pub fn take(&self) -> Vec<u8> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).pop().unwrap_or_default()
    }

    /// Gives one back.
    pub fn give(&self, mut buffer: Vec<u8>) {
        let mut spare = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if spare.len() < SPARE_MAX && buffer.capacity() <= SPARE_BYTES_MAX {
            buffer.clear();
            spare.push(buffer);
        }
    }
}

/// Page faults on a page since it was looked at.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Touch {
    /// Time stamps of the first one and of the last one.
    pub first: u64,
    pub last: u64,
    /// Id of the thread that took the first one.
    pub thread: u32,
    /// It took all of them.
    pub is_alone: bool,
}

impl Touch {
    /// Both together.
    pub fn and(self, other: Touch) -> Touch {
        let earlier = if other.first < self.first { other } else { self };
        Touch {
            last: self.last.max(other.last),
            is_alone: self.is_alone && other.is_alone && self.thread == other.thread,
            ..earlier
        }
    }
}

/// What a process has stored to a mapped file.
pub(crate) struct Stored {
    pub process: u32,
    /// The thread that waits for the collection.
    pub thread: Option<u32>,
    /// Time stamp before which it was not there.
    pub since: u64,
    /// What page faults tell of all of it.
    pub touch: Option<Touch>,
    pub address: u64,
    pub offset: u64,
    pub bytes: Vec<u8>,
    /// They were read, not stored.
    pub is_read: bool,
    /// Number of bytes to be kept, and whether a hash of all is.
    pub kept: usize,
    pub is_hashed: bool,
    pub file: Vec<u8>,
    pub device: u64,
    pub inode: u64,
}

impl Stored {
    /// The event that tells of it; `buffers` has the bytes that are kept, `thread` is who did it, or who
    /// waits for the collection.
    pub fn event(&self, buffers: Vec<Option<BlobId>>, thread: Option<u32>, tsc: u64) -> Event {
        let hash = || xxh3_128(&self.bytes).to_le_bytes().to_vec();
        let values = vec![
            FieldValue::Unsigned(self.address),
            FieldValue::Unsigned(self.offset),
            FieldValue::Unsigned(self.bytes.len() as u64),
            FieldValue::Bytes(self.file.clone()),
            FieldValue::Unsigned(self.device),
            FieldValue::Unsigned(self.inode),
            FieldValue::Unsigned(self.kept as u64),
            FieldValue::Bytes(if self.is_hashed { hash() } else { Vec::new() }),
        ];
        let number = match self.is_read {
            true => event_number::MMAP_READ,
            false => event_number::MMAP_WRITE,
        };
        let row = row_of(number).expect("the table has it");
        let since = self.touch.map_or(self.since, |touch| touch.first);
        let since = (since as i64).wrapping_sub(tsc as i64).min(0);
        let mut parts = vec![
            Part::number(part_id::SUBMITTED, zigzag(since)),
            Part::number(part_id::PROCESS, self.process.into()),
        ];
        parts.extend(thread.map(|thread| Part::number(part_id::THREAD, thread.into())));
        if !buffers.is_empty() {
            parts.push(Part::buffers(&buffers));
        }
        let kind = EventKind::Other(OtherEvent { row, values });
        let extras = Extras { parts, later_fields: Vec::new() };
        Event { extras: Some(Box::new(extras)), ..Event::new(RECORDER, tsc, kind) }
    }
}
