//! Fast path for most of a recording: calls that only move bytes through one descriptor. Their
//! treatment depends only on the open file, and is cached.

use std::hash::{BuildHasher, BuildHasherDefault, DefaultHasher};
use std::rc::Rc;
use std::sync::LazyLock;

use model::{Description, Offset, Origin};
use syscalls::shape::{Arg, Classes, Dir, Kind, Of, Ret, Syscall};
use syscalls::table::NUMBER_LIMIT;

use super::Planner;
use crate::execute::TRANSFER_MAX;
use crate::order::Index;
use crate::treatment::is_stream;

/// Number of open files cached per lane.
const KNOWN_MAX: usize = 8;

/// Cached files that a lane used last, by descriptor.
pub type Known = [Option<Remembered>; KNOWN_MAX];

/// An open file and its cached properties.
pub struct Remembered {
    description: Rc<Description>,
    /// The judge's knowledge counter at that time.
    learnt: u64,
    file: File,
}

/// Properties of an open file.
#[derive(Clone, Copy)]
pub struct File {
    /// The replay has it.
    pub here: bool,
    /// Taken from another process.
    pub taken: bool,
    /// A stream, which may deliver bytes in other portions.
    pub stream: bool,
    /// Its type is unknown: it may be a named pipe.
    pub unknown: bool,
    /// Changed by stores to memory as well, or filler is written to it.
    pub vague: bool,
    /// Requests that are not in the trace may have written it.
    pub unseen: bool,
    /// May be another file than recorded.
    pub contested: bool,
    /// The image may hold filler where the trace has only a hash.
    pub untold: bool,
    /// Hash of its path.
    pub hash: u64,
    /// Of a stream: the queues that it reads from and writes to.
    pub queues: (u64, u64),
    /// Identifies it as long as it is open.
    pub opened: usize,
}

/// Hashes a path. Files with the same hash wait for each other, which is harmless.
pub fn hash_of(path: &[u8]) -> u64 {
    BuildHasherDefault::<DefaultHasher>::default().hash_one(path)
}

/// Number of the queue that a stream reads from, or writes to (`takes`). Pipes may be reopened by
/// their paths; sockets have no distinct paths, but the ends of a pair have adjacent numbers.
pub fn queue_of(description: &Rc<Description>, takes: bool) -> u64 {
    let own = match (description.origin, description.mark.get()) {
        (Origin::SocketPair | Origin::Passed, 0) => Rc::as_ptr(description) as u64,
        (Origin::SocketPair | Origin::Passed, number) => number,
        _ => return hash_of(&description.path),
    };
    own ^ u64::from(takes)
}

/// Arguments that describe a transfer.
#[derive(Clone, Copy, Debug)]
pub struct Moves {
    /// Whether it writes.
    pub writes: bool,
    /// The offset in the file.
    pub offset: Option<u8>,
    /// The number of bytes asked for.
    pub size: Option<u8>,
    /// The flags.
    pub flags: Option<u8>,
}

/// Returns the description of a call that only moves bytes through one descriptor.
pub fn transfer_of(nr: u16, ret: i64) -> Option<&'static Moves> {
    static TRANSFERS: LazyLock<Vec<Option<Moves>>> = LazyLock::new(|| {
        let rows = (0..NUMBER_LIMIT as u64).map(syscalls::by_number);
        rows.map(|row| row.filter(|row| only_moves_bytes(row)).map(moves)).collect()
    });
    let whole = usize::try_from(ret).is_ok_and(|ret| ret <= TRANSFER_MAX);
    TRANSFERS.get(usize::from(nr)).filter(|_| whole)?.as_ref()
}

fn only_moves_bytes(row: &Syscall) -> bool {
    let harmless = |arg: &Arg| match arg.kind {
        Kind::Size | Kind::Offset | Kind::Ulong | Kind::Flags(_) => true,
        Kind::Buf(dir, of, _) => {
            matches!(dir, Dir::In | Dir::Out) && matches!(of, Of::Bytes | Of::Iovec)
        }
        _ => false,
    };
    row.replay == syscalls::Replay::Real
        && row.variants.is_empty()
        && row.ret == Ret::Size
        && row.args.split_first().is_some_and(|(first, others)| {
            matches!(first.kind, Kind::Fd) && others.iter().all(harmless)
        })
}

fn moves(row: &Syscall) -> Moves {
    let argument = |is: fn(&Kind) -> bool| {
        row.args.iter().position(|arg| is(&arg.kind)).map(|number| number as u8)
    };
    Moves {
        writes: row.classes.intersects(Classes::WRITE),
        offset: argument(|kind| matches!(kind, Kind::Offset)),
        size: argument(|kind| matches!(kind, Kind::Size)),
        flags: argument(|kind| matches!(kind, Kind::Flags(_))),
    }
}

impl Planner<'_> {
    /// Returns the properties of the file behind a thread's descriptor.
    pub(super) fn file(&mut self, index: Index, thread: u32, fd: i32) -> Option<File> {
        let table = self.world.descriptors(thread)?;
        let description = &table.get(fd)?.description;
        let learnt = self.judge.learnt();
        let slot = &mut self.lines[index].known[fd as usize % KNOWN_MAX];
        if let Some(known) = slot
            && Rc::ptr_eq(&known.description, description)
            && known.learnt == learnt
        {
            return Some(known.file);
        }
        let file = File {
            here: self.judge.is_here(description),
            taken: description.origin == Origin::Taken,
            stream: is_stream(description),
            unknown: description.origin == Origin::Path && description.identity.is_none(),
            vague: self.judge.holds_other_bytes(description),
            unseen: self.judge.is_written_unseen(&description.path),
            contested: self.judge.may_be_another(&description.path),
            untold: self.judge.is_untold(description),
            hash: hash_of(&description.path),
            queues: (queue_of(description, false), queue_of(description, true)),
            opened: Rc::as_ptr(description) as usize,
        };
        *slot = Some(Remembered { description: Rc::clone(description), learnt, file });
        Some(file)
    }

    /// Returns the offset at which a transfer starts that uses the file's own offset, if known, and
    /// advances it. The file is the one that this lane last used under that number.
    pub(super) fn advance(&self, index: Index, fd: i32, moved: i64) -> Option<u64> {
        let known = self.lines[index].known[fd as usize % KNOWN_MAX].as_ref()?;
        let offset = &known.description.offset;
        let Offset::At(from) = offset.get() else { return None };
        offset.set(Offset::At(from.saturating_add(moved.max(0) as u64)));
        Some(from)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_and_writes_are_transfers() {
        let nr = |name: &str| syscalls::by_name(name).unwrap().nr;
        let is = |name: &str| transfer_of(nr(name), 10).is_some();
        for name in ["read", "write", "pread64", "pwrite64", "readv", "writev", "pwritev2"] {
            assert!(is(name), "{name}");
        }
        for name in ["sendfile", "getdents64", "lseek", "recvfrom", "fgetxattr", "readlink"] {
            assert!(!is(name), "{name}");
        }
        for (nr, ret) in [(nr("write"), -1), (nr("write"), i64::MAX), (u16::MAX, 0)] {
            assert!(transfer_of(nr, ret).is_none());
        }
        let moves = transfer_of(nr("pwritev2"), 10).unwrap();
        assert_eq!((moves.writes, moves.offset, moves.flags), (true, Some(3), Some(5)));
    }
}
