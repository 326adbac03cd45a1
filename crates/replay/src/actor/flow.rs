//! Moves bytes for recorded calls whose other side is not available.

use syscalls::ArgKind;

use super::Actor;
use crate::batch::{Action, Batch, Call, Piece};
use crate::certainty::Certainty;
use crate::clock;
use crate::descriptors;
use crate::lane::Mood;
use crate::made::Made;
use crate::mapped::{Asked, Mapping};
use crate::outcome::{DifferingPart, Outcome, Stopped};
use crate::space::Medium;
use crate::verify::{self, Verdict};

/// Bytes moved at a time.
const PORTION: usize = 64 << 10;
/// Most bytes of a mapped file that are compared at a time.
const LOADED_MAX: usize = 16 << 20;

/// Converts a transfer's result to a number of bytes or an errno.
fn moved(ret: isize) -> Result<u64, i32> {
    match ret {
        -1 => Err(std::io::Error::last_os_error().raw_os_error().unwrap_or(0)),
        ret => Ok(ret as u64),
    }
}

impl Actor<'_> {
    /// Maps the file of a descriptor.
    pub(super) fn map(&mut self, fd: i32, mapping: &Mapping) {
        if let Err(error) = mapping.make(fd) {
            let what = format!("mappings not made: {error}");
            Outcome::count(&mut self.tally.unsupported, &what, 1);
        }
    }

    /// Makes a call on memory in which a file is mapped.
    pub(super) fn memory(&mut self, action: &Action, call: &Call, mapping: &Mapping, offset: u64) {
        let fills = call.args.iter().any(|arg| matches!(arg.kind, ArgKind::Buf(..)));
        let [_, length, third, ..] = call.values;
        let asked = Asked { number: call.nr, length, third, fills };
        let begin = clock::ticks();
        let ret = mapping.ask(&asked, offset);
        let ticks = clock::ticks().wrapping_sub(begin);
        let made = match ret {
            None => Made::Unknown,
            // Addresses differ.
            Some(ret) if ret >= 0 && call.ret >= 0 => Made::Same,
            Some(ret) if ret == call.ret => Made::Same,
            Some(ret) => Made::Return(ret),
        };
        self.lane.counts.replayed.add(1);
        self.tally.latencies.of(call.nr).record(clock::to_ns(ticks));
        self.conclude(action, call, made);
    }

    /// Stores bytes to a mapped file.
    pub(super) fn store(
        &mut self,
        batch: &Batch,
        (mapping, at, by): (&Mapping, u64, Option<i32>),
        pieces: &[Piece],
    ) {
        let bytes: Vec<&[u8]> = pieces.iter().flat_map(|piece| batch.stretches(piece)).collect();
        let len = bytes.iter().map(|bytes| bytes.len() as u64).sum();
        if !self.shared.space.take(len, Medium::Either) {
            self.shared.stop(Stopped::Full(self.shared.space.used_up(Medium::Either)));
            return;
        }
        self.lane.counts.bytes.add(len);
        if let Err(error) = mapping.store(at, &bytes, by) {
            let what = format!("stores to mapped files not made: {error}");
            Outcome::count(&mut self.tally.unsupported, &what, 1);
        }
    }

    /// Reads bytes of a mapped file, and compares them.
    pub(super) fn load(
        &mut self,
        batch: &Batch,
        action: &Action,
        (mapping, offset, by): (&Mapping, u64, Option<i32>),
        piece: &Piece,
        certainty: Certainty,
    ) {
        let counts = &self.lane.counts;
        counts.replayed.add(1);
        let len = usize::try_from(piece.true_len).unwrap_or(usize::MAX);
        let read = match mapping.read(offset, len.min(LOADED_MAX), by) {
            Ok(read) => read,
            Err(error) => {
                counts.unverified.add(1);
                let what = format!("reads of mapped files not made: {error}");
                return Outcome::count(&mut self.tally.unsupported, &what, 1);
            }
        };
        counts.bytes.add(read.len() as u64);
        if certainty != Certainty::EXACT || len > LOADED_MAX {
            return counts.unverified.add(1);
        }
        match verify::bytes(batch, piece, &read, false, false) {
            Verdict::Same => counts.verified.add(1),
            Verdict::Unknown => counts.unverified.add(1),
            Verdict::Differ { expected, found, .. } => {
                let cause = "a mapped file: other bytes were read".to_string();
                self.report(DifferingPart::Data, cause, action, expected, found);
            }
        }
    }

    /// Writes filler to a file or pipe.
    pub(super) fn pour(&mut self, action: &Action, fd: i32, bytes: u64) {
        let into = self.shared.space.place_of(fd);
        if !self.shared.space.take(bytes, into) {
            self.shared.stop(Stopped::Full(self.shared.space.used_up(into)));
            return;
        }
        let mut filler = vec![0; PORTION.min(bytes as usize)];
        self.shared.options.fill.write(&mut filler);
        self.move_all(action, bytes, |most| {
            let part = libc::iovec {
                iov_base: filler.as_mut_ptr().cast(),
                iov_len: filler.len().min(most as usize),
            };
            // SAFETY: the iovec covers at most the filler's length.
            let at_once = unsafe { libc::pwritev2(fd, &raw const part, 1, -1, libc::RWF_NOWAIT) };
            match moved(at_once) {
                Err(libc::EAGAIN) if descriptors::make_room(fd) => Err(libc::EINTR),
                Err(libc::EAGAIN | libc::EOPNOTSUPP) => {
                    // SAFETY: the iovec covers at most the filler's length.
                    moved(unsafe { libc::writev(fd, &raw const part, 1) })
                }
                told => told,
            }
        });
    }

    /// Reads bytes from a pipe and drops them.
    pub(super) fn drain(&mut self, action: &Action, fd: i32, bytes: u64) {
        let mut room = vec![0u8; PORTION.min(bytes as usize)];
        self.move_all(action, bytes, |most| {
            let mut poll = libc::pollfd { fd, events: libc::POLLIN, revents: 0 };
            // SAFETY: one pollfd is passed, and the read is limited to the buffer's length.
            moved(unsafe {
                libc::poll(&raw mut poll, 1, -1);
                libc::read(fd, room.as_mut_ptr().cast(), room.len().min(most as usize))
            })
        });
    }

    /// Calls `once` until all bytes have been moved, or no more can be.
    fn move_all(&self, action: &Action, bytes: u64, mut once: impl FnMut(u64) -> Result<u64, i32>) {
        if action.may_block {
            self.lane.set_mood(Mood::Blocked);
        }
        let mut left = bytes;
        while left > 0 && !self.shared.stopping() {
            match once(left) {
                Ok(0) => break,
                Ok(some) => left -= some.min(left),
                Err(libc::EINTR | libc::EAGAIN) => {}
                Err(_) => break,
            }
        }
        self.lane.set_mood(Mood::Busy);
    }
}
