//! What calls do to paths, derived from the table's rows.

use model::unseen;
use syscalls::Act;
use syscalls::shape::{Arg, ArgKind, Classes, FlagSet, Of, Ret, Syscall};

/// What a call does to paths, directories or descriptors.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum PathEffect {
    /// Nothing relevant.
    None,
    /// Opens a path.
    Open,
    /// Changes the files that it names.
    Change,
    /// Removes the names given.
    Remove,
    Rename,
    Link,
    /// Duplicates a descriptor.
    Duplicate,
    Close,
    CloseRange,
    Chdir,
    Fchdir,
    /// Changes the root directory.
    Root,
    Unshare,
    EnterNamespace,
    /// Creates a task.
    Spawn,
    /// Moves data that no call shows, or makes the kernel copy it.
    Unseen,
    Bind,
}

/// A path argument, and the directory descriptor that it is relative to.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct PathArg {
    pub dir: Option<u8>,
    pub path: u8,
}

/// The path-related parts of a row. Numbers are argument indices.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Shape {
    pub role: PathEffect,
    pub paths: [Option<PathArg>; 2],
    pub fd: Option<u8>,
    /// Flags of open, rename or clone.
    pub flags: Option<u8>,
    /// A struct or address in memory with further parameters.
    pub memory: Option<u8>,
}

impl Shape {
    const NONE: Shape =
        Shape { role: PathEffect::None, paths: [None; 2], fd: None, flags: None, memory: None };

    /// Whether the memory behind an argument is needed.
    #[inline]
    pub fn wants(&self, arg: u8) -> bool {
        self.memory == Some(arg) || self.paths.iter().flatten().any(|path| path.path == arg)
    }
}

/// The shapes of all rows, by number.
pub(super) struct Roles {
    shapes: Vec<Shape>,
}

impl Roles {
    pub fn new() -> Roles {
        let numbers = 0..syscalls::table::NUMBER_LIMIT as u64;
        Roles {
            shapes: numbers.map(|nr| syscalls::by_number(nr).map_or(Shape::NONE, shape)).collect(),
        }
    }

    #[inline]
    pub fn of(&self, nr: u16) -> Shape {
        self.shapes.get(usize::from(nr)).copied().unwrap_or(Shape::NONE)
    }
}

fn role(row: &Syscall) -> PathEffect {
    let takes_path = || row.args.iter().any(|arg| matches!(arg.kind, ArgKind::Path));
    match row.act {
        Act::Rename => PathEffect::Rename,
        Act::HardLink => PathEffect::Link,
        Act::Remove | Act::RemoveDirectory => PathEffect::Remove,
        Act::Close => PathEffect::Close,
        Act::CloseRange => PathEffect::CloseRange,
        Act::Directory if takes_path() => PathEffect::Chdir,
        Act::Directory => PathEffect::Fchdir,
        Act::Root | Act::PivotRoot => PathEffect::Root,
        Act::Unshare => PathEffect::Unshare,
        Act::EnterNamespace => PathEffect::EnterNamespace,
        Act::Spawn => PathEffect::Spawn,
        Act::Bind => PathEffect::Bind,
        _ if row.acts().any(|act| act == Act::Duplicate) => PathEffect::Duplicate,
        _ if row.acts().any(unseen::is_followed) => PathEffect::Unseen,
        _ if row.ret == Ret::Fd && takes_path() => PathEffect::Open,
        _ if row.classes.intersects(Classes::CHANGE) => PathEffect::Change,
        _ => PathEffect::None,
    }
}

/// The argument in memory that describes unseen moves: an offset or a struct.
fn tells_unseen(row: &'static Syscall) -> Option<u8> {
    let variants = row.variants.iter().filter(|variant| variant.act.is_some());
    let all = variants.map(|variant| variant.args).chain([row.args]);
    let is_told = |arg: &Arg| matches!(arg.kind, ArgKind::Buf(_, Of::Struct(_) | Of::I64, _));
    all.filter_map(|args| args.iter().position(is_told)).map(|number| number as u8).next()
}

fn shape(row: &'static Syscall) -> Shape {
    let role = role(row);
    if role == PathEffect::None {
        return Shape::NONE;
    }
    let mut shape = Shape { role, ..Shape::NONE };
    if role == PathEffect::Unseen {
        shape.memory = tells_unseen(row);
        return shape;
    }
    let mut dir = None;
    for (arg, number) in row.args.iter().zip(0..) {
        match arg.kind {
            ArgKind::DirFd => dir = Some(number),
            ArgKind::Path => {
                let free = shape.paths.iter_mut().find(|path| path.is_none());
                if let Some(free) = free {
                    *free = Some(PathArg { dir, path: number });
                }
            }
            ArgKind::Fd if shape.fd.is_none() => shape.fd = Some(number),
            ArgKind::Flags(set) if means(role, set) => shape.flags = Some(number),
            ArgKind::Buf(_, Of::Struct(_), _)
                if matches!(role, PathEffect::Open | PathEffect::Spawn) =>
            {
                shape.memory = Some(number);
            }
            ArgKind::Buf(_, Of::Sockaddr, _) if role == PathEffect::Bind => {
                shape.memory = Some(number)
            }
            _ => {}
        }
    }
    shape
}

/// Whether these flags are the relevant ones for a role.
fn means(role: PathEffect, set: &'static FlagSet) -> bool {
    let wanted = match role {
        PathEffect::Open => &syscalls::flags::OPEN,
        PathEffect::Rename => &syscalls::flags::RENAME,
        PathEffect::Spawn => &syscalls::flags::CLONE,
        _ => return false,
    };
    std::ptr::eq(set, wanted)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(name: &str) -> Shape {
        Roles::new().of(syscalls::by_name(name).unwrap().nr)
    }

    #[test]
    fn what_only_moves_data_or_asks_has_no_role() {
        for name in ["read", "write", "pwrite64", "readv", "tee", "stat", "getpid", "futex"] {
            assert_eq!(of(name), Shape::NONE, "{name}");
        }
    }

    #[test]
    fn rows_tell_where_the_paths_are() {
        let at = |dir, path| Some(PathArg { dir: Some(dir), path });
        assert_eq!(of("renameat2").paths, [at(0, 1), at(2, 3)]);
        assert_eq!((of("renameat2").role, of("renameat2").flags), (PathEffect::Rename, Some(4)));
        assert_eq!((of("openat").role, of("openat").flags), (PathEffect::Open, Some(2)));
        assert_eq!((of("openat2").role, of("openat2").memory), (PathEffect::Open, Some(2)));
        assert_eq!(of("symlinkat").paths, [at(1, 2), None]);
        assert_eq!((of("fchmod").role, of("fchmod").fd), (PathEffect::Change, Some(0)));
        assert_eq!((of("clone3").role, of("clone3").memory), (PathEffect::Spawn, Some(0)));
        assert_eq!((of("bind").role, of("bind").memory), (PathEffect::Bind, Some(1)));
        for (name, memory) in [
            ("mmap", None),
            ("munmap", None),
            ("sendfile", Some(2)),
            ("copy_file_range", Some(1)),
            ("ioctl", Some(2)),
            ("io_uring_setup", Some(1)),
            ("io_submit", None),
        ] {
            assert_eq!((of(name).role, of(name).memory), (PathEffect::Unseen, memory), "{name}");
        }
    }
}
