//! Pages of files: what read-ahead and write-back moved, beside what was read and touched.

use std::collections::{BTreeMap, HashMap};
use std::rc::Rc;

use model::happenings::{Happening, Happenings};
use model::kernel_events::Paging;
use syscalls::Act;
use syscalls::abi::memory::MAP_ANONYMOUS;
use syscalls::record::RESULT;
use trace::event::{Call, EventKind, KernelEvent};
use trace::kernel::KernelLayouts;

use crate::pass::{Visit, Watch};
use crate::ranges::Ranges;
use crate::sheet::{Cell, Fact, Sheet, Table};
use crate::view::ViewRow;

/// Files that are told apart, and paths of files.
const FILES_MAX: usize = 1 << 14;
const PATHS_MAX: usize = 1 << 16;
/// Mappings of a process, and threads whose process is known.
const MAPPINGS_MAX: usize = 4096;
const THREADS_MAX: usize = 1 << 16;
const PAGE_BYTES: u64 = 4096;
/// Bits of the kernel's number of a device that tell minors apart.
const MINOR_BITS: u32 = 20;

/// The view.
pub static VIEW: ViewRow = ViewRow {
    name: "pages",
    about: "Pages of files: moved by read-ahead and write-back, beside those read and touched",
    look: |look| {
        let fold = FilePages::new(&model::kernel_layouts(look.trace));
        Ok(look.of_kernel(look.watch(fold, |fold, _| fold.sheet())))
    },
};

/// A file: its device, as the kernel numbers it, and its inode.
type Key = [u64; 2];

#[derive(Default)]
struct Pages {
    /// Those that came into the cache, and how often any did.
    cached: Ranges,
    cached_count: u64,
    read: Ranges,
    touched: Ranges,
    /// Those that were mapped, and not all touched.
    around: Ranges,
    written_count: u64,
}

#[derive(Clone)]
struct Mapping {
    end: u64,
    offset: u64,
    file: Key,
}

/// Mappings of files, by start.
type Mappings = BTreeMap<u64, Mapping>;

struct FilePages {
    happenings: Happenings,
    files: HashMap<Key, Pages>,
    /// Events of files for which there was no room.
    left_out: u64,
    names: HashMap<Key, Vec<u8>>,
    by_path: HashMap<Vec<u8>, Key>,
    mappings: HashMap<u32, Rc<Mappings>>,
    /// The process of a thread, by its id.
    processes: HashMap<u32, u32>,
}

impl FilePages {
    fn new(layouts: &KernelLayouts) -> FilePages {
        FilePages {
            happenings: Happenings::new(layouts),
            files: HashMap::new(),
            left_out: 0,
            names: HashMap::new(),
            by_path: HashMap::new(),
            mappings: HashMap::new(),
            processes: HashMap::new(),
        }
    }

    fn file(&mut self, key: Key) -> Option<&mut Pages> {
        if self.files.len() >= FILES_MAX && !self.files.contains_key(&key) {
            self.left_out += 1;
            return None;
        }
        Some(self.files.entry(key).or_default())
    }

    fn kernel(&mut self, event: &KernelEvent) {
        match self.happenings.read(event.layout, &event.values) {
            Some(Happening::Pages { what, file, first, count }) => {
                let Some(pages) = self.file(file) else { return };
                match what {
                    Paging::Cached => {
                        pages.cached.add(first, count);
                        pages.cached_count = pages.cached_count.saturating_add(count);
                    }
                    Paging::Read => _ = pages.read.add(first, count),
                    Paging::Touched => _ = pages.touched.add(first, count),
                    Paging::Around => _ = pages.around.add(first, count),
                    Paging::Written => {
                        pages.written_count = pages.written_count.saturating_add(count);
                    }
                }
            }
            Some(Happening::Fault { address }) => {
                let Some((file, page)) = self.mapped_at(event.task, address) else { return };
                if let Some(pages) = self.file(file) {
                    pages.touched.add(page, 1);
                }
            }
            _ => {}
        }
    }

    fn mapped_at(&self, task: u32, address: u64) -> Option<(Key, u64)> {
        let mappings = self.mappings.get(self.processes.get(&task)?)?;
        let (start, mapping) = mappings.range(..=address).next_back()?;
        let at = (address < mapping.end).then(|| address - start)?;
        Some((mapping.file, mapping.offset.saturating_add(at) / PAGE_BYTES))
    }

