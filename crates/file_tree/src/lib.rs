//! Looks at files as a manifest describes them. The recorder does so at the end of a recording, a
//! replay at its own, so both use the same code.
//!
//! A tree may be hostile: the kernel resolves every path inside its root, links at the end of a
//! path are not followed, and only regular files are opened for reading.

mod allocated;
mod content;
mod want;

use std::ffi::CString;
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::panic::resume_unwind;
use std::path::Path;
use std::thread::{self, Builder};

use rustix::fs::{
    AtFlags, Dir, FileType, Mode, OFlags, ResolveFlags, Stat, fgetxattr, flistxattr, fstat, open,
    openat2, readlinkat,
};
use rustix::io::Errno;
use trace::manifest::{Content, Entry, FileKind, XATTRS_MAX, Xattr};
use twox_hash::XxHash3_128;

pub use want::Want;

/// Maximum number of names read from one directory.
const NAMES_MAX: usize = 1 << 20;
/// Maximum bytes of an attribute, and of a list of attributes: the kernel's limit.
const XATTR_BYTES_MAX: usize = 64 << 10;
/// Maximum number of links followed in a row: the kernel's limit.
const LINKS_MAX: u32 = 40;
/// Minimum number of paths for which a thread is started.
const PATHS_PER_THREAD: usize = 32;
/// How often a path is resolved again when directories are renamed meanwhile.
const TRIES: u32 = 16;

/// A tree of files; all paths are resolved inside it.
pub struct Tree {
    root: OwnedFd,
}

/// Device and inode number of a file.
pub type Inode = (u64, u64);

/// A file that was looked at.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Seen {
    /// Its entry for a manifest, in which `same` is 0.
    pub entry: Entry,
    /// Its device and inode.
    pub inode: Inode,
}

impl Tree {
    /// Opens the tree below a directory.
    pub fn open(path: &Path) -> io::Result<Tree> {
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
        Ok(Tree { root: open(path, flags, Mode::empty())? })
    }

    /// Returns the tree below an open directory.
    pub fn from_fd(root: OwnedFd) -> Tree {
        Tree { root }
    }

    /// Looks at a path. If that fails, the entry says so.
    pub fn look(&self, path: &[u8], want: Want) -> Seen {
        let gone = |error: Errno| {
            let kind = match error {
                Errno::NOENT | Errno::NOTDIR | Errno::LOOP => FileKind::Absent,
                _ => FileKind::Unreachable,
            };
            Seen { entry: Entry { path: path.to_vec(), kind, ..Entry::default() }, inode: (0, 0) }
        };
        match self.resolve(path, OFlags::PATH | OFlags::NOFOLLOW).and_then(|fd| {
            let stat = fstat(&fd)?;
            Ok((fd, stat))
        }) {
            Ok((fd, stat)) => self.describe(path, &fd, &stat, want),
            Err(error) => gone(error),
        }
    }

    /// Looks at several paths, on several processors if there are many.
    pub fn look_at_all(&self, paths: &[(&[u8], Want)]) -> Vec<Seen> {
        let look = |paths: &[(&[u8], Want)]| -> Vec<Seen> {
            paths.iter().map(|(path, want)| self.look(path, *want)).collect()
        };
        let threads = thread::available_parallelism().map_or(1, |count| count.get());
        let share = paths.len().div_ceil(threads).max(PATHS_PER_THREAD);
        let mut shares = paths.chunks(share);
        let own = shares.next().unwrap_or_default();
        thread::scope(|scope| {
            let others: Vec<_> = shares
                .map(|share| (share, Builder::new().spawn_scoped(scope, move || look(share))))
                .collect();
            let mut seen = look(own);
            for (share, other) in others {
                // If no more threads can be started, this one does the work.
                let theirs = other.map(|other| other.join().unwrap_or_else(|p| resume_unwind(p)));
                seen.extend(theirs.unwrap_or_else(|_| look(share)));
            }
            seen
        })
    }

    fn describe(&self, path: &[u8], fd: &OwnedFd, stat: &Stat, want: Want) -> Seen {
        let kind = kind_of(stat);
        let mut entry = Entry {
            path: path.to_vec(),
            kind,
            mode: stat.st_mode & 0o7777,
            uid: stat.st_uid,
            gid: stat.st_gid,
            nlink: stat.st_nlink,
            size: stat.st_size as u64,
            rdev: stat.st_rdev,
            ..Entry::default()
        };
        match kind {
            FileKind::Regular if want != Want::Nothing => self.regular(&mut entry, stat, want),
            FileKind::Directory if want != Want::Nothing => {
                let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW;
                if let Ok(dir) = self.same(path, flags, stat) {
                    entry.xattrs = xattrs(dir.as_fd());
                }
            }
            FileKind::Link => {
                if let Ok(target) = readlinkat(fd, c"", Vec::new()) {
                    entry.target = target.into_bytes();
                }
            }
            _ => {}
        }
        Seen { entry, inode: (stat.st_dev, stat.st_ino) }
    }

