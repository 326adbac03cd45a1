//! The files that the kernel knows, each by a descriptor that leads to it whatever its name is by now.

use std::collections::HashMap;
use std::ffi::OsStr;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use fuser::{FileAttr, FileType, INodeNo};
use rustix::fs::{Mode, OFlags, Stat, fstat, openat};
use rustix::io::Errno;

/// Number of the root at the kernel's, whatever it is below.
const ROOT: u64 = 1;

struct Node {
    file: Arc<OwnedFd>,
    lookups: u64,
}

/// All files that the kernel knows, by their inode numbers: those of one file system. A descriptor that is
/// open keeps its number from being given again.
pub struct Nodes {
    all: Mutex<HashMap<u64, Node>>,
    root: u64,
}

impl Nodes {
    /// Begins with the root.
    pub fn new(top: OwnedFd) -> Result<Nodes, Errno> {
        let root = fstat(&top)?.st_ino;
        let node = Node { file: Arc::new(top), lookups: 1 };
        Ok(Nodes { all: Mutex::new(HashMap::from([(ROOT, node)])), root })
    }

    fn all(&self) -> MutexGuard<'_, HashMap<u64, Node>> {
        self.all.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the descriptor of a file.
    pub fn get(&self, number: INodeNo) -> Result<Arc<OwnedFd>, Errno> {
        self.all().get(&number.0).map(|node| Arc::clone(&node.file)).ok_or(Errno::STALE)
    }

    /// Finds a name in a directory. The kernel knows the file from then on, once more.
    pub fn find(&self, parent: INodeNo, name: &OsStr) -> Result<FileAttr, Errno> {
        let parent = self.get(parent)?;
        let flags = OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let found = openat(&parent, name, flags, Mode::empty())?;
        self.know(found)
    }

    fn know(&self, file: OwnedFd) -> Result<FileAttr, Errno> {
        let attributes = self.attributes(&fstat(&file)?);
        let mut all = self.all();
        let node = all
            .entry(attributes.ino.0)
            .or_insert_with(|| Node { file: Arc::new(file), lookups: 0 });
        node.lookups += 1;
        Ok(attributes)
    }

    /// The kernel forgets a file, so many times.
    pub fn forget(&self, number: INodeNo, lookups: u64) {
        let mut all = self.all();
        let Some(node) = all.get_mut(&number.0).filter(|_| number.0 != ROOT) else { return };
        node.lookups = node.lookups.saturating_sub(lookups);
        if node.lookups == 0 {
            all.remove(&number.0);
        }
    }

    /// Returns the attributes of a file.
    pub fn look(&self, number: INodeNo) -> Result<FileAttr, Errno> {
        Ok(self.attributes(&fstat(self.get(number)?.as_fd())?))
    }

    /// Turns what the kernel says of a file below into what it is told of it here.
    pub fn attributes(&self, stat: &Stat) -> FileAttr {
        let time = |seconds: i64, ns: u64| {
            let whole = Duration::new(seconds.unsigned_abs(), 0);
            let begin = match seconds < 0 {
                true => UNIX_EPOCH - whole,
                false => UNIX_EPOCH + whole,
            };
            begin + Duration::from_nanos(ns)
        };
        FileAttr {
            ino: INodeNo(self.number(stat.st_ino)),
            size: stat.st_size as u64,
            blocks: stat.st_blocks as u64,
            atime: time(stat.st_atime, stat.st_atime_nsec),
            mtime: time(stat.st_mtime, stat.st_mtime_nsec),
            ctime: time(stat.st_ctime, stat.st_ctime_nsec),
            crtime: SystemTime::UNIX_EPOCH,
            kind: kind_of(rustix::fs::FileType::from_raw_mode(stat.st_mode)),
            perm: (stat.st_mode & 0o7777) as u16,
            nlink: u32::try_from(stat.st_nlink).unwrap_or(u32::MAX),
            uid: stat.st_uid,
            gid: stat.st_gid,
            rdev: stat.st_rdev as u32,
            blksize: stat.st_blksize as u32,
            flags: 0,
        }
    }

    /// Returns the number under which the kernel knows an inode.
    pub fn number(&self, inode: u64) -> u64 {
        if inode == self.root { ROOT } else { inode }
    }
}

/// Returns a path that leads to an open file, for calls that take no descriptor.
pub fn path_of(file: &OwnedFd) -> String {
    format!("/proc/self/fd/{}", file.as_raw_fd())
}

/// Returns the kind of a file in the words of FUSE.
pub fn kind_of(kind: rustix::fs::FileType) -> FileType {
    use rustix::fs::FileType as Kind;
    match kind {
        Kind::Directory => FileType::Directory,
        Kind::Symlink => FileType::Symlink,
        Kind::Fifo => FileType::NamedPipe,
        Kind::Socket => FileType::Socket,
        Kind::CharacterDevice => FileType::CharDevice,
        Kind::BlockDevice => FileType::BlockDevice,
        Kind::RegularFile | Kind::Unknown => FileType::RegularFile,
    }
}

#[cfg(test)]
mod tests {
    use std::fs::File;

    use super::*;

    #[test]
    fn files_are_known_until_they_are_forgotten() {
        let dir = tempfile::tempdir().unwrap();
        std::fs::write(dir.path().join("file"), "12345").unwrap();
        let nodes = Nodes::new(File::open(dir.path()).unwrap().into()).unwrap();
        let root = INodeNo(ROOT);
        assert_eq!(nodes.look(root).unwrap().ino, root);
        let seen = nodes.find(root, OsStr::new("file")).unwrap();
        nodes.find(root, OsStr::new("file")).unwrap();
        assert_eq!((seen.size, seen.kind), (5, FileType::RegularFile));
        std::fs::remove_file(dir.path().join("file")).unwrap();
        nodes.forget(seen.ino, 1);
        assert_eq!(nodes.look(seen.ino).unwrap().nlink, 0);
        nodes.forget(seen.ino, 1);
        assert_eq!(nodes.look(seen.ino), Err(Errno::STALE));
        nodes.forget(root, 1 << 40);
        assert!(nodes.look(root).is_ok() && nodes.find(root, OsStr::new("file")).is_err());
    }
}
