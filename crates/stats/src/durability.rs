//! Data that a crash of the machine would lose: bytes written and not yet synced.

use std::cmp::Reverse;
use std::collections::HashMap;

use model::file_use::{self, FileUse};
use model::{FileId, Moment, Namespace, Paths, Synced, Touch};
use syscalls::mapping::Mapping;
use trace::event::{Call, EventKind};

use crate::pass::{Visit, Watch};
use crate::ranges::Ranges;
use crate::sheet::{Cell, Fact, Sheet, Table, ratio, share};
use crate::steps::STEPS_MAX;
use crate::view::ViewRow;

/// The view.
pub static VIEW: ViewRow = ViewRow {
    name: "durability",
    about: "Bytes written and not yet synced, per file and over time; renames without a sync",
    look: |look| {
        let durability = Durability::new(look.interval()?);
        Ok(look.watch(durability, |fold, files| fold.finish(files).sheet()))
    },
};

/// Limit for the ranges of all files together.
const RANGES_MAX: usize = 1 << 20;
/// Limits for the renames that are listed and for the bytes of their paths.
const RENAMES_MAX: usize = 10_000;
const RENAMES_BYTES_MAX: usize = 16 << 20;

/// Durability of a file.
#[derive(Clone, Debug, Default)]
pub struct Safety {
    /// Bytes written, counting overwritten bytes again.
    pub written_bytes: u64,
    /// Bytes written that a later sync covered, or that were written with O_SYNC or O_DSYNC.
    pub synced_bytes: u64,
    /// Syncs of this file alone.
    pub syncs: u64,
    /// Syncs with nothing new since the previous one.
    pub idle_syncs: u64,
    /// True if something besides the content changed since the last sync: existence, length, an
    /// attribute, or the entries of a directory.
    is_changed: bool,
    /// True if the program stores to a writable mapping of it, which no call shows.
    is_mapped: bool,
    /// Unsynced bytes, as ranges.
    dirty: Ranges,
    /// Bytes written since the last sync.
    pending_bytes: u64,
    /// Time of the first of those bytes.
    since_ns: Option<u64>,
    /// The longest time that bytes waited for a sync.
    pub longest_ns: u64,
    /// Time spent in syncs.
    pub sync_ns: u64,
    /// Unsynced bytes discarded by removing or truncating the file.
    pub dropped_bytes: u64,
    /// Bytes unsynced at the end.
    pub unsynced_bytes: u64,
}

impl Safety {
    fn clean(&mut self, ns: u64) -> u64 {
        if let Some(since) = self.since_ns.take() {
            self.longest_ns = self.longest_ns.max(ns.saturating_sub(since));
        }
        self.synced_bytes = self.synced_bytes.saturating_add(self.pending_bytes);
        self.pending_bytes = 0;
        self.is_changed = false;
        let cleaned = self.dirty.covered();
        self.dirty.clear();
        cleaned
    }

    /// Adds what is known of another file with the same path.
    fn add(&mut self, other: &Safety) {
        self.written_bytes = self.written_bytes.saturating_add(other.written_bytes);
        self.synced_bytes = self.synced_bytes.saturating_add(other.synced_bytes);
        self.syncs += other.syncs;
        self.idle_syncs += other.idle_syncs;
        self.longest_ns = self.longest_ns.max(other.longest_ns);
        self.sync_ns = self.sync_ns.saturating_add(other.sync_ns);
        self.dropped_bytes = self.dropped_bytes.saturating_add(other.dropped_bytes);
        self.unsynced_bytes = self.unsynced_bytes.saturating_add(other.dirty.covered());
    }
}

/// A rename of a file with unsynced bytes.
#[derive(Clone, Debug)]
pub struct Rename {
    /// Time of the rename.
    pub ns: u64,
    /// Its old path.
    pub from: Vec<u8>,
    /// Its new path.
    pub to: Vec<u8>,
    /// Number of unsynced bytes.
    pub unsynced_bytes: u64,
}

/// The fold that tracks writes and syncs.
pub struct Durability {
    files: HashMap<FileId, Safety>,
    interval_ns: u64,
    /// Maximum of unsynced bytes within each step, and their number at its end.
    steps: Vec<(u64, u64)>,
    unsynced: u64,
    ranges: usize,
    is_exact: bool,
    /// True if files may be written without a call (io_uring, Linux AIO).
    writes_unseen: bool,
    renames: Vec<Rename>,
    renames_bytes: usize,
    unsafe_renames: u64,
    all_renames: u64,
}

