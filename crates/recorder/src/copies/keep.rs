//! Stores what the kernel copied between files. The copying program is not delayed: the files are
//! read when the recording has ended.
//!
//! A source that has not changed since still holds what was copied. Its times show changes by
//! others; changes by the program itself are known to the trace's readers, who follow its writes.
//! If a source is gone, a file that it was copied to serves instead.
//!
//! The program chose the paths, and may have put something else there since. Files are opened with
//! the rights of the user who opened them, without blocking, and only if they are regular. A file
//! must be the recorded inode, or lie there without any link on the way. The data rules are applied
//! to each of its names, including its real path.

use std::ops::Range;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::time::{Duration, Instant};

use file_tree::{Inode, Tree};
use model::path;
use model::unseen::Fates;
use ring::DataMode;
use rustix::fs::{Stat, fstat, readlink};
use rustix::io::{Errno, pread};
use syscalls::record::SNAPSHOT_BYTES_MAX;
use trace::WriteError;
use trace::event::{BLOB_BYTES_MAX, BlobId};
use trace::sources::{Fate, PIECE_BYTES, Piece, Source, SourcesWriter};
use xxhash_rust::xxh3::xxh3_128;

use super::{Copied, Copies, Place, WHOLE_BYTES_MAX};
use crate::changes::{Paths, mark};
use crate::output::Output;
use crate::policy::{DataRules, stricter};
use crate::rights;

/// Pieces of one entry: a longer file has several entries.
const PIECES_MAX: usize = 64;
/// Time limit for reading, in addition to the duration of the recording.
const TIME_MAX: Duration = Duration::from_secs(10);
/// File times may lag behind the clock by this much.
const CLOCK_STEP: Duration = Duration::from_millis(10);

/// Conditions for reading.
pub(crate) struct Terms<'a> {
    /// Which contents are kept, by file.
    pub rules: &'a DataRules,
    /// Length at which buffers are cut.
    pub data_max: u64,
    /// Converts a time stamp to nanoseconds since 1970.
    pub clock: &'a dyn Fn(u64) -> u64,
    /// Duration of the recording.
    pub took: Duration,
    /// The trace file itself, which is never read.
    pub own: Option<Inode>,
    /// Whether files may have been written by requests that no call shows (io_uring, aio).
    pub has_requests: bool,
}

/// Reads what was copied and stores it in the trace.
pub(crate) fn keep(
    out: &mut Output,
    copies: Copies,
    paths: &Paths,
    terms: &Terms<'_>,
) -> Result<Fates, WriteError> {
    let mut fates = Fates::default();
    let Ok(tree) = Tree::open("/".as_ref()) else { return Ok(fates) };
    if copies.by_source.is_empty() {
        return Ok(fates);
    }
    let until = Instant::now() + TIME_MAX + terms.took;
    let mut keeper = Keeper { out, tree, paths, terms, until, sources: SourcesWriter::default() };
    for (source, copied) in copies.by_source {
        let fate = keeper.source(&copied)?;
        fates.add(&source, fate);
    }
    let Keeper { out, mut sources, .. } = keeper;
    out.sources_end(&mut sources)?;
    Ok(fates)
}

/// A file opened for reading.
struct Found {
    file: OwnedFd,
    stat: Stat,
    /// Strictest mode that the rules give for its names.
    mode: DataMode,
}

struct Keeper<'a> {
    out: &'a mut Output,
    tree: Tree,
    paths: &'a Paths,
    terms: &'a Terms<'a>,
    until: Instant,
    sources: SourcesWriter,
}

