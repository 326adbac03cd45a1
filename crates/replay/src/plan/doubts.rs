//! File ranges that two calls wrote at the same time: the last writer is unknown, so mismatches of
//! reads of these bytes prove nothing.

use std::collections::{HashMap, HashSet, VecDeque};
use std::ops::Range;

use super::claims::bytes::{Bytes, Does, common};
use super::claims::queues::ALL;
use crate::outcome::Doubt;

/// Number of stretches from which on a file has one only.
const DOUBTS_MAX: usize = 64;
/// Number of recent stretches kept.
const FILES_MAX: usize = 4096;
/// Number of recent renames kept.
const RENAMES_MAX: usize = 64;
/// Number of streams kept.
const STREAMS_MAX: usize = 1 << 16;

/// A range of a file that two calls wrote at the same time, and that no call has written since.
#[derive(Clone)]
struct Stretch {
    /// Hash of the file's path.
    file: u64,
    bytes: Range<u64>,
    /// The end of the file is in doubt as well.
    ends: bool,
    /// The file has lost that path: only descriptors from before know it by that.
    gone: bool,
    /// Message for users.
    why: &'static str,
    /// The clock of doubts when it was found.
    since: u64,
}

const TWO_WROTE: &str = "two calls wrote the same bytes at a time";
/// Why all of a file is in doubt, for users.
pub const BY_ANOTHER: &str = "it was written through another process's descriptor";
const WRITTEN_BEFORE: &str = "an operation in flight wrote to it, at a time that is not known";
const PLACE_OPEN: &str = "it is not known where calls wrote it";
/// Number of open files kept.
const OFFSETS_MAX: usize = 1 << 16;

impl Stretch {
    fn covers(&self, other: &Stretch) -> bool {
        self.file == other.file
            && self.bytes.start <= other.bytes.start
            && other.bytes.end <= self.bytes.end
            && (self.ends || !other.ends)
            && (!self.gone || other.gone)
    }

    /// Makes it cover another one, too, and all between them.
    fn widen(&mut self, other: &Stretch) {
        self.bytes = self.bytes.start.min(other.bytes.start)..self.bytes.end.max(other.bytes.end);
        self.ends |= other.ends;
        self.gone &= other.gone;
        self.since = other.since;
    }
}

/// A path by which descriptors may know a file that was renamed, and its path now.
struct Renamed {
    from: u64,
    to: u64,
    /// The two exchanged their paths: other descriptors know the other file by the same path.
    shared: bool,
}

/// All doubts about files and streams.
#[derive(Default)]
pub struct Doubts {
    stretches: VecDeque<Stretch>,
    renames: VecDeque<Renamed>,
    /// Per stream, the range from the first to the last byte written by two calls at once.
    mixed: HashMap<u64, Range<u64>>,
    /// Streams whose offsets are unknown.
    lost: HashSet<u64>,
    /// Open files whose offset may be another one in the replay.
    offsets: HashSet<usize>,
    /// Advances with each range.
    clock: u64,
}

impl Doubts {
    /// Whether any file range or offset is in doubt.
    pub fn any(&self) -> bool {
        !self.stretches.is_empty() || !self.offsets.is_empty()
    }

    /// The offset of an open file may be another one in the replay.
    pub fn lose_offset(&mut self, opened: usize) {
        if self.offsets.len() < OFFSETS_MAX {
            self.offsets.insert(opened);
        }
    }

    /// Whether a call depends on an offset in doubt. One that sets the offset settles it.
    pub fn has_lost_offset(&mut self, bytes: &Bytes) -> bool {
        let Some(opened) = bytes.moves.filter(|_| !self.offsets.is_empty()) else { return false };
        match bytes.does {
            Does::Seeks | Does::FindsEnd(_) => {
                self.offsets.remove(&opened);
                false
            }
            _ => self.offsets.contains(&opened),
        }
    }