impl Durability {
    /// Makes an empty fold with time steps of this width.
    pub fn new(interval_ns: u64) -> Durability {
        Durability {
            files: HashMap::new(),
            interval_ns: interval_ns.max(1),
            steps: Vec::new(),
            unsynced: 0,
            ranges: 0,
            is_exact: true,
            writes_unseen: false,
            renames: Vec::new(),
            renames_bytes: 0,
            unsafe_renames: 0,
            all_renames: 0,
        }
    }

    fn note(&mut self, ns: u64) {
        let index = (ns / self.interval_ns).min(STEPS_MAX - 1) as usize;
        let last = self.steps.last().map_or(0, |(_, end)| *end);
        while self.steps.len() <= index {
            self.steps.push((last, last));
        }
        let step = &mut self.steps[index];
        step.0 = step.0.max(self.unsynced);
        step.1 = self.unsynced;
    }

    fn write(&mut self, touch: &Touch, ns: u64, wanted: bool) {
        for access in touch.accesses.iter().flatten().filter(|access| access.is_write) {
            let Some(offset) = access.offset else { continue };
            let safety = self.files.entry(access.file).or_default();
            if wanted {
                safety.written_bytes = safety.written_bytes.saturating_add(access.bytes);
            }
            if access.durable {
                if wanted {
                    safety.synced_bytes = safety.synced_bytes.saturating_add(access.bytes);
                }
                continue;
            }
            if !wanted {
                continue;
            }
            safety.pending_bytes = safety.pending_bytes.saturating_add(access.bytes);
            safety.since_ns.get_or_insert(ns);
            if self.ranges >= RANGES_MAX {
                self.is_exact = false;
                continue;
            }
            let (count, before) = (safety.dirty.count(), safety.dirty.covered());
            safety.dirty.add(offset, access.bytes);
            self.unsynced += safety.dirty.covered() - before;
            self.ranges = (self.ranges + safety.dirty.count()).saturating_sub(count);
        }
    }

    fn sync(&mut self, synced: Synced, from_ns: u64, to_ns: u64) {
        let cleaned = match synced {
            Synced::All => {
                self.ranges = 0;
                self.files.values_mut().fold(0u64, |sum, safety| sum + safety.clean(to_ns))
            }
            Synced::File(file) => {
                let writes_unseen = self.writes_unseen;
                let safety = self.files.entry(file).or_default();
                safety.syncs += 1;
                safety.sync_ns = safety.sync_ns.saturating_add(to_ns.saturating_sub(from_ns));
                let is_new = safety.pending_bytes != 0 || safety.is_changed || safety.is_mapped;
                safety.idle_syncs += u64::from(!is_new && !writes_unseen);
                self.ranges = self.ranges.saturating_sub(safety.dirty.count());
                safety.clean(to_ns)
            }
        };
        self.unsynced = self.unsynced.saturating_sub(cleaned);
    }

    /// Records changes that a sync makes durable besides written bytes.
    fn change(&mut self, touch: &Touch, call: &Call, used: &FileUse) {
        if call.success().is_none() {
            return;
        }
        self.writes_unseen |= used.writes_unseen;
        for directory in touch.directories.into_iter().flatten() {
            self.files.entry(directory).or_default().is_changed = true;
        }
        if used.changes || touch.created.is_some() {
            let by_fd = touch.by_fd.map(|(file, _)| file);
            for file in touch.by_path.into_iter().chain([touch.created, by_fd]).flatten() {
                self.files.entry(file).or_default().is_changed = true;
            }
        }
        if let Some((file, _)) = touch.by_fd
            && used.maps
            && Mapping::of(&call.args).changes_file()
        {
            self.files.entry(file).or_default().is_mapped = true;
        }
    }

    /// Drops unsynced bytes beyond a file's new length; 0 if it was removed.
    fn drop_beyond(&mut self, file: FileId, length: u64) {
        let Some(safety) = self.files.get_mut(&file) else { return };
        let (count, before) = (safety.dirty.count(), safety.dirty.covered());
        safety.dirty.truncate(length);
        let dropped = before - safety.dirty.covered();
        safety.dropped_bytes = safety.dropped_bytes.saturating_add(dropped);
        if safety.dirty.covered() == 0 {
            (safety.pending_bytes, safety.since_ns) = (0, None);
        }
        self.unsynced = self.unsynced.saturating_sub(dropped);
        self.ranges = (self.ranges + safety.dirty.count()).saturating_sub(count);
    }

