//! The initial files from a directory instead of a trace.

use std::collections::HashMap;
use std::io;
use std::ops::Range;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use rustix::fs::{
    AtFlags, Dir, FileType, Gid, Mode, OFlags, Stat, Timespec, Timestamps, Uid, XattrFlags,
};
use rustix::io::Errno;

use super::{Built, ImageError};

/// Bytes that are copied at once.
const CHUNK_BYTES: usize = 256 << 10;
/// Longest list of names of attributes, and longest value; the kernel's limits.
const XATTR_BYTES_MAX: usize = 64 << 10;
/// Directories within directories; each holds two descriptors.
const DEPTH_MAX: usize = 400;
/// Set-user-id and set-group-id.
const SET_IDS: u32 = 0o6000;

const DIRECTORY: OFlags =
    OFlags::RDONLY.union(OFlags::DIRECTORY).union(OFlags::NOFOLLOW).union(OFlags::CLOEXEC);

struct Frame {
    from: OwnedFd,
    to: OwnedFd,
    path: Vec<u8>,
    left: Vec<Vec<u8>>,
    stat: Stat,
}

struct Copy<'a> {
    root: BorrowedFd<'a>,
    built: Built,
    /// Where the first name of a file with several is.
    linked: HashMap<(u64, u64), Vec<u8>>,
}

/// Copies all that is in a directory into another one: links as links, no devices.
pub fn copy(from: BorrowedFd<'_>, to: BorrowedFd<'_>) -> Result<Built, ImageError> {
    let mut copy = Copy { root: to, built: Built::default(), linked: HashMap::new() };
    let open = |fd: BorrowedFd<'_>| rustix::fs::openat(fd, ".", DIRECTORY, Mode::empty());
    let opened = open(from).and_then(|from| Ok((from, open(to)?)));
    let (from, to) = opened.map_err(|error| ImageError::write(b"/", error))?;
    let mut frames = vec![frame(from, to, Vec::new())?];
    while let Some(top) = frames.last_mut() {
        match top.left.pop() {
            Some(name) => {
                let path = [&top.path[..], b"/", &name].concat();
                let below = copy.entry(top, &name, &path);
                let below = below.map_err(|source| ImageError::Write { path, source })?;
                if frames.len() >= DEPTH_MAX && below.is_some() {
                    copy.built.leave_out("directories that lie too deep");
                } else if let Some((from, to, path)) = below {
                    frames.push(frame(from, to, path)?);
                }
            }
            None => {
                let Some(top) = frames.pop() else { break };
                if !top.path.is_empty() {
                    copy.attributes(top.from.as_fd(), top.to.as_fd(), &top.stat)
                        .map_err(|source| ImageError::Write { path: top.path.clone(), source })?;
                }
            }
        }
    }
    Ok(copy.built)
}

fn frame(from: OwnedFd, to: OwnedFd, path: Vec<u8>) -> Result<Frame, ImageError> {
    let read = || -> io::Result<(Vec<Vec<u8>>, Stat)> {
        let mut left = Vec::new();
        for entry in Dir::read_from(&from)? {
            let name = entry?.file_name().to_bytes().to_vec();
            if name != b"." && name != b".." {
                left.push(name);
            }
        }
        Ok((left, rustix::fs::fstat(&from)?))
    };
    match read() {
        Ok((left, stat)) => Ok(Frame { from, to, path, left, stat }),
        Err(source) => Err(ImageError::Write { path, source }),
    }
}

