//! Use of each file, directory and mount.

mod over_time;
mod used;

use std::cmp::Reverse;
use std::collections::{BTreeMap, HashMap};

use model::mounts::Mounts;
use model::{Access, FileId, Namespace, OpenId, Paths, Synced, Touch};
use trace::event::EventKind;

use crate::pass::{Visit, Watch};
use crate::ranges::Ranges;
use crate::sheet::{Cell, Fact, Sheet, Table, share};
use crate::view::ViewRow;
use over_time::OverTime;
pub use over_time::UsedOverTime;
pub use used::Used;

/// The view.
pub static VIEW: ViewRow = ViewRow {
    name: "files",
    about: "Each file: opens, reads, writes, what was touched again, syncs; and directories and mounts",
    look: |look| {
        let files = Files::new(Mounts::parse(&look.trace.preamble().mounts));
        Ok(look.watch(files, |fold, files| fold.finish(files).sheet()))
    },
};

/// Limit for the ranges of all files together. Beyond it, repeated access is not detected.
const RANGES_MAX: usize = 1 << 20;

/// Ranges of a file that were accessed.
#[derive(Clone, Debug, Default)]
struct Touched {
    read: Ranges,
    written: Ranges,
}

/// Returns the entry of a file in a side table.
fn at<T: Default>(table: &mut Vec<T>, file: FileId) -> &mut T {
    if file.index() >= table.len() {
        table.resize_with(file.index() + 1, T::default);
    }
    &mut table[file.index()]
}

/// The last access to an open file, to detect a pattern.
#[derive(Clone, Copy, Debug, Default)]
struct Last {
    start: u64,
    end: u64,
    /// Distance between the starts of the last two accesses.
    distance: Option<i128>,
}

/// The fold that tracks the use of files.
pub struct Files {
    mounts: Mounts,
    over_time: Option<OverTime>,
    used: Vec<Used>,
    touched: Vec<Touched>,
    last: HashMap<(OpenId, bool), Last>,
    ranges: usize,
    is_exact: bool,
}

/// Limit for the open files with a last access.
const LAST_MAX: usize = 1 << 16;

impl Files {
    /// Makes an empty fold for the recording machine's mounts.
    pub fn new(mounts: Mounts) -> Files {
        Files {
            mounts,
            over_time: None,
            used: Vec::new(),
            touched: Vec::new(),
            last: Default::default(),
            ranges: 0,
            is_exact: true,
        }
    }

    /// Makes an empty fold that also counts in steps of this width, or of a multiple of it.
    pub fn over_time(mounts: Mounts, interval_ns: u64) -> Files {
        Files { over_time: Some(OverTime::new(interval_ns)), ..Files::new(mounts) }
    }

    fn used(&mut self, file: FileId, more: Used) {
        at(&mut self.used, file).add(&more);
        if let Some(over_time) = &mut self.over_time {
            over_time.add(file, &more);
        }
    }

    /// Records accessed bytes. Returns how many of them had been accessed before.
    fn touch(&mut self, access: &Access, offset: u64) -> u64 {
        let of = at(&mut self.touched, access.file);
        let ranges = if access.is_write { &mut of.written } else { &mut of.read };
        if self.ranges >= RANGES_MAX {
            self.is_exact = false;
            return 0;
        }
        let before = ranges.count();
        let known = ranges.add(offset, access.bytes);
        self.ranges = (self.ranges + ranges.count()).saturating_sub(before);
        known
    }

    fn forget(&mut self, file: FileId, length: u64) {
        let Some(of) = self.touched.get_mut(file.index()) else { return };
        for ranges in [&mut of.read, &mut of.written] {
            let before = ranges.count();
            ranges.truncate(length);
            self.ranges = (self.ranges + ranges.count()).saturating_sub(before);
        }
    }

    fn access(&mut self, access: &Access, wanted: bool) {
        let known = access.offset.map_or(0, |offset| self.touch(access, offset));
        let pattern = access.offset.map(|offset| self.pattern(access, offset));
        if !wanted {
            return;
        }
        let (bytes, none) = (access.bytes, Used::default());
        let moved = match access.is_write {
            true => Used { writes: 1, write_bytes: bytes, overwritten_bytes: known, ..none },
            false => Used { reads: 1, read_bytes: bytes, reread_bytes: known, ..none },
        };
        let is = |wanted| u64::from(pattern == Some(wanted));
        let [sequential, strided, random] =
            [Pattern::Sequential, Pattern::Strided, Pattern::Random].map(is);
        self.used(access.file, Used { sequential, strided, random, ..moved });
    }