    fn call(&mut self, call: &Call, visit: &Visit<'_>) {
        let moment = visit.moment;
        let Some(process) = moment.world.thread(moment.event.thread).map(|it| it.process) else {
            return;
        };
        if let Some(tid) = moment.tid.filter(|_| self.processes.len() < THREADS_MAX) {
            self.processes.insert(tid, process);
        }
        for (_, identity) in call.identities.iter().filter(|(arg, _)| *arg == RESULT) {
            let path = moment.step.paths.first().map(|(_, path)| path.to_vec());
            if let Some(path) = path.filter(|_| self.names.len() < PATHS_MAX) {
                let (major, minor) = (libc_major(identity.dev), libc_minor(identity.dev));
                let key = [major << MINOR_BITS | minor, identity.ino];
                self.names.insert(key, path.clone());
                self.by_path.insert(path, key);
            }
        }
        let act = syscalls::by_number(call.nr.into()).map(|row| row.act);
        let [address, length, _, flags, fd, offset] = call.args;
        match (act, call.success()) {
            (Some(Act::Map), Some(start)) => {
                let file =
                    (flags & MAP_ANONYMOUS == 0).then(|| moment.view().fd(fd as i32)).flatten();
                let file = file.and_then(|path| self.by_path.get(&path).copied());
                self.map(process, start as u64, length, file.map(|file| (file, offset)));
            }
            (Some(Act::Unmap), Some(_)) => self.map(process, address, length, None),
            _ => {}
        }
    }

    /// Maps a file, or nothing, at addresses of a process.
    fn map(&mut self, process: u32, start: u64, length: u64, file: Option<(Key, u64)>) {
        let end = start.saturating_add(length.next_multiple_of(PAGE_BYTES));
        let all = self.mappings.entry(process).or_default();
        let is_there = all.range(..end).next_back().is_some_and(|(_, mapping)| mapping.end > start);
        if !is_there && file.is_none() {
            return;
        }
        let all = Rc::make_mut(all);
        while let Some((&from, _)) = all.range(..end).next_back().filter(|(_, old)| old.end > start)
        {
            let Some(old) = all.remove(&from) else { return };
            if old.end > end {
                let offset = old.offset.saturating_add(end - from);
                all.insert(end, Mapping { offset, ..old.clone() });
            }
            if from < start {
                all.insert(from, Mapping { end: start, ..old });
            }
        }
        if let Some((file, offset)) = file.filter(|_| all.len() < MAPPINGS_MAX) {
            all.insert(start, Mapping { end, offset, file });
        }
    }

    fn sheet(self) -> Sheet {
        let mut table = Table::new("file_pages", "Files, in pages of 4 KiB", &COLUMNS)
            .further(&["mapped_pages"]);
        let mut rows: Vec<(Vec<u8>, Counts)> = Vec::new();
        for (key, pages) in &self.files {
            let minor = key[0] & ((1 << MINOR_BITS) - 1);
            let unnamed =
                || format!("inode {} of {}:{minor}", key[1], key[0] >> MINOR_BITS).into_bytes();
            let name = self.names.get(key).cloned().unwrap_or_else(unnamed);
            rows.push((name, Counts::of(pages)));
        }
        rows.sort_by(|(a, x), (b, y)| (y.moved(), a).cmp(&(x.moved(), b)));
        let mut all = Counts::default();
        for (name, counts) in rows {
            all.add(&counts);
            let mut row: Vec<Cell> = counts.0.iter().map(|count| Cell::Count(*count)).collect();
            row.push(Cell::Name(name));
            table.row(row);
        }
        let titles = COLUMNS.iter().zip(KEYS).zip(all.0);
        let mut facts: Vec<Fact> = titles
            .map(|(((_, title), key), count)| Fact { key, title, value: Cell::Count(count) })
            .collect();
        if self.left_out > 0 {
            let value = Cell::Count(self.left_out);
            facts.push(Fact { key: "left_out_count", title: "of further files", value });
        }
        let notes = vec![
            "Needs the class fs (record --kernel=fs). What a fault maps around itself may be touched later \
             without a report of the kernel: at least the pages under `touched` were, and at most those mapped \
             besides."
                .into(),
            "Unused came into the cache and was neither read, touched nor mapped. Written back is what ext4 \
             reports; with a program, what threads of the kernel write later is there with --system alone."
                .into(),
        ];
        Sheet { facts, tables: vec![table], notes }
    }
}

/// The numbers of a file, in the order of columns.
#[derive(Default)]
struct Counts([u64; 6]);

