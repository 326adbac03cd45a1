//! Directories of re-executions that were killed. Who lives holds a lock on its own, which the kernel takes
//! back however it ends.

use std::ffi::{CString, OsStr};
use std::fs;
use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

/// How names begin.
pub(super) const PREFIX: &str = "reenact-rerun-";
/// Most entries that are looked at, most directories that are removed at a time, and most files in each.
const ENTRIES_MAX: usize = 1 << 16;
const REMOVED_MAX: usize = 64;
const FILES_MAX: usize = 1 << 16;

/// Takes the lock. Returns false if the directory belongs to somebody else by now, or is gone.
pub(super) fn claim(dir: &OwnedFd) -> bool {
    match lock(dir) {
        Ok(()) => stat(dir).is_some_and(|stat| stat.st_nlink > 0),
        // A file system without locks: nobody removes it.
        Err(error) => error.raw_os_error() != Some(libc::EWOULDBLOCK),
    }
}

/// Removes those of this user that nobody holds. What cannot be removed stays.
pub(super) fn remove(parent: &Path) {
    let mut open = fs::OpenOptions::new();
    open.read(true).custom_flags(libc::O_DIRECTORY);
    let Ok(around) = open.open(parent).map(OwnedFd::from) else { return };
    let Ok(entries) = fs::read_dir(parent) else { return };
    let names = entries.take(ENTRIES_MAX).filter_map(|entry| Some(entry.ok()?.file_name()));
    let ours = names.filter(|name| name.as_bytes().starts_with(PREFIX.as_bytes()));
    for name in ours.take(REMOVED_MAX) {
        remove_one(&around, &name);
    }
}

/// Every name is taken in an open directory, and no link is followed.
fn remove_one(around: &OwnedFd, name: &OsStr) -> Option<()> {
    let word = CString::new(name.as_bytes()).ok()?;
    let flags = libc::O_RDONLY | libc::O_DIRECTORY | libc::O_NOFOLLOW | libc::O_CLOEXEC;
    // SAFETY: a name that ends with NUL; a descriptor that is returned is ours.
    let dir = unsafe {
        match libc::openat(around.as_raw_fd(), word.as_ptr(), flags) {
            -1 => return None,
            fd => OwnedFd::from_raw_fd(fd),
        }
    };
    let found = stat(&dir)?;
    // SAFETY: takes nothing.
    let own = unsafe { libc::geteuid() };
    if found.st_uid != own || found.st_mode & 0o7777 != 0o700 || lock(&dir).is_err() {
        return None;
    }
    let files = fs::read_dir(format!("/proc/self/fd/{}", dir.as_raw_fd())).ok()?;
    for file in files.take(FILES_MAX).filter_map(Result::ok) {
        // Shadows have numbers for names: all else is not ours to remove.
        if file.file_name().as_bytes().iter().all(u8::is_ascii_digit) {
            let word = CString::new(file.file_name().as_bytes()).ok()?;
            // SAFETY: a name that ends with NUL.
            unsafe { libc::unlinkat(dir.as_raw_fd(), word.as_ptr(), 0) };
        }
    }
    // SAFETY: a name that ends with NUL. Only an empty directory goes.
    unsafe { libc::unlinkat(around.as_raw_fd(), word.as_ptr(), libc::AT_REMOVEDIR) };
    Some(())
}

fn lock(dir: &OwnedFd) -> io::Result<()> {
    // SAFETY: takes numbers.
    match unsafe { libc::flock(dir.as_raw_fd(), libc::LOCK_EX | libc::LOCK_NB) } {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}

fn stat(dir: &OwnedFd) -> Option<libc::stat> {
    // SAFETY: a struct of numbers, which the kernel fills.
    unsafe {
        let mut stat: libc::stat = std::mem::zeroed();
        (libc::fstat(dir.as_raw_fd(), &raw mut stat) == 0).then_some(stat)
    }
}
