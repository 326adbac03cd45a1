//! A process whose memory is watched.

use std::collections::HashSet;
use std::fs::File;
use std::io;
use std::ops::Range;
use std::os::fd::AsRawFd;
use std::os::unix::ffi::OsStringExt;
use std::os::unix::fs::MetadataExt;
use std::sync::Arc;

use model::realm;
use ring::{DataMode, when};
use syscalls::abi::memory::PAGE_STORED;

use super::kernel::{Memory, Notices, file_of};
use super::terms::Terms;
use crate::host;
use crate::stored::Stored;

/// Maximum number of mappings that are watched in a process.
const RANGES_MAX: usize = 4096;
/// Maximum length of what one event tells.
const STORED_BYTES_MAX: u64 = 1 << 20;
const PAGE_BYTES: u64 = 4096;

/// How far behind the file's end pages are marked.
const AHEAD_BYTES: u64 = 1 << 30;

/// Memory in which a file is mapped.
#[derive(Clone)]
pub(super) struct Watched {
    memory: Range<u64>,
    /// End of the part whose pages are marked as not stored to: marks take memory.
    marked: u64,
    offset: u64,
    /// To look at, not to read.
    file: Arc<File>,
    /// Time stamp of the last collection.
    since: u64,
    /// It cannot be written yet, and is not watched for stores before that.
    is_noted: bool,
    /// Stores to it are no stores to the file.
    is_private: bool,
    /// Pages that were read or stored to.
    touched: Touched,
}

/// Pages, by their offsets in a file.
#[derive(Clone, Default)]
struct Touched(HashSet<u64>);

