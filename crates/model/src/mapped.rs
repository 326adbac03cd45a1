//! Follows where files are mapped whose stores are in the trace.

use std::collections::{BTreeMap, HashMap};
use std::ops::Range;

use syscalls::Handler;
use syscalls::abi::errno;
use syscalls::abi::memory::MREMAP_DONTUNMAP;
use syscalls::record::{data_flag, part, watched};
use trace::event::{Call, Content, Data, Event, EventKind, FieldValue, OtherEvent, StartHow};
use trace::format::event_number;
use trace::parts::{Part, PartValue, part_id};

/// Limit for the number of processes that have the memory of others.
const GUESTS_MAX: usize = 1 << 16;
/// Limit for the number of tracked mappings.
const MAPPINGS_MAX: usize = 1 << 16;
const PAGE_BYTES: u64 = 4096;

/// Mappings by process and start address; `F` identifies the file.
#[derive(Debug)]
pub struct Mapped<F> {
    all: BTreeMap<(u32, u64), Piece<F>>,
    /// Processes that have the memory of others.
    guests: HashMap<u32, u32>,
}

#[derive(Clone, Debug)]
struct Piece<F> {
    end: u64,
    offset: u64,
    file: F,
}

impl<F> Default for Mapped<F> {
    fn default() -> Self {
        Mapped { all: BTreeMap::new(), guests: HashMap::new() }
    }
}

/// Returns true if a call maps, moves or removes memory.
pub fn is_followed(call: &Call) -> bool {
    handler(call).is_some()
}

fn handler(call: &Call) -> Option<Handler> {
    let handler = syscalls::by_number(call.nr.into())?.handler;
    let is_followed =
        matches!(handler, Handler::Map | Handler::Unmap | Handler::Remap | Handler::Reorder);
    is_followed.then_some(handler)
}

/// What the event of a call says of the stores to the file that it has mapped: a
/// `syscalls::record::watched`.
pub fn watched(event: &Event) -> u8 {
    let part = event.parts().iter().find(|part| part.id == part_id::WATCHED);
    match part.map(|part| &part.value) {
        Some(PartValue::Number(word)) => u8::try_from(*word).unwrap_or(watched::UNASKED),
        _ => watched::UNASKED,
    }
}

/// Returns true if a call has mapped a file that is watched.
pub fn is_watched(event: &Event) -> bool {
    matches!(watched(event), watched::YES | watched::LATER | watched::READS)
}

impl<F: Clone> Mapped<F> {
    /// Follows a call of a process. `file` returns what a descriptor leads to.
    pub fn call(
        &mut self,
        process: u32,
        event: &Event,
        call: &Call,
        file: impl FnOnce(i32) -> Option<F>,
    ) {
        let (Some(handler), Some(ret)) = (handler(call), call.ret()) else { return };
        if errno::is_error(ret) || self.all.is_empty() && !is_watched(event) {
            return;
        }
        let process = self.owner(process);
        let (at, [start, length, third, flags, fd, offset]) = (ret as u64, call.args);
        match handler {
            Handler::Map => {
                let range = pages(at, length);
                self.unmapped(process, range.clone());
                if is_watched(event)
                    && let Some(file) = file(fd as i32)
                {
                    self.add(process, range, offset, file);
                }
            }
            Handler::Remap => {
                let (old, new) = (pages(start, length), pages(at, third));
                // Of a length of 0, a copy is made of what begins there.
                let moved = self.parts(process, start..old.end.max(start.saturating_add(1)));
                if flags & MREMAP_DONTUNMAP == 0 {
                    self.unmapped(process, old);
                }
                self.unmapped(process, new.clone());
                let count = moved.len();
                for (number, (from, piece)) in (1..).zip(moved) {
                    let begin = at.saturating_add(from - start);
                    let end = if number == count {
                        new.end
                    } else {
                        begin.saturating_add(piece.end - from)
                    };
                    self.add(process, begin..end.min(new.end), piece.offset, piece.file);
                }
            }
            Handler::Reorder => {
                let former = self.at(process, start).map(|(file, _)| file.clone());
                // The argument is a page of the file.
                if let (Some(file), Some(offset)) = (former, flags.checked_mul(PAGE_BYTES)) {
                    let range = pages(start, length);
                    self.unmapped(process, range.clone());
                    self.add(process, range, offset, file);
                }
            }
            _ => self.unmapped(process, pages(start, length)),
        }
    }

