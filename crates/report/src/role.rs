//! What a call does to the data of files, read off its row once.

use std::sync::LazyLock;

use events::Act;
use events::shape::{Classes, Kind, Ret, Syscall};
use events::table::NUMBER_LIMIT;
use trace::event::{Call, Outcome};

/// What the calls of a row do to files. Argument numbers count from 0.
#[derive(Clone, Copy, Debug, Default)]
pub struct Role {
    /// Groups of the row.
    pub classes: u32,
    /// The descriptor that data comes from.
    pub from: Option<u8>,
    /// The descriptor that data goes to.
    pub to: Option<u8>,
    /// The first descriptor, whatever is done with it.
    pub fd: Option<u8>,
    /// The offset in the file; without one the file's own position counts.
    pub offset: Option<u8>,
    /// How many bytes were asked for.
    pub asked: Option<u8>,
    /// The result is a length in bytes of data that was moved.
    pub moves: bool,
    /// The result is the file's new position.
    pub seeks: bool,
    /// The file's new length.
    pub length: Option<u8>,
    /// What is made durable.
    pub sync: Sync,
    /// It gives its file another name: the first path is the old, the second the new one.
    pub renames: bool,
    /// It takes its path's name away.
    pub removes: bool,
    /// It changes names: what is in a directory.
    pub changes_names: bool,
    /// It changes a file otherwise than by writing: its length, its attributes.
    pub changes: bool,
    /// It maps a file.
    pub maps: bool,
    /// From then on files may be written without a call of which the trace tells.
    pub writes_unseen: bool,
    /// It takes a path.
    pub by_path: bool,
    /// Its result is a descriptor that belongs to a path.
    pub opens: bool,
    /// The flags with which it opens.
    pub open_flags: Option<u8>,
}

/// What a call makes durable.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Sync {
    /// Nothing, or not for certain (`sync_file_range` leaves the file's size out).
    #[default]
    Nothing,
    /// The file of its descriptor.
    File,
    /// All files of the file system, or of all.
    All,
}

/// What a row says about its calls.
pub fn of(nr: u16) -> &'static Role {
    static ROLES: LazyLock<Vec<Role>> = LazyLock::new(|| {
        let rows = (0..NUMBER_LIMIT as u64).map(events::by_number);
        rows.map(|row| row.map_or_else(Role::default, role)).collect()
    });
    static NONE: LazyLock<Role> = LazyLock::new(Role::default);
    ROLES.get(usize::from(nr)).unwrap_or(&NONE)
}

fn role(row: &Syscall) -> Role {
    let numbered = || row.args.iter().zip(0u8..);
    let first = |wanted: fn(Kind) -> bool| {
        numbered().find(|(arg, _)| wanted(arg.kind)).map(|(_, number)| number)
    };
    let is = |class: Classes| row.classes.intersects(class);
    let is_fd = |kind| matches!(kind, Kind::Fd);
    let fds: Vec<_> = numbered().filter(|(arg, _)| is_fd(arg.kind)).collect();
    let fd = fds.first().map(|(_, number)| *number);
    let moves = row.ret == Ret::Size && (is(Classes::READ) || is(Classes::WRITE));
    let (mut from, mut to) = (None, None);
    if moves && fds.len() == 2 {
        let side = |word: &str| {
            fds.iter().find(|(arg, _)| arg.name.contains(word)).map(|(_, number)| *number)
        };
        (from, to) = (side("in"), side("out"));
    } else if moves {
        from = fd.filter(|_| is(Classes::READ));
        to = fd.filter(|_| is(Classes::WRITE));
    }
    let offset = first(|kind| matches!(kind, Kind::Offset));
    let paths = numbered().filter(|(arg, _)| matches!(arg.kind, Kind::Path)).count();
    let sync = match row.args {
        _ if !is(Classes::SYNC) => Sync::Nothing,
        [] => Sync::All,
        [_] if row.name == "syncfs" => Sync::All,
        [only] if is_fd(only.kind) => Sync::File,
        _ => Sync::Nothing,
    };
    Role {
        classes: row.classes.0,
        from,
        to,
        fd,
        offset: offset.filter(|_| moves),
        asked: first(|kind| matches!(kind, Kind::Size)).filter(|_| moves),
        moves,
        seeks: row.ret == Ret::Offset && fd.is_some(),
        length: offset.filter(|_| {
            is(Classes::CHANGE)
                && numbered().any(|(arg, n)| Some(n) == offset && arg.name == "length")
        }),
        sync,
        renames: row.act == Act::Rename,
        removes: row.act == Act::Remove,
        changes_names: row.act.changes_names(),
        changes: is(Classes::CHANGE),
        maps: row.act == Act::Map,
        writes_unseen: matches!(row.act, Act::SetUpRing | Act::SetUpAio),
        by_path: paths > 0,
        opens: paths > 0 && row.ret == Ret::Fd,
        open_flags: first(|kind| matches!(kind, Kind::Flags(_))),
    }
}