    /// Adds what two overlapping writes or cuts leave in doubt.
    pub fn add(&mut self, a: &Bytes, b: &Bytes) {
        let stretches = a.stretch().zip(b.stretch());
        let (stretch, ends) = match (a.does, b.does, stretches) {
            (Does::Writes { .. }, Does::Writes { .. }, Some((a, b))) => (common(a, b), false),
            // Where the file ends does not depend on the order of two that append.
            (Does::Writes { at: one, .. }, Does::Writes { at: other, .. }, None) => {
                (Some(ALL), one != other)
            }
            (Does::Cuts(to), Does::Cuts(other), _) => (Some(to.min(other)..to.max(other)), true),
            // Bytes before the written range may or may not have survived the cut.
            (Does::Cuts(to), Does::Writes { .. }, Some((_, written)))
            | (Does::Writes { .. }, Does::Cuts(to), Some((written, _))) => {
                (Some(to..written.end), true)
            }
            (Does::Cuts(_), Does::Writes { .. }, None)
            | (Does::Writes { .. }, Does::Cuts(_), None) => (Some(ALL), true),
            _ => return,
        };
        let Some(bytes) = stretch.filter(|stretch| !stretch.is_empty()) else { return };
        self.remember(Stretch { file: a.file, bytes, ends, gone: false, why: TWO_WROTE, since: 0 });
    }

    /// An operation that writes is in flight, and will be planned where it was found completed.
    pub fn put_off(&mut self, write: &Bytes) {
        let bytes = write.stretch().unwrap_or(ALL);
        let ends = write.appends();
        let why = WRITTEN_BEFORE;
        self.remember(Stretch { file: write.file, bytes, ends, gone: false, why, since: 0 });
    }

    /// Marks a whole file and its end as unknown.
    pub fn lose_file(&mut self, file: u64, why: &'static str) {
        self.remember(Stretch { file, bytes: ALL, ends: true, gone: false, why, since: 0 });
    }

    /// Marks a file that was written at a place in doubt.
    pub fn lose_written(&mut self, file: u64) {
        self.lose_file(file, PLACE_OPEN);
    }

    /// A call moved an unknown number of bytes of a stream: offsets of other calls are unreliable
    /// after this.
    pub fn lose(&mut self, queue: u64) {
        if (self.lost.len() < STREAMS_MAX && self.lost.insert(queue))
            && let Some(mixed) = self.mixed.get_mut(&queue)
        {
            *mixed = ALL;
        }
    }

    /// Calls [`Doubts::lose`] for several streams.
    pub fn lose_all(&mut self, queues: &[u64]) {
        queues.iter().for_each(|queue| self.lose(*queue));
    }

    /// Two calls wrote these bytes of a stream at the same time.
    pub fn mix(&mut self, queue: u64, bytes: Range<u64>) {
        let lost = self.lost.contains(&queue);
        if let Some(mixed) = self.mixed.get_mut(&queue) {
            *mixed = mixed.start.min(bytes.start)..mixed.end.max(bytes.end);
        } else if self.mixed.len() < STREAMS_MAX {
            self.mixed.insert(queue, if lost { ALL } else { bytes });
        }
    }

    /// Whether any of these bytes of a stream are mixed.
    pub fn are_mixed(&self, queue: u64, bytes: Range<u64>) -> bool {
        self.mixed.get(&queue).is_some_and(|mixed| common(mixed.clone(), bytes).is_some())
    }

    /// Like `are_mixed`, for bytes that are read: all before their end is gone then.
    pub fn take(&mut self, queue: u64, bytes: Range<u64>) -> bool {
        let are = self.are_mixed(queue, bytes.clone());
        if bytes != ALL
            && let Some(mixed) = self.mixed.get_mut(&queue)
            && mixed.end != ALL.end
        {
            mixed.start = mixed.start.max(bytes.end);
            if mixed.is_empty() {
                self.mixed.remove(&queue);
            }
        }
        are
    }

    /// A stretch found by a path that the file has no more is also at the path that it has now.
    fn remember(&mut self, stretch: Stretch) {
        let of_file = self.renames.iter().filter(|renamed| renamed.from == stretch.file);
        let now: Vec<(u64, bool)> = of_file.map(|now| (now.to, now.shared)).collect();
        for &(file, _) in &now {
            self.keep(Stretch { file, ..stretch.clone() });
        }
        self.keep(Stretch { gone: now.iter().any(|(_, shared)| !shared), ..stretch });
    }