impl Touched {
    /// Adds pages. Calls `found` with the stretches of those that are new.
    fn add(&mut self, offsets: Range<u64>, found: &mut dyn FnMut(Range<u64>)) {
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

    fn has(&self, range: &Watched, (device, inode): (u64, u64)) -> bool {
        match self {
            Scope::All => true,
            Scope::Memory(memory) => {
                memory.start < range.memory.end && memory.end > range.memory.start
            }
            Scope::File(file) => *file == (device, inode),
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
    /// The end of the part to be marked, for a file of this size.
    fn to_mark(&self, size: u64) -> u64 {
        let bytes = size.saturating_sub(self.offset).saturating_add(AHEAD_BYTES);
        let end = self.memory.start.saturating_add(bytes.min(1 << 62).next_multiple_of(PAGE_BYTES));
        end.min(self.memory.end)
    }

    /// The parts before, in and behind other memory, each with whether it lies in it.
    fn cut(self, by: Range<u64>) -> impl Iterator<Item = (Watched, bool)> {
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

pub(super) struct Process {
    number: u32,
    notices: Notices,
    memory: Memory,
    watched: Vec<Watched>,
    /// Not watched any more since the last collection.
    dropped: Vec<Watched>,
    /// It was collected for the last time, unless it asks again.
    ends: bool,
    /// Files are watched that were not, or the reverse.
    has_changed: bool,
    /// What is read is recorded as well.
    reads: bool,
}

impl Process {
    /// `helper` is a thread of the process that has opened `fd` to be watched by.
    pub fn open(pid: i32, number: u32, helper: i32, fd: i32, reads: bool) -> io::Result<Process> {
        Ok(Process {
            number,
            notices: Notices::take(helper, fd)?,
            memory: Memory::open(pid)?,
            watched: Vec::new(),
            dropped: Vec::new(),
            ends: false,
            has_changed: true,
            reads,
        })
    }

    /// Whether its memory is still there.
    pub fn is_there(&self) -> bool {
        self.memory.is_there()
    }

    pub fn ranges(&self) -> &[Watched] {
        &self.watched
    }

    /// Bytes of memory whose pages are marked.
    pub fn marked_bytes(&self) -> u64 {
        let marked = self.watched.iter().filter(|range| !range.is_noted);
        marked.map(|range| range.marked - range.memory.start).sum()
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
        if !file.metadata()?.is_file() || realm::is_memory(&path_of(&file, true)) {
            return Err(io::Error::other("no file on a disk"));
        }
        let (is_noted, is_private) = (when != when::NOW, when == when::READS);
        let (marked, touched) = (memory.start, Touched::default());
        Ok(Watched { memory, marked, offset, file, since: 0, is_noted, is_private, touched })
    }

    /// Memory in which the same is mapped as was at an address until the last collection.
    pub fn range_like(&self, address: u64, memory: Range<u64>) -> Option<Watched> {
        let has = |watched: &&Watched| watched.memory.contains(&address);
        let former = self.dropped.iter().chain(&self.watched).find(has)?;
        let offset = former.offset + (address - former.memory.start);
        Some(Watched { marked: memory.start, memory, offset, ..former.clone() })
    }

    /// Watches memory from now on, or notes it. There is room for so many bytes of marked pages.
    pub fn add(&mut self, mut range: Watched, room: u64) -> io::Result<()> {
        range.memory.end = range.memory.end.next_multiple_of(PAGE_BYTES);
        if self.watched.len() >= RANGES_MAX || range.memory.is_empty() {
            return Err(io::Error::other("too many mappings"));
        }
        range.since = host::tsc();
        if !range.is_noted {
            self.watch(&mut range, room)?;
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
        self.dropped.clear();
        self.watched.push(range);
        Ok(())
    }

    fn watch(&mut self, range: &mut Watched, room: u64) -> io::Result<()> {
        range.since = host::tsc();
        range.marked = range.to_mark(range.file.metadata()?.size());
        if range.marked - range.memory.start > room {
            return Err(io::Error::other("too much memory"));
        }
        self.notices.watch(&range.memory)?;
        // Nothing was stored yet: who made the mapping waits, and others do not know of it.
        self.memory.stored(range.memory.start..range.marked, &mut |_| ())?;
        self.has_changed = true;
        Ok(())
    }

    /// Watches what was noted of memory that can be written from now on.
    pub fn becomes_writable(&mut self, memory: Range<u64>, room: u64) -> io::Result<()> {
        let end = memory.end.checked_next_multiple_of(PAGE_BYTES).unwrap_or(memory.end);
        let mut result = Ok(());
        for range in std::mem::take(&mut self.watched) {
            if !range.is_noted || range.is_private {
                self.watched.push(range);
                continue;
            }
            for (mut part, is_concerned) in range.cut(memory.start..end) {
                if is_concerned {
                    part.is_noted = false;
                    let watched = self.watch(&mut part, room);
                    part.is_noted = watched.is_err();
                    result = result.and(watched);
                }
                self.watched.push(part);
            }
        }
        result
    }

    /// Forgets memory.
    pub fn drop(&mut self, gone: Range<u64>) {
        self.dropped.clear();
        if gone.is_empty() {
            return;
        }
        let end = gone.end.checked_next_multiple_of(PAGE_BYTES).unwrap_or(gone.end);
        for range in std::mem::take(&mut self.watched) {
            for (part, is_gone) in range.cut(gone.start..end) {
                self.has_changed |= is_gone;
                let to = if is_gone { &mut self.dropped } else { &mut self.watched };
                to.push(part);
            }
        }
    }

    /// Collects what was stored since the last time. Returns the number of pages.
    pub fn collect(
        &mut self,
        scope: &Scope,
        thread: Option<u32>,
        terms: &Terms,
        tell: &mut dyn FnMut(Stored),
    ) -> u64 {
        let mut pages = 0;
        let now = host::tsc();
        let reads = self.reads;
        for range in self.watched.iter_mut().filter(|range| reads || !range.is_noted) {
            if let Scope::Memory(_) = scope
                && !scope.has(range, (0, 0))
            {
                continue;
            }
            let Ok(about) = range.file.metadata() else { continue };
            if !scope.has(range, (about.dev(), about.ino())) {
                continue;
            }
            let (start, marked, since) = (range.memory.start, range.marked, range.since);
            if let Scope::All | Scope::File(_) = scope {
                range.since = now;
            }
            let mut stretches = Vec::new();
            if reads {
                // Private memory shows the file until it is stored to.
                let without = if range.is_noted { 0 } else { PAGE_STORED };
                let part = scope.part(range.memory.clone());
                let (start, offset) = (range.memory.start, range.offset);
                let touched = &mut range.touched;
                let _ = self.memory.present(part, without, &mut |pages| {
                    let there = |at: u64| at - start + offset;
                    touched.add(there(pages.start)..there(pages.end), &mut |new| {
                        let back = |at: u64| at - offset + start;
                        stretches.push((back(new.start)..back(new.end), true));
                    });
                });
            }
            if !range.is_noted {
                range.marked = marked.max(range.to_mark(about.size()));
                let mut keep = |found| stretches.push((found, false));
                let looked = self.memory.stored(scope.part(start..marked), &mut keep);
                let looked =
                    looked.and_then(|()| self.memory.stored_first(marked..range.marked, &mut keep));
                if looked.is_err() {
                    stretches.retain(|(_, is_read)| *is_read);
                }
            }
            if stretches.is_empty() {
                continue;
            }
            let file = path_of(&range.file, about.nlink() != 0);
            let (kept, is_hashed) = match terms.rules.of_path(&file) {
                DataMode::Full => (terms.data_max, false),
                DataMode::Hash => (0, true),
                DataMode::None => (0, false),
            };
            let about_it = |address, offset, bytes: Vec<u8>, is_read| Stored {
                is_read,
                process: self.number,
                thread,
                since,
                address,
                offset,
                kept: (bytes.len() as u64).min(kept) as usize,
                is_hashed: is_hashed || (kept != 0 && (bytes.len() as u64) > kept),
                bytes,
                file: file.clone(),
                device: about.dev(),
                inode: about.ino(),
            };
            let size = about.size();
            for (stretch, is_read) in stretches {
                if reads && !is_read {
                    let (start, offset) = (range.memory.start, range.offset);
                    let stored = stretch.start - start + offset..stretch.end - start + offset;
                    range.touched.add(stored, &mut |_| ());
                }
                pages += (stretch.end - stretch.start) / PAGE_BYTES;
                let mut at = stretch.start.max(range.memory.start);
                while at < stretch.end.min(range.memory.end) {
                    let offset = range.offset + (at - range.memory.start);
                    let left = stretch.end.min(range.memory.end) - at;
                    let wanted = left.min(STORED_BYTES_MAX).min(size.saturating_sub(offset));
                    let mut bytes = vec![0; wanted as usize];
                    let read = self.memory.read(at, &mut bytes);
                    bytes.truncate(read);
                    if read != 0 {
                        tell(about_it(at, offset, bytes, is_read));
                    }
                    // What cannot be read lies behind the file's end, or is not there any more.
                    at += (read as u64).max(1).next_multiple_of(PAGE_BYTES);
                }
            }
        }
        pages
    }
}

/// The path of an open file, as the kernel gives it to us.
fn path_of(file: &File, has_name: bool) -> Vec<u8> {
    let path = std::fs::read_link(format!("/proc/self/fd/{}", file.as_raw_fd()));
    let mut path = path.unwrap_or_default().into_os_string().into_vec();
    if !has_name && path.ends_with(b" (deleted)") {
        path.truncate(path.len() - b" (deleted)".len());
    }
    path
}

#[cfg(test)]
mod tests {
    use std::ffi::c_int;
    use std::io::Write;

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
        Terms { rules, data_max: u64::MAX, every: Every::Auto, reads: false }
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
        process.add(range, u64::MAX).unwrap();
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
        process.drop(start + 4 * page..start + 6 * page);
        let like = process.range_like(start + 4 * page, start + 4 * page..start + 5 * page);
        (3..7).for_each(|page| store(page, 4));
        let places = |found: Vec<(u64, Vec<u8>)>| -> Vec<_> {
            found.into_iter().map(|(at, bytes)| (at / page, bytes.len())).collect()
        };
        assert_eq!(places(collect(&mut process, &all)), [(3, 4096), (6, 4096)]);
        assert_eq!(like.as_ref().map(|range| range.offset), Some(4 * page));
        process.add(like.unwrap(), u64::MAX).unwrap();
        store(4, 5);
        assert_eq!(places(collect(&mut process, &all)), [(4, 4096)]);
        // What is gone tells nothing, and holds nothing up.
        store(8, 6);
        // SAFETY: nothing refers to the mapping.
        unsafe { munmap(at, LEN) }.unwrap();
        assert_eq!(collect(&mut process, &all), []);
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