    /// Counts the rename of a file, and lists it if bytes of it are not synced.
    fn renamed(&mut self, file: FileId, moment: &Moment<'_>) {
        self.all_renames += 1;
        let unsynced_bytes = self.files.get(&file).map_or(0, |safety| safety.dirty.covered());
        if unsynced_bytes == 0 {
            return;
        }
        self.unsafe_renames += 1;
        let [(_, from), (_, to), ..] = &moment.step.paths[..] else { return };
        self.renames_bytes += from.len() + to.len();
        if self.renames.len() < RENAMES_MAX && self.renames_bytes <= RENAMES_BYTES_MAX {
            let (from, to) = (from.clone(), to.clone());
            self.renames.push(Rename { ns: moment.enter_ns, from, to, unsynced_bytes });
        }
    }

    /// Returns the result.
    pub fn finish(self, files: &Namespace) -> SafetyOfFiles {
        let known = self.files.into_iter().filter(|(_, s)| s.written_bytes > 0 || s.syncs > 0);
        let mut known: Vec<(FileId, Safety)> = known.collect();
        known.sort_by_key(|(file, _)| *file);
        let (mut places, mut paths) = (HashMap::new(), Paths::of(files));
        let mut safety: Vec<(Vec<u8>, Safety)> = Vec::new();
        for (file, of) in &known {
            let path = paths.next(*file);
            let place = *places.entry(path.clone()).or_insert(safety.len());
            if place == safety.len() {
                safety.push((path, Safety::default()));
            }
            safety[place].1.add(of);
        }
        safety.sort_by_key(|(_, of)| Reverse(of.written_bytes));
        SafetyOfFiles {
            files: safety,
            interval_ns: self.interval_ns,
            steps: self.steps,
            unsynced: self.unsynced,
            renames: self.renames,
            unsafe_renames: self.unsafe_renames,
            all_renames: self.all_renames,
            is_exact: self.is_exact,
            writes_unseen: self.writes_unseen,
        }
    }
}

impl Watch for Durability {
    fn add(&mut self, visit: &mut Visit<'_>) {
        let (moment, wanted, touch) = (visit.moment, visit.wanted, visit.moment.touch);
        let EventKind::Call(call) = &moment.event.kind else { return };
        let used = file_use::of(call.nr);
        let may_matter = used.names_files() || used.writes_unseen;
        if !may_matter && used.sync == file_use::Sync::Nothing {
            return;
        }
        let end_ns = moment.exit_ns.unwrap_or(moment.enter_ns);
        self.change(touch, call, used);
        if let Some((file, length)) = touch.length {
            self.drop_beyond(file, length);
        }
        if let Some(gone) = touch.gone {
            self.drop_beyond(gone, 0);
        }
        if let Some(file) = touch.renamed {
            self.renamed(file, moment);
        }
        self.write(touch, moment.enter_ns, wanted);
        if let (Some(synced), true) = (touch.synced(call), wanted) {
            // The maximum is reached just before the sync.
            self.note(moment.enter_ns);
            self.sync(synced, moment.enter_ns, end_ns);
            self.note(end_ns.max(moment.enter_ns));
        } else {
            self.note(moment.enter_ns);
        }
    }
}

/// Durability of all files.
pub struct SafetyOfFiles {
    /// Paths of files that were written or synced, most written bytes first.
    pub files: Vec<(Vec<u8>, Safety)>,
    /// Width of a time step.
    pub interval_ns: u64,
    /// Maximum of unsynced bytes within each step, and their number at its end.
    pub steps: Vec<(u64, u64)>,
    /// Number of bytes unsynced at the end.
    pub unsynced: u64,
    /// The first renames of files with unsynced bytes.
    pub renames: Vec<Rename>,
    /// Number of renames of files with unsynced bytes.
    pub unsafe_renames: u64,
    /// Number of all renames.
    pub all_renames: u64,
    is_exact: bool,
    writes_unseen: bool,
}

impl SafetyOfFiles {
    /// Returns single values for all files together.
    pub fn facts(&self) -> Vec<Fact> {
        let sum = |of: fn(&Safety) -> u64| {
            self.files.iter().fold(0u64, |sum, (_, safety)| sum.saturating_add(of(safety)))
        };
        let written = sum(|s| s.written_bytes);
        let fact = |key, title, value| Fact { key, title, value };
        vec![
            fact("written_bytes", "written", Cell::Bytes(written)),
            fact("synced_share", "of it synced", share(sum(|s| s.synced_bytes), written)),
            fact("syncs", "syncs", Cell::Count(sum(|s| s.syncs))),
            fact("sync_ns", "time in syncs", Cell::Ns(sum(|s| s.sync_ns))),
            fact("most_unsynced_bytes", "most unsynced at once", Cell::Bytes(self.most_unsynced())),
            fact("unsynced_bytes", "unsynced at the end", Cell::Bytes(self.unsynced)),
            fact("renames", "renames", Cell::Count(self.all_renames)),
            fact("unsafe_renames", "without a sync before", Cell::Count(self.unsafe_renames)),
            fact("interval_ns", "", Cell::Ns(self.interval_ns)),
            fact("exact", "", Cell::word(if self.is_exact { "yes" } else { "no" })),
        ]
    }