impl Copy<'_> {
    fn entry(
        &mut self,
        frame: &Frame,
        name: &[u8],
        path: &[u8],
    ) -> io::Result<Option<(OwnedFd, OwnedFd, Vec<u8>)>> {
        let stat = rustix::fs::statat(&frame.from, name, AtFlags::SYMLINK_NOFOLLOW)?;
        let to = &frame.to;
        let kind = FileType::from_raw_mode(stat.st_mode);
        if kind != FileType::Directory && stat.st_nlink > 1 {
            let inode = (stat.st_dev, stat.st_ino);
            if let Some(first) = self.linked.get(&inode) {
                let first = first.strip_prefix(b"/").unwrap_or(first);
                rustix::fs::linkat(self.root, first, to, name, AtFlags::empty())?;
                return Ok(None);
            }
            self.linked.insert(inode, path.to_vec());
        }
        match kind {
            FileType::Directory => {
                match rustix::fs::mkdirat(to, name, Mode::RWXU) {
                    Err(Errno::EXIST) => {}
                    made => made?,
                }
                let from = rustix::fs::openat(&frame.from, name, DIRECTORY, Mode::empty())?;
                let to = rustix::fs::openat(to, name, DIRECTORY, Mode::empty())?;
                self.built.directories += 1;
                return Ok(Some((from, to, path.to_vec())));
            }
            FileType::Symlink => {
                let target = rustix::fs::readlinkat(&frame.from, name, Vec::new())?;
                rustix::fs::symlinkat(&target, to, name)?;
                self.own_name(to, name, &stat)?;
                self.built.links += 1;
            }
            FileType::RegularFile => {
                let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
                let from = rustix::fs::openat(&frame.from, name, flags, Mode::empty())?;
                let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::CLOEXEC;
                let to = rustix::fs::openat(to, name, flags, Mode::RUSR | Mode::WUSR)?;
                let size = stat.st_size as u64;
                rustix::fs::ftruncate(&to, size)?;
                self.built.files += 1;
                self.built.seen_bytes += size;
                ranges(from.as_fd(), to.as_fd(), data(from.as_fd(), size)?.into_iter())?;
                self.attributes(from.as_fd(), to.as_fd(), &stat)?;
            }
            FileType::Fifo | FileType::Socket => {
                let mode = Mode::from_raw_mode(stat.st_mode & 0o7777);
                rustix::fs::mknodat(to, name, kind, mode, 0)?;
                self.own_name(to, name, &stat)?;
                // The umask has taken some of it.
                rustix::fs::chmodat(to, name, mode, AtFlags::empty())?;
                self.built.special += 1;
            }
            _ => self.built.leave_out(super::assemble::left_out::DEVICE),
        }
        Ok(None)
    }

    /// Gives what cannot be opened to its owner.
    fn own_name(&mut self, to: &OwnedFd, name: &[u8], stat: &Stat) -> io::Result<()> {
        self.own(rustix::fs::chownat(
            to,
            name,
            Some(Uid::from_raw_unchecked(stat.st_uid)),
            Some(Gid::from_raw_unchecked(stat.st_gid)),
            AtFlags::SYMLINK_NOFOLLOW,
        ))
    }

    fn own(&mut self, given: rustix::io::Result<()>) -> io::Result<()> {
        match given {
            Err(Errno::PERM | Errno::INVAL) => {
                self.built.leave_out("owners that could not be given");
                Ok(())
            }
            given => Ok(given?),
        }
    }

    fn attributes(
        &mut self,
        from: BorrowedFd<'_>,
        to: BorrowedFd<'_>,
        stat: &Stat,
    ) -> io::Result<()> {
        self.xattrs(from, to);
        let (uid, gid) =
            (Uid::from_raw_unchecked(stat.st_uid), Gid::from_raw_unchecked(stat.st_gid));
        self.own(rustix::fs::fchown(to, Some(uid), Some(gid)))?;
        let mut mode = stat.st_mode & 0o7777;
        if FileType::from_raw_mode(stat.st_mode) == FileType::RegularFile && mode & SET_IDS != 0 {
            mode &= !SET_IDS;
            self.built.leave_out("set-user-id and set-group-id bits");
        }
        rustix::fs::fchmod(to, Mode::from_raw_mode(mode))?;
        let times = Timestamps {
            last_access: Timespec { tv_sec: stat.st_atime, tv_nsec: stat.st_atime_nsec as _ },
            last_modification: Timespec { tv_sec: stat.st_mtime, tv_nsec: stat.st_mtime_nsec as _ },
        };
        Ok(rustix::fs::futimens(to, &times)?)
    }

    fn xattrs(&mut self, from: BorrowedFd<'_>, to: BorrowedFd<'_>) {
        let mut list = vec![0; XATTR_BYTES_MAX];
        let Ok(len) = rustix::fs::flistxattr(from, &mut list[..]) else { return };
        let mut value = vec![0; XATTR_BYTES_MAX];
        for name in list[..len].split(|&c| c == 0).filter(|name| !name.is_empty()) {
            let Ok(len) = rustix::fs::fgetxattr(from, name, &mut value[..]) else { continue };
            if rustix::fs::fsetxattr(to, name, &value[..len], XattrFlags::empty()).is_err() {
                self.built.leave_out("extended attributes");
            }
        }
    }
}

