//! Which calls only move bytes through one descriptor, and by which arguments.

use std::sync::LazyLock;

use syscalls::record::part;
use syscalls::shape::{Arg, ArgKind, Classes, Dir, Of, Ret, Syscall};
use syscalls::table::NUMBER_LIMIT;

/// Arguments that describe a transfer.
#[derive(Clone, Copy, Debug)]
pub struct Moves {
    /// Whether it writes.
    pub writes: bool,
    /// The argument with the bytes, and their part.
    pub data: (u8, u8),
    /// The offset in the file.
    pub offset: Option<u8>,
    /// The number of bytes asked for.
    pub size: Option<u8>,
    /// The flags.
    pub flags: Option<u8>,
}

/// Returns the description of a call that only moves bytes through one descriptor.
#[inline]
pub fn of_call(nr: u16) -> Option<&'static Moves> {
    static TRANSFERS: LazyLock<Vec<Option<Moves>>> = LazyLock::new(|| {
        let rows = (0..NUMBER_LIMIT as u64).map(syscalls::by_number);
        rows.map(|row| row.filter(|row| only_moves_bytes(row)).and_then(moves)).collect()
    });
    TRANSFERS.get(usize::from(nr))?.as_ref()
}

fn only_moves_bytes(row: &Syscall) -> bool {
    let harmless = |arg: &Arg| match arg.kind {
        ArgKind::Size | ArgKind::Offset | ArgKind::Ulong | ArgKind::Flags(_) => true,
        // The control block of an operation.
        ArgKind::Buf(Dir::In, Of::Struct(_), _) => row.queue.is_some(),
        ArgKind::Buf(dir, of, _) => {
            matches!(dir, Dir::In | Dir::Out) && matches!(of, Of::Bytes | Of::Iovec)
        }
        _ => false,
    };
    row.replay == syscalls::Replay::Real
        && row.variants.is_empty()
        && row.ret == Ret::Size
        && row.args.split_first().is_some_and(|(first, others)| {
            matches!(first.kind, ArgKind::Fd) && others.iter().all(harmless)
        })
}

fn moves(row: &Syscall) -> Option<Moves> {
    let argument = |is: fn(&ArgKind) -> bool| {
        row.args.iter().position(|arg| is(&arg.kind)).map(|number| number as u8)
    };
    let data = row.args.iter().zip(0u8..).find_map(|(arg, number)| match arg.kind {
        ArgKind::Buf(_, Of::Bytes, _) => Some((number, part::WHOLE)),
        ArgKind::Buf(_, Of::Iovec, _) => Some((number, part::CONTENT)),
        _ => None,
    });
    Some(Moves {
        writes: row.classes.intersects(Classes::WRITE),
        data: data?,
        offset: argument(|kind| matches!(kind, ArgKind::Offset)),
        size: argument(|kind| matches!(kind, ArgKind::Size)),
        flags: argument(|kind| matches!(kind, ArgKind::Flags(_))),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_and_writes_are_transfers() {
        let nr = |name: &str| syscalls::by_name(name).unwrap().nr;
        let is = |name: &str| of_call(nr(name)).is_some();
        for name in
            ["read", "write", "pread64", "pwrite64", "readv", "writev", "pwritev2", "aio:PREAD"]
        {
            assert!(is(name), "{name}");
        }
        for name in ["sendfile", "getdents64", "lseek", "recvfrom", "fgetxattr", "readlink"] {
            assert!(!is(name), "{name}");
        }
        assert!(of_call(u16::MAX).is_none());
        let moves = of_call(nr("pwritev2")).unwrap();
        assert_eq!((moves.writes, moves.offset, moves.flags), (true, Some(3), Some(5)));
        assert_eq!(moves.data, (1, part::CONTENT));
    }
}