    /// Returns the maximum number of unsynced bytes.
    pub fn most_unsynced(&self) -> u64 {
        self.steps.iter().map(|step| step.0).max().unwrap_or(0)
    }

    /// Returns the result as tables.
    pub fn sheet(&self) -> Sheet {
        let mut notes = vec![
            "Counted are fsync, fdatasync, sync, syncfs (as if of all files) and files opened with \
             O_SYNC or O_DSYNC; not sync_file_range, which leaves the size of a file out."
                .to_string(),
            "A sync is redundant when nothing was new since the one before: nothing written to the \
             file, no attribute changed, and no entry of the directory made, renamed or removed."
                .to_string(),
        ];
        if self.writes_unseen {
            notes.push(
                "The program also writes through io_uring or Linux AIO, of which the recording has no \
                 data: more was written than is shown here, and no sync counts as redundant."
                    .into(),
            );
        }
        if !self.is_exact {
            notes.push(
                "Too many places were written to remember all: unsynced is at least this.".into(),
            );
        }
        let over_time = self.over_time(self.most_unsynced());
        Sheet {
            facts: self.facts(),
            tables: vec![self.by_file(), over_time, self.renamed()],
            notes,
        }
    }

    fn by_file(&self) -> Table {
        let mut table = Table::new(
            "files",
            "Files",
            &[
                ("written_bytes", "written"),
                ("synced_share", "synced"),
                ("syncs", "syncs"),
                ("idle_syncs", "redundant"),
                ("sync_ns", "in syncs"),
                ("longest_ns", "longest wait"),
                ("unsynced_bytes", "unsynced"),
                ("dropped_bytes", "dropped"),
                ("path", "file"),
            ],
        )
        .further(&["longest_ns", "dropped_bytes"]);
        for (path, safety) in &self.files {
            table.row(vec![
                Cell::Bytes(safety.written_bytes),
                share(safety.synced_bytes, safety.written_bytes),
                Cell::Count(safety.syncs),
                Cell::Count(safety.idle_syncs),
                Cell::Ns(safety.sync_ns),
                // Nothing has waited where nothing was written and synced.
                if safety.synced_bytes > 0 { Cell::Ns(safety.longest_ns) } else { Cell::Nothing },
                Cell::Bytes(safety.unsynced_bytes),
                Cell::Bytes(safety.dropped_bytes),
                Cell::Name(path.clone()),
            ]);
        }
        table
    }

    fn over_time(&self, most: u64) -> Table {
        let mut table = Table::new(
            "steps",
            "Unsynced bytes over time",
            &[
                ("start_ns", "from"),
                ("most_unsynced_bytes", "at most"),
                ("unsynced_bytes", "at its end"),
                ("", " "),
            ],
        );
        table.fixed = true;
        for (index, (highest, end)) in self.steps.iter().enumerate() {
            table.row(vec![
                Cell::At(index as u64 * self.interval_ns),
                Cell::Bytes(*highest),
                Cell::Bytes(*end),
                Cell::Bar(ratio(*highest, most)),
            ]);
        }
        table
    }