/// The result of a call that succeeded.
pub fn success(call: &Call) -> Option<i64> {
    match call.outcome {
        Outcome::Returned { ret, .. } if !(-4095..0).contains(&ret) => Some(ret),
        _ => None,
    }
}

/// The error of a call that failed.
pub fn error(call: &Call) -> Option<i32> {
    match call.outcome {
        Outcome::Returned { ret, .. } if (-4095..0).contains(&ret) => Some(-ret as i32),
        _ => None,
    }
}

/// The most that one call moves, whatever a trace claims: the kernel's own limit.
const MOVED_MAX: u64 = 0x7fff_f000;

impl Role {
    /// Whether the row has a class.
    pub fn is(&self, class: Classes) -> bool {
        self.classes & class.0 != 0
    }

    /// Bytes of data that a call moved; nothing if it is not one that moves data, or failed.
    pub fn moved(&self, call: &Call) -> Option<u64> {
        let ret = success(call).filter(|_| self.moves)?;
        Some(u64::try_from(ret).ok()?.min(MOVED_MAX))
    }

    /// An argument's value as a descriptor.
    pub fn descriptor(call: &Call, arg: Option<u8>) -> Option<i32> {
        Some(*call.args.get(usize::from(arg?))? as i32)
    }

    /// An argument's value.
    pub fn value(call: &Call, arg: Option<u8>) -> Option<u64> {
        call.args.get(usize::from(arg?)).copied()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn named(name: &str) -> &'static Role {
        of(events::by_name(name).expect("a row").nr)
    }

    #[test]
    fn rows_tell_what_calls_do() {
        let pwrite = named("pwrite64");
        assert_eq!((pwrite.to, pwrite.from, pwrite.offset), (Some(0), None, Some(3)));
        assert_eq!(pwrite.asked, Some(2));
        let preadv = named("preadv2");
        assert_eq!((preadv.from, preadv.offset), (Some(0), Some(3)));
        let copy = named("copy_file_range");
        assert_eq!((copy.from, copy.to), (Some(0), Some(2)));
        let send = named("sendfile");
        assert_eq!((send.from, send.to), (Some(1), Some(0)));
        assert!(named("lseek").seeks && !named("lseek").moves);
        assert_eq!(named("ftruncate").length, Some(1));
        assert_eq!(named("truncate").length, Some(1));
        assert_eq!(named("fallocate").length, None);
        assert!(named("renameat2").renames && !named("linkat").renames);
        assert!(named("openat").opens && named("openat").open_flags == Some(2));
        assert!(named("creat").opens && !named("socket").opens);
    }

    #[test]
    fn what_is_durable() {
        for (name, sync) in [
            ("fsync", Sync::File),
            ("fdatasync", Sync::File),
            ("syncfs", Sync::All),
            ("sync", Sync::All),
            ("sync_file_range", Sync::Nothing),
            ("msync", Sync::Nothing),
            ("write", Sync::Nothing),
        ] {
            assert_eq!(named(name).sync, sync, "{name}");
        }
    }
}