    fn pattern(&mut self, access: &Access, offset: u64) -> Pattern {
        if self.last.len() >= LAST_MAX {
            self.last.clear();
        }
        let key = (access.open, access.is_write);
        let before = self.last.get(&key).copied();
        let end = offset.saturating_add(access.bytes);
        let Some(before) = before else {
            self.last.insert(key, Last { start: offset, end, distance: None });
            return if offset == 0 { Pattern::Sequential } else { Pattern::Random };
        };
        let distance = i128::from(offset) - i128::from(before.start);
        self.last.insert(key, Last { start: offset, end, distance: Some(distance) });
        if offset == before.end {
            Pattern::Sequential
        } else if distance != 0 && before.distance == Some(distance) {
            Pattern::Strided
        } else {
            Pattern::Random
        }
    }

    fn synced(&mut self, synced: Synced) {
        if let Synced::File(file) = synced {
            self.used(file, Used { syncs: 1, ..Used::default() });
        }
    }

    fn count(&mut self, touch: &Touch, failed: bool, ns: u64) {
        if let Some((file, _)) = touch.opened {
            self.used(file, Used { opens: 1, ..Used::default() });
        }
        let mut named: Vec<FileId> = touch.by_path.iter().flatten().copied().collect();
        named.dedup();
        let called = Used { errors: failed.into(), time_ns: ns, ..Used::default() };
        for file in &named {
            let lookups = u64::from(!failed && touch.opened.is_none());
            self.used(*file, Used { lookups, ..called.clone() });
        }
        let moved = touch.accesses.iter().flatten().map(|access| access.file);
        let mut held: Vec<FileId> = moved.chain(touch.by_fd.map(|(file, _)| file)).collect();
        held.sort_unstable();
        held.dedup();
        for file in held.into_iter().filter(|file| !named.contains(file)) {
            self.used(file, called.clone());
        }
    }