impl Keeper<'_> {
    fn source(&mut self, copied: &Copied) -> Result<Fate, WriteError> {
        let opened = &copied.source.path[..];
        let now = self.paths.last_name(opened);
        if self.terms.rules.of_path(opened) == DataMode::None {
            return self.tell(&now, opened, Fate::Withheld);
        }
        let marks = self.paths.marks(&now);
        let is_told = !self.paths.is_mapped(&now) && !self.terms.has_requests;
        if marks & mark::FRESH != 0 && is_told {
            return self.tell(&now, opened, Fate::Written);
        }
        let is_ours = marks & mark::TOUCHED != 0;
        let fate = match self.open(&copied.source, &now) {
            Ok(file) if !is_ours && self.is_changed(&file.stat, copied.first) => Fate::Changed,
            Ok(file) => match copied.wanted(file.stat.st_size as u64) {
                Some(ranges) => return self.read(&now, opened, &file, ranges),
                None => Fate::TooLong,
            },
            Err(Errno::NOENT | Errno::NOTDIR) => Fate::Gone,
            Err(Errno::STALE) => Fate::Changed,
            Err(_) => Fate::Unreadable,
        };
        // A target holds the same bytes unless it was overwritten, and the trace's readers know
        // that.
        for target in &copied.targets {
            let path = self.paths.last_name(&target.path);
            let Ok(file) = self.open(target, &path) else { continue };
            let size = file.stat.st_size as u64;
            if size <= WHOLE_BYTES_MAX.max(copied.somewhere.saturating_mul(2)) {
                return self.read(&path, opened, &file, std::iter::once(0..size).collect());
            }
        }
        self.tell(&now, opened, fate)
    }

    /// Opens a file that the program had opened, under its current name.
    fn open(&self, place: &Place, now: &[u8]) -> Result<Found, Errno> {
        let tree = &self.tree;
        let open = || tree.open_regular(&path::resolve(b"/", now), place.inode);
        let file = rights::with(place.user, open).unwrap_or(Err(Errno::ACCESS))?;
        let stat = fstat(&file)?;
        if self.terms.own == Some((stat.st_dev, stat.st_ino)) {
            return Err(Errno::INVAL);
        }
        let really = readlink(format!("/proc/self/fd/{}", file.as_raw_fd()), Vec::new())?;
        let mode = self.terms.rules.of_paths([&place.path[..], now, really.as_bytes()]);
        Ok(Found { file, stat, mode })
    }

    /// Whether a file has changed since a time stamp.
    fn is_changed(&self, stat: &Stat, since: u64) -> bool {
        let at = |seconds: i64, nanoseconds: u64| {
            Duration::new(u64::try_from(seconds).unwrap_or(0), 0)
                + Duration::from_nanos(nanoseconds)
        };
        let since = Duration::from_nanos((self.terms.clock)(since));
        at(stat.st_ctime, stat.st_ctime_nsec) + CLOCK_STEP > since
    }

    /// Records what became of a source of which nothing was read.
    fn tell(&mut self, path: &[u8], opened: &[u8], fate: Fate) -> Result<Fate, WriteError> {
        let names = vec![opened.to_vec()];
        let mut source = Source { path: path.to_vec(), names, fate, pieces: Vec::new() };
        self.out.source(&mut self.sources, &mut source)?;
        Ok(fate)
    }

    fn read(
        &mut self,
        path: &[u8],
        opened: &[u8],
        found: &Found,
        ranges: Vec<Range<u64>>,
    ) -> Result<Fate, WriteError> {
        let Found { file, stat, mode } = found;
        let mode = stricter(self.terms.rules.of_path(opened), *mode);
        if mode == DataMode::None {
            return self.tell(path, opened, Fate::Withheld);
        }
        let mut fate = Fate::Read;
        let mut pieces = Vec::new();
        let mut buffer = vec![0; PIECE_BYTES as usize];
        let mut total = 0;
        'ranges: for range in ranges {
            let mut at = range.start;
            while at < range.end {
                let len = PIECE_BYTES.min(range.end - at) as usize;
                fate = match fill(file, &mut buffer[..len], at) {
                    _ if Instant::now() >= self.until => Fate::NoRoom,
                    _ if total >= SNAPSHOT_BYTES_MAX => Fate::TooLong,
                    Ok(true) => match self.piece(mode, at, &buffer[..len]) {
                        Some(piece) => {
                            pieces.push(piece);
                            Fate::Read
                        }
                        None => Fate::NoRoom,
                    },
                    Ok(false) => Fate::Changed,
                    Err(_) => Fate::Unreadable,
                };
                if fate != Fate::Read {
                    break 'ranges;
                }
                (at, total) = (at + len as u64, total + len as u64);
            }
        }
        let times = |stat: &Stat| {
            (stat.st_size, stat.st_mtime, stat.st_mtime_nsec, stat.st_ctime, stat.st_ctime_nsec)
        };
        if fstat(file.as_fd()).is_ok_and(|now| times(&now) != times(stat)) {
            (fate, pieces) = (Fate::Changed, Vec::new());
        }
        let names = vec![opened.to_vec()];
        let mut source = Source { path: path.to_vec(), names, fate, pieces: Vec::new() };
        // An empty file has no pieces, but gets an entry all the same.
        let mut some = pieces.chunks(PIECES_MAX);
        source.pieces = some.next().unwrap_or_default().to_vec();
        self.out.source(&mut self.sources, &mut source)?;
        for more in some {
            source.pieces = more.to_vec();
            self.out.source(&mut self.sources, &mut source)?;
        }
        Ok(fate)
    }

    /// Stores a stretch, or its hash only. `None` if the trace has no room.
    fn piece(&mut self, mode: DataMode, offset: u64, bytes: &[u8]) -> Option<Piece> {
        let len = bytes.len() as u64;
        if mode != DataMode::Full || self.terms.data_max < len {
            let hash = Some(xxh3_128(bytes));
            return Some(Piece { offset, len, hash, blobs: Vec::new() });
        }
        let blobs: Option<Vec<BlobId>> =
            bytes.chunks(BLOB_BYTES_MAX).map(|part| self.out.blob_if_room(part)).collect();
        Some(Piece { offset, len, hash: None, blobs: blobs? })
    }
}

/// Fills the buffer from `at`. False if the file ends before.
fn fill(file: &OwnedFd, buffer: &mut [u8], mut at: u64) -> Result<bool, Errno> {
    let mut left = buffer;
    while !left.is_empty() {
        match pread(file, &mut *left, at) {
            Ok(0) => return Ok(false),
            Ok(read) => {
                at += read as u64;
                left = &mut left[read..];
            }
            Err(Errno::INTR) => {}
            Err(error) => return Err(error),
        }
    }
    Ok(true)
}
