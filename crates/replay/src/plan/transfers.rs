//! The planner's short way for most of a recording: calls that do nothing but move bytes through
//! one descriptor. What is to be done with them depends on the open file alone, and is remembered.

use std::hash::{BuildHasher, BuildHasherDefault, DefaultHasher};
use std::rc::Rc;
use std::sync::LazyLock;

use events::shape::{Arg, Classes, Dir, Kind, Of, Ret, Syscall};
use events::table::NUMBER_LIMIT;
use model::{Description, Offset, Origin};

use super::Planner;
use crate::execute::TRANSFER_MAX;
use crate::order::Index;
use crate::treatment::is_stream;

/// Open files that a lane remembers.
const KNOWN_MAX: usize = 8;

/// What is known of the open files that a lane used last, by descriptor.
pub type Known = [Option<Remembered>; KNOWN_MAX];

/// An open file, and what follows from it.
pub struct Remembered {
    description: Rc<Description>,
    /// How much had been learnt when this was decided.
    learnt: u64,
    file: File,
}

/// What follows from an open file.
#[derive(Clone, Copy)]
pub struct File {
    /// The replay has it.
    pub here: bool,
    /// It is what another process has open.
    pub taken: bool,
    /// Bytes come as they come.
    pub stream: bool,
    /// Nobody knows what it is: it may be a named pipe.
    pub unknown: bool,
    /// It is changed by stores to memory as well, or filler is written to it.
    pub vague: bool,
    /// Requests of which the trace has nothing may have written it.
    pub unseen: bool,
    /// It may be another one than recorded.
    pub contested: bool,
    /// The image may have filler of it where the trace has but a hash.
    pub untold: bool,
    /// A hash of its path.
    pub hash: u64,
    /// Of a stream: the queues that it gives bytes of, and takes bytes into.
    pub queues: (u64, u64),
    /// Which one it is, as long as it is open.
    pub opened: usize,
}

/// A hash of a path. Two files that share one wait for each other; no harm is done.
pub fn hash_of(path: &[u8]) -> u64 {
    BuildHasherDefault::<DefaultHasher>::default().hash_one(path)
}

/// A number for the bytes that a stream gives, or that it takes. Pipes may be opened again by their
/// paths; all sockets look alike, but the ends of a pair have numbers of which one follows the other.
pub fn queue_of(description: &Rc<Description>, takes: bool) -> u64 {
    let own = match (description.origin, description.mark.get()) {
        (Origin::SocketPair | Origin::Passed, 0) => Rc::as_ptr(description) as u64,
        (Origin::SocketPair | Origin::Passed, number) => number,
        _ => return hash_of(&description.path),
    };
    own ^ u64::from(takes)
}

/// Which arguments tell what a call moves, and how.
#[derive(Clone, Copy, Debug)]
pub struct Moves {
    /// It writes.
    pub writes: bool,
    /// The place in the file.
    pub offset: Option<u8>,
    /// How many bytes it asks for.
    pub size: Option<u8>,
    /// Flags.
    pub flags: Option<u8>,
}

/// What a call moves that moves bytes through one descriptor, and does nothing else.
pub fn transfer_of(nr: u16, ret: i64) -> Option<&'static Moves> {
    static TRANSFERS: LazyLock<Vec<Option<Moves>>> = LazyLock::new(|| {
        let rows = (0..NUMBER_LIMIT as u64).map(events::by_number);
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
    row.replay == events::Replay::Real
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
    /// What is behind a descriptor of a lane's thread.
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

    /// Where a call begins that moves bytes at the offset of the file that this lane used last under
    /// a number, if that is known; it moves on.
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
        let nr = |name: &str| events::by_name(name).unwrap().nr;
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
