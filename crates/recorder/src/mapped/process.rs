//! A process whose memory is watched.

use std::collections::{HashMap, HashSet};
use std::io;
use std::ops::{ControlFlow, Range};
use std::os::unix::fs::MetadataExt;
use std::sync::Arc;
use std::time::{Duration, Instant};

use kin::maps::{self, Which};
use model::realm;
use ring::when;

use super::holes::Holes;
use super::kernel::{Memory, Notices, PAGE_BYTES, file_of};
use super::range::{Found, Piece, Scope, Touched, Watched, Whose, path_of};
use super::terms::Terms;
use super::times::Timed;
use crate::host;
use crate::stored::Stored;

/// Maximum number of mappings that are watched in a process.
const RANGES_MAX: usize = 4096;
/// How long it is remembered what a call was to take away.
const TAKEN_MAX: Duration = Duration::from_secs(10);

/// What a call takes away.
struct Taken {
    parts: Vec<Watched>,
    since: Instant,
}

pub(super) struct Process {
    number: u32,
    notices: Notices,
    memory: Memory,
    watched: Vec<Watched>,
    /// What threads' next calls take away, unless they fail.
    taken: HashMap<u32, Taken>,
    /// It was collected for the last time, unless it asks again.
    ends: bool,
    /// Files are watched that were not, or the reverse.
    has_changed: bool,
    /// What is read is recorded as well.
    reads: bool,
    /// Where times come from, if page faults tell.
    timed: Option<Timed>,
}

impl Process {
    /// `helper` is a thread of the process that has opened `fd` to be watched by.
    pub fn open(pid: i32, number: u32, helper: i32, fd: i32, reads: bool) -> io::Result<Process> {
        Ok(Process {
            number,
            notices: Notices::take(helper, fd)?,
            memory: Memory::open(pid)?,
            watched: Vec::new(),
            taken: HashMap::new(),
            ends: false,
            has_changed: true,
            reads,
            timed: None,
        })
    }

    /// From now on page faults tell when its pages are touched.
    pub fn set_timed(&mut self, timed: Timed) {
        self.timed = Some(timed);
    }

    /// Where times come from, if page faults tell.
    pub fn timed(&self) -> Option<&Timed> {
        self.timed.as_ref()
    }

    /// Says which page faults are wanted from now on.
    pub fn says_what_is_watched(&self) {
        if let Some(timed) = &self.timed {
            timed.watch(self.watched.iter().map(|range| range.memory.clone()));
        }
    }

    /// Whether its memory is still there.
    pub fn is_there(&self) -> bool {
        self.memory.is_there()
    }

    /// Ends a process's last look, if that is said.
    pub fn has_ended(&self) -> bool {
        self.ends || !self.is_there()
    }

    /// What is mapped in a process that was forked from this one. Its threads may have changed their
    /// memory meanwhile, or be about to.
    pub fn inherited(&self, pid: i32) -> io::Result<Vec<Watched>> {
        let taken = self.taken.values().flat_map(|taken| &taken.parts);
        let known: Vec<&Watched> = self.watched.iter().chain(taken).collect();
        let mut inherited = Vec::new();
        maps::each(pid, Which::Files, |mapping| {
            let mut rest: Vec<Range<u64>> = Vec::new();
            rest.push(mapping.start..mapping.end);
            for range in known.iter().filter(|range| range.is_of(&mapping)) {
                for part in std::mem::take(&mut rest) {
                    let common = part.start.max(range.memory.start)..part.end.min(range.memory.end);
                    if common.is_empty() {
                        rest.push(part);
                        continue;
                    }
                    let at = range.in_file(&common).start;
                    let mut own = range.copied_to(common.clone(), at);
                    own.touched = range.touched.clone();
                    own.is_noted &= !(mapping.shared && mapping.writable);
                    inherited.push(own);
                    rest.extend([part.start..common.start, common.end..part.end]);
                    rest.retain(|rest| !rest.is_empty());
                }
            }
            ControlFlow::Continue(())
        })?;
        Ok(inherited)
    }

