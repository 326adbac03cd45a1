//! Memory in which a file is mapped, and what was found of it.

use std::collections::HashSet;
use std::fs::{File, Metadata};
use std::io;
use std::ops::Range;
use std::os::fd::AsRawFd;
use std::os::unix::ffi::OsStringExt;
use std::os::unix::fs::MetadataExt;
use std::sync::Arc;
use std::time::Instant;

use kin::maps::Mapping;
use ring::DataMode;
use syscalls::abi::memory::PAGE_STORED;

use super::holes::Holes;
use super::kernel::{Memory, PAGE_BYTES, ZEROS, file_of, read};
use super::terms::Terms;
use super::times::Touches;
use crate::stored::{Stored, Touch};

/// Maximum length of what one event tells.
const STORED_BYTES_MAX: u64 = 1 << 20;

/// How far behind the file's end pages are marked.
const AHEAD_BYTES: u64 = 1 << 30;

/// Memory in which a file is mapped.
#[derive(Clone)]
pub(super) struct Watched {
    pub memory: Range<u64>,
    /// End of the part whose pages are marked as not stored to: marks take memory.
    pub marked: u64,
    pub offset: u64,
    /// To look at, not to read.
    pub file: Arc<File>,
    /// Its device and inode.
    pub id: (u64, u64),
    /// Time stamp of the last collection.
    pub since: u64,
    /// When that was.
    pub collected: Instant,
    /// It cannot be written yet, and is not watched for stores before that.
    pub is_noted: bool,
    /// Stores to it are no stores to the file.
    pub is_private: bool,
    /// Pages that were read or stored to.
    pub touched: Touched,
    /// Parts of the file whose pages are not marked, because nothing was stored there yet.
    pub holes: Option<Holes>,
    /// To be read instead of the memory, which costs more.
    pub reader: Option<Arc<File>>,
}

/// What was found of a stretch of memory.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Found {
    Read,
    Stored,
    /// It was a hole of the file: where it is not zero, it was stored to.
    Filled,
}

/// Pages that are told together.
pub(super) struct Piece {
    pub pages: Range<u64>,
    pub kind: Found,
    /// What page faults tell of all of them.
    pub touch: Option<Touch>,
}

/// Pages that one thread reads one after the other, with no more ticks between them, are told
/// together: some 10 us.
const NEAR: u64 = 30_000;

impl Piece {
    /// Takes one more page that follows, if it is told together with these.
    fn goes_on_with(&mut self, touch: Option<Touch>) -> bool {
        let both = match (self.touch, touch) {
            (None, None) => return true,
            (Some(own), Some(next)) => Some((own, next)),
            _ => None,
        };
        let is_read = self.kind == Found::Read;
        let is_like = |(own, next): &(Touch, Touch)| {
            let is_one = own.thread == next.thread && own.is_alone == next.is_alone;
            let gap = next.first.checked_sub(own.last);
            is_one && (!is_read || gap.is_some_and(|gap| gap <= NEAR))
        };
        let both = both.filter(is_like);
        if let Some((own, next)) = both {
            self.touch = Some(own.and(next));
        }
        both.is_some()
    }
}

/// Adds the pages of a stretch, with what page faults tell of them.
fn add_pieces(pages: Range<u64>, kind: Found, touches: &mut Touches, pieces: &mut Vec<Piece>) {
    if touches.within(pages.clone()).next().is_none() {
        return pieces.push(Piece { pages, kind, touch: None });
    }
    let first = pieces.len();
    for page in pages.step_by(PAGE_BYTES as usize) {
        let mut touch = touches.take(page);
        if kind == Found::Read {
            // It was read once.
            touch = touch.map(|touch| Touch { last: touch.first, is_alone: true, ..touch });
        }
        if let Some(last) = pieces[first..].last_mut()
            && last.goes_on_with(touch)
        {
            last.pages.end += PAGE_BYTES;
        } else {
            pieces.push(Piece { pages: page..page + PAGE_BYTES, kind, touch });
        }
    }
}

/// Pages, by their offsets in a file.
#[derive(Clone, Default)]
pub(super) struct Touched(HashSet<u64>);

impl Touched {
    fn has(&self, page: u64) -> bool {
        self.0.contains(&page)
    }

