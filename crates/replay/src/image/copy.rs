//! Copies the initial files from a directory.

use std::collections::HashMap;
use std::io;
use std::ops::Range;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use rustix::fs::{
    AtFlags, Dir, FileType, Gid, Mode, OFlags, Stat, Timespec, Timestamps, Uid, XattrFlags,
};
use rustix::io::Errno;

use super::built::Built;
use super::error::ImageError;
use super::left_out::DEVICE;
use crate::space::{Medium, Space};

/// Bytes copied at a time.
const CHUNK_BYTES: usize = 256 << 10;
/// Longest list of attribute names, and longest value; the kernel's limits.
const XATTR_BYTES_MAX: usize = 64 << 10;
/// Deepest nesting of directories; each level holds two descriptors.
const DEPTH_MAX: usize = 400;
/// Set-user-id and set-group-id.
const SET_IDS: u32 = 0o6000;
/// Set-user-id, which is also withheld from directories.
const SET_USER_ID: u32 = 0o4000;
/// Disk space of a name beyond its bytes.
const FILE_BYTES: u64 = 256;

/// File systems that generate files as they are read, possibly without end.
const VIEWS: &[u64] = &[
    0x9fa0,      // proc
    0x6265_6572, // sysfs
    0x1cd1,      // devpts
    0x27_e0eb,   // cgroup
    0x6367_7270, // cgroup2
    0x6462_6720, // debugfs
    0x7472_6163, // tracefs
    0x7363_6673, // securityfs
    0xcafe_4a11, // bpf
    0x1980_0202, // mqueue
    0x6265_6570, // configfs
    0x4249_4e4d, // binfmt_misc
    0xde5e_81e4, // efivarfs
    0x6165_676c, // pstore
    0xf97c_ff8c, // selinuxfs
    0x4341_5d53, // smackfs
    0x6573_5543, // fusectl
    0x187,       // autofs
];

const DIRECTORY: OFlags =
    OFlags::RDONLY.union(OFlags::DIRECTORY).union(OFlags::NOFOLLOW).union(OFlags::CLOEXEC);

/// Device and inode number.
pub type Inode = (u64, u64);

struct Frame {
    from: OwnedFd,
    to: OwnedFd,
    path: Vec<u8>,
    left: Vec<Vec<u8>>,
    stat: Stat,
}

struct Copy<'a> {
    root: BorrowedFd<'a>,
    /// The root and its mount points: copied into themselves, they would grow without end.
    own: &'a [Inode],
    space: &'a Space,
    built: Built,
    /// Path of the first name of each file with several names.
    linked: HashMap<Inode, Vec<u8>>,
}