    /// Bytes of memory whose pages are marked.
    pub fn marked_bytes(&self) -> u64 {
        let marked = self.watched.iter().filter(|range| !range.is_noted);
        let parts = marked.flat_map(|range| range.without_holes(range.memory.start..range.marked));
        parts.map(|part| part.end - part.start).sum()
    }

    /// Whether [`files`](Process::files) may be others than at the last question.
    pub fn has_changed(&mut self) -> bool {
        std::mem::take(&mut self.has_changed)
    }

    /// Says whether it was collected for the last time.
    pub fn ends(&mut self, ends: bool) {
        self.has_changed |= self.ends != ends;
        self.ends = ends;
    }

    /// Paths of the files to which it may store from now on.
    pub fn files(&self) -> Vec<Vec<u8>> {
        if self.ends {
            return Vec::new();
        }
        let mut seen = HashSet::new();
        let watched = self.watched.iter().filter(|watched| !watched.is_noted);
        let files = watched.map(|watched| &watched.file);
        let files = files.filter(|file| seen.insert(Arc::as_ptr(file)));
        files.map(|file| path_of(file, true)).collect()
    }

    /// Memory in which the file of a thread's descriptor is mapped.
    pub fn range_of(
        &self,
        thread: i32,
        fd: i32,
        memory: Range<u64>,
        offset: u64,
        when: u32,
    ) -> io::Result<Watched> {
        let file = Arc::new(file_of(thread, fd)?);
        // Memory that processes share changes all the time, and nothing of it is left on a disk.
        let about = file.metadata()?;
        if !about.is_file() || realm::is_memory(&path_of(&file, true)) {
            return Err(io::Error::other("no file on a disk"));
        }
        let length = memory.end.saturating_sub(memory.start).checked_next_multiple_of(PAGE_BYTES);
        let end = length.and_then(|length| offset.checked_add(length));
        if end.is_none() || (offset | memory.start) & (PAGE_BYTES - 1) != 0 {
            return Err(io::Error::other("no mapping"));
        }
        let (is_noted, is_private) = (when != when::NOW, when == when::READS);
        let (marked, touched) = (memory.start, Touched::default());
        Ok(Watched {
            memory,
            marked,
            offset,
            id: (about.dev(), about.ino()),
            file,
            since: 0,
            collected: Instant::now(),
            is_noted,
            is_private,
            touched,
            holes: None,
            reader: None,
        })
    }

    /// What a thread's last collection has taken away is in other memory now, which is to be watched.
    /// Where it stays, it is watched as before, and that is what is returned: whether anything was.
    pub fn moved(
        &mut self,
        thread: u32,
        from: u64,
        to: &Range<u64>,
        room: u64,
    ) -> io::Result<(Vec<Watched>, bool)> {
        let parts = self.taken.remove(&thread).map(|taken| taken.parts).unwrap_or_default();
        let end = to.end.checked_next_multiple_of(PAGE_BYTES).unwrap_or(to.end);
        let to = &(to.start..end);
        if from == to.start {
            return self.resized(parts, to, room).map(|some| (Vec::new(), some));
        }
        // What the memory came to cover went as well.
        let mut parts: Vec<Watched> = parts
            .into_iter()
            .filter(|part| part.memory.start >= to.end || part.memory.end <= to.start)
            .filter(|part| part.memory.start >= from)
            .filter_map(|part| {
                let start = to.start.checked_add(part.memory.start - from)?;
                part.shown_at(start, to.end)
            })
            .collect();
        parts.sort_by_key(|part| part.memory.start);
        if let Some(last) = parts.last_mut() {
            last.memory.end = to.end;
        }
        let some = !parts.is_empty();
        Ok((parts, some))
    }