    /// Returns the result.
    pub fn finish(self, files: &Namespace) -> FileCounts {
        let mut paths = Paths::of(files);
        let used = (0..).map(FileId::at).zip(&self.used).filter(|(_, used)| used.was_used());
        let mut places: HashMap<Vec<u8>, usize> = HashMap::new();
        let mut rows: Vec<(Named, Used)> = Vec::new();
        for (id, used) in used {
            let (path, file) = (paths.next(id), files.file(id));
            if let Some(place) = places.get(&path) {
                let (named, of_path) = &mut rows[*place];
                named.others.push(id);
                named.is_stored |= file.is_stored;
                named.is_elsewhere |= file.is_elsewhere;
                of_path.add(used);
                continue;
            }
            places.insert(path.clone(), rows.len());
            let (is_stored, is_elsewhere) = (file.is_stored, file.is_elsewhere);
            let named = Named { path, first: id, others: Vec::new(), is_stored, is_elsewhere };
            rows.push((named, used.clone()));
        }
        rows.sort_by(|(a, of_a), (b, of_b)| {
            of_b.time_ns.cmp(&of_a.time_ns).then_with(|| a.path.cmp(&b.path))
        });
        let (streams, files): (Vec<_>, Vec<_>) =
            rows.into_iter().partition(|(named, _)| named.is_elsewhere);
        let over_time = self.over_time.map(|over_time| {
            let each = files.iter().enumerate();
            let ids = each.flat_map(|(place, (named, _))| named.ids().map(move |id| (id, place)));
            over_time.finish(&ids.collect())
        });
        FileCounts { files, streams, mounts: self.mounts, is_exact: self.is_exact, over_time }
    }
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Pattern {
    Sequential,
    Strided,
    Random,
}

impl Watch for Files {
    fn add(&mut self, visit: &mut Visit<'_>) {
        let &mut Visit { moment, wanted, .. } = visit;
        let touch = moment.touch;
        let EventKind::Call(call) = &moment.event.kind else { return };
        if let Some(over_time) = &mut self.over_time {
            over_time.at(moment.enter_ns);
        }
        if let Some((file, length)) = touch.length {
            self.forget(file, length);
        }
        if let Some(gone) = touch.gone {
            self.forget(gone, 0);
        }
        for access in touch.accesses.iter().flatten() {
            self.access(access, wanted);
        }
        if wanted {
            if let Some(synced) = touch.synced(call) {
                self.synced(synced);
            }
            let ns = moment.duration_ns().unwrap_or(0);
            self.count(touch, call.error().is_some(), ns);
        }
    }
}

/// All files that had a path last.
#[derive(Clone, Debug)]
pub struct Named {
    /// The path, or the name in /proc.
    pub path: Vec<u8>,
    first: FileId,
    others: Vec<FileId>,
    /// True if one has bytes at offsets: is not a pipe, socket or device.
    pub is_stored: bool,
    is_elsewhere: bool,
}

impl Named {
    /// Returns the files.
    pub fn ids(&self) -> impl Iterator<Item = FileId> {
        [self.first].into_iter().chain(self.others.iter().copied())
    }
}

/// Use of all files.
pub struct FileCounts {
    /// All files that were used, most time in calls first.
    pub files: Vec<(Named, Used)>,
    /// Pipes, sockets, devices and kernel views that were used.
    pub streams: Vec<(Named, Used)>,
    /// The files in steps of time, if those were wanted.
    pub over_time: Option<UsedOverTime>,
    mounts: Mounts,
    is_exact: bool,
}

const COLUMNS: [(&str, &str); 15] = [
    ("time_ns", "time"),
    ("opens", "opens"),
    ("reads", "reads"),
    ("read_bytes", "read"),
    ("writes", "writes"),
    ("write_bytes", "written"),
    ("syncs", "syncs"),
    ("lookups", "lookups"),
    ("errors", "errors"),
    ("sequential_share", "seq"),
    ("strided_share", "strided"),
    ("random_share", "random"),
    ("reread_bytes", "re-read"),
    ("overwritten_bytes", "overwritten"),
    ("path", "file"),
];

/// Columns that a terminal of 80 characters need not show.
const FURTHER: [&str; 8] = [
    "reads",
    "writes",
    "errors",
    "sequential_share",
    "strided_share",
    "random_share",
    "reread_bytes",
    "overwritten_bytes",
];

fn row(used: &Used, name: Vec<u8>) -> Vec<Cell> {
    let placed = used.sequential + used.strided + used.random;
    vec![
        Cell::Ns(used.time_ns),
        Cell::Count(used.opens),
        Cell::Count(used.reads),
        Cell::Bytes(used.read_bytes),
        Cell::Count(used.writes),
        Cell::Bytes(used.write_bytes),
        Cell::Count(used.syncs),
        Cell::Count(used.lookups),
        Cell::Count(used.errors),
        share(used.sequential, placed),
        share(used.strided, placed),
        share(used.random, placed),
        Cell::Bytes(used.reread_bytes),
        Cell::Bytes(used.overwritten_bytes),
        Cell::Name(name),
    ]
}

/// Returns a file's directory, or the kind of something without a path.
fn directory(path: &[u8]) -> &[u8] {
    match path.iter().rposition(|&c| c == b'/') {
        Some(0) => b"/",
        Some(at) => &path[..at],
        None => &path[..path.iter().position(|&c| c == b':').unwrap_or(path.len())],
    }
}

impl FileCounts {
    fn rolled_up(
        &self,
        key: &'static str,
        title: &'static str,
        column: &'static str,
        name: impl Fn(&[u8]) -> Vec<u8>,
    ) -> Table {
        let mut columns = COLUMNS;
        columns[14].1 = column;
        let mut sums: BTreeMap<Vec<u8>, Used> = BTreeMap::new();
        for (file, used) in &self.files {
            sums.entry(name(&file.path)).or_default().add(used);
        }
        let mut rows: Vec<(Vec<u8>, Used)> = sums.into_iter().collect();
        rows.sort_by_key(|(_, used)| Reverse(used.time_ns));
        let mut table = Table::new(key, title, &columns).further(&FURTHER);
        rows.into_iter().for_each(|(name, used)| table.row(row(&used, name)));
        table
    }

