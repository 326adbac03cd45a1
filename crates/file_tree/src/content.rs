//! Computes checksums of regular files.

use std::ops::Range;
use std::os::fd::BorrowedFd;
use std::panic::resume_unwind;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread::{self, Builder};

use rustix::fs::{SeekFrom, Stat, fstat, seek};
use rustix::io::{Errno, pread};
use trace::manifest::{Content, LEAF_BYTES, Sums, piece_bytes};
use twox_hash::XxHash3_128;

use crate::want::Want;

/// Bytes read at a time: few enough to stay in the cache until they are hashed.
const READ_BYTES: usize = 256 << 10;
/// Maximum number of threads that read one file.
const READERS_MAX: usize = 4;
/// Maximum bytes of holes that are hashed as zeros.
const HOLE_BYTES_MAX: u64 = 16 << 30;
/// Unit of `st_blocks`.
const BLOCK_BYTES: u64 = 512;

/// Hashes an open file, which had this `stat` when it was looked at.
pub fn sum(file: BorrowedFd<'_>, stat: &Stat, want: Want) -> Content {
    let size = stat.st_size as u64;
    if size.saturating_sub(stat.st_blocks as u64 * BLOCK_BYTES) > HOLE_BYTES_MAX {
        return Content::TooLong;
    }
    let pieces = match want {
        Want::Nothing | Want::Attributes => return Content::None,
        Want::Whole => 0,
        Want::Pieces(0) => piece_bytes(size),
        Want::Pieces(bytes) => bytes,
    };
    let mut summer = Summer::new(pieces);
    let holes = stat.st_blocks as u64 * BLOCK_BYTES < size;
    let found = match size > LEAF_BYTES && pieces <= LEAF_BYTES {
        true => read_by_several(file, size, holes, &mut summer),
        false => read(file, size, holes, &mut summer),
    };
    match found {
        Ok(true) => {}
        Ok(false) => return Content::Unsteady,
        Err(_) => return Content::Unreadable,
    }
    let after = |stat: &Stat| {
        (stat.st_size, stat.st_mtime, stat.st_mtime_nsec, stat.st_ctime, stat.st_ctime_nsec)
    };
    match fstat(file) {
        Ok(now) if after(&now) == after(stat) => Content::Hashed(summer.finish()),
        _ => Content::Unsteady,
    }
}

/// Reads and hashes a file. False if it is shorter than `size`.
fn read(file: BorrowedFd<'_>, size: u64, holes: bool, summer: &mut Summer) -> Result<bool, Errno> {
    let mut buffer = vec![0; READ_BYTES.min(size as usize + 1)];
    let mut at = 0;
    let mut data_until = if holes { 0 } else { size };
    while at < size {
        if at >= data_until {
            let start = match seek(file, SeekFrom::Data(at)) {
                Ok(start) => start.min(size),
                Err(Errno::NXIO) => size,
                // Not every file system reports holes.
                Err(_) => at,
            };
            summer.zeros(start - at);
            at = start;
            data_until = seek(file, SeekFrom::Hole(at)).unwrap_or(size).clamp(at, size);
            if at == size {
                break;
            }
            // A hole that was made just now is read like data.
            data_until = data_until.max(at + 1);
        }
        let wanted = buffer.len().min((data_until - at) as usize);
        match pread(file, &mut buffer[..wanted], at) {
            Ok(0) => return Ok(false),
            Ok(read) => {
                summer.add(&buffer[..read]);
                at += read as u64;
            }
            Err(Errno::INTR) => {}
            Err(error) => return Err(error),
        }
    }
    Ok(true)
}

/// Whether a part of a file is nothing but a hole. Not every file system tells.
fn is_hole(file: BorrowedFd<'_>, part: Range<u64>) -> bool {
    match seek(file, SeekFrom::Data(part.start)) {
        Ok(data) => data >= part.end,
        Err(error) => error == Errno::NXIO,
    }
}

/// The checksums of one leaf of a file.
struct Leaf {
    number: u64,
    sum: u128,
    pieces: Vec<u64>,
}

/// Hashes a file leaf by leaf on several processors. False if it is too short.
fn read_by_several(
    file: BorrowedFd<'_>,
    size: u64,
    holes: bool,
    summer: &mut Summer,
) -> Result<bool, Errno> {
    let next = AtomicU64::new(0);
    let body = || read_leaves(file, size, (summer.piece_bytes, holes), &next);
    let helpers =
        thread::available_parallelism().map_or(1, |count| count.get().min(READERS_MAX)) - 1;
    let shares = thread::scope(|scope| {
        // If no more threads can be started, this one does the rest.
        let helpers: Vec<_> =
            (0..helpers).map_while(|_| Builder::new().spawn_scoped(scope, body).ok()).collect();
        let own = body();
        let theirs = helpers.into_iter().map(|it| it.join().unwrap_or_else(|p| resume_unwind(p)));
        theirs.chain([own]).collect::<Vec<_>>()
    });
    let mut leaves = Vec::new();
    for share in shares {
        match share? {
            Some(some) => leaves.extend(some),
            None => return Ok(false),
        }
    }
    leaves.sort_unstable_by_key(|leaf: &Leaf| leaf.number);
    for leaf in leaves {
        summer.leaves.push(leaf.sum);
        summer.pieces.extend(leaf.pieces);
    }
    Ok(true)
}