    /// Memory has become longer or shorter, and is where it was: other threads may use it meanwhile.
    fn resized(&mut self, parts: Vec<Watched>, to: &Range<u64>, room: u64) -> io::Result<bool> {
        let mut parts: Vec<Watched> = parts
            .into_iter()
            .flat_map(|part| part.cut(to.clone()))
            .filter_map(|(part, stays)| stays.then_some(part))
            .collect();
        parts.sort_by_key(|part| part.memory.start);
        let Some(last) = parts.pop() else { return Ok(false) };
        self.watched.append(&mut parts);
        self.has_changed = true;
        let at = last.memory.end;
        let more = (at < to.end).then(|| last.copied_to(at..to.end, last.in_file(&(at..at)).start));
        let is_alone = last.holes.is_some();
        self.watched.push(last);
        let Some(more) = more else { return Ok(true) };
        self.add(more, room, is_alone)?;
        // As one stretch, if there is nothing that tells them apart.
        if let [.., former, added] = &mut self.watched[..]
            && former.goes_on_in(added)
        {
            (former.memory.end, former.marked) = (added.memory.end, added.marked);
            self.watched.pop();
        }
        Ok(true)
    }

    /// What a thread's last collection has taken away is still there.
    pub fn restore(&mut self, thread: u32) -> bool {
        let Some(mut taken) = self.taken.remove(&thread) else { return false };
        self.has_changed = true;
        self.watched.append(&mut taken.parts);
        true
    }

    /// Memory shows what other memory does, from an address on.
    pub fn copy_of(&self, address: u64, memory: Range<u64>) -> Option<Watched> {
        let former = self.watched.iter().find(|watched| watched.memory.contains(&address))?;
        Some(former.copied_to(memory, former.in_file(&(address..address)).start))
    }

    /// Memory shows the same file as before a thread's last collection, from another page on.
    pub fn reordered(&mut self, thread: u32, memory: Range<u64>, page: u64) -> Option<Watched> {
        let taken = self.taken.remove(&thread)?;
        let former = taken.parts.iter().find(|part| part.memory.contains(&memory.start))?;
        Some(former.copied_to(memory, page.checked_mul(PAGE_BYTES)?))
    }

    /// Watches memory from now on, or notes it. There is room for so many bytes of marked pages.
    /// `is_alone`: nobody else is known to have the file mapped so.
    pub fn add(&mut self, mut range: Watched, room: u64, is_alone: bool) -> io::Result<()> {
        range.memory.end = range.memory.end.next_multiple_of(PAGE_BYTES);
        if self.watched.len() >= RANGES_MAX || range.memory.is_empty() {
            return Err(io::Error::other("too many mappings"));
        }
        (range.since, range.collected) = (host::tsc(), Instant::now());
        if !range.is_noted {
            self.watch(&mut range, room, is_alone)?;
        } else if self.reads {
            self.notices.watch(&range.memory)?;
        }
        if self.reads {
            // What is there by itself was not touched.
            let (start, offset) = (range.memory.start, range.offset);
            let touched = &mut range.touched;
            self.memory.present(range.memory.clone(), 0, &mut |pages| {
                let pages = pages.start - start + offset..pages.end - start + offset;
                touched.add(pages, &mut |_| ());
            })?;
        }
        // Whatever else was there is gone.
        self.cut_out(range.memory.clone());
        self.watched.push(range);
        Ok(())
    }

    fn watch(&mut self, range: &mut Watched, room: u64, is_alone: bool) -> io::Result<()> {
        range.since = host::tsc();
        range.holes = match is_alone && !self.reads {
            true => Holes::of(&range.file, range.in_file(&range.memory)),
            false => None,
        };
        range.reader = range.holes.as_ref().map(Holes::file);
        range.marked = match range.holes {
            Some(_) => range.memory.end,
            None => range.to_mark(range.file.metadata()?.size()),
        };
        let parts = range.without_holes(range.memory.start..range.marked);
        if parts.iter().map(|part| part.end - part.start).sum::<u64>() > room {
            return Err(io::Error::other("too much memory"));
        }
        self.notices.watch(&range.memory)?;
        // Nothing was stored yet: who made the mapping waits, and others do not know of it.
        parts.into_iter().try_for_each(|part| self.memory.stored(part, &mut |_| ()))?;
        self.has_changed = true;
        Ok(())
    }