/// Copies the content of a directory into another one, at most as much as `space` has. Links are
/// copied as links; devices and the directories in `own` are left out.
pub fn copy(
    from: BorrowedFd<'_>,
    to: BorrowedFd<'_>,
    own: &[Inode],
    space: &Space,
) -> Result<Built, ImageError> {
    let (built, linked) = Default::default();
    let mut copy = Copy { root: to, own, space, built, linked };
    let open = |fd: BorrowedFd<'_>| rustix::fs::openat(fd, ".", DIRECTORY, Mode::empty());
    let opened = open(from).and_then(|from| Ok((from, open(to)?)));
    let (from, to) = opened.map_err(|error| ImageError::write(b"/", error))?;
    let top = frame(from, to, Vec::new())?;
    if own.contains(&inode(&top.stat)) {
        return Err(ImageError::Source("the root of the replay itself, or bound into it"));
    }
    if is_view(top.from.as_fd()).map_err(|error| ImageError::write(b"/", error))? {
        return Err(ImageError::Source("a view of the kernel"));
    }
    let mut frames = vec![top];
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

fn inode(stat: &Stat) -> Inode {
    (stat.st_dev, stat.st_ino)
}

fn is_view(directory: BorrowedFd<'_>) -> io::Result<bool> {
    Ok(VIEWS.contains(&(rustix::fs::fstatfs(directory)?.f_type as u64)))
}

impl Copy<'_> {
    /// Reserves disk space.
    fn take(&self, bytes: u64) -> io::Result<()> {
        match self.space.take_here(bytes) {
            true => Ok(()),
            false => Err(io::Error::other(self.space.used_up(Medium::Disk))),
        }
    }

    /// Whether a directory must not be copied.
    fn leaves_out(&mut self, from: &OwnedFd, above: &Stat) -> io::Result<bool> {
        let stat = rustix::fs::fstat(from)?;
        let why = if self.own.contains(&inode(&stat)) {
            "the root of the replay itself, and what is bound into it"
        } else if stat.st_dev != above.st_dev && is_view(from.as_fd())? {
            "views of the kernel"
        } else {
            return Ok(false);
        };
        self.built.leave_out(why);
        Ok(true)
    }

    fn entry(
        &mut self,
        frame: &Frame,
        name: &[u8],
        path: &[u8],
    ) -> io::Result<Option<(OwnedFd, OwnedFd, Vec<u8>)>> {
        let stat = rustix::fs::statat(&frame.from, name, AtFlags::SYMLINK_NOFOLLOW)?;
        let to = &frame.to;
        let kind = FileType::from_raw_mode(stat.st_mode);
        self.take(FILE_BYTES)?;
        if kind != FileType::Directory && stat.st_nlink > 1 {
            let inode = inode(&stat);
            if let Some(first) = self.linked.get(&inode) {
                let first = first.strip_prefix(b"/").unwrap_or(first);
                rustix::fs::linkat(self.root, first, to, name, AtFlags::empty())?;
                return Ok(None);
            }
            self.linked.insert(inode, path.to_vec());
        }
        match kind {
            FileType::Directory => {
                let from = rustix::fs::openat(&frame.from, name, DIRECTORY, Mode::empty())?;
                if self.leaves_out(&from, &frame.stat)? {
                    return Ok(None);
                }
                match rustix::fs::mkdirat(to, name, Mode::RWXU) {
                    Err(Errno::EXIST) => {}
                    made => made?,
                }
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
                // The file may have been replaced: do not block on a pipe.
                let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
                let from = rustix::fs::openat(&frame.from, name, flags, Mode::empty())?;
                let stat = rustix::fs::fstat(&from)?;
                if FileType::from_raw_mode(stat.st_mode) != FileType::RegularFile {
                    self.built.leave_out("files that changed meanwhile");
                    return Ok(None);
                }
                let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::CLOEXEC;
                let to = rustix::fs::openat(to, name, flags, Mode::RUSR | Mode::WUSR)?;
                let size = stat.st_size as u64;
                rustix::fs::ftruncate(&to, size)?;
                self.built.files += 1;
                self.built.seen_bytes += size;
                let data = data(from.as_fd(), size)?;
                self.take(data.iter().map(|range| range.end - range.start).sum())?;
                ranges(from.as_fd(), to.as_fd(), data.into_iter())?;
                self.attributes(from.as_fd(), to.as_fd(), &stat)?;
            }
            FileType::Fifo | FileType::Socket => self.special(to, name, kind, &stat)?,
            _ => {
                self.special(to, name, FileType::RegularFile, &stat)?;
                self.built.leave_out(DEVICE);
            }
        }
        Ok(None)
    }

    /// Creates a file without content.
    fn special(
        &mut self,
        to: &OwnedFd,
        name: &[u8],
        kind: FileType,
        stat: &Stat,
    ) -> io::Result<()> {
        let mode = Mode::from_raw_mode(stat.st_mode & 0o7777);
        rustix::fs::mknodat(to, name, kind, mode, 0)?;
        self.own_name(to, name, stat)?;
        // The umask has removed some bits.
        rustix::fs::chmodat(to, name, mode, AtFlags::empty())?;
        self.built.special += 1;
        Ok(())
    }

    /// Sets the owner of a file that cannot be opened.
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
        let withheld = match FileType::from_raw_mode(stat.st_mode) {
            FileType::RegularFile => SET_IDS,
            _ => SET_USER_ID,
        };
        if mode & withheld != 0 {
            mode &= !withheld;
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

/// Returns the ranges of a file that are not holes.
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
    use std::path::Path;

    use rustix::fs::CWD;

    use super::*;

    fn identity(path: &Path) -> Inode {
        let meta = fs::metadata(path).unwrap();
        (meta.dev(), meta.ino())
    }

    fn space(max: Option<u64>, on: &Path) -> Space {
        Space::new(vec![File::open(on).unwrap().into()], max).unwrap()
    }

    #[test]
    fn an_image_never_holds_the_root_that_it_is_copied_into() {
        let dir = tempfile::tempdir().unwrap();
        let path = |name: &str| dir.path().join(name);
        for name in ["a/root", "a/bound", "a/other"] {
            fs::create_dir_all(path(name)).unwrap();
            fs::write(path(name).join("file"), name).unwrap();
        }
        symlink("a/root", path("link")).unwrap();
        let own = ["a/root", "a/bound"].map(|name| identity(&path(name)));
        let target = File::open(path("a/root")).unwrap();
        let space = space(None, dir.path());
        let from = File::open(dir.path()).unwrap();
        let built = copy(from.as_fd(), target.as_fd(), &own, &space).unwrap();
        assert_eq!(fs::read(path("a/root/a/other/file")).unwrap(), b"a/other");
        assert!(!path("a/root/a/root").exists() && !path("a/root/a/bound").exists());
        assert!(path("a/root/link").is_symlink());
        assert_eq!(built.left_out.values().sum::<u64>(), 2);
        for name in ["a/root", "a/bound", "link"] {
            let from = File::open(path(name)).unwrap();
            copy(from.as_fd(), target.as_fd(), &own, &space).expect_err(name);
        }
    }

    #[test]
    fn views_of_the_kernel_are_left_out() {
        let to = tempfile::tempdir().unwrap();
        let target = File::open(to.path()).unwrap();
        let space = space(Some(1 << 20), to.path());
        let from = File::open("/proc/self").unwrap();
        copy(from.as_fd(), target.as_fd(), &[], &space).expect_err("it has no end");
        assert_eq!(fs::read_dir(to.path()).unwrap().count(), 0);
    }

    #[test]
    fn no_more_is_copied_than_there_is_room() {
        let (from, to) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        for name in 0..8 {
            fs::write(from.path().join(name.to_string()), vec![1; 1 << 20]).unwrap();
        }
        let (source, target) = (File::open(from.path()).unwrap(), File::open(to.path()).unwrap());
        let space = space(Some(3 << 20), to.path());
        let refused = copy(source.as_fd(), target.as_fd(), &[], &space).unwrap_err();
        assert!(refused.to_string().contains("--max-size"), "{refused}");
        let files =
            fs::read_dir(to.path()).unwrap().map(|entry| entry.unwrap().metadata().unwrap());
        assert!(files.map(|file| file.len()).sum::<u64>() <= 4 << 20);
    }

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
        // Fails unless run as root: the owner stays as it is then.
        let _ = chown(path("pipe"), Some(1234), Some(2345));

        let (source, target) = (File::open(from.path()).unwrap(), File::open(to.path()).unwrap());
        let own = [identity(to.path())];
        let built = copy(source.as_fd(), target.as_fd(), &own, &space(None, to.path())).unwrap();

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