    fn renamed(&self) -> Table {
        let title = "Renamed before what was written was synced";
        let columns =
            [("time_ns", "at"), ("unsynced_bytes", "unsynced"), ("from", "from"), ("to", "to")];
        let mut table = Table::new("unsynced_renames", title, &columns);
        for rename in &self.renames {
            table.row(vec![
                Cell::At(rename.ns),
                Cell::Bytes(rename.unsynced_bytes),
                Cell::Name(rename.from.clone()),
                Cell::Name(rename.to.clone()),
            ]);
        }
        table
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sample::{Made, call, open, watch};

    fn rename(from: &str, to: &str) -> Made {
        call("rename", &[1, 2], 0).with(0, from.as_bytes()).with(1, to.as_bytes())
    }

    fn look(calls: &[Made]) -> SafetyOfFiles {
        let (fold, files) = watch(Durability::new(1000), calls);
        fold.finish(&files)
    }

    fn safety(view: &SafetyOfFiles, path: &str) -> Safety {
        let found = view.files.iter().find(|(named, _)| named == path.as_bytes());
        found.expect("a file").1.clone()
    }

    #[test]
    fn syncs_cover_what_was_written_before() {
        let view = look(&[
            open("a", 0o101, 3),
            call("write", &[3, 0, 100], 100),
            call("pwrite64", &[3, 0, 50, 0], 50),
            call("fdatasync", &[3], 0).lasts(500),
            call("fsync", &[3], 0),
            call("write", &[3, 0, 7], 7),
            open("b", 0o4010101, 4),
            call("write", &[4, 0, 9], 9),
        ]);
        let a = safety(&view, "/work dir/a");
        assert_eq!((a.written_bytes, a.synced_bytes, a.syncs, a.idle_syncs), (157, 150, 2, 1));
        assert_eq!((a.unsynced_bytes, a.longest_ns, a.sync_ns), (7, 2500, 500));
        let b = safety(&view, "/work dir/b");
        assert_eq!((b.synced_bytes, b.unsynced_bytes), (9, 0));
        assert_eq!(view.unsynced, 7);
        assert_eq!(view.steps.iter().map(|step| step.0).max(), Some(100));
    }

    #[test]
    fn a_directory_is_synced_for_the_names_in_it() {
        let sync = || call("fsync", &[9], 0);
        let path = |name: &str, path: &str| call(name, &[0], 0).with(0, path.as_bytes());
        let view = look(&[
            open("d", 0o200000, 9),
            sync(), // Nothing has changed.
            open("d/new", 0o101, 3),
            sync(),
            sync(), // In vain.
            path("unlink", "d/new"),
            sync(),
            path("mkdir", "d/sub"),
            sync(),
            rename("d/sub", "d/other"),
            sync(),
            rename("d/other", "elsewhere"),
            sync(),
            path("mkdir", "elsewhere/deeper"),
            sync(), // In vain.
            call("fchmod", &[9, 0o700], 0),
            sync(),
        ]);
        let directory = safety(&view, "/work dir/d");
        assert_eq!((directory.syncs, directory.idle_syncs), (9, 3));
        // Nothing was written to it, so nothing of it was synced and nothing waited.
        let table = view.by_file();
        let row = table.rows.iter().find(|row| row[8] == Cell::Name(b"/work dir/d".into()));
        let row = row.expect("the directory");
        assert_eq!([&row[1], &row[5]], [&Cell::Nothing, &Cell::Nothing]);
    }

    #[test]
    fn syncs_of_what_no_write_tells_are_not_in_vain() {
        let sync = |fd| call("fsync", &[fd], 0);
        let calls = [
            open("empty", 0o301, 3),
            sync(3),
            call("ftruncate", &[3, 10], 0),
            sync(3),
            call("fallocate", &[3, 0, 0, 100], 0),
            sync(3),
            sync(3), // In vain.
            open("mapped", 2, 4),
            call("mmap", &[0, 4096, 3, 1, 4, 0], 0x10000),
            sync(4),
            sync(4),
            open("read", 0, 5),
            call("mmap", &[0, 4096, 1, 1, 5, 0], 0x20000),
            sync(5), // In vain.
        ];
        let view = look(&calls);
        let idle = |path| safety(&view, path).idle_syncs;
        assert_eq!(idle("/work dir/empty"), 1);
        assert_eq!((idle("/work dir/mapped"), idle("/work dir/read")), (0, 1));
        assert!(!view.sheet().notes.iter().any(|note| note.contains("io_uring")));
        let calls = [
            call("io_setup", &[8, 0x1000], 0),
            open("file", 2, 3),
            call("io_submit", &[1, 1, 0x2000], 1),
            sync(3),
        ];
        let view = look(&calls);
        assert_eq!(safety(&view, "/work dir/file").idle_syncs, 0);
        assert!(view.sheet().notes.iter().any(|note| note.contains("io_uring")));
    }

    #[test]
    fn renames_without_a_sync_are_told() {
        let write = |fd| call("write", &[fd, 0, 10], 10);
        let view = look(&[
            open("new", 0o101, 3),
            write(3),
            rename("new", "kept"),
            open("safe", 0o101, 4),
            write(4),
            call("fsync", &[4], 0),
            rename("safe", "also kept"),
            open("gone", 0o101, 5),
            write(5),
            call("unlink", &[0], 0).with(0, b"gone"),
        ]);
        assert_eq!((view.all_renames, view.unsafe_renames), (2, 1));
        assert_eq!(view.renames[0].to, b"/work dir/kept");
        assert_eq!(view.unsynced, 10);
        assert_eq!(safety(&view, "/work dir/gone").dropped_bytes, 10);
        let all = look(&[open("x", 1, 3), write(3), call("sync", &[], 0)]);
        assert_eq!(all.unsynced, 0);
    }
}