    /// Watches what was noted of memory that can be written from now on.
    pub fn becomes_writable(&mut self, memory: Range<u64>, room: u64) -> io::Result<()> {
        let end = memory.end.checked_next_multiple_of(PAGE_BYTES).unwrap_or(memory.end);
        if !memory.start.is_multiple_of(PAGE_BYTES) {
            return Err(io::Error::other("no memory"));
        }
        let mut result = Ok(());
        for range in std::mem::take(&mut self.watched) {
            if !range.is_noted || range.is_private {
                self.watched.push(range);
                continue;
            }
            for (mut part, is_concerned) in range.cut(memory.start..end) {
                if is_concerned {
                    part.is_noted = false;
                    let watched = self.watch(&mut part, room, false);
                    part.is_noted = watched.is_err();
                    result = result.and(watched);
                }
                self.watched.push(part);
            }
        }
        result
    }

    /// A thread's call takes memory away; `also`: with what was said before. Returns false if none of
    /// it was watched.
    pub fn take_away(&mut self, thread: u32, gone: Range<u64>, also: bool) -> bool {
        let mut parts = self.cut_out(gone);
        let is_some = !parts.is_empty();
        if let Some(former) = self.taken.remove(&thread)
            && also
        {
            parts.extend(former.parts);
        }
        if !parts.is_empty() {
            self.taken.insert(thread, Taken { parts, since: Instant::now() });
        }
        is_some
    }

    /// Forgets what calls were to take away that have returned long ago.
    pub fn forget_taken(&mut self) {
        self.taken.retain(|_, taken| taken.since.elapsed() < TAKEN_MAX);
    }

    fn cut_out(&mut self, gone: Range<u64>) -> Vec<Watched> {
        let end = gone.end.checked_next_multiple_of(PAGE_BYTES).unwrap_or(gone.end);
        let mut parts = Vec::new();
        // The kernel refuses other addresses.
        let is_possible = gone.start.is_multiple_of(PAGE_BYTES);
        let meets = |range: &Watched| range.memory.end > gone.start && range.memory.start < end;
        if !is_possible || !self.watched.iter().any(meets) {
            return parts;
        }
        for range in std::mem::take(&mut self.watched) {
            for (part, is_gone) in range.cut(gone.start..end) {
                let to = if is_gone { &mut parts } else { &mut self.watched };
                to.push(part);
            }
        }
        self.has_changed = true;
        parts
    }

    /// Collects what was stored since the last time. Returns the number of pages.
    pub fn collect(
        &mut self,
        scope: &Scope,
        thread: Option<u32>,
        terms: &Terms,
        tell: &mut dyn FnMut(Stored),
    ) -> u64 {
        let (mut pages, mut reads_in_order) = (0, Vec::new());
        let mut touches = self.timed.as_ref().map(Timed::take).unwrap_or_default();
        let (now, reads) = (host::tsc(), self.reads);
        let mut tellings = Vec::new();
        for (number, range) in self.watched.iter_mut().enumerate() {
            let is_meant = scope.has(range) && (reads || !range.is_noted);
            if !is_meant && touches.hull(&range.memory).is_none() {
                continue;
            }
            let Ok(about) = range.file.metadata() else { continue };
            let since = range.since;
            if is_meant && scope.has_all(range) {
                (range.since, range.collected) = (now, Instant::now());
            }
            let scope = is_meant.then_some(scope);
            let found = range.look(&self.memory, scope, reads, about.size(), &mut touches);
            if found.is_empty() {
                continue;
            }
            let whose = Whose { process: self.number, thread, since };
            let telling = range.telling(whose, about, terms);
            for piece in found {
                if piece.kind == Found::Read
                    && let Some(touch) = piece.touch
                {
                    reads_in_order.push((touch.last, number, tellings.len(), piece));
                } else {
                    pages += range.tell(&self.memory, piece, &telling, terms, tell);
                }
            }
            tellings.push(telling);
        }
        reads_in_order.sort_by_key(|(last, ..)| *last);
        for (_, number, telling, piece) in reads_in_order {
            let range = &mut self.watched[number];
            pages += range.tell(&self.memory, piece, &tellings[telling], terms, tell);
        }
        if let Some(timed) = &self.timed {
            timed.give(touches);
        }
        pages
    }