impl Counts {
    fn of(pages: &Pages) -> Counts {
        // Together with the others, so that each page counts once.
        let mut used = Ranges::default();
        for of in [&pages.read, &pages.touched, &pages.around] {
            of.each(|start, count| _ = used.add(start, count));
        }
        let before = used.covered();
        pages.cached.each(|start, count| _ = used.add(start, count));
        let unused = used.covered() - before;
        let covered = [&pages.read, &pages.touched, &pages.around].map(Ranges::covered);
        let [read, touched, around] = covered;
        Counts([pages.cached_count, read, touched, around, unused, pages.written_count])
    }

    fn moved(&self) -> u64 {
        self.0[0].saturating_add(self.0[5])
    }

    fn add(&mut self, other: &Counts) {
        self.0.iter_mut().zip(other.0).for_each(|(sum, count)| *sum = sum.saturating_add(count));
    }
}

/// Parts of a device's number as programs have it.
const fn libc_major(dev: u64) -> u64 {
    (dev >> 8 & 0xfff) | (dev >> 32 & !0xfff)
}

const fn libc_minor(dev: u64) -> u64 {
    (dev & 0xff) | (dev >> 12 & 0xfff_ff00)
}

impl Watch for FilePages {
    fn add(&mut self, visit: &mut Visit<'_>) {
        match &visit.moment.event.kind {
            EventKind::Kernel(kernel) if visit.wanted => self.kernel(kernel),
            EventKind::Call(call) => self.call(call, visit),
            EventKind::Start { process, parent, .. } => {
                let parent = visit.moment.world.thread(*parent).map(|thread| thread.process);
                let theirs = parent.filter(|parent| parent != process);
                if let Some(theirs) = theirs.and_then(|parent| self.mappings.get(&parent)) {
                    self.mappings.insert(*process, Rc::clone(theirs));
                }
                if let Some(tid) = visit.moment.tid.filter(|_| self.processes.len() < THREADS_MAX) {
                    self.processes.insert(tid, *process);
                }
            }
            EventKind::Image { .. } => {
                let thread = visit.moment.world.thread(visit.moment.event.thread);
                thread.map(|thread| self.mappings.remove(&thread.process));
            }
            EventKind::Exit { process, .. } => _ = self.mappings.remove(process),
            _ => {}
        }
    }
}

const COLUMNS: [(&str, &str); 7] = [
    ("cached_pages", "brought in"),
    ("read_pages", "read"),
    ("touched_pages", "touched"),
    ("mapped_pages", "mapped"),
    ("unused_pages", "unused"),
    ("written_pages", "written back"),
    ("file", "file"),
];
const KEYS: [&str; 6] = [
    "cached_page_count",
    "read_page_count",
    "touched_page_count",
    "mapped_page_count",
    "unused_page_count",
    "written_page_count",
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_pages_of_what_is_mapped() {
        let mut fold = FilePages::new(&KernelLayouts::default());
        fold.processes.insert(7, 1);
        fold.map(1, 0x10000, 0x8000, Some(([1, 2], 0x1000)));
        fold.map(1, 0x12000, 0x1000, Some(([1, 3], 0)));
        fold.map(1, 0x14000, 0x2000, None);
        assert_eq!(fold.mapped_at(7, 0x10fff), Some(([1, 2], 1)));
        assert_eq!(fold.mapped_at(7, 0x12001), Some(([1, 3], 0)));
        assert_eq!(fold.mapped_at(7, 0x13000), Some(([1, 2], 4)));
        assert_eq!(fold.mapped_at(7, 0x15fff), None);
        assert_eq!(fold.mapped_at(7, 0x16000), Some(([1, 2], 7)));
        assert_eq!(fold.mapped_at(7, 0x18000), None);
        assert_eq!(fold.mapped_at(8, 0x10000), None);
    }

    #[test]
    fn pages_that_nobody_wanted_are_unused() {
        let mut pages = Pages { cached_count: 40, ..Pages::default() };
        pages.cached.add(0, 32);
        pages.read.add(0, 4);
        pages.touched.add(4, 1);
        pages.around.add(4, 8);
        assert_eq!(Counts::of(&pages).0, [40, 4, 1, 8, 20, 0]);
    }

    #[test]
    fn devices_have_the_kernels_numbers() {
        assert_eq!((libc_major(0xfe00), libc_minor(0xfe00)), (254, 0));
        assert_eq!((libc_major(0x10_0803), libc_minor(0x10_0803)), (8, 0x103));
    }
}