    /// Adds pages. Calls `found` with the stretches of those that are new.
    pub fn add(&mut self, offsets: Range<u64>, found: &mut dyn FnMut(Range<u64>)) {
        let mut new = offsets.start..offsets.start;
        for page in offsets.clone().step_by(PAGE_BYTES as usize) {
            match self.0.insert(page) {
                true if new.end == page => new.end += PAGE_BYTES,
                true => new = page..page + PAGE_BYTES,
                false if new.is_empty() => new = page + PAGE_BYTES..page + PAGE_BYTES,
                false => {
                    found(new.clone());
                    new = page + PAGE_BYTES..page + PAGE_BYTES;
                }
            }
        }
        if !new.is_empty() {
            found(new);
        }
    }
}

/// What a collection is about.
pub(super) enum Scope {
    All,
    /// Only what page faults tell of.
    Touched,
    /// What was not collected later than that.
    Until(Option<Instant>),
    Memory(Range<u64>),
    /// Device and inode of a file.
    File((u64, u64)),
}

impl Scope {
    /// The file of a thread's descriptor; all if it cannot be looked at.
    pub fn of_file(thread: i32, fd: i32) -> Scope {
        let about = file_of(thread, fd).and_then(|file| file.metadata());
        about.map_or(Scope::All, |about| Scope::File((about.dev(), about.ino())))
    }

    pub fn has(&self, range: &Watched) -> bool {
        match self {
            Scope::All => true,
            Scope::Touched => false,
            Scope::Until(time) => time.is_none_or(|time| range.collected <= time),
            Scope::Memory(memory) => {
                memory.start < range.memory.end && memory.end > range.memory.start
            }
            Scope::File(file) => *file == range.id,
        }
    }

    /// Whether all of it is to be looked at.
    pub fn has_all(&self, range: &Watched) -> bool {
        match self {
            Scope::Memory(memory) => {
                memory.start <= range.memory.start && memory.end >= range.memory.end
            }
            _ => true,
        }
    }

    /// The part of a stretch that is to be looked at.
    fn part(&self, part: Range<u64>) -> Range<u64> {
        match self {
            Scope::Memory(memory) => {
                let start = part.start.max(memory.start & !(PAGE_BYTES - 1));
                let end = memory.end.checked_next_multiple_of(PAGE_BYTES).unwrap_or(memory.end);
                start..part.end.min(end).max(start)
            }
            _ => part,
        }
    }
}

impl Watched {
    /// The same file in other memory, from an offset on, of which nothing is known yet.
    pub fn copied_to(&self, memory: Range<u64>, offset: u64) -> Watched {
        let (marked, file) = (memory.start, Arc::clone(&self.file));
        let (touched, holes, reader) = (Touched::default(), None, None);
        Watched { memory, marked, offset, file, touched, holes, reader, ..*self }
    }

    /// The same at another address, as far as it lies before an end.
    pub fn shown_at(self, start: u64, end: u64) -> Option<Watched> {
        let length = self.memory.end - self.memory.start;
        let memory = start..start.checked_add(length)?.min(end);
        let touched = self.touched.clone();
        (!memory.is_empty()).then(|| Watched { touched, ..self.copied_to(memory, self.offset) })
    }

    /// Whether other memory that was just watched begins where this one ends, and is like it.
    pub fn goes_on_in(&self, next: &Watched) -> bool {
        self.memory.end == next.memory.start
            && self.marked == self.memory.end
            && self.holes.is_none()
            && next.holes.is_none()
            && self.is_noted == next.is_noted
    }

    /// Whether the kernel shows it as a part of this mapping.
    pub fn is_of(&self, mapping: &Mapping) -> bool {
        let (own, its) = (&self.memory, mapping.start..mapping.end);
        own.start < its.end
            && its.start < own.end
            && self.offset.wrapping_sub(own.start) == mapping.offset.wrapping_sub(its.start)
            && (self.id.1 == mapping.ino || path_of(&self.file, true) == mapping.path)
    }

    /// The end of the part to be marked, for a file of this size.
    pub fn to_mark(&self, size: u64) -> u64 {
        let bytes = size.saturating_sub(self.offset).saturating_add(AHEAD_BYTES);
        let end = self.memory.start.saturating_add(bytes.min(1 << 62).next_multiple_of(PAGE_BYTES));
        end.min(self.memory.end)
    }