    /// Returns single values for all files together.
    pub fn facts(&self) -> Vec<Fact> {
        let [mut sum, mut streams] = [Used::default(), Used::default()];
        self.files.iter().for_each(|(_, used)| sum.add(used));
        self.streams.iter().for_each(|(_, used)| streams.add(used));
        let fact = |key, title, value| Fact { key, title, value };
        vec![
            fact("file_count", "files", Cell::Count(self.files.len() as u64)),
            fact("read_bytes", "read", Cell::Bytes(sum.read_bytes)),
            fact("reread_bytes", "read again", Cell::Bytes(sum.reread_bytes)),
            fact("write_bytes", "written", Cell::Bytes(sum.write_bytes)),
            fact("overwritten_bytes", "overwritten", Cell::Bytes(sum.overwritten_bytes)),
            fact(
                "stream_read_bytes",
                "read from pipes, sockets and devices",
                Cell::Bytes(streams.read_bytes),
            ),
            fact(
                "stream_write_bytes",
                "written to pipes, sockets and devices",
                Cell::Bytes(streams.write_bytes),
            ),
            fact("exact", "", Cell::word(if self.is_exact { "yes" } else { "no" })),
        ]
    }

    /// Returns a row for each file whose index is chosen, and one for all others.
    pub fn chosen(&self, is_chosen: impl Fn(usize) -> bool) -> (Table, Vec<Cell>) {
        let mut files = Table::new("files", "Files", &COLUMNS).further(&FURTHER);
        let mut others = Used::default();
        for (place, (file, used)) in self.files.iter().enumerate() {
            match is_chosen(place) {
                true => files.row(row(used, file.path.clone())),
                false => others.add(used),
            }
        }
        (files, row(&others, Vec::new()))
    }

    fn streams(&self) -> Table {
        let mut columns = COLUMNS;
        columns[14].1 = "pipe, socket or device";
        let table = Table::new("streams", "Pipes, sockets and devices", &columns);
        let mut table = table.further(&FURTHER);
        let rows = self.streams.iter().map(|(file, used)| row(used, file.path.clone()));
        rows.for_each(|cells| table.row(cells));
        table
    }

