//! Directories of the host, opened once: the same directory is checked and mounted, so other users
//! who move or exchange directories on its path cannot substitute another one.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::{Path, PathBuf};

use rustix::fs::{AtFlags, CWD, Mode, OFlags};
use rustix::io::Errno;
use rustix::mount::{MountAttrFlags, OpenTreeFlags};
use rustix::thread::UnshareFlags;

use super::{JailError, attributes, walk};

/// An open directory.
#[derive(Debug)]
pub struct Directory {
    fd: OwnedFd,
    /// The path given by the user.
    shown: PathBuf,
}

impl Directory {
    /// Opens a path. It is not followed again.
    pub fn open(path: &Path) -> Result<Directory, JailError> {
        let fd = walk::walk(path, walk::Missing::Refused)?;
        Ok(Directory { fd, shown: path.to_path_buf() })
    }

    /// Opens a path, and creates missing directories.
    pub fn open_or_make(path: &Path) -> Result<Directory, JailError> {
        let fd = walk::walk(path, walk::Missing::Made)?;
        Ok(Directory { fd, shown: path.to_path_buf() })
    }

    /// Opens our own directory, without access for others. The last component must be no link.
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

    /// Creates a subdirectory.
    pub fn make(&self, name: &str) -> Result<Directory, JailError> {
        let shown = self.shown.join(name);
        let failed = |error: Errno| JailError::io(&shown.display().to_string(), error);
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let mode = Mode::RWXU | Mode::RGRP | Mode::XGRP | Mode::ROTH | Mode::XOTH;
        rustix::fs::mkdirat(&self.fd, name, mode).map_err(failed)?;
        let fd = rustix::fs::openat(&self.fd, name, flags, Mode::empty()).map_err(failed)?;
        Ok(Directory { fd, shown })
    }

    /// Removes an empty subdirectory.
    pub fn remove(&self, name: &str) -> io::Result<()> {
        Ok(rustix::fs::unlinkat(&self.fd, name, AtFlags::REMOVEDIR)?)
    }

    /// The path given by the user.
    pub fn shown(&self) -> std::path::Display<'_> {
        self.shown.display()
    }

    /// Its current path, which may change at any time.
    pub fn path(&self) -> io::Result<PathBuf> {
        use std::os::fd::AsRawFd;
        std::fs::read_link(format!("/proc/self/fd/{}", self.fd.as_raw_fd()))
    }

    /// Device and inode number: equal for the same directory only.
    pub fn identity(&self) -> io::Result<(u64, u64)> {
        identity(self.as_fd())
    }

    /// Opens it for reading.
    pub fn to_read(&self) -> io::Result<OwnedFd> {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        Ok(rustix::fs::openat(&self.fd, ".", flags, Mode::empty())?)
    }

    /// Duplicates its descriptor.
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

/// Copies the mounts at and below a directory, detached and with restrictions on all of them.
///
/// Only mounts of one's own namespace can be copied, and the directory was opened outside. But a
/// thread that enters a new namespace takes its working directory along: so a helper thread changes
/// to the directory, gets a namespace, and copies from there.
pub fn tree(directory: &Directory, restrictions: MountAttrFlags) -> Result<OwnedFd, JailError> {
    let what = format!("cannot bind {}", directory.shown());
    let failed = |error| JailError::io(&what, error);
    let copy = || -> io::Result<OwnedFd> {
        // SAFETY: affects only this thread, and no descriptor table.
        unsafe { rustix::thread::unshare_unsafe(UnshareFlags::FS) }?;
        rustix::process::fchdir(directory)?;
        // SAFETY: affects only this thread, and no descriptor table.
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

/// Copies the mounts at and below a path of our namespace, like [`tree`].
pub fn tree_at(path: &Path, restrictions: MountAttrFlags) -> Result<OwnedFd, JailError> {
    let failed = |error| JailError::io(&format!("cannot bind {}", path.display()), error);
    let tree = open_tree(path).map_err(failed)?;
    attributes::restrict(&tree, restrictions).map_err(failed)?;
    Ok(tree)
}

fn open_tree(path: &Path) -> io::Result<OwnedFd> {
    // Recursive: in a user namespace, a mount must not be copied without the mounts in it.
    let flags = OpenTreeFlags::OPEN_TREE_CLONE
        | OpenTreeFlags::OPEN_TREE_CLOEXEC
        | OpenTreeFlags::AT_RECURSIVE;
    Ok(rustix::mount::open_tree(CWD, path, flags)?)
}