    /// A part of the memory, without holes.
    pub fn without_holes(&self, part: Range<u64>) -> Vec<Range<u64>> {
        let Some(holes) = &self.holes else { return vec![part] };
        let (mut parts, mut from) = (Vec::new(), part.start);
        for hole in holes.within(&self.in_file(&part)) {
            let hole = self.in_memory(&hole);
            parts.push(from..hole.start);
            from = hole.end;
        }
        parts.push(from..part.end);
        parts.retain(|part| !part.is_empty());
        parts
    }

    /// Offsets in the file of a part of the memory.
    pub fn in_file(&self, part: &Range<u64>) -> Range<u64> {
        let there = |at: u64| at - self.memory.start + self.offset;
        there(part.start)..there(part.end)
    }

    /// The reverse.
    fn in_memory(&self, part: &Range<u64>) -> Range<u64> {
        let back = |at: u64| at - self.offset + self.memory.start;
        back(part.start)..back(part.end)
    }

    /// Bytes of its holes.
    pub fn hole_bytes(&self) -> u64 {
        let part = self.in_file(&self.memory);
        let holes = self.holes.iter().flat_map(|holes| holes.within(&part));
        holes.map(|hole| hole.end - hole.start).sum()
    }

    /// Marks what is no hole any more, or all that was one, and returns what was filled.
    pub fn fill(
        &mut self,
        memory: &Memory,
        part: Range<u64>,
        all: bool,
    ) -> io::Result<Vec<Range<u64>>> {
        let Some(mut holes) = self.holes.take() else { return Ok(Vec::new()) };
        let part = self.in_file(&part);
        let mark = |part: &Range<u64>| memory.mark(&self.in_memory(part));
        if all {
            holes.within(&part).try_for_each(|hole| mark(&hole))?;
            let filled = holes.filled(&part);
            return Ok(filled.iter().map(|part| self.in_memory(part)).collect());
        }
        let filled = holes.stored(&part);
        for part in &filled {
            mark(part)?;
            holes.take(part);
        }
        let filled = filled.iter().map(|part| self.in_memory(part)).collect();
        self.holes = Some(holes);
        Ok(filled)
    }

    /// Looks for what was touched since the last time. The file has that size. `scope`: `None` if it
    /// is only asked what page faults tell of.
    pub fn look(
        &mut self,
        memory: &Memory,
        scope: Option<&Scope>,
        reads: bool,
        size: u64,
        touches: &mut Touches,
    ) -> Vec<Piece> {
        let (mut found, mut pieces) = (Vec::new(), Vec::new());
        if reads {
            self.look_for_reads(memory, scope, touches, &mut found);
        }
        if let Some(scope) = scope.filter(|_| !self.is_noted) {
            let read = found.len();
            if self.look_for_stores(memory, scope, size, &mut found).is_err() {
                found.truncate(read);
            }
        }
        for (pages, kind) in found {
            add_pieces(pages, kind, touches, &mut pieces);
        }
        pieces
    }

    fn look_for_reads(
        &mut self,
        memory: &Memory,
        scope: Option<&Scope>,
        touches: &mut Touches,
        found: &mut Vec<(Range<u64>, Found)>,
    ) {
        // Private memory shows the file until it is stored to.
        let without = if self.is_noted { 0 } else { PAGE_STORED };
        let (start, offset) = (self.memory.start, self.offset);
        let touched = &mut self.touched;
        let mut add = |pages: Range<u64>, touches: &mut Touches| {
            let there = |at: u64| at - start + offset;
            // What was told before is not told again.
            let told = touches.within(pages.clone()).filter(|page| touched.has(there(*page)));
            told.collect::<Vec<_>>().into_iter().for_each(|page| _ = touches.take(page));
            touched.add(there(pages.start)..there(pages.end), &mut |new| {
                let back = |at: u64| at - offset + start;
                found.push((back(new.start)..back(new.end), Found::Read));
            });
        };
        let hull = touches.hull(&self.memory);
        let part = scope.map(|scope| scope.part(self.memory.clone()));
        let part = match (part, hull.clone()) {
            (Some(part), Some(hull)) if !part.is_empty() => {
                part.start.min(hull.start)..part.end.max(hull.end)
            }
            (Some(part), None) => part,
            (_, Some(hull)) => hull,
            (None, None) => return,
        };
        let _ = memory.present(part, without, &mut |pages| add(pages, touches));
        // What was read, and went before it was looked at.
        let Some(hull) = hull.filter(|_| !self.is_private && touches.hull(&self.memory).is_some())
        else {
            return;
        };
        let _ = memory.absent(hull, without, &mut |pages| {
            let pages: Vec<u64> = touches.within(pages).collect();
            pages.into_iter().for_each(|page| add(page..page + PAGE_BYTES, touches));
        });
    }