    /// Returns the result as tables.
    pub fn sheet(&self) -> Sheet {
        let (files, _) = self.chosen(|_| true);
        let mount = |path: &[u8]| match self.mounts.of(path) {
            Some(mount) => mount.point.clone(),
            None => directory(path).to_vec(),
        };
        let mut notes = vec![
            "A file counts under the last path that it had, together with the files that had this \
             path before. Lookups name it without opening it. Pipes, sockets, terminals and other devices are no files, nor is what \
             /proc and /sys show: they are listed apart and in no total of files."
                .to_string(),
        ];
        if !self.is_exact {
            notes.push(
                "Too many places were touched to remember all: what was read again and overwritten \
                 is at least this much."
                    .into(),
            );
        }
        let tables = vec![
            files,
            self.rolled_up("directories", "Directories", "directory", |path| {
                directory(path).to_vec()
            }),
            self.rolled_up("mounts", "Mounts", "mount", mount),
            self.streams(),
        ];
        Sheet { facts: self.facts(), tables, notes }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sample::{Made, call, open, watch};

    fn view(calls: &[Made]) -> FileCounts {
        let (fold, files) = watch(Files::new(Mounts::default()), calls);
        fold.finish(&files)
    }

    fn look(calls: &[Made]) -> BTreeMap<String, Used> {
        let view = view(calls);
        let text = |path: &[u8]| String::from_utf8(path.to_vec()).unwrap();
        let all = view.files.iter().chain(&view.streams);
        all.map(|(file, used)| (text(&file.path), used.clone())).collect()
    }

    #[test]
    fn positions_are_followed() {
        let files = look(&[
            open("data", 0o102, 3),
            call("write", &[3, 0, 100], 100).lasts(7),
            call("write", &[3, 0, 100], 100).lasts(5),
            call("lseek", &[3, 50, 0], 50),
            call("read", &[3, 0, 100], 100),
            call("dup", &[3], 4),
            call("read", &[4, 0, 500], 50),
            call("pread64", &[4, 0, 60, 60], 60),
            call("pwrite64", &[4, 0, 10, 195], 10),
            call("fsync", &[4], 0),
            call("write", &[1, 0, 6], 6),
        ]);
        let data = &files["/work dir/data"];
        assert_eq!((data.opens, data.reads, data.writes, data.syncs), (1, 3, 3, 1));
        assert_eq!((data.read_bytes, data.write_bytes), (210, 210));
        assert_eq!((data.reread_bytes, data.overwritten_bytes), (60, 5));
        assert_eq!((data.sequential, data.random, data.time_ns), (3, 3, 12));
        assert_eq!((files["pipe:[1]"].writes, files["pipe:[1]"].sequential), (1, 0));
    }

    #[test]
    fn steps_sum_up_and_become_wider() {
        let mut calls = vec![open("data", 0o102, 3), open("other", 0o102, 4)];
        calls.extend((0..600).map(|n| call("write", &[3 + n % 2, 0, 10], 10)));
        let (fold, files) = watch(Files::over_time(Mounts::default(), 2000), &calls);
        let mut view = fold.finish(&files);
        let steps = view.over_time.take().expect("they were wanted");
        let sum = |steps: &UsedOverTime, place| -> u64 {
            steps.by_place[&place].values().map(|used| used.write_bytes).sum()
        };
        assert_eq!((steps.interval_ns, sum(&steps, 0), sum(&steps, 1)), (2000, 3000, 3000));
        assert!(steps.by_place[&0].len() > 290 && steps.is_whole);
        let steps = steps.widened(|place| place == 1, 40);
        assert_eq!((steps.by_place.len(), sum(&steps, 1)), (1, 3000));
        assert!(steps.by_place[&1].len() <= 40 && steps.interval_ns == 16_000);
    }

    #[test]
    fn pipes_sockets_and_terminals_are_no_files() {
        let view = view(&[
            open("data", 0o101, 3),
            call("write", &[3, 0, 100], 100),
            call("write", &[1, 0, 5000], 5000),
            call("socket", &[1, 1, 0], 4),
            call("write", &[4, 0, 700], 700),
            open("/dev/tty", 2, 5),
            call("read", &[5, 0, 30], 30),
            open("/proc/self/status", 0, 6),
            call("read", &[6, 0, 1000], 1000),
            call("memfd_create", &[0, 0], 7).with(0, b"x"),
            call("write", &[7, 0, 9], 9),
        ]);
        let fact = |key: &str| match view.facts().into_iter().find(|fact| fact.key == key) {
            Some(Fact { value: Cell::Bytes(n) | Cell::Count(n), .. }) => n,
            _ => panic!("no number {key}"),
        };
        assert_eq!((fact("file_count"), fact("write_bytes"), fact("read_bytes")), (1, 100, 0));
        assert_eq!((fact("stream_write_bytes"), fact("stream_read_bytes")), (5709, 1030));
        let sheet = view.sheet();
        let rows = |key: &str| sheet.tables.iter().find(|t| t.key == key).map(|t| t.rows.len());
        assert_eq!((rows("files"), rows("mounts"), rows("streams")), (Some(1), Some(1), Some(5)));
    }

    #[test]
    fn appending_truncating_and_replacing() {
        let files = look(&[
            open("log", 0o2101, 3),
            call("write", &[3, 0, 10], 10),
            call("lseek", &[3, 0, 0], 0),
            call("write", &[3, 0, 10], 10),
            open("log", 0o1101, 4),
            call("write", &[4, 0, 10], 10),
            call("unlink", &[0], 0).with(0, b"log"),
            open("log", 0o101, 5),
            call("write", &[5, 0, 10], 10),
            call("ftruncate", &[5, 4], 0),
            call("pwrite64", &[5, 0, 10, 0], 10),
        ]);
        assert_eq!(files["/work dir/log"].overwritten_bytes, 4);
        assert_eq!(files["/work dir/log"].lookups, 1);
    }

    #[test]
    fn strides_and_copies() {
        let mut calls = vec![open("in", 0, 3), open("out", 0o101, 4)];
        calls.extend((0..10).map(|n| call("pread64", &[3, 0, 10, n * 1000], 10)));
        calls.push(call("copy_file_range", &[3, 0, 4, 0, 64, 0], 64));
        calls.push(call("openat", &[-100, 0, 0, 0], -2).with(1, b"missing"));
        let files = look(&calls);
        let input = &files["/work dir/in"];
        // The first two have no earlier distance, and the copy is elsewhere.
        assert_eq!((input.strided, input.reads), (8, 11));
        assert_eq!(files["/work dir/out"].write_bytes, 64);
        let missing = &files["/work dir/missing"];
        assert_eq!((missing.errors, missing.opens, missing.lookups), (1, 0, 0));
    }

    #[test]
    fn directories_of_paths() {
        for (path, expected) in [("/a/b", "/a"), ("/a", "/"), ("pipe:[3]", "pipe")] {
            assert_eq!(directory(path.as_bytes()), expected.as_bytes());
        }
    }
}