    /// Somebody else has a file mapped as well: what is stored where it has holes is found by the
    /// page from now on. More than `room` bytes of holes stay as they are: who has stored there is less exact.
    pub fn share(
        &mut self,
        file: (u64, u64),
        room: u64,
        terms: &Terms,
        tell: &mut dyn FnMut(Stored),
    ) {
        let has_holes = |range: &&mut Watched| range.holes.is_some() && range.id == file;
        for range in self.watched.iter_mut().filter(has_holes) {
            let Ok(about) = range.file.metadata() else { continue };
            if range.hole_bytes() > room {
                continue;
            }
            let filled = range.fill(&self.memory, range.memory.clone(), true).unwrap_or_default();
            let whose = Whose { process: self.number, thread: None, since: range.since };
            let telling = range.telling(whose, about, terms);
            for pages in filled {
                let piece = Piece { pages, kind: Found::Filled, touch: None };
                range.tell(&self.memory, piece, &telling, terms, tell);
            }
        }
    }

    /// Whether a file is mapped so that stores to it are recorded.
    pub fn has(&self, file: (u64, u64)) -> bool {
        self.watched.iter().any(|range| !range.is_noted && range.id == file)
    }

    /// Files with parts of which stores are not found by the page.
    pub fn files_with_holes(&self) -> Vec<(u64, u64)> {
        let with_holes = self.watched.iter().filter(|range| range.holes.is_some());
        with_holes.map(|range| range.id).collect()
    }

    /// Files that are mapped in some memory.
    pub fn files_in(&self, memory: &Range<u64>) -> Vec<(u64, u64)> {
        let meets =
            |range: &&Watched| range.memory.start < memory.end && range.memory.end > memory.start;
        self.watched.iter().filter(meets).map(|range| range.id).collect()
    }
}

#[cfg(test)]
mod tests {
    use std::ffi::c_int;
    use std::fs::File;
    use std::io::Write;
    use std::os::fd::AsRawFd;

    use rustix::mm::{MapFlags, ProtFlags, mmap, munmap};
    use rustix::thread::gettid;
    use syscalls::abi::memory::USERFAULTFD_FLAGS;

    use super::*;
    use crate::mapped::Every;
    use crate::policy::{DataRule, DataRules};

    const PAGES: usize = 16;
    const LEN: usize = PAGES * PAGE_BYTES as usize;

    fn terms(rules: Vec<DataRule>) -> Terms {
        let rules = DataRules { rules, ..DataRules::default() };
        Terms {
            rules,
            data_max: u64::MAX,
            every: Every::Auto,
            reads: false,
            by_faults: false,
            spare: Arc::default(),
        }
    }

    fn collect(process: &mut Process, terms: &Terms) -> Vec<(u64, Vec<u8>)> {
        let mut found = Vec::new();
        process.collect(&Scope::All, None, terms, &mut |stored| {
            found.push((stored.offset, stored.bytes))
        });
        found
    }

    /// This process, if the kernel lets itself be asked. Its own thread stands for the helper.
    fn own() -> Option<Process> {
        // SAFETY: takes a number only.
        let fd = unsafe { libc::syscall(libc::SYS_userfaultfd, USERFAULTFD_FLAGS) };
        let (pid, tid) = (std::process::id() as i32, gettid().as_raw_nonzero().get());
        let process = Process::open(pid, 1, tid, fd as c_int, false).ok();
        assert!(process.is_none() || fd > 0);
        process
    }