    fn keep(&mut self, mut stretch: Stretch) {
        self.clock += 1;
        stretch.since = self.clock;
        if let Some(other) = self.stretches.iter_mut().find(|other| other.covers(&stretch)) {
            other.since = stretch.since;
            return;
        }
        self.stretches.retain(|other| !stretch.covers(other));
        if self.stretches.len() >= DOUBTS_MAX
            && let Some(other) = self.stretches.iter_mut().find(|it| it.file == stretch.file)
        {
            return other.widen(&stretch);
        }
        if self.stretches.len() >= FILES_MAX {
            let gone = self.stretches.iter().position(|stretch| stretch.gone);
            self.stretches.remove(gone.unwrap_or(0));
        }
        self.stretches.push_back(stretch);
    }

    /// Whether a call looks at a range in doubt, or at an end that may be in one.
    pub fn concern(&self, bytes: &Bytes) -> bool {
        let concerns = |stretch: &Stretch| match bytes.does {
            Does::Reads { at: Some(at), asked, .. } => {
                common(at..at.saturating_add(asked), stretch.bytes.clone()).is_some()
            }
            Does::Reads { at: None, .. } => true,
            Does::FindsEnd(end) => stretch.ends && stretch.bytes.end >= end,
            _ => false,
        };
        self.stretches.iter().any(|stretch| stretch.file == bytes.file && concerns(stretch))
    }

    /// Whether it is in doubt where a file ends.
    pub fn has_end(&self, file: u64) -> bool {
        self.stretches.iter().any(|stretch| stretch.file == file && stretch.ends)
    }

    /// A path now belongs to another file.
    pub fn replaced(&mut self, file: u64) {
        self.stretches.retain(|stretch| stretch.file != file);
        self.renames.retain(|renamed| renamed.from != file && renamed.to != file);
    }

    /// A path is gone. Its file may still be open.
    pub fn removed(&mut self, file: u64) {
        let stretches = self.stretches.iter_mut().filter(|stretch| stretch.file == file);
        stretches.for_each(|stretch| stretch.gone = true);
    }

    /// A file has a new path. Descriptors know it by the old one.
    pub fn renamed(&mut self, from: u64, to: u64) {
        if from != to {
            self.linked(from, to);
            self.removed(from);
            let chain = self.renames.iter_mut().filter(|renamed| renamed.to == from);
            chain.for_each(|renamed| renamed.to = to);
            self.renames.retain(|renamed| renamed.from != from || renamed.shared);
            self.remember_rename(Renamed { from, to, shared: false });
        }
    }

    /// Two files have each other's path. Descriptors know each by its old one.
    pub fn exchanged(&mut self, one: u64, other: u64) {
        if one == other {
            return;
        }
        let moved = |file| if file == one { other } else { one };
        let mut more = Vec::new();
        for stretch in &mut self.stretches {
            if [one, other].contains(&stretch.file) && !stretch.gone {
                more.push(Stretch { file: moved(stretch.file), ..stretch.clone() });
                stretch.gone = true;
            }
        }
        more.into_iter().for_each(|stretch| self.keep(stretch));
        let chain = self.renames.iter_mut().filter(|old| [one, other].contains(&old.to));
        chain.for_each(|renamed| renamed.to = moved(renamed.to));
        self.remember_rename(Renamed { from: one, to: other, shared: true });
        self.remember_rename(Renamed { from: other, to: one, shared: true });
    }

    fn remember_rename(&mut self, renamed: Renamed) {
        if self.renames.len() == RENAMES_MAX {
            self.renames.pop_front();
        }
        self.renames.push_back(renamed);
    }

    /// Copies a file's doubts to an additional path.
    pub fn linked(&mut self, from: u64, to: u64) {
        if from != to {
            self.replaced(to);
            let is_there = |stretch: &&Stretch| stretch.file == from && !stretch.gone;
            let both = self.stretches.iter().filter(is_there);
            let more: Vec<_> =
                both.map(|stretch| Stretch { file: to, ..stretch.clone() }).collect();
            more.into_iter().for_each(|stretch| self.keep(stretch));
        }
    }

    /// Returns all files with doubts left, by hashes of their paths.
    pub fn left(&self) -> HashMap<u64, Doubt> {
        let mut left = HashMap::new();
        for stretch in self.stretches.iter().filter(|stretch| !stretch.gone) {
            let why = stretch.why;
            left.entry(stretch.file).or_insert(Doubt { why, ends: false, all: false }).ends |=
                stretch.ends;
        }
        left
    }

