//! Directories of the host, opened once. What is checked and what is mounted is what was opened: whoever
//! may move or exchange directories on the way there cannot put another one in its place.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::{Path, PathBuf};

use rustix::fs::{AtFlags, CWD, Mode, OFlags};
use rustix::io::Errno;
use rustix::mount::{MountAttrFlags, OpenTreeFlags};
use rustix::thread::UnshareFlags;

use super::{JailError, attributes, walk};

/// A directory that is open.
#[derive(Debug)]
pub struct Directory {
    fd: OwnedFd,
    /// What the user calls it.
    shown: PathBuf,
}

impl Directory {
    /// Follows a path, for the only time.
    pub fn open(path: &Path) -> Result<Directory, JailError> {
        let fd = walk::walk(path, walk::Missing::Refused)?;
        Ok(Directory { fd, shown: path.to_path_buf() })
    }

    /// The same; directories that are not there are made.
    pub fn open_or_make(path: &Path) -> Result<Directory, JailError> {
        let fd = walk::walk(path, walk::Missing::Made)?;
        Ok(Directory { fd, shown: path.to_path_buf() })
    }

    /// One of ours that nobody else can look into, at a path whose end is no link.
    pub fn open_private(path: &Path) -> Result<Directory, JailError> {
        let failed = |error: io::Error| JailError::io(&path.display().to_string(), error);
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let fd = rustix::fs::open(path, flags, Mode::empty()).map_err(|e| failed(e.into()))?;
        let stat = rustix::fs::fstat(&fd).map_err(|e| failed(e.into()))?;
        let ours = stat.st_uid == rustix::process::geteuid().as_raw() && stat.st_mode & 0o077 == 0;
        if !ours {
            let what = format!("{}: somebody has put another directory there", path.display());
            return Err(JailError::plain(what));
        }
        Ok(Directory { fd, shown: path.to_path_buf() })
    }

    /// Makes a directory in it.
    pub fn make(&self, name: &str) -> Result<Directory, JailError> {
        let shown = self.shown.join(name);
        let failed = |error: Errno| JailError::io(&shown.display().to_string(), error);
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let mode = Mode::RWXU | Mode::RGRP | Mode::XGRP | Mode::ROTH | Mode::XOTH;
        rustix::fs::mkdirat(&self.fd, name, mode).map_err(failed)?;
        let fd = rustix::fs::openat(&self.fd, name, flags, Mode::empty()).map_err(failed)?;
        Ok(Directory { fd, shown })
    }

    /// Removes an empty directory that is in it.
    pub fn remove(&self, name: &str) -> io::Result<()> {
        Ok(rustix::fs::unlinkat(&self.fd, name, AtFlags::REMOVEDIR)?)
    }

    /// What the user calls it.
    pub fn shown(&self) -> std::path::Display<'_> {
        self.shown.display()
    }

    /// Where it is now. It may be elsewhere the next moment.
    pub fn path(&self) -> io::Result<PathBuf> {
        use std::os::fd::AsRawFd;
        std::fs::read_link(format!("/proc/self/fd/{}", self.fd.as_raw_fd()))
    }

    /// Its file system and its number there: two directories that share both are one.
    pub fn identity(&self) -> io::Result<(u64, u64)> {
        identity(self.as_fd())
    }

    /// The same, to be read.
    pub fn to_read(&self) -> io::Result<OwnedFd> {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        Ok(rustix::fs::openat(&self.fd, ".", flags, Mode::empty())?)
    }

    /// Another descriptor of it.
    pub fn try_clone(&self) -> io::Result<OwnedFd> {
        self.fd.try_clone()
    }
}

impl AsFd for Directory {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}

fn identity(directory: BorrowedFd<'_>) -> io::Result<(u64, u64)> {
    let stat = rustix::fs::fstat(directory)?;
    Ok((stat.st_dev, stat.st_ino))
}

/// A copy of the mounts at a directory and below, with restrictions on all of it, that hangs nowhere.
///
/// Only mounts of one's own namespace can be copied, and the directory was opened outside. But who gets
/// a namespace takes his working directory along: so a thread goes there, gets one, and leaves.
pub fn tree(directory: &Directory, restrictions: MountAttrFlags) -> Result<OwnedFd, JailError> {
    let what = format!("cannot bind {}", directory.shown());
    let failed = |error| JailError::io(&what, error);
    let copy = || -> io::Result<OwnedFd> {
        // SAFETY: of this thread alone, which has no descriptors of its own.
        unsafe { rustix::thread::unshare_unsafe(UnshareFlags::FS) }?;
        rustix::process::fchdir(directory)?;
        // SAFETY: as above.
        unsafe { rustix::thread::unshare_unsafe(UnshareFlags::NEWNS) }?;
        let tree = open_tree(Path::new("."))?;
        attributes::restrict(&tree, restrictions)?;
        Ok(tree)
    };
    let copied = std::thread::scope(|scope| {
        let thread = std::thread::Builder::new().spawn_scoped(scope, copy);
        thread.and_then(|thread| {
            thread.join().unwrap_or_else(|_| Err(io::Error::other("its thread broke")))
        })
    });
    let tree = copied.map_err(failed)?;
    let same = || Ok(identity(tree.as_fd())? == directory.identity()?);
    if !same().map_err(failed)? {
        return Err(JailError::plain(format!("{what}: something is mounted over it")));
    }
    Ok(tree)
}

/// The same of what lies at a path here.
pub fn tree_at(path: &Path, restrictions: MountAttrFlags) -> Result<OwnedFd, JailError> {
    let failed = |error| JailError::io(&format!("cannot bind {}", path.display()), error);
    let tree = open_tree(path).map_err(failed)?;
    attributes::restrict(&tree, restrictions).map_err(failed)?;
    Ok(tree)
}

fn open_tree(path: &Path) -> io::Result<OwnedFd> {
    // Recursive: in a user namespace, a mount must not be copied without what is mounted in it.
    let flags = OpenTreeFlags::OPEN_TREE_CLONE
        | OpenTreeFlags::OPEN_TREE_CLOEXEC
        | OpenTreeFlags::AT_RECURSIVE;
    Ok(rustix::mount::open_tree(CWD, path, flags)?)
}