    fn add(&mut self, process: u32, range: Range<u64>, offset: u64, file: F) {
        if !range.is_empty() && self.all.len() < MAPPINGS_MAX {
            self.all.insert((process, range.start), Piece { end: range.end, offset, file });
        }
    }

    /// What is mapped in a range, by address.
    fn parts(&self, process: u32, range: Range<u64>) -> Vec<(u64, Piece<F>)> {
        let within = self.all.range((process, 0)..(process, range.end)).rev();
        let within = within.take_while(|(_, piece)| piece.end > range.start);
        let mut parts: Vec<_> = within
            .map(|(&(_, start), piece)| {
                let from = start.max(range.start);
                let offset = piece.offset.saturating_add(from - start);
                let end = piece.end.min(range.end);
                (from, Piece { end, offset, file: piece.file.clone() })
            })
            .collect();
        parts.reverse();
        parts
    }

    fn unmapped(&mut self, process: u32, range: Range<u64>) {
        let within = self.all.range((process, 0)..(process, range.end)).rev();
        let within = within.take_while(|(_, piece)| piece.end > range.start);
        let found: Vec<_> = within.map(|((_, start), piece)| (*start, piece.clone())).collect();
        for (start, piece) in found {
            self.all.remove(&(process, start));
            let offset = |from: u64| piece.offset.saturating_add(from - start);
            if start < range.start {
                self.add(process, start..range.start, piece.offset, piece.file.clone());
            }
            if piece.end > range.end {
                self.add(process, range.end..piece.end, offset(range.end), piece.file.clone());
            }
        }
    }

    /// Returns true if no file is mapped.
    pub fn is_empty(&self) -> bool {
        self.all.is_empty()
    }

    /// The process whose memory a process has.
    fn owner(&self, process: u32) -> u32 {
        self.guests.get(&process).copied().unwrap_or(process)
    }

    /// The file that is mapped at an address of a process, and the offset there.
    pub fn at(&self, process: u32, address: u64) -> Option<(&F, u64)> {
        let process = self.owner(process);
        let (&(_, start), piece) = self.all.range((process, 0)..=(process, address)).next_back()?;
        let offset = piece.offset.checked_add(address - start)?;
        (address < piece.end).then_some((&piece.file, offset))
    }

    /// The same if one mapping has all of these addresses.
    pub fn stretch(&self, process: u32, address: u64, length: u64) -> Option<(&F, u64)> {
        let found = self.at(process, address)?;
        let (_, piece) = self.all.range((0, 0)..=(self.owner(process), address)).next_back()?;
        (address.checked_add(length)? <= piece.end).then_some(found)
    }

    /// Calls `change` with the file of each mapping of a process.
    pub fn each_of(&mut self, process: u32, change: impl FnMut(&mut F)) {
        let all = self.all.range_mut((process, 0)..=(process, u64::MAX));
        all.map(|(_, piece)| &mut piece.file).for_each(change);
    }

    /// Forgets a process that ended or called exec.
    pub fn forget(&mut self, process: u32) {
        if self.guests.remove(&process).is_some() {
            return;
        }
        if !self.all.is_empty() {
            self.all.retain(|(owner, _), _| *owner != process);
        }
    }

    /// A process begins that another one has made.
    pub fn started(&mut self, how: StartHow, process: u32, maker: u32) {
        match how {
            StartHow::Fork => self.inherit(process, maker),
            StartHow::Vfork => self.share(process, maker),
            _ => {}
        }
    }

    /// A process begins with the memory of another one, until it ends or calls exec.
    fn share(&mut self, process: u32, with: u32) {
        let owner = self.owner(with);
        if self.guests.len() < GUESTS_MAX {
            self.guests.insert(process, owner);
        }
    }

    /// A process begins with the mappings of another one.
    fn inherit(&mut self, process: u32, from: u32) {
        let from = self.owner(from);
        let all = self.all.range((from, 0)..=(from, u64::MAX));
        let all: Vec<_> = all.map(|((_, start), piece)| (*start, piece.clone())).collect();
        for (start, Piece { end, offset, file }) in all {
            self.add(process, start..end, offset, file);
        }
    }
}

fn pages(start: u64, length: u64) -> Range<u64> {
    let length = length.checked_next_multiple_of(PAGE_BYTES).unwrap_or(length);
    start..start.saturating_add(length)
}

