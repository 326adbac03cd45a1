//! Sums over the content of a regular file.

use std::os::fd::BorrowedFd;
use std::sync::mpsc::{Receiver, Sender, SyncSender, channel, sync_channel};
use std::thread;

use rustix::fs::{SeekFrom, Stat, fstat, seek};
use rustix::io::{Errno, pread};
use trace::manifest::{Content, Sums, piece_bytes};
use twox_hash::XxHash3_128;

use crate::Want;

/// Bytes read at a time.
const READ_BYTES: usize = 512 << 10;
/// Files of this size are read by several threads: that takes longer than the sums.
const SEVERAL_FROM: u64 = 8 << 20;
/// Threads that read one file, at most.
const READERS_MAX: usize = 4;
/// Most bytes of holes that are gone through, as zeros.
const HOLE_BYTES_MAX: u64 = 16 << 30;
/// Bytes of one of `st_blocks`.
const BLOCK_BYTES: u64 = 512;

/// Reads an open file that was just found to be this one.
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
    let several = match holes || size < SEVERAL_FROM {
        true => None,
        false => read_by_several(file, size, &mut summer),
    };
    match several.unwrap_or_else(|| read(file, size, holes, &mut summer)) {
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

/// Whether the file had as many bytes as it should.
fn read(file: BorrowedFd<'_>, size: u64, holes: bool, summer: &mut Summer) -> Result<bool, Errno> {
    let mut buffer = vec![0; READ_BYTES.min(size as usize + 1)];
    let mut at = 0;
    let mut data_until = if holes { 0 } else { size };
    while at < size {
        if at >= data_until {
            let start = match seek(file, SeekFrom::Data(at)) {
                Ok(start) => start.min(size),
                Err(Errno::NXIO) => size,
                // Not every file system tells holes.
                Err(_) => at,
            };
            summer.zeros(start - at);
            at = start;
            data_until = seek(file, SeekFrom::Hole(at)).unwrap_or(size).clamp(at, size);
            if at == size {
                break;
            }
            // A hole that came to be just now is read like data.
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

/// A stretch that a thread has read, or why it is not whole.
type Stretch = Result<Vec<u8>, Errno>;

/// The same for a file without holes: each of several threads reads every so many stretches. `None`,
/// and nothing read, where there may be no more threads.
fn read_by_several(
    file: BorrowedFd<'_>,
    size: u64,
    summer: &mut Summer,
) -> Option<Result<bool, Errno>> {
    let readers = thread::available_parallelism().map_or(1, |count| count.get().min(READERS_MAX));
    thread::scope(|scope| {
        let queues = (0..readers)
            .map(|first| {
                let (full, queue) = sync_channel(1);
                let (done, empty) = channel();
                let places = (first * READ_BYTES..).step_by(readers * READ_BYTES);
                let places = places.map(|at| at as u64).take_while(move |at| *at < size);
                let body = move || read_stretches(file, size, places, &full, &empty);
                thread::Builder::new().spawn_scoped(scope, body).ok()?;
                Some((queue, done))
            })
            .collect::<Option<Vec<_>>>()?;
        Some(add_in_turn(&queues, size, summer))
    })
}

/// Takes one stretch from each reader after the other. Whether there were enough.
fn add_in_turn(
    queues: &[(Receiver<Stretch>, Sender<Vec<u8>>)],
    size: u64,
    summer: &mut Summer,
) -> Result<bool, Errno> {
    let mut left = size;
    for (queue, done) in queues.iter().cycle() {
        if left == 0 {
            break;
        }
        // A reader ends early where it found less than there should be.
        let Ok(stretch) = queue.recv() else { return Ok(false) };
        let stretch = stretch?;
        summer.add(&stretch);
        left -= stretch.len() as u64;
        // Who has read all that it should does not want it.
        let _ = done.send(stretch);
    }
    Ok(true)
}

fn read_stretches(
    file: BorrowedFd<'_>,
    size: u64,
    places: impl Iterator<Item = u64>,
    full: &SyncSender<Stretch>,
    empty: &Receiver<Vec<u8>>,
) {
    for at in places {
        let mut buffer = empty.try_recv().unwrap_or_default();
        buffer.resize(READ_BYTES.min((size - at) as usize), 0);
        let stretch = match fill(file, &mut buffer, at) {
            Ok(true) => Ok(buffer),
            Ok(false) => return,
            Err(error) => Err(error),
        };
        if full.send(stretch).is_err() {
            return;
        }
    }
}

/// Whether there were as many bytes as there is room for.
fn fill(file: BorrowedFd<'_>, buffer: &mut [u8], at: u64) -> Result<bool, Errno> {
    let mut filled = 0;
    while filled < buffer.len() {
        match pread(file, &mut buffer[filled..], at + filled as u64) {
            Ok(0) => return Ok(false),
            Ok(read) => filled += read,
            Err(Errno::INTR) => {}
            Err(error) => return Err(error),
        }
    }
    Ok(true)
}

/// Sums over the whole and over its pieces.
struct Summer {
    whole: XxHash3_128,
    piece_bytes: u64,
    pieces: Vec<u64>,
    /// The piece that was begun, and its bytes so far.
    piece: XxHash3_128,
    filled: u64,
}

impl Summer {
    fn new(piece_bytes: u64) -> Summer {
        let hash = XxHash3_128::new;
        Summer { whole: hash(), piece_bytes, pieces: Vec::new(), piece: hash(), filled: 0 }
    }

    fn add(&mut self, bytes: &[u8]) {
        self.whole.write(bytes);
        if self.piece_bytes == 0 {
            return;
        }
        let mut rest = bytes;
        while !rest.is_empty() {
            let room = (self.piece_bytes - self.filled).min(rest.len() as u64) as usize;
            let (part, after) = rest.split_at(room);
            rest = after;
            if self.filled == 0 && part.len() as u64 == self.piece_bytes {
                self.pieces.push(XxHash3_128::oneshot(part) as u64);
                continue;
            }
            self.piece.write(part);
            self.filled += part.len() as u64;
            if self.filled == self.piece_bytes {
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

    fn close_piece(&mut self) {
        let piece = std::mem::replace(&mut self.piece, XxHash3_128::new());
        self.pieces.push(piece.finish_128() as u64);
        self.filled = 0;
    }

    fn finish(mut self) -> Sums {
        if self.filled > 0 {
            self.close_piece();
        }
        let whole = self.whole.finish_128();
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
    fn several_threads_read_what_one_does() {
        for extra in [0, 1, READ_BYTES - 1, READ_BYTES, 3 * READ_BYTES + 7] {
            let len = SEVERAL_FROM as usize + extra;
            let bytes: Vec<u8> = (0..len as u32).map(|n| (n % 251 + (n >> 16)) as u8).collect();
            let mut file = tempfile::tempfile().unwrap();
            file.write_all(&bytes).unwrap();
            let found = sums(&file, Want::Pieces(1 << 20));
            assert_eq!(found.whole, XxHash3_128::oneshot(&bytes), "{extra}");
            let pieces = bytes.chunks(1 << 20).map(|piece| XxHash3_128::oneshot(piece) as u64);
            assert_eq!(found.pieces, pieces.collect::<Vec<_>>());
            // One that became shorter meanwhile.
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