    /// The clock, which a call notes as it begins.
    pub fn clock(&self) -> u64 {
        self.clock
    }

    /// A write that has ended settles the bytes that it covers, except in the middle of a range:
    /// then the whole range stays in doubt. So do ranges found since it began: they may be its own.
    pub fn settle(&mut self, bytes: &Bytes, began: u64) {
        let is_shared = |renamed: &Renamed| renamed.shared && renamed.from == bytes.file;
        // By a path that two files share, nobody knows which one it wrote.
        if self.stretches.is_empty() || self.renames.iter().any(is_shared) {
            return;
        }
        let Some(written) = bytes.stretch() else { return };
        for Stretch { file, bytes: other, since, .. } in &mut self.stretches {
            if *file != bytes.file || *since > began {
                continue;
            }
            if written.start <= other.start && other.start < written.end {
                other.start = written.end.min(other.end);
            }
            if written.start < other.end && other.end <= written.end {
                other.end = written.start.max(other.start);
            }
        }
        self.stretches.retain(|stretch| !stretch.bytes.is_empty());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn call(does: Does) -> Bytes {
        Bytes { file: 1, moves: None, does }
    }

    #[test]
    fn no_doubt_is_forgotten_for_many_others() {
        let mut doubts = Doubts::default();
        let write = |at| call(Does::Writes { at: Some(at), len: 10 });
        let read = |at| call(Does::Reads { at: Some(at), asked: 1, got: 1 });
        for at in 0..1000 {
            doubts.add(&write(at * 100), &write(at * 100));
            doubts.lose_written(1000 + at);
        }
        assert!((0..1000).all(|at| doubts.concern(&read(at * 100 + 9))));
        let other = |file| Bytes { file, ..read(0) };
        assert!(
            (1000..2000).all(|file| doubts.concern(&other(file))) && !doubts.concern(&other(5))
        );
        doubts.put_off(&write(1_000_000));
        assert!(doubts.concern(&read(1_000_005)) && !doubts.concern(&read(1_000_010)));
        doubts.settle(&call(Does::Writes { at: Some(0), len: 1_000_010 }), doubts.clock());
        assert!(!doubts.concern(&read(5)) && !doubts.concern(&read(1_000_005)));
    }

    fn writes(at: u64, len: u64) -> Bytes {
        call(Does::Writes { at: Some(at), len })
    }

    fn reads(at: u64, asked: u64) -> Bytes {
        call(Does::Reads { at: Some(at), asked, got: 0 })
    }

    fn settle(doubts: &mut Doubts, bytes: &Bytes) {
        doubts.settle(bytes, doubts.clock());
    }

    #[test]
    fn what_two_wrote_is_in_doubt_until_one_writes_it() {
        let mut doubts = Doubts::default();
        doubts.add(&writes(0, 100), &writes(50, 100));
        assert!(doubts.concern(&reads(90, 100)) && doubts.concern(&reads(0, 51)));
        assert!(!doubts.concern(&reads(0, 50)) && !doubts.concern(&reads(100, 50)));
        assert!(!doubts.concern(&Bytes { file: 2, ..reads(60, 10) }));
        settle(&mut doubts, &writes(40, 30));
        assert!(!doubts.concern(&reads(50, 20)) && doubts.concern(&reads(50, 21)));
        settle(&mut doubts, &writes(70, 30));
        assert!(!doubts.any());
        doubts.add(&writes(0, 100), &writes(100, 100));
        assert!(!doubts.any(), "they have nothing in common");
    }

    #[test]
    fn where_a_file_ends_is_in_doubt_when_it_was_cut_off_beside_a_write() {
        let mut doubts = Doubts::default();
        doubts.add(&call(Does::Cuts(10)), &writes(50, 100));
        assert!(doubts.concern(&reads(10, 1)), "all before what was written may be there");
        assert!(doubts.concern(&call(Does::FindsEnd(150))));
        assert!(!doubts.concern(&reads(0, 10)) && !doubts.concern(&call(Does::FindsEnd(151))));
        settle(&mut doubts, &call(Does::Cuts(0)));
        assert!(!doubts.any());
        doubts.add(&writes(0, 100), &writes(50, 50));
        assert!(!doubts.concern(&call(Does::FindsEnd(100))), "both ended there");
        doubts.replaced(1);
        doubts.add(&call(Does::Cuts(10)), &call(Does::Cuts(10)));
        doubts.add(&reads(0, 100), &writes(0, 100));
        assert!(!doubts.any());
        doubts.add(&call(Does::Cuts(10)), &call(Does::Cuts(20)));
        assert!(doubts.concern(&call(Does::FindsEnd(20))) && doubts.concern(&reads(15, 1)));
    }

    #[test]
    fn a_write_settles_only_what_was_in_doubt_before_it() {
        let mut doubts = Doubts::default();
        let began = doubts.clock();
        doubts.add(&writes(0, 100), &writes(0, 100));
        doubts.settle(&writes(0, 100), began);
        assert!(doubts.any(), "it is one of those two");
        let began = doubts.clock();
        doubts.add(&writes(0, 50), &writes(0, 50));
        doubts.settle(&writes(0, 100), began);
        assert!(doubts.concern(&reads(0, 1)), "others wrote it beside it");
        settle(&mut doubts, &writes(0, 100));
        assert!(!doubts.any());
    }

    #[test]
    fn an_offset_is_in_doubt_until_it_is_set() {
        let mut doubts = Doubts::default();
        let moves = |does| Bytes { moves: Some(7), ..call(does) };
        let read = moves(Does::Reads { at: Some(0), asked: 1, got: 1 });
        assert!(!doubts.has_lost_offset(&read));
        doubts.lose_offset(7);
        assert!(doubts.any() && doubts.has_lost_offset(&read));
        assert!(!doubts.has_lost_offset(&reads(0, 1)), "it has a place of its own");
        assert!(!doubts.has_lost_offset(&Bytes { moves: Some(8), ..read }));
        assert!(doubts.has_lost_offset(&moves(Does::FindsOffset)));
        assert!(!doubts.has_lost_offset(&moves(Does::Seeks)));
        assert!(!doubts.has_lost_offset(&read) && !doubts.any());
    }

    #[test]
    fn where_a_file_ends_depends_on_who_appended_only_if_another_did_not() {
        let append = call(Does::Writes { at: None, len: 10 });
        let mut doubts = Doubts::default();
        doubts.add(&append, &append);
        assert!(!doubts.has_end(1));
        doubts.add(&append, &writes(5, 10));
        assert!(doubts.has_end(1) && !doubts.has_end(2));
    }

    fn ends(doubts: &Doubts) -> Vec<(u64, bool)> {
        doubts.left().into_iter().map(|(file, doubt)| (file, doubt.ends)).collect()
    }

    #[test]
    fn what_two_appended_leaves_all_of_the_file_in_doubt() {
        let mut doubts = Doubts::default();
        let appends = call(Does::Writes { at: None, len: 10 });
        doubts.add(&appends, &appends);
        settle(&mut doubts, &writes(0, 100));
        let anywhere = call(Does::Reads { at: None, asked: 10, got: 10 });
        assert!(doubts.concern(&reads(5000, 1)) && doubts.concern(&anywhere));
        assert!(!doubts.concern(&call(Does::FindsEnd(20))), "both are there");
        doubts.renamed(1, 2);
        assert!(doubts.concern(&reads(5000, 1)), "by a descriptor from before");
        assert_eq!(ends(&doubts), [(2, false)]);
        doubts.renamed(2, 1);
        doubts.add(&call(Does::Cuts(10)), &appends);
        assert_eq!(ends(&doubts), [(1, true)]);
        settle(&mut doubts, &call(Does::Cuts(0)));
        doubts.replaced(2);
        assert!(!doubts.any());
        doubts.add(&writes(0, 10), &writes(5, 10));
        assert!(doubts.concern(&anywhere), "it may read these");
        doubts.linked(1, 4);
        assert_eq!(doubts.stretches.len(), 2);
        doubts.renamed(3, 1);
        doubts.renamed(3, 4);
        assert!(!doubts.any(), "those paths are other files' now");
    }

    #[test]
    fn what_is_found_by_an_old_path_is_in_doubt_at_the_new_one() {
        let mut doubts = Doubts::default();
        doubts.renamed(1, 2);
        doubts.renamed(2, 3);
        doubts.add(&writes(0, 10), &writes(5, 10));
        assert_eq!(ends(&doubts), [(3, false)]);
        assert!(doubts.concern(&reads(0, 10)), "by a descriptor from before");
        doubts.replaced(1);
        assert!(!doubts.concern(&reads(0, 10)), "another file is there");
        doubts.add(&writes(0, 10), &call(Does::Cuts(0)));
        let mut left = ends(&doubts);
        left.sort_unstable();
        assert_eq!(left, [(1, true), (3, false)]);
    }

    #[test]
    fn what_is_in_doubt_is_exchanged_with_the_paths() {
        let mut doubts = Doubts::default();
        let of = |file, bytes: Bytes| Bytes { file, ..bytes };
        doubts.add(&writes(0, 10), &writes(5, 10));
        doubts.exchanged(1, 2);
        assert_eq!(ends(&doubts), [(2, false)]);
        assert!(doubts.concern(&of(2, reads(0, 10))));
        assert!(doubts.concern(&reads(0, 10)), "by a descriptor from before");
        settle(&mut doubts, &of(2, writes(0, 100)));
        assert!(doubts.concern(&of(2, reads(0, 10))), "perhaps it wrote the other one");
        // Who finds a doubt by either path now may mean each of both.
        doubts.add(&call(Does::Cuts(10)), &call(Does::Cuts(20)));
        let mut left = ends(&doubts);
        left.sort_unstable();
        assert_eq!(left, [(1, true), (2, true)]);
        doubts.renamed(2, 3);
        doubts.replaced(1);
        assert_eq!(ends(&doubts), [(3, true)]);
        doubts.exchanged(3, 3);
        doubts.exchanged(3, 4);
        assert_eq!(ends(&doubts), [(4, true)]);
        for _ in 0..RENAMES_MAX {
            doubts.exchanged(3, 4);
        }
        assert_eq!(doubts.renames.len(), RENAMES_MAX);
    }

    #[test]
    fn what_is_removed_is_in_doubt_while_it_is_open() {
        let mut doubts = Doubts::default();
        doubts.add(&writes(0, 10), &writes(5, 10));
        doubts.removed(1);
        assert!(doubts.concern(&reads(0, 10)) && ends(&doubts).is_empty());
        doubts.add(&writes(0, 5), &writes(0, 5));
        assert_eq!(ends(&doubts), [(1, false)], "perhaps another file is there");
    }

    #[test]
    fn what_two_wrote_to_a_stream_is_in_doubt_where_it_went_by() {
        let mut doubts = Doubts::default();
        doubts.mix(1, 10..20);
        assert!(doubts.are_mixed(1, 19..30) && !doubts.are_mixed(1, 20..40));
        assert!(!doubts.are_mixed(2, ALL) && !doubts.any(), "that is of files");
        doubts.mix(1, 40..50);
        assert!(!doubts.take(1, 0..10) && doubts.take(1, 10..30));
        assert!(!doubts.are_mixed(1, 10..30) && doubts.are_mixed(1, 30..31));
        assert!(doubts.take(1, 45..60) && doubts.mixed.is_empty());
        doubts.mix(1, 60..70);
        doubts.lose(2);
        assert!(!doubts.are_mixed(2, ALL), "nobody mixed anything");
        doubts.lose_all(&[1]);
        doubts.mix(2, 0..1);
        assert!(doubts.take(1, 50..60) && doubts.take(1, 0..10) && doubts.take(2, ALL));
    }

    #[test]
    fn no_more_is_remembered_than_there_is_room() {
        let mut doubts = Doubts::default();
        for at in 0..2 * DOUBTS_MAX as u64 {
            doubts.add(&writes(at * 10, 5), &writes(at * 10, 5));
            doubts.add(&writes(at * 10, 4), &writes(at * 10, 4));
        }
        assert_eq!(doubts.stretches.len(), DOUBTS_MAX);
        doubts.add(&writes(0, 10_000), &writes(0, 10_000));
        assert_eq!(doubts.stretches.len(), 1, "that holds all others");
    }
}