/// Hashes leaves that no other thread has taken. `None` if the file is shorter than `size`.
fn read_leaves(
    file: BorrowedFd<'_>,
    size: u64,
    (piece_bytes, holes): (u64, bool),
    next: &AtomicU64,
) -> Result<Option<Vec<Leaf>>, Errno> {
    let mut buffer = vec![0; READ_BYTES];
    let mut leaves = Vec::new();
    let mut of_hole: Option<Sums> = None;
    loop {
        let number = next.fetch_add(1, Ordering::Relaxed);
        let mut at = number * LEAF_BYTES;
        if at >= size {
            return Ok(Some(leaves));
        }
        let end = size.min(at + LEAF_BYTES);
        if holes && end - at == LEAF_BYTES && is_hole(file, at..end) {
            let Sums { whole: sum, pieces, .. } = of_hole.get_or_insert_with(|| {
                let mut summer = Summer::new(piece_bytes);
                summer.zeros(LEAF_BYTES);
                summer.finish()
            });
            leaves.push(Leaf { number, sum: *sum, pieces: pieces.clone() });
            continue;
        }
        let mut summer = Summer::new(piece_bytes);
        while at < end {
            let wanted = buffer.len().min((end - at) as usize);
            match pread(file, &mut buffer[..wanted], at) {
                Ok(0) => return Ok(None),
                Ok(read) => {
                    summer.add(&buffer[..read]);
                    at += read as u64;
                }
                Err(Errno::INTR) => {}
                Err(error) => return Err(error),
            }
        }
        // For a single leaf this is the checksum of the whole.
        let Sums { whole: sum, pieces, .. } = summer.finish();
        leaves.push(Leaf { number, sum, pieces });
    }
}

/// Computes the checksum of the whole, from those of its leaves, and those of pieces.
struct Summer {
    leaves: Vec<u128>,
    /// Hash of the unfinished leaf, and its bytes so far.
    leaf: XxHash3_128,
    in_leaf: u64,
    piece_bytes: u64,
    pieces: Vec<u64>,
    /// Hash of the unfinished piece, and its bytes so far.
    piece: XxHash3_128,
    in_piece: u64,
}

impl Summer {
    fn new(piece_bytes: u64) -> Summer {
        Summer {
            leaves: Vec::new(),
            leaf: XxHash3_128::new(),
            in_leaf: 0,
            piece_bytes,
            pieces: Vec::new(),
            piece: XxHash3_128::new(),
            in_piece: 0,
        }
    }

    fn add(&mut self, bytes: &[u8]) {
        self.add_to_leaves(bytes);
        if self.piece_bytes > 0 {
            self.add_to_pieces(bytes);
        }
    }

    fn add_to_leaves(&mut self, mut rest: &[u8]) {
        while !rest.is_empty() {
            let room = (LEAF_BYTES - self.in_leaf).min(rest.len() as u64) as usize;
            let (part, after) = rest.split_at(room);
            rest = after;
            self.leaf.write(part);
            self.in_leaf += part.len() as u64;
            if self.in_leaf == LEAF_BYTES {
                self.close_leaf();
            }
        }
    }

    fn add_to_pieces(&mut self, mut rest: &[u8]) {
        while !rest.is_empty() {
            let room = (self.piece_bytes - self.in_piece).min(rest.len() as u64) as usize;
            let (part, after) = rest.split_at(room);
            rest = after;
            if self.in_piece == 0 && part.len() as u64 == self.piece_bytes {
                self.pieces.push(XxHash3_128::oneshot(part) as u64);
                continue;
            }
            self.piece.write(part);
            self.in_piece += part.len() as u64;
            if self.in_piece == self.piece_bytes {
                self.close_piece();
            }
        }
    }

    fn zeros(&mut self, mut count: u64) {
        static ZEROS: [u8; 64 << 10] = [0; 64 << 10];
        while count > 0 {
            let part = count.min(ZEROS.len() as u64);
            self.add(&ZEROS[..part as usize]);
            count -= part;
        }
    }

    fn close_leaf(&mut self) {
        let leaf = std::mem::replace(&mut self.leaf, XxHash3_128::new());
        self.leaves.push(leaf.finish_128());
        self.in_leaf = 0;
    }

