//! Empties a directory opened once, whatever its content and depth: directories are moved up before
//! they are removed, and no path is followed.

use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};

use rustix::fs::{AtFlags, Dir, Mode, OFlags};
use rustix::io::Errno;

use super::Directory;

/// Open flags for a directory whose mode may deny us access.
const TO_UNLOCK: OFlags =
    OFlags::PATH.union(OFlags::DIRECTORY).union(OFlags::NOFOLLOW).union(OFlags::CLOEXEC);
const TO_READ: OFlags = OFlags::RDONLY.union(OFlags::DIRECTORY).union(OFlags::CLOEXEC);

impl Directory {
    /// Whether the directory is empty.
    pub fn is_empty(&self) -> io::Result<bool> {
        let open = rustix::fs::openat(self, ".", TO_READ, Mode::empty())?;
        Ok(names(&open)?.is_empty())
    }

    /// Removes everything in it.
    pub fn clear(&self) -> io::Result<()> {
        let top = unlocked(self.as_fd())?;
        let mut moved = 0;
        loop {
            let names = names(&top)?;
            if names.is_empty() {
                return Ok(());
            }
            for name in names {
                if unlink(top.as_fd(), &name)? {
                    continue;
                }
                let below = rustix::fs::openat(&top, &name[..], TO_UNLOCK, Mode::empty())?;
                lift(&below, &top, &mut moved)?;
                rustix::fs::unlinkat(&top, &name[..], AtFlags::REMOVEDIR)?;
            }
        }
    }
}

/// Removes the files of a directory, and moves its directories up.
fn lift(from: &OwnedFd, top: &OwnedFd, moved: &mut u64) -> io::Result<()> {
    let from = unlocked(from.as_fd())?;
    for name in names(&from)? {
        if unlink(from.as_fd(), &name)? {
            continue;
        }
        // Moving a directory needs write permission on it.
        unlock(rustix::fs::openat(&from, &name[..], TO_UNLOCK, Mode::empty())?.as_fd());
        rustix::fs::renameat(&from, &name[..], top, free_name(top, moved)?)?;
    }
    Ok(())
}

/// Returns an unused name in a directory.
fn free_name(top: &OwnedFd, moved: &mut u64) -> io::Result<String> {
    loop {
        *moved += 1;
        let name = format!("reenact-removes-{moved}");
        match rustix::fs::statat(top, &name, AtFlags::SYMLINK_NOFOLLOW) {
            Err(Errno::NOENT) => return Ok(name),
            Ok(_) => {}
            Err(error) => return Err(error.into()),
        }
    }
}

/// Removes a file that is no directory. Returns `false` for a directory.
fn unlink(from: BorrowedFd<'_>, name: &[u8]) -> io::Result<bool> {
    match rustix::fs::unlinkat(from, name, AtFlags::empty()) {
        Ok(()) => Ok(true),
        Err(Errno::ISDIR) => Ok(false),
        Err(error) => Err(error.into()),
    }
}

fn names(directory: &OwnedFd) -> io::Result<Vec<Vec<u8>>> {
    let mut names = Vec::new();
    for entry in Dir::read_from(directory)? {
        let name = entry?.file_name().to_bytes().to_vec();
        if name != b"." && name != b".." {
            names.push(name);
        }
    }
    Ok(names)
}

/// Opens the directory for reading, which a replay may have forbidden.
fn unlocked(directory: BorrowedFd<'_>) -> io::Result<OwnedFd> {
    unlock(directory);
    Ok(rustix::fs::openat(directory, ".", TO_READ, Mode::empty())?)
}

/// Makes one of our directories readable and writable.
fn unlock(directory: BorrowedFd<'_>) {
    // The only way for an O_PATH descriptor that works on all kernels.
    let path = format!("/proc/self/fd/{}", directory.as_raw_fd());
    let _ = rustix::fs::chmod(path, Mode::RWXU);
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::{PermissionsExt, symlink};
    use std::path::Path;

    use super::*;

    #[test]
    fn everything_goes_and_links_are_not_followed() {
        let dir = tempfile::tempdir().unwrap();
        let (root, beside) = (dir.path().join("root"), dir.path().join("beside"));
        fs::create_dir_all(root.join("a/b/c")).unwrap();
        fs::create_dir_all(root.join("reenact-removes-1/x")).unwrap();
        fs::create_dir(&beside).unwrap();
        fs::write(beside.join("kept"), "").unwrap();
        fs::write(root.join("a/b/file"), "").unwrap();
        symlink(&beside, root.join("a/link")).unwrap();
        symlink("..", root.join("a/b/up")).unwrap();
        fs::set_permissions(root.join("a/b"), PermissionsExt::from_mode(0o000)).unwrap();
        fs::set_permissions(&root, PermissionsExt::from_mode(0o000)).unwrap();
        let directory = Directory::open(&root).unwrap();
        directory.clear().unwrap();
        assert!(directory.is_empty().unwrap() && beside.join("kept").exists());
    }

    #[test]
    fn no_depth_is_too_deep() {
        let dir = tempfile::tempdir().unwrap();
        let mut at = fs::File::open(dir.path()).unwrap();
        for _ in 0..3000 {
            rustix::fs::mkdirat(&at, "d", Mode::RWXU).unwrap();
            at = rustix::fs::openat(&at, "d", TO_READ, Mode::empty()).unwrap().into();
        }
        let directory = Directory::open(dir.path()).unwrap();
        assert!(!directory.is_empty().unwrap());
        directory.clear().unwrap();
        assert!(directory.is_empty().unwrap());
    }

    #[test]
    fn what_is_emptied_is_what_was_opened() {
        let dir = tempfile::tempdir().unwrap();
        let path = |name: &str| dir.path().join(name);
        for name in ["mine", "precious"] {
            fs::create_dir(path(name)).unwrap();
            fs::write(path(name).join("file"), "").unwrap();
        }
        let directory = Directory::open(&path("mine")).unwrap();
        fs::rename(path("mine"), path("moved")).unwrap();
        symlink("precious", path("mine")).unwrap();
        directory.clear().unwrap();
        assert!(path("precious").join("file").exists() && !path("moved").join("file").exists());
        assert!(Path::new(&directory.path().unwrap()).ends_with("moved"));
    }
}
