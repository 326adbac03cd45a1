//! Files that a program loads or maps, as a recording for re-execution notes them.

use std::fs::Metadata;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use trace::event::{Content, Event, EventKind, Extras, FieldValue, OtherEvent, RECORDER};
use trace::event_table::row_of;
use trace::format::event_number;
use trace::parts::{Part, PartValue, part_id};

/// Maximum number of pieces between holes of which the bytes of one mapping consist.
pub const PIECES_MAX: usize = 1024;

/// A file that a process has mapped.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Loaded {
    /// The process, by its number in the recording.
    pub process: u32,
    /// The thread that maps it; 0: the kernel, at an exec.
    pub thread: u32,
    /// Its path.
    pub path: Vec<u8>,
    /// Its device and inode.
    pub inode: (u64, u64),
    /// Its size in bytes.
    pub size: u64,
    /// When it was last changed, in nanoseconds since the epoch.
    pub mtime_ns: i64,
    /// XXH3-128 of its bytes; empty for what is no regular file.
    pub hash: Vec<u8>,
    /// Where in the file the mapping begins.
    pub offset: u64,
    /// What is mapped, if that is in the trace.
    pub content: Option<Content>,
}

impl Loaded {
    /// Describes an open file. `hashed` has its hash, if that is known already.
    pub fn of(path: &Path, metadata: &Metadata, hash: Vec<u8>) -> Loaded {
        Loaded {
            process: 0,
            thread: 0,
            path: path.as_os_str().as_bytes().to_vec(),
            inode: (metadata.dev(), metadata.ino()),
            size: metadata.size(),
            mtime_ns: metadata.mtime() * 1_000_000_000 + metadata.mtime_nsec(),
            hash,
            offset: 0,
            content: None,
        }
    }

    /// The event that tells of it. `stored` bytes of the mapping come with it.
    pub fn event(&self, tsc: u64, stored: u64) -> Event {
        let values = vec![
            FieldValue::Bytes(self.path.clone()),
            FieldValue::Unsigned(self.inode.0),
            FieldValue::Unsigned(self.inode.1),
            FieldValue::Unsigned(self.size),
            FieldValue::Signed(self.mtime_ns),
            FieldValue::Bytes(self.hash.clone()),
            FieldValue::Unsigned(self.offset),
            FieldValue::Unsigned(stored),
        ];
        let row = row_of(event_number::LOADED_FILE).expect("the table has it");
        let parts = vec![
            Part::number(part_id::PROCESS, self.process.into()),
            Part::number(part_id::THREAD, self.thread.into()),
        ];
        let kind = EventKind::Other(OtherEvent { row, values });
        let extras = Extras { parts, later_fields: Vec::new() };
        Event { extras: Some(Box::new(extras)), ..Event::new(RECORDER, tsc, kind) }
    }

    /// Reads the event.
    pub fn of_event(event: &Event) -> Option<Loaded> {
        let EventKind::Other(other) = &event.kind else { return None };
        if other.row.number != event_number::LOADED_FILE {
            return None;
        }
        let number = |id| {
            let part = event.parts().iter().find(|part| part.id == id)?;
            match part.value {
                PartValue::Number(number) => u32::try_from(number).ok(),
                PartValue::Bytes(_) => None,
            }
        };
        let [
            FieldValue::Bytes(path),
            FieldValue::Unsigned(device),
            FieldValue::Unsigned(inode),
            FieldValue::Unsigned(size),
            FieldValue::Signed(mtime_ns),
            FieldValue::Bytes(hash),
            FieldValue::Unsigned(offset),
            FieldValue::Unsigned(stored),
            ..,
        ] = &other.values[..]
        else {
            return None;
        };
        let buffers = event.parts().iter().find(|part| part.id == part_id::BUFFERS);
        let content = buffers.map(|part| Content::Blobs {
            len: *stored,
            ids: part.named_buffers().into_iter().flatten().collect(),
        });
        Some(Loaded {
            process: number(part_id::PROCESS)?,
            thread: number(part_id::THREAD)?,
            path: path.clone(),
            inode: (*device, *inode),
            size: *size,
            mtime_ns: *mtime_ns,
            hash: hash.clone(),
            offset: *offset,
            content,
        })
    }
}
