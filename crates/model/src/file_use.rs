//! How calls use files, derived from the table's rows once.

use std::sync::LazyLock;

use syscalls::paths::{self, Paths};
use syscalls::shape::{Arg, ArgKind, Classes, Ret, Syscall, of_set, operand};
use syscalls::table::NUMBER_LIMIT;
use syscalls::{Act, Operand, flags};
use trace::event::Call;

/// How a row's calls use files. Argument numbers count from 0.
#[derive(Clone, Copy, Debug, Default)]
pub struct FileUse {
    /// Classes of the row.
    pub classes: u32,
    /// Argument: the descriptor that data is read from.
    pub from: Option<u8>,
    /// Argument: the offset in the former. Without one, the file's position is used.
    pub from_at: Option<u8>,
    /// Argument: the descriptor that data is written to.
    pub to: Option<u8>,
    /// Argument: the offset in the former.
    pub to_at: Option<u8>,
    /// Argument: the first descriptor, whatever its use.
    pub fd: Option<u8>,
    /// Argument: the number of bytes requested.
    pub asked: Option<u8>,
    /// The result is the number of bytes moved.
    pub moves: bool,
    /// The result is the file's new position.
    pub seeks: bool,
    /// Argument: the file's new length.
    pub length: Option<u8>,
    /// Files that the call makes durable.
    pub sync: Sync,
    /// What the call does to names.
    pub names: NamesUse,
    /// The path arguments, and the descriptors of the directories that they begin in.
    pub paths: Paths,
    /// The call may set the flags of an open file.
    pub sets_flags: bool,
    /// The call changes a file's length or attributes.
    pub changes: bool,
    /// The call maps a file.
    pub maps: bool,
    /// After the call, files may be written without further calls.
    pub writes_unseen: bool,
    /// The call takes a path.
    pub by_path: bool,
    /// The call takes a path and returns a descriptor.
    pub opens: bool,
}

/// What a call does to the names of files.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum NamesUse {
    /// Nothing, or creates a file by opening it.
    #[default]
    Nothing,
    /// Makes a file at its path.
    Makes,
    /// Gives the file at the first path the second one too.
    Links,
    /// Renames the file at the first path to the second one.
    Renames {
        /// The argument with the flags.
        flags: Option<u8>,
    },
    /// Removes a name.
    Removes,
}

/// Files that a call makes durable.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Sync {
    /// Nothing, or nothing reliably (`sync_file_range` omits the file's size).
    #[default]
    Nothing,
    /// The file of its descriptor.
    File,
    /// All files of a file system, or of all of them.
    All,
}

/// Returns how calls of a number use files.
pub fn of(nr: u16) -> &'static FileUse {
    static USES: LazyLock<Vec<FileUse>> = LazyLock::new(|| {
        let rows = (0..NUMBER_LIMIT as u64).map(syscalls::by_number);
        rows.map(|row| row.map_or_else(FileUse::default, file_use)).collect()
    });
    static NONE: LazyLock<FileUse> = LazyLock::new(FileUse::default);
    USES.get(usize::from(nr)).unwrap_or(&NONE)
}

fn file_use(row: &Syscall) -> FileUse {
    let first = |wanted: fn(&Arg) -> bool| {
        row.args.iter().zip(0u8..).find(|(arg, _)| wanted(arg)).map(|(_, number)| number)
    };
    let is = |class: Classes| row.classes.intersects(class);
    let used_as = |wanted| operand(row.args, wanted);
    let either = used_as(Operand::SourceOrTarget);
    let fd = first(|arg| matches!(arg.kind, ArgKind::Fd));
    let by_path = row.args.iter().any(|arg| matches!(arg.kind, ArgKind::Path));
    let moves = row.ret == Ret::Size && (is(Classes::READ) || is(Classes::WRITE));
    FileUse {
        classes: row.classes.0,
        from: used_as(Operand::Source).or(either).filter(|_| moves),
        from_at: used_as(Operand::SourceAt),
        to: used_as(Operand::Target).or(either).filter(|_| moves),
        to_at: used_as(Operand::TargetAt),
        fd,
        asked: used_as(Operand::Count).filter(|_| moves),
        moves,
        seeks: row.act == Act::Seek,
        length: used_as(Operand::Length),
        sync: match row.act {
            Act::SyncFile | Act::SyncData => Sync::File,
            Act::SyncAll => Sync::All,
            _ => Sync::Nothing,
        },
        names: match row.act {
            Act::MakeDirectory | Act::MakeNode | Act::MakeLink => NamesUse::Makes,
            Act::HardLink => NamesUse::Links,
            Act::Rename => NamesUse::Renames { flags: of_set(row.args, &flags::RENAME) },
            Act::Remove | Act::RemoveDirectory => NamesUse::Removes,
            _ => NamesUse::Nothing,
        },
        paths: paths::of(row),
        sets_flags: row.acts().any(|act| act == Act::SetStatusFlags),
        changes: is(Classes::CHANGE),
        maps: row.act == Act::Map,
        writes_unseen: matches!(row.act, Act::SetUpRing | Act::SetUpAio),
        by_path,
        opens: by_path && row.ret == Ret::Fd,
    }
}

/// The kernel's limit for the bytes of one call, in case a trace claims more.
const MOVED_MAX: u64 = 0x7fff_f000;

impl FileUse {
    /// Returns true if calls of the row may use files that they name.
    pub fn names_files(&self) -> bool {
        self.fd.is_some() || self.by_path
    }

    /// Returns true if the row has a class.
    pub fn is(&self, class: Classes) -> bool {
        self.classes & class.0 != 0
    }

    /// Returns the number of bytes that a call moved, `None` if it failed or moves no data.
    pub fn moved(&self, call: &Call) -> Option<u64> {
        let ret = call.success().filter(|_| self.moves)?;
        Some(u64::try_from(ret).ok()?.min(MOVED_MAX))
    }

    /// Returns an argument as a descriptor.
    pub fn descriptor(call: &Call, arg: Option<u8>) -> Option<i32> {
        Some(*call.args.get(usize::from(arg?))? as i32)
    }

    /// Returns an argument.
    pub fn value(call: &Call, arg: Option<u8>) -> Option<u64> {
        call.args.get(usize::from(arg?)).copied()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn named(name: &str) -> &'static FileUse {
        of(syscalls::by_name(name).expect("a row").nr)
    }

    #[test]
    fn rows_tell_what_calls_do() {
        let pwrite = named("pwrite64");
        assert_eq!((pwrite.to, pwrite.from, pwrite.to_at), (Some(0), None, Some(3)));
        assert_eq!(pwrite.asked, Some(2));
        let preadv = named("preadv2");
        assert_eq!((preadv.from, preadv.from_at), (Some(0), Some(3)));
        let copy = named("copy_file_range");
        assert_eq!((copy.from, copy.to), (Some(0), Some(2)));
        let send = named("sendfile");
        assert_eq!((send.from, send.to), (Some(1), Some(0)));
        assert!(named("lseek").seeks && !named("lseek").moves);
        assert_eq!(named("ftruncate").length, Some(1));
        assert_eq!(named("truncate").length, Some(1));
        assert_eq!(named("fallocate").length, None);
        assert_eq!(named("renameat2").names, NamesUse::Renames { flags: Some(4) });
        assert_eq!(named("rename").names, NamesUse::Renames { flags: None });
        assert_eq!(
            (named("linkat").names, named("rmdir").names),
            (NamesUse::Links, NamesUse::Removes)
        );
        assert!(named("fcntl").sets_flags && !named("fchmod").sets_flags);
        assert!(named("openat").opens);
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