    fn close_piece(&mut self) {
        let piece = std::mem::replace(&mut self.piece, XxHash3_128::new());
        self.pieces.push(piece.finish_128() as u64);
        self.in_piece = 0;
    }

    fn finish(mut self) -> Sums {
        if self.in_leaf > 0 || self.leaves.is_empty() {
            self.close_leaf();
        }
        if self.in_piece > 0 {
            self.close_piece();
        }
        let whole = match self.leaves[..] {
            [only] => only,
            ref several => {
                let sums: Vec<u8> = several.iter().flat_map(|sum| sum.to_le_bytes()).collect();
                XxHash3_128::oneshot(&sums)
            }
        };
        Sums { whole, piece_bytes: self.piece_bytes, pieces: self.pieces }
    }
}

#[cfg(test)]
mod tests {
    use std::fs::File;
    use std::io::{Seek, SeekFrom, Write};
    use std::os::fd::AsFd;

    use super::*;

    fn sums(file: &File, want: Want) -> Sums {
        match sum(file.as_fd(), &fstat(file).unwrap(), want) {
            Content::Hashed(sums) => sums,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn holes_are_zeros() {
        let mut sparse = tempfile::tempfile().unwrap();
        let mut bytes = vec![0; 3_000_000];
        for (at, text) in [(5000, &b"first"[..]), (2_000_000, b"second")] {
            sparse.seek(SeekFrom::Start(at)).unwrap();
            sparse.write_all(text).unwrap();
            bytes[at as usize..at as usize + text.len()].copy_from_slice(text);
        }
        sparse.set_len(bytes.len() as u64).unwrap();
        let found = sums(&sparse, Want::Pieces(0));
        assert_eq!(found.whole, XxHash3_128::oneshot(&bytes));
        let pieces = bytes.chunks(4096).map(|piece| XxHash3_128::oneshot(piece) as u64);
        assert_eq!(found.pieces, pieces.collect::<Vec<_>>());
        assert_eq!(sums(&sparse, Want::Whole).whole, found.whole);
        let large = sums(&sparse, Want::Pieces(1 << 20));
        let pieces = bytes.chunks(1 << 20).map(|piece| XxHash3_128::oneshot(piece) as u64);
        assert_eq!(large.pieces, pieces.collect::<Vec<_>>());
    }

    #[test]
    fn long_files_have_the_sum_of_the_sums_of_their_leaves() {
        let leaf = LEAF_BYTES as usize;
        for len in [leaf - 1, leaf, leaf + 1, 2 * leaf, 3 * leaf + READ_BYTES + 7] {
            let bytes: Vec<u8> = (0..len as u32).map(|n| (n % 251 + (n >> 16)) as u8).collect();
            let mut file = tempfile::tempfile().unwrap();
            file.write_all(&bytes).unwrap();
            let found = sums(&file, Want::Pieces(1 << 20));
            let leaves: Vec<u128> = bytes.chunks(leaf).map(XxHash3_128::oneshot).collect();
            let expected = match leaves[..] {
                [only] => only,
                _ => XxHash3_128::oneshot(
                    &leaves.iter().flat_map(|sum| sum.to_le_bytes()).collect::<Vec<_>>(),
                ),
            };
            assert_eq!(found.whole, expected, "{len}");
            let pieces = bytes.chunks(1 << 20).map(|piece| XxHash3_128::oneshot(piece) as u64);
            assert_eq!(found.pieces, pieces.collect::<Vec<_>>());
            // Files with pieces longer than leaves are read by one thread.
            assert_eq!(sums(&file, Want::Pieces(2 * LEAF_BYTES)).whole, expected);
            let mut sparse = tempfile::tempfile().unwrap();
            sparse.set_len((len + leaf) as u64).unwrap();
            sparse.write_all(&bytes).unwrap();
            file.write_all(&vec![0; leaf]).unwrap();
            assert_eq!(sums(&sparse, Want::Whole), sums(&file, Want::Whole));
            // A file that became shorter meanwhile.
            let stat = fstat(&file).unwrap();
            file.set_len(len as u64 - 1).unwrap();
            assert_eq!(sum(file.as_fd(), &stat, Want::Whole), Content::Unsteady);
        }
    }

    #[test]
    fn an_enormous_hole_is_not_read() {
        let file = tempfile::tempfile().unwrap();
        file.set_len(1 << 42).unwrap();
        assert_eq!(sum(file.as_fd(), &fstat(&file).unwrap(), Want::Whole), Content::TooLong);
    }

    #[test]
    fn nothing_is_read_of_an_empty_file() {
        let file = tempfile::tempfile().unwrap();
        let found = sums(&file, Want::Pieces(0));
        assert_eq!((found.whole, found.pieces.len()), (XxHash3_128::oneshot(b""), 0));
    }
}