/// The ranges of a file that are not holes.
fn data(file: BorrowedFd<'_>, size: u64) -> io::Result<Vec<Range<u64>>> {
    use rustix::fs::SeekFrom::{Data, Hole};
    let mut found = Vec::new();
    let mut at = 0;
    while at < size {
        let start = match rustix::fs::seek(file, Data(at)) {
            Err(Errno::NXIO) => break,
            start => start?,
        };
        at = rustix::fs::seek(file, Hole(start))?;
        found.push(start..at.min(size));
    }
    Ok(found)
}

/// Copies ranges of one file to another one.
pub fn ranges(
    from: BorrowedFd<'_>,
    to: BorrowedFd<'_>,
    ranges: impl Iterator<Item = Range<u64>>,
) -> io::Result<()> {
    let mut buffer = vec![0; CHUNK_BYTES];
    for Range { start, end } in ranges {
        let mut at = start;
        while at < end {
            let want = (end - at).min(CHUNK_BYTES as u64) as usize;
            let len = rustix::io::pread(from, &mut buffer[..want], at)?;
            if len == 0 {
                break;
            }
            let mut done = 0;
            while done < len {
                done += rustix::io::pwrite(to, &buffer[done..len], at + done as u64)?;
            }
            at += len as u64;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::fs::{self, File};
    use std::os::unix::fs::{FileExt, MetadataExt, PermissionsExt, chown, symlink};

    use rustix::fs::CWD;

    use super::*;

    #[test]
    fn everything_is_copied_and_nothing_is_followed() {
        let (from, to) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let outside = tempfile::NamedTempFile::new().unwrap();
        let path = |name: &str| from.path().join(name);
        fs::create_dir_all(path("a/b")).unwrap();
        fs::write(path("a/b/file"), b"some bytes").unwrap();
        fs::hard_link(path("a/b/file"), path("other")).unwrap();
        fs::set_permissions(path("a/b/file"), fs::Permissions::from_mode(0o4751)).unwrap();
        symlink(outside.path(), path("link")).unwrap();
        let sparse = File::create(path("sparse")).unwrap();
        sparse.write_all_at(b"end", 100 << 20).unwrap();
        fs::set_permissions(path("a/b"), fs::Permissions::from_mode(0o555)).unwrap();
        rustix::fs::mknodat(CWD, path("pipe"), FileType::Fifo, Mode::empty(), 0).unwrap();
        fs::set_permissions(path("pipe"), fs::Permissions::from_mode(0o662)).unwrap();
        // Only root may; another user's are as they are.
        let _ = chown(path("pipe"), Some(1234), Some(2345));

        let (source, target) = (File::open(from.path()).unwrap(), File::open(to.path()).unwrap());
        let built = copy(source.as_fd(), target.as_fd()).unwrap();

        let meta = |name: &str| fs::symlink_metadata(to.path().join(name)).unwrap();
        assert_eq!(fs::read(to.path().join("a/b/file")).unwrap(), b"some bytes");
        assert_eq!((meta("other").nlink(), meta("other").ino()), (2, meta("a/b/file").ino()));
        assert_eq!((meta("other").mode() & 0o7777, meta("a/b").mode() & 0o7777), (0o751, 0o555));
        let whose = |meta: fs::Metadata| (meta.mode(), meta.uid(), meta.gid());
        let pipe = fs::symlink_metadata(path("pipe")).unwrap();
        assert_eq!(whose(meta("pipe")), whose(pipe));
        assert_eq!(fs::read_link(to.path().join("link")).unwrap(), outside.path());
        assert_eq!(meta("sparse").len(), (100 << 20) + 3);
        assert!(meta("sparse").blocks() < 10_000, "holes stay holes");
        let mtime = |meta: fs::Metadata| (meta.mtime(), meta.mtime_nsec());
        assert_eq!(mtime(meta("a/b")), mtime(fs::metadata(path("a/b")).unwrap()));
        assert_eq!((built.directories, built.files, built.links), (2, 2, 1));
        assert_eq!(built.left_out.get("set-user-id and set-group-id bits"), Some(&1));
    }
}