    #[test]
    fn stores_are_found_once_where_they_are() {
        let Some(mut process) = own() else { return };
        let mut file = tempfile::tempfile().unwrap();
        file.write_all(&[1; LEN - 100]).unwrap();
        let (prot, flags) = (ProtFlags::READ | ProtFlags::WRITE, MapFlags::SHARED);
        // SAFETY: a new mapping at an address of the kernel's choice, used by its address alone.
        let at = unsafe { mmap(std::ptr::null_mut(), LEN, prot, flags, &file, 0) }.unwrap();
        let (start, page) = (at as u64, PAGE_BYTES);
        let store = |page: usize, byte: u8| {
            // SAFETY: within the mapping.
            unsafe { at.cast::<u8>().add(page * PAGE_BYTES as usize + 7).write_volatile(byte) };
        };
        let tid = gettid().as_raw_nonzero().get();
        let memory = start..start + LEN as u64;
        let range = process.range_of(tid, file.as_raw_fd(), memory.clone(), 0, when::NOW).unwrap();
        store(3, 9);
        process.add(range, u64::MAX, true).unwrap();
        let all = terms(Vec::new());
        assert_eq!(collect(&mut process, &all), [], "what was there before");
        (5..8).for_each(|page| store(page, 2));
        store(15, 3);
        let found = collect(&mut process, &all);
        let places: Vec<_> = found.iter().map(|(at, bytes)| (at / page, bytes.len())).collect();
        assert_eq!(places, [(5, 3 * 4096), (15, 3996)], "the last page ends with the file");
        assert_eq!((found[0].1[7], found[0].1[8], found[1].1[7]), (2, 1, 3));
        assert_eq!(collect(&mut process, &all), []);
        // The middle is not watched any more, and then again.
        assert!(process.take_away(1, start + 4 * page..start + 6 * page, false));
        assert!(!process.take_away(2, start + 4 * page..start + 6 * page, false), "it is gone");
        (3..7).for_each(|page| store(page, 4));
        let places = |found: Vec<(u64, Vec<u8>)>| -> Vec<_> {
            found.into_iter().map(|(at, bytes)| (at / page, bytes.len())).collect()
        };
        assert_eq!(places(collect(&mut process, &all)), [(3, 4096), (6, 4096)]);
        // It was not, and what was stored meanwhile is found.
        assert!(process.restore(1) && !process.restore(1));
        assert_eq!(places(collect(&mut process, &all)), [(4, 2 * 4096)]);
        // Shorter, at the same place.
        process.take_away(1, memory.clone(), false);
        store(2, 7);
        let shorter = start..start + 8 * page;
        assert!(process.moved(1, start, &shorter, u64::MAX).unwrap().1);
        assert_eq!(places(collect(&mut process, &all)), [(2, 4096)]);
        assert_eq!(process.marked_bytes(), 8 * page);
        // Elsewhere.
        process.take_away(1, start + 2 * page..start + 4 * page, false);
        let to = start + 12 * page..start + 16 * page;
        let (moved, _) = process.moved(1, start + 2 * page, &to, u64::MAX).unwrap();
        assert_eq!((moved.len(), moved[0].offset, &moved[0].memory), (1, 2 * page, &to));
        let copy = process.copy_of(start + page, to.clone()).unwrap();
        assert_eq!((copy.offset, copy.memory), (page, to));
        assert!(process.copy_of(start + 3 * page, shorter).is_none());
        // What is gone tells nothing, and holds nothing up.
        store(8, 6);
        // SAFETY: nothing refers to the mapping.
        unsafe { munmap(at, LEN) }.unwrap();
        assert_eq!(collect(&mut process, &all), []);
    }

    const MIB: usize = 1 << 20;