/// Returns true if an event tells of a store to a mapped file, or what was read of it.
pub fn is_store(kind: &EventKind) -> bool {
    let numbers = [event_number::MMAP_WRITE, event_number::MMAP_READ];
    matches!(kind, EventKind::Other(other) if numbers.contains(&other.row.number))
}

/// Returns the process that an event of the recorder's own is about, if it names one.
pub fn process_of(event: &Event) -> Option<u32> {
    let part = event.parts().iter().find(|part| part.id == part_id::PROCESS)?;
    match part.value {
        PartValue::Number(number) => u32::try_from(number).ok(),
        PartValue::Bytes(_) => None,
    }
}

/// Returns true if an event tells that all mapped files of a process were looked at.
pub fn is_look(kind: &EventKind) -> bool {
    matches!(kind, EventKind::Other(other) if other.row.number == event_number::MMAP_LOOK)
}

/// Where the times of what a process reads of mapped files come from.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Times<'a> {
    /// From page faults, not from looks at its memory.
    pub by_faults: bool,
    /// Number of page faults that were lost.
    pub lost: u64,
    /// Why they do not come from page faults.
    pub why: &'a str,
}

impl<'a> Times<'a> {
    /// What an event says of it; `None` if it is of another kind.
    pub fn of(event: &'a Event) -> Option<Times<'a>> {
        let EventKind::Other(OtherEvent { row, values }) = &event.kind else { return None };
        if row.number != event_number::MMAP_TIMES {
            return None;
        }
        let [FieldValue::Unsigned(by), FieldValue::Unsigned(lost), FieldValue::Text(why)] =
            &values[..]
        else {
            return None;
        };
        Some(Times { by_faults: *by != 0, lost: *lost, why })
    }
}

/// What a process has stored to a mapped file, or read of it.
#[derive(Clone, Copy, Debug)]
pub struct Store<'a> {
    /// It was read, not stored.
    pub is_read: bool,
    /// The process.
    pub process: u32,
    /// The thread that made the next call, if known.
    pub thread: Option<u32>,
    /// Where in its memory.
    pub address: u64,
    /// Where in the file.
    pub offset: u64,
    /// Number of bytes.
    pub length: u64,
    /// Path of the file, as the recorder saw it.
    pub file: &'a [u8],
    /// Its device and inode.
    pub inode: (u64, u64),
    /// Number of bytes in the trace, from the first one on.
    pub stored: u64,
    /// Hash of all bytes, if it was taken.
    pub hash: Option<u128>,
    /// The part of the event that names the bytes, if they are in the trace.
    buffers: Option<&'a Part>,
}

impl<'a> Store<'a> {
    /// What an event tells of a store; `None` if it is of another kind.
    pub fn of(event: &'a Event) -> Option<Store<'a>> {
        let EventKind::Other(OtherEvent { row, values }) = &event.kind else { return None };
        let is_read = match row.number {
            event_number::MMAP_WRITE => false,
            event_number::MMAP_READ => true,
            _ => return None,
        };
        let number = |at: usize| match values.get(at) {
            Some(FieldValue::Unsigned(number)) => Some(*number),
            _ => None,
        };
        let bytes = |at: usize| match values.get(at) {
            Some(FieldValue::Bytes(bytes)) => &bytes[..],
            _ => &[],
        };
        let hash = bytes(7).first_chunk().map(|hash| u128::from_le_bytes(*hash));
        let part = |id| event.parts().iter().find(|part| part.id == id);
        let named = |id| match part(id)?.value {
            PartValue::Number(number) => u32::try_from(number).ok(),
            PartValue::Bytes(_) => None,
        };
        Some(Store {
            is_read,
            process: named(part_id::PROCESS)?,
            thread: named(part_id::THREAD),
            address: number(0)?,
            offset: number(1)?,
            length: number(2)?,
            file: bytes(3),
            inode: (number(4)?, number(5)?),
            stored: number(6)?.min(number(2)?),
            hash,
            buffers: part(part_id::BUFFERS),
        })
    }
}

impl Store<'_> {
    /// The same as memory of a call.
    pub fn data(&self) -> Data {
        Data {
            arg: 0,
            part: part::WHOLE,
            index: 0,
            flags: if self.stored < self.length { data_flag::CUT } else { 0 },
            true_len: self.length,
            hash: self.hash,
            content: self.content(),
        }
    }