    fn look_for_stores(
        &mut self,
        memory: &Memory,
        scope: &Scope,
        size: u64,
        found: &mut Vec<(Range<u64>, Found)>,
    ) -> io::Result<()> {
        let (start, marked) = (self.memory.start, self.marked);
        self.marked = marked.max(self.to_mark(size));
        let mut keep = |pages| found.push((pages, Found::Stored));
        let parts = self.without_holes(scope.part(start..marked));
        parts.into_iter().try_for_each(|part| memory.stored(part, &mut keep))?;
        memory.stored_first(marked..self.marked, &mut keep)?;
        let filled = self.fill(memory, scope.part(self.memory.clone()), false)?;
        found.extend(filled.into_iter().map(|part| (part, Found::Filled)));
        Ok(())
    }

    /// What is said of all that is found at a time.
    pub fn telling(&self, whose: Whose, about: Metadata, terms: &Terms) -> Telling {
        let file = path_of(&self.file, about.nlink() != 0);
        let (kept, is_hashed) = match terms.rules.of_path(&file) {
            DataMode::Full | DataMode::Chosen => (terms.data_max, false),
            DataMode::Hash => (0, true),
            DataMode::None => (0, false),
        };
        Telling { whose, about, file, kept, is_hashed }
    }

    /// Tells what was found, with the bytes that are there now. Returns the number of pages.
    pub fn tell(
        &mut self,
        memory: &Memory,
        Piece { pages: stretch, kind, touch }: Piece,
        telling: &Telling,
        terms: &Terms,
        tell: &mut dyn FnMut(Stored),
    ) -> u64 {
        let Telling { whose, about, file, kept, is_hashed } = telling;
        let (kept, is_hashed) = (*kept, *is_hashed);
        let mut tell = |address, offset, bytes: Vec<u8>| {
            tell(Stored {
                is_read: kind == Found::Read,
                process: whose.process,
                thread: whose.thread,
                since: whose.since,
                touch,
                address,
                offset,
                kept: (bytes.len() as u64).min(kept) as usize,
                is_hashed: is_hashed || (kept != 0 && (bytes.len() as u64) > kept),
                bytes,
                file: file.clone(),
                device: about.dev(),
                inode: about.ino(),
            });
        };
        if terms.reads && kind != Found::Read {
            let stored = self.in_file(&stretch);
            self.touched.add(stored, &mut |_| ());
        }
        let end = stretch.end.min(self.memory.end);
        let mut at = stretch.start.max(self.memory.start);
        while at < end {
            let offset = self.offset + (at - self.memory.start);
            let wanted = (end - at).min(STORED_BYTES_MAX).min(about.size().saturating_sub(offset));
            let mut bytes = terms.spare.take();
            match &self.reader {
                Some(file) => read(file, offset, wanted as usize, &mut bytes),
                None => memory.read(at, wanted as usize, &mut bytes),
            }
            let read = bytes.len() as u64;
            match kind {
                _ if read == 0 => {}
                Found::Filled => each_not_zero(bytes, &mut |from, bytes| {
                    tell(at + from, offset + from, bytes);
                }),
                _ => tell(at, offset, bytes),
            }
            // What cannot be read lies behind the file's end, or is not there any more.
            at += read.max(1).next_multiple_of(PAGE_BYTES);
        }
        (stretch.end - stretch.start) / PAGE_BYTES
    }

    /// The parts before, in and behind other memory, each with whether it lies in it.
    pub fn cut(self, by: Range<u64>) -> impl Iterator<Item = (Watched, bool)> {
        let own = self.memory.clone();
        let parts = [
            (own.start..own.end.min(by.start), false),
            (own.start.max(by.start)..own.end.min(by.end), true),
            (own.start.max(by.end)..own.end, false),
        ];
        parts.into_iter().filter(|(memory, _)| !memory.is_empty()).map(move |(memory, is_in)| {
            let offset = self.offset + (memory.start - own.start);
            let marked = self.marked.clamp(memory.start, memory.end);
            (Watched { memory, marked, offset, ..self.clone() }, is_in)
        })
    }
}