    /// A mapping of a file that is one hole, watched.
    fn hole(process: &mut Process, len: usize) -> (File, *mut u8, u64) {
        // Not in memory: there the kernel maps pages otherwise.
        let file = tempfile::tempfile_in("/var/tmp").unwrap();
        file.set_len(len as u64).unwrap();
        let (prot, flags) = (ProtFlags::READ | ProtFlags::WRITE, MapFlags::SHARED);
        // SAFETY: a new mapping at an address of the kernel's choice, used by its address alone.
        let at = unsafe { mmap(std::ptr::null_mut(), len, prot, flags, &file, 0) }.unwrap();
        let start = at as u64;
        let memory = start..start + len as u64;
        let tid = gettid().as_raw_nonzero().get();
        let range = process.range_of(tid, file.as_raw_fd(), memory, 0, when::NOW).unwrap();
        process.add(range, u64::MAX, true).unwrap();
        (file, at.cast(), start)
    }

    #[test]
    fn stores_to_holes_are_found_once() {
        let Some(mut process) = own() else { return };
        let len = 64 * MIB;
        let (_file, at, start) = hole(&mut process, len);
        // SAFETY: within the mapping.
        let store = |offset: usize, byte: u8| unsafe { at.add(offset).write_volatile(byte) };
        let all = terms(Vec::new());
        assert_eq!(collect(&mut process, &all), []);
        // A stretch that the kernel may map by huge pages, and single pages; and a page that is read.
        (8 * MIB..12 * MIB).step_by(4096).for_each(|offset| store(offset, 1));
        store(40 * MIB + 5, 2);
        // SAFETY: within the mapping.
        assert_eq!(unsafe { at.add(50 * MIB).read_volatile() }, 0);
        let bytes = |found: &[(u64, Vec<u8>)]| -> Vec<(usize, usize)> {
            let mut all: Vec<(usize, usize)> = Vec::new();
            for (offset, bytes) in found {
                match all.last_mut() {
                    Some((start, len)) if *start + *len == *offset as usize => *len += bytes.len(),
                    _ => all.push((*offset as usize, bytes.len())),
                }
            }
            all
        };
        let found = collect(&mut process, &all);
        assert_eq!(bytes(&found), [(8 * MIB, 4 * MIB), (40 * MIB, 4096)]);
        assert!(found.iter().take(4).all(|(_, bytes)| bytes[0] == 1 && bytes[4096] == 1));
        assert_eq!(collect(&mut process, &all), []);
        // What was found once is found by the page from then on, also if zeros are stored.
        store(9 * MIB, 0);
        store(40 * MIB, 3);
        store(63 * MIB, 4);
        // SAFETY: within the mapping.
        assert_eq!(unsafe { at.add(10 * MIB).read_volatile() }, 1);
        let found = collect(&mut process, &all);
        assert_eq!(bytes(&found), [(9 * MIB, 4096), (40 * MIB, 4096), (63 * MIB, 4096)]);
        assert_eq!((found[1].1[0], found[1].1[5]), (3, 2));
        // Others map the file as well: holes are watched like data.
        store(20 * MIB, 5);
        let (file, mut shared) = (process.watched[0].id, Vec::new());
        process.share((0, 0), u64::MAX, &all, &mut |_| unreachable!("another file"));
        process.share(file, 1, &all, &mut |_| unreachable!("there is no room to watch the holes"));
        process
            .share(file, u64::MAX, &all, &mut |stored| shared.push((stored.offset, stored.bytes)));
        assert_eq!(bytes(&shared), [(20 * MIB, 4096)]);
        store(30 * MIB, 0);
        assert_eq!(bytes(&collect(&mut process, &all)), [(30 * MIB, 4096)]);
        assert_eq!(process.marked_bytes(), len as u64);
        // SAFETY: nothing refers to the mapping.
        unsafe { munmap(start as *mut _, len) }.unwrap();
    }

    #[test]
    fn only_what_the_kernel_calls_a_userfaultfd_is_used() {
        let file = tempfile::tempfile().unwrap();
        let (pid, tid) = (std::process::id() as i32, gettid().as_raw_nonzero().get());
        assert!(Process::open(pid, 1, tid, file.as_raw_fd(), false).is_err());
        assert!(Process::open(pid, 1, tid, -1, false).is_err());
        assert!(Process::open(pid, 1, i32::MAX, 0, false).is_err());
    }
}