    fn regular(&self, entry: &mut Entry, stat: &Stat, want: Want) {
        let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::NOCTTY;
        entry.content = match self.same(&entry.path, flags, stat) {
            Ok(file) => {
                entry.xattrs = xattrs(file.as_fd());
                content::sum(file.as_fd(), stat, want)
            }
            Err(_) => Content::Unreadable,
        };
    }

    /// Opens a path again; fails with `ESTALE` if it leads to another file than `stat` is of.
    fn same(&self, path: &[u8], flags: OFlags, stat: &Stat) -> Result<OwnedFd, Errno> {
        let fd = self.resolve(path, flags)?;
        let now = fstat(&fd)?;
        if (now.st_dev, now.st_ino) == (stat.st_dev, stat.st_ino) {
            Ok(fd)
        } else {
            Err(Errno::STALE)
        }
    }

    /// Opens the regular file at a path for reading, without blocking. Fails with `ESTALE` if it is
    /// not the `known` file, and with `EINVAL` if it is not regular. If no file is `known`,
    /// symbolic links are not followed.
    pub fn open_regular(&self, path: &[u8], known: Option<Inode>) -> Result<OwnedFd, Errno> {
        let links = if known.is_none() { ResolveFlags::NO_SYMLINKS } else { ResolveFlags::empty() };
        let found = self.resolve_with(path, OFlags::PATH, links)?;
        let stat = fstat(&found)?;
        if known.is_some_and(|known| known != (stat.st_dev, stat.st_ino)) {
            return Err(Errno::STALE);
        }
        if kind_of(&stat) != FileKind::Regular {
            return Err(Errno::INVAL);
        }
        // Opens the very file that was looked at, whatever the path leads to now.
        let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC;
        open(format!("/proc/self/fd/{}", found.as_raw_fd()), flags, Mode::empty())
    }

    fn resolve(&self, path: &[u8], flags: OFlags) -> Result<OwnedFd, Errno> {
        self.resolve_with(path, flags, ResolveFlags::empty())
    }

    fn resolve_with(
        &self,
        path: &[u8],
        flags: OFlags,
        more: ResolveFlags,
    ) -> Result<OwnedFd, Errno> {
        let inside = path.iter().position(|&byte| byte != b'/').map_or(&b"."[..], |at| &path[at..]);
        let inside = CString::new(inside).map_err(|_| Errno::INVAL)?;
        let how = ResolveFlags::IN_ROOT | ResolveFlags::NO_MAGICLINKS | more;
        let mut tries = 0;
        loop {
            match openat2(&self.root, &inside, flags | OFlags::CLOEXEC, Mode::empty(), how) {
                // Directories were renamed meanwhile.
                Err(Errno::AGAIN) if tries < TRIES => tries += 1,
                Err(Errno::INTR) => {}
                opened => return opened,
            }
        }
    }

    /// The directory of a path's last name, after following all links before that: an absolute path
    /// in the tree without links and `..`. `None` if there is no such directory.
    pub fn parent_of(&self, path: &[u8]) -> Option<Vec<u8>> {
        let slash = path.iter().rposition(|&byte| byte == b'/')?;
        let reversed = |path: &[u8]| -> Vec<Vec<u8>> {
            path.rsplit(|&byte| byte == b'/').map(<[u8]>::to_vec).collect()
        };
        let mut left = reversed(&path[..slash]);
        let mut place = Vec::new();
        let mut links = 0;
        while let Some(name) = left.pop() {
            match &name[..] {
                b"" | b"." => continue,
                b".." => {
                    place.truncate(place.iter().rposition(|&byte| byte == b'/').unwrap_or(0));
                    continue;
                }
                _ => {}
            }
            let next = [&place[..], b"/", &name].concat();
            let Entry { kind, target, .. } = self.look(&next, Want::Nothing).entry;
            match kind {
                FileKind::Directory => place = next,
                FileKind::Link if links < LINKS_MAX => {
                    links += 1;
                    if target.first() == Some(&b'/') {
                        place.clear();
                    }
                    left.extend(reversed(&target));
                }
                _ => return None,
            }
        }
        Some(if place.is_empty() { b"/".to_vec() } else { place })
    }

    /// The sorted names in a directory; `None` if it is none, or cannot be read.
    pub fn names(&self, path: &[u8]) -> Option<Vec<Vec<u8>>> {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW;
        let mut names = Vec::new();
        for entry in Dir::new(self.resolve(path, flags).ok()?).ok()? {
            let name = entry.ok()?.file_name().to_bytes().to_vec();
            if name != b"." && name != b".." {
                names.push(name);
            }
            if names.len() > NAMES_MAX {
                return None;
            }
        }
        names.sort_unstable();
        Some(names)
    }
}

fn kind_of(stat: &Stat) -> FileKind {
    match FileType::from_raw_mode(stat.st_mode) {
        FileType::RegularFile => FileKind::Regular,
        FileType::Directory => FileKind::Directory,
        FileType::Symlink => FileKind::Link,
        FileType::Fifo => FileKind::Pipe,
        FileType::Socket => FileKind::Socket,
        FileType::CharacterDevice => FileKind::Character,
        FileType::BlockDevice => FileKind::Block,
        FileType::Unknown => FileKind::Unreachable,
    }
}