/// What is said of all that is found of some memory at a time.
pub(super) struct Telling {
    whose: Whose,
    about: Metadata,
    file: Vec<u8>,
    /// Number of bytes to be kept, and whether a hash of all is.
    kept: u64,
    is_hashed: bool,
}

/// Who may have stored something, and since when.
#[derive(Clone, Copy)]
pub(super) struct Whose {
    pub process: u32,
    pub thread: Option<u32>,
    pub since: u64,
}

/// Calls `found` with the stretches of pages that are not all zeros, and where they begin.
fn each_not_zero(bytes: Vec<u8>, found: &mut dyn FnMut(u64, Vec<u8>)) {
    let pages = || bytes.chunks(ZEROS.len()).map(|page| *page == ZEROS[..page.len()]);
    if bytes.is_empty() || !pages().any(|is_zero| is_zero) {
        return found(0, bytes);
    }
    let is_zero: Vec<bool> = pages().collect();
    let mut from = 0;
    for stretch in is_zero.chunk_by(|a, b| a == b) {
        let until = (from + stretch.len() * ZEROS.len()).min(bytes.len());
        if !stretch[0] {
            found(from as u64, bytes[from..until].to_vec());
        }
        from = until;
    }
}

/// The path of an open file, as the kernel gives it to us.
pub(super) fn path_of(file: &File, has_name: bool) -> Vec<u8> {
    let path = std::fs::read_link(format!("/proc/self/fd/{}", file.as_raw_fd()));
    let mut path = path.unwrap_or_default().into_os_string().into_vec();
    if !has_name && path.ends_with(b" (deleted)") {
        path.truncate(path.len() - b" (deleted)".len());
    }
    path
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Pages, and the first touch, the last one and the thread if it is known.
    type Told = (Range<u64>, Option<(u64, u64, u32)>);

    fn pieces(kind: Found, touches: &[(u64, u64, u32)]) -> Vec<Told> {
        let (mut all, mut found) = (Touches::default(), Vec::new());
        for (page, tsc, thread) in touches {
            let (first, last) = (*tsc, *tsc);
            all.add(page * PAGE_BYTES, Touch { first, last, thread: *thread, is_alone: true });
        }
        add_pieces(PAGE_BYTES..6 * PAGE_BYTES, kind, &mut all, &mut found);
        assert!(all.within(PAGE_BYTES..6 * PAGE_BYTES).next().is_none(), "they are used");
        let of = |piece: Piece| {
            let pages = piece.pages.start / PAGE_BYTES..piece.pages.end / PAGE_BYTES;
            let touch = piece.touch.filter(|touch| touch.is_alone);
            (pages, touch.map(|touch| (touch.first, touch.last, touch.thread)))
        };
        found.into_iter().map(of).collect()
    }

    #[test]
    fn pages_are_told_together_if_one_thread_touched_them_in_order() {
        assert_eq!(pieces(Found::Read, &[]), [(1..6, None)]);
        let scan = [(1, 100, 7), (2, 200, 7), (3, 300, 7), (4, 400, 8), (5, 350, 8)];
        let read =
            [(1..4, Some((100, 300, 7))), (4..5, Some((400, 400, 8))), (5..6, Some((350, 350, 8)))];
        assert_eq!(pieces(Found::Read, &scan), read);
        let stored = [(1..4, Some((100, 300, 7))), (4..6, Some((350, 400, 8)))];
        assert_eq!(pieces(Found::Stored, &scan), stored);
        // A call may have been between them, and one is not known.
        let slow = [(1, 100, 7), (2, 101 + NEAR, 7), (5, 102 + NEAR, 7)];
        let read = [
            (1..2, Some((100, 100, 7))),
            (2..3, Some((101 + NEAR, 101 + NEAR, 7))),
            (3..5, None),
            (5..6, Some((102 + NEAR, 102 + NEAR, 7))),
        ];
        assert_eq!(pieces(Found::Read, &slow), read);
        // Who of two threads stored to a page is not known.
        assert_eq!(pieces(Found::Stored, &[(1, 5, 7), (1, 6, 8)])[0], (1..2, None));
        assert_eq!(pieces(Found::Read, &[(1, 5, 7), (1, 6, 8)])[0], (1..2, Some((5, 5, 7))));
    }
}