    /// The bytes in the trace.
    pub fn content(&self) -> Content {
        let buffers = self.buffers.map(Part::named_buffers).unwrap_or_default();
        Content::Blobs { len: self.stored, ids: buffers.into_iter().flatten().collect() }
    }
}

#[cfg(test)]
mod tests {
    use trace::event::{Extras, Outcome};

    use super::*;

    fn call(
        all: &mut Mapped<&'static str>,
        name: &str,
        args: [u64; 6],
        ret: u64,
        file: &'static str,
    ) {
        let nr = syscalls::by_name(name).expect("a call").nr;
        let outcome = Outcome::Returned { exit_tsc: 2, ret: ret as i64 };
        let call = Call { nr, nargs: 6, args, outcome, ..Call::default() };
        let parts = vec![Part::number(part_id::WATCHED, 1)];
        let mut event = Event::new(1, 1, EventKind::Call(call.clone()));
        if !file.is_empty() {
            event.extras = Some(Box::new(Extras { parts, later_fields: Vec::new() }));
        }
        all.call(1, &event, &call, |_| Some(file));
    }

    #[test]
    fn mappings_are_cut_moved_inherited_and_forgotten() {
        let mut all = Mapped::default();
        call(&mut all, "mmap", [0, 0x3800, 3, 1, 5, 0x1000], 0x10000, "a");
        assert_eq!(all.at(1, 0x10000), Some((&"a", 0x1000)));
        assert_eq!(all.at(1, 0x13fff), Some((&"a", 0x4fff)));
        assert_eq!((all.at(1, 0x14000), all.at(1, 0xffff), all.at(2, 0x10000)), (None, None, None));
        assert_eq!(all.stretch(1, 0x10800, 0x3800), Some((&"a", 0x1800)));
        assert_eq!(all.stretch(1, 0x10800, 0x3801), None);
        all.inherit(2, 1);
        call(&mut all, "munmap", [0x11000, 0x1000, 0, 0, 0, 0], 0, "");
        assert_eq!((all.at(1, 0x11800), all.at(1, 0x12000)), (None, Some((&"a", 0x3000))));
        assert_eq!(all.at(2, 0x11800), Some((&"a", 0x2800)));
        call(&mut all, "mremap", [0x12000, 0x2000, 0x8000, 1, 0, 0], 0x50000, "");
        assert_eq!((all.at(1, 0x12000), all.at(1, 0x57fff)), (None, Some((&"a", 0xafff))));
        call(&mut all, "mmap", [0, 0x1000, 3, 2, 6, 0], 0x51000, "");
        assert_eq!((all.at(1, 0x51000), all.at(1, 0x52000)), (None, Some((&"a", 0x5000))));
        // Over another one; several at a time; a copy; other pages.
        call(&mut all, "mremap", [0x50000, 0x3000, 0x3000, 3, 0x90000, 0], 0x90000, "");
        assert_eq!((all.at(1, 0x91000), all.at(1, 0x92000)), (None, Some((&"a", 0x5000))));
        call(&mut all, "mremap", [0x92000, 0, 0x2000, 1, 0, 0], 0xa0000, "");
        assert_eq!(
            (all.at(1, 0xa1000), all.at(1, 0x92000)),
            (Some((&"a", 0x6000)), Some((&"a", 0x5000)))
        );
        call(&mut all, "remap_file_pages", [0xa0000, 0x1000, 0, 9, 0, 0], 0, "");
        assert_eq!(
            (all.at(1, 0xa0000), all.at(1, 0xa1000)),
            (Some((&"a", 0x9000)), Some((&"a", 0x6000)))
        );
        // What shares memory does so until it is gone.
        all.share(3, 1);
        assert_eq!(all.at(3, 0x10000), Some((&"a", 0x1000)));
        all.forget(3);
        assert_eq!((all.at(3, 0x10000), all.at(1, 0x10000)), (None, Some((&"a", 0x1000))));
        all.forget(2);
        assert_eq!((all.at(2, 0x10000), all.at(1, 0x10000)), (None, Some((&"a", 0x1000))));
        let failed = -12i64 as u64;
        call(&mut all, "munmap", [0, u64::MAX, 0, 0, 0, 0], failed, "");
        assert!(all.at(1, 0x10000).is_some());
    }
}