/// Attributes that security modules write by themselves: they are not the program's.
const LABELS: [&[u8]; 5] = [
    b"security.selinux",
    b"security.SMACK64",
    b"security.apparmor",
    b"security.ima",
    b"security.evm",
];

fn is_label(attribute: &[u8]) -> bool {
    LABELS.iter().any(|label| attribute.starts_with(label))
}

/// The extended attributes of an open file.
fn xattrs(fd: BorrowedFd<'_>) -> Vec<Xattr> {
    // Most files have none. (For an empty buffer rustix reports an error.)
    if flistxattr(fd, &mut [0u8; 1][..]).is_ok_and(|len| len == 0) {
        return Vec::new();
    }
    let mut list = vec![0; XATTR_BYTES_MAX];
    let Ok(len) = flistxattr(fd, &mut list[..]) else { return Vec::new() };
    let mut found = Vec::new();
    let mut value = Vec::new();
    for name in list[..len].split(|&byte| byte == 0) {
        if name.is_empty() || is_label(name) || found.len() == XATTRS_MAX {
            continue;
        }
        value.resize(XATTR_BYTES_MAX, 0);
        if let Ok(len) = fgetxattr(fd, name, &mut value[..]) {
            let hash = XxHash3_128::oneshot(&value[..len]);
            found.push(Xattr { name: name.to_vec(), hash });
        }
    }
    found.sort_unstable_by(|a, b| a.name.cmp(&b.name));
    found
}

/// Returns the device and inode of an open file of any kind.
pub fn inode_of(file: impl AsFd) -> io::Result<Inode> {
    let stat = rustix::fs::statat(file, c"", AtFlags::EMPTY_PATH)?;
    Ok((stat.st_dev, stat.st_ino))
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::symlink;

    use super::*;

    #[test]
    fn the_directory_behind_links_is_found() {
        let place = tempfile::tempdir().unwrap();
        fs::create_dir_all(place.path().join("real/sub")).unwrap();
        symlink("/real", place.path().join("absolute")).unwrap();
        symlink("real/sub", place.path().join("relative")).unwrap();
        symlink("loop", place.path().join("loop")).unwrap();
        let tree = Tree::open(place.path()).unwrap();
        let check = |path: &str, expected: Option<&str>| {
            let found = tree.parent_of(path.as_bytes());
            assert_eq!(found.as_deref(), expected.map(str::as_bytes), "{path}");
        };
        check("/x", Some("/"));
        check("/absolute/x", Some("/real"));
        check("/relative/x", Some("/real/sub"));
        check("/relative/../x", Some("/real"));
        check("/../../relative/./x", Some("/real/sub"));
        check("/loop/x", None);
        check("/nothing/x", None);
    }

    #[test]
    fn nothing_but_regular_files_is_opened() {
        let place = tempfile::tempdir().unwrap();
        let path = |name: &str| place.path().join(name);
        fs::write(path("file"), "content").unwrap();
        symlink("/file", path("link")).unwrap();
        symlink("/nothing", path("dangling")).unwrap();
        symlink("/dev/null", path("outside")).unwrap();
        // Opening it in another way would wait for a writer.
        rustix::fs::mkfifoat(rustix::fs::CWD, path("pipe"), Mode::RUSR).unwrap();
        let tree = Tree::open(place.path()).unwrap();
        for name in ["/file", "/link"] {
            let mut bytes = [0; 16];
            let known = inode_of(fs::File::open(path("file")).unwrap()).unwrap();
            let file = tree.open_regular(name.as_bytes(), Some(known)).unwrap();
            let read = rustix::io::read(&file, &mut bytes).unwrap();
            assert_eq!(&bytes[..read], b"content", "{name}");
        }
        for (name, error) in [
            // Without a known file, links are not followed.
            ("/link", Errno::LOOP),
            ("/pipe", Errno::INVAL),
            ("/", Errno::INVAL),
            ("/nothing", Errno::NOENT),
        ] {
            assert_eq!(tree.open_regular(name.as_bytes(), None).unwrap_err(), error, "{name}");
        }
        tree.open_regular(b"/file", None).unwrap();
        for (name, error) in
            [("/dangling", Errno::NOENT), ("/outside", Errno::NOENT), ("/file", Errno::STALE)]
        {
            let other = Some((1, 1));
            assert_eq!(tree.open_regular(name.as_bytes(), other).unwrap_err(), error, "{name}");
        }
    }

    #[test]
    fn names_are_in_order_and_without_the_two_dots() {
        let place = tempfile::tempdir().unwrap();
        for name in ["b", "a", "c"] {
            fs::write(place.path().join(name), "").unwrap();
        }
        let tree = Tree::open(place.path()).unwrap();
        assert_eq!(tree.names(b"/").unwrap(), [b"a", b"b", b"c"]);
        assert_eq!(tree.names(b"/a"), None);
    }
}
