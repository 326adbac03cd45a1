//! Permissions, owner, times and extended attributes of a file of the image.

use std::io;
use std::os::fd::BorrowedFd;

use rustix::fs::{
    AtFlags, Gid, Mode, Timespec, Timestamps, UTIME_OMIT, Uid, XattrFlags, chmodat, chownat,
    fchmod, fchown, fsetxattr, futimens, utimensat,
};
use rustix::io::Errno;

use super::built::Built;
use super::tree::{Node, NodeKind};

/// Bits that give a program the rights of its owner or group.
const SET_IDS: u32 = 0o6000;
/// Set-user-id, which is also withheld from directories.
const SET_USER_ID: u32 = 0o4000;
/// In such directories only owners may remove entries.
const STICKY: u32 = 0o1000;

const OWNERS: &str = "owners that could not be given";
const SET_ID_BITS: &str = "set-user-id and set-group-id bits";
const XATTRS: &str = "extended attributes";

/// A file, by descriptor or by name.
#[derive(Clone, Copy)]
pub enum Target<'a> {
    Open(BorrowedFd<'a>),
    Name(BorrowedFd<'a>, &'a [u8]),
}

/// Sets the attributes that a file had, as far as they are known and allowed.
pub fn apply(target: Target<'_>, node: &Node, kind: NodeKind, built: &mut Built) -> io::Result<()> {
    if let Target::Open(fd) = target {
        xattrs(fd, node, built)?;
    }
    let about = &node.about;
    if let Some((uid, gid)) = about.owner.or(about.writer) {
        let (uid, gid) = (Uid::from_raw_unchecked(uid), Gid::from_raw_unchecked(gid));
        let given = match target {
            Target::Open(fd) => fchown(fd, Some(uid), Some(gid)),
            Target::Name(directory, name) => {
                chownat(directory, name, Some(uid), Some(gid), AtFlags::SYMLINK_NOFOLLOW)
            }
        };
        match given {
            Err(Errno::PERM | Errno::INVAL | Errno::OPNOTSUPP) => built.leave_out(OWNERS),
            given => given?,
        }
    }
    if kind != NodeKind::Link {
        let mut mode = permissions(node, kind);
        let withheld = if kind == NodeKind::Directory { SET_USER_ID } else { SET_IDS };
        if mode & withheld != 0 {
            mode &= !withheld;
            built.leave_out(SET_ID_BITS);
        }
        let mode = Mode::from_raw_mode(mode);
        match target {
            Target::Open(fd) => fchmod(fd, mode)?,
            Target::Name(directory, name) => chmodat(directory, name, mode, AtFlags::empty())?,
        }
    }
    let Some(mtime) = about.mtime_ns else { return Ok(()) };
    let times = Timestamps {
        last_access: Timespec { tv_sec: 0, tv_nsec: UTIME_OMIT },
        last_modification: Timespec {
            tv_sec: mtime.div_euclid(1_000_000_000),
            tv_nsec: mtime.rem_euclid(1_000_000_000) as _,
        },
    };
    match target {
        Target::Open(fd) => futimens(fd, &times)?,
        Target::Name(directory, name) => {
            utimensat(directory, name, &times, AtFlags::SYMLINK_NOFOLLOW)?;
        }
    }
    Ok(())
}

/// That everybody may execute a file.
pub const EXECUTE: u32 = 0o111;

/// Returns the recorded permissions, or some that allow what users did with the file.
fn permissions(node: &Node, kind: NodeKind) -> u32 {
    let about = &node.about;
    match (about.mode, kind) {
        (Some(mode), _) => mode,
        (None, NodeKind::Directory) if about.writers && about.taken_from => 0o777,
        (None, NodeKind::Directory) if about.writers => 0o777 | STICKY,
        (None, NodeKind::Directory) => 0o755,
        (None, _) => {
            let execute = if about.executable { EXECUTE } else { 0 };
            execute | if about.writers { 0o666 } else { 0o644 }
        }
    }
}

fn xattrs(fd: BorrowedFd<'_>, node: &Node, built: &mut Built) -> io::Result<()> {
    for (name, value) in &node.about.xattrs {
        let value = value.as_deref().unwrap_or_default();
        match fsetxattr(fd, &name[..], value, XattrFlags::empty()) {
            Ok(()) => {}
            Err(Errno::NOSPC | Errno::DQUOT | Errno::IO) => return Err(Errno::NOSPC.into()),
            Err(_) => built.leave_out(XATTRS),
        }
    }
    Ok(())
}
