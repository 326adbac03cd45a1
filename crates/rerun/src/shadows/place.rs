//! Where shadows lie: files with numbers for names in a directory of the re-execution alone.

use std::ffi::CString;
use std::fs::{File, Permissions};
use std::io;
use std::ops::Range;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{FileExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};

use syscalls::abi::files::F_SETSIG;
use tempfile::TempDir;

mod stale;

/// One part in `KEEP_PART` of the free disk space is kept free, but at most `KEEP_MAX`.
const KEEP_PART: u64 = 10;
const KEEP_MAX: u64 = 4 << 30;
/// How many bytes are moved at a time.
const PIECE: u64 = 1 << 20;
/// How many zeros are written at most, where the file system makes no holes.
const CLEARED_MAX: u64 = 1 << 30;

/// How often another directory is made if one was taken away.
const TRIES: u32 = 8;

/// A directory that nobody else may enter. It goes when this is dropped.
pub struct Place {
    around: TempDir,
    path: PathBuf,
    dir: OwnedFd,
    /// Bytes that stay free on its file system.
    kept: u64,
}

impl Place {
    /// Makes it, and removes those of re-executions that were killed.
    pub fn new() -> io::Result<Place> {
        let parent = std::env::temp_dir();
        stale::remove(&parent);
        Place::below(&parent)
    }

    fn below(parent: &Path) -> io::Result<Place> {
        let mut tries = 0..TRIES;
        let (around, dir) = loop {
            let mut named = tempfile::Builder::new();
            named.prefix(stale::PREFIX).permissions(Permissions::from_mode(0o700));
            let around = named.tempdir_in(parent)?;
            let mut open = std::fs::OpenOptions::new();
            open.read(true).custom_flags(libc::O_DIRECTORY | libc::O_NOFOLLOW);
            let dir: io::Result<OwnedFd> = open.open(around.path()).map(OwnedFd::from);
            // Somebody who begins just now may have taken it for one that is left over.
            let is_ours = dir.as_ref().is_ok_and(stale::claim);
            if is_ours || tries.next().is_none() {
                break (around, dir?);
            }
        };
        let path = around.path().canonicalize()?;
        let mut place = Place { around, path, dir, kept: 0 };
        place.kept = (place.free()? / KEEP_PART).min(KEEP_MAX);
        Ok(place)
    }

    /// The directory.
    pub fn directory(&self) -> BorrowedFd<'_> {
        self.dir.as_fd()
    }

    /// Its path, as it was named.
    pub fn named(&self) -> &Path {
        self.around.path()
    }

    /// The path of a shadow, from the root.
    pub fn path_of(&self, number: u32) -> Vec<u8> {
        self.path.join(number.to_string()).as_os_str().as_bytes().to_vec()
    }

    /// Makes an empty file.
    pub fn make(&self, number: u32) -> io::Result<File> {
        let file = self.openat(number, libc::O_CREAT | libc::O_EXCL)?;
        // Whatever the mask of the user is.
        file.set_permissions(Permissions::from_mode(0o600))?;
        Ok(file)
    }

    /// Opens a file that is there.
    pub fn open(&self, number: u32) -> io::Result<File> {
        self.openat(number, 0)
    }

    fn openat(&self, number: u32, flags: i32) -> io::Result<File> {
        let name = name(number);
        let flags = flags | libc::O_RDWR | libc::O_NOFOLLOW | libc::O_CLOEXEC;
        // SAFETY: a name that ends with NUL; a descriptor that is returned is ours.
        unsafe {
            match libc::openat(self.dir.as_raw_fd(), name.as_ptr(), flags, 0o600) {
                -1 => Err(io::Error::last_os_error()),
                fd => Ok(File::from_raw_fd(fd)),
            }
        }
    }

    /// Removes a file.
    pub fn remove(&self, number: u32) {
        let name = name(number);
        // SAFETY: a name that ends with NUL.
        unsafe { libc::unlinkat(self.dir.as_raw_fd(), name.as_ptr(), 0) };
    }

    /// The shadow that has a path.
    pub fn at_path(&self, path: &[u8]) -> Option<u32> {
        let name = path.strip_prefix(self.path.as_os_str().as_bytes())?.strip_prefix(b"/")?;
        std::str::from_utf8(name).ok()?.parse().ok()
    }

    /// An error if the disk is almost full: a store to a mapping would have the program killed.
    pub fn has_room(&self) -> io::Result<()> {
        self.has_room_for(0)
    }

    /// The same with that many bytes more.
    pub fn has_room_for(&self, bytes: u64) -> io::Result<()> {
        if self.free()? >= self.kept.saturating_add(bytes) {
            return Ok(());
        }
        Err(io::Error::from_raw_os_error(libc::ENOSPC))
    }

    fn free(&self) -> io::Result<u64> {
        // SAFETY: the struct consists of numbers, and the kernel fills it.
        unsafe {
            let mut found: libc::statvfs = std::mem::zeroed();
            match libc::fstatvfs(self.dir.as_raw_fd(), &raw mut found) {
                0 => Ok(found.f_bavail.saturating_mul(found.f_frsize)),
                _ => Err(io::Error::last_os_error()),
            }
        }
    }
}

fn name(number: u32) -> CString {
    CString::new(number.to_string()).unwrap_or_default()
}

/// Whether a file is mapped or open elsewhere: else the kernel gives a lease for it.
pub fn is_used(file: &File) -> bool {
    let set = |what: i32, value: i32| {
        // SAFETY: takes numbers.
        unsafe { libc::fcntl(file.as_raw_fd(), what, value) == 0 }
    };
    // Who opens it just then waits, and we are told, by a signal that does nothing.
    let is_alone = set(F_SETSIG, libc::SIGURG) && set(libc::F_SETLEASE, libc::F_WRLCK);
    if is_alone {
        set(libc::F_SETLEASE, libc::F_UNLCK);
    }
    !is_alone
}

/// Makes zeros of a range.
pub fn clear(file: &File, range: Range<u64>) -> io::Result<()> {
    let (Ok(at), Ok(len)) =
        (i64::try_from(range.start), i64::try_from(range.end.saturating_sub(range.start)))
    else {
        return Err(io::Error::from_raw_os_error(libc::EFBIG));
    };
    if len == 0 {
        return Ok(());
    }
    let mode = libc::FALLOC_FL_PUNCH_HOLE | libc::FALLOC_FL_KEEP_SIZE;
    // SAFETY: takes numbers.
    if unsafe { libc::fallocate(file.as_raw_fd(), mode, at, len) } == 0 {
        return Ok(());
    }
    if range.end - range.start > CLEARED_MAX {
        return Err(io::Error::last_os_error());
    }
    let zeros = vec![0; PIECE as usize];
    for (at, len) in pieces(range) {
        file.write_all_at(&zeros[..len], at)?;
    }
    Ok(())
}

/// Takes a range out of a file, or makes room in it, as `mode` says. Not every file system can.
pub fn shift(file: &File, mode: i32, range: &Range<u64>) -> io::Result<()> {
    let (at, len) = (range.start as i64, (range.end - range.start) as i64);
    // SAFETY: takes numbers.
    match unsafe { libc::fallocate(file.as_raw_fd(), mode, at, len) } {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}

/// Copies bytes from one file to another place, or another file.
pub fn copy(from: &File, to: &File, range: Range<u64>, to_at: u64) -> io::Result<()> {
    let mut bytes = vec![0; PIECE as usize];
    for (at, len) in pieces(range.clone()) {
        from.read_exact_at(&mut bytes[..len], at)?;
        to.write_all_at(&bytes[..len], to_at + (at - range.start))?;
    }
    Ok(())
}

fn pieces(range: Range<u64>) -> impl Iterator<Item = (u64, usize)> {
    let end = range.end;
    range.step_by(PIECE as usize).map(move |at| (at, (end - at).min(PIECE) as usize))
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::symlink;

    use super::*;

    #[test]
    fn a_place_is_private_and_goes() {
        let place = Place::new().unwrap();
        let path = place.named().to_path_buf();
        let mode = path.metadata().unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o700);
        let file = place.make(3).unwrap();
        assert_eq!(file.metadata().unwrap().permissions().mode() & 0o777, 0o600);
        assert!(place.make(3).is_err());
        // No link is followed.
        std::os::unix::fs::symlink("/etc/passwd", path.join("4")).unwrap();
        assert!(place.open(4).is_err() && place.make(4).is_err());
        assert!(place.has_room().is_ok());
        drop(place);
        assert!(!path.exists());
    }

    #[test]
    fn who_has_a_file_open_or_mapped_uses_it() {
        let place = Place::new().unwrap();
        let file = place.make(1).unwrap();
        file.set_len(4096).unwrap();
        assert!(!is_used(&file));
        let other = place.open(1).unwrap();
        assert!(is_used(&file));
        // SAFETY: a new mapping, which is not touched.
        let at = unsafe {
            let prot = libc::PROT_READ;
            libc::mmap(std::ptr::null_mut(), 4096, prot, libc::MAP_SHARED, other.as_raw_fd(), 0)
        };
        assert_ne!(at, libc::MAP_FAILED);
        drop(other);
        assert!(is_used(&file));
        // SAFETY: ours, and nobody has a reference into it.
        unsafe { libc::munmap(at, 4096) };
        assert!(!is_used(&file));
    }

    #[test]
    fn zeros_and_copies() {
        let place = Place::new().unwrap();
        let (file, other) = (place.make(1).unwrap(), place.make(2).unwrap());
        let bytes: Vec<u8> = (0..3_000_000u32).map(|n| n as u8 | 1).collect();
        file.write_all_at(&bytes, 0).unwrap();
        clear(&file, 5..2_500_000).unwrap();
        copy(&file, &other, 2..2_900_000, 10).unwrap();
        let mut found = vec![0; 2_900_008];
        other.read_exact_at(&mut found, 0).unwrap();
        assert_eq!(found[..10], [0; 10]);
        assert_eq!(found[10..13], bytes[2..5]);
        assert!(found[13..2_500_008].iter().all(|byte| *byte == 0));
        assert_eq!(found[2_500_008..], bytes[2_500_000..2_900_000]);
    }

    #[test]
    fn what_nobody_holds_is_removed() {
        let parent = tempfile::tempdir().unwrap();
        let at = |name: &str| parent.path().join(name);
        let make = |name: &str, mode: u32| {
            fs::create_dir(at(name)).unwrap();
            fs::set_permissions(at(name), fs::Permissions::from_mode(mode)).unwrap();
        };
        let living = Place::below(parent.path()).unwrap();
        living.make(1).unwrap();
        for (name, mode) in [
            ("reenact-rerun-left", 0o700),
            ("reenact-rerun-open", 0o755),
            ("reenact-rerun-full", 0o700),
            ("another", 0o700),
            ("target", 0o700),
        ] {
            make(name, mode);
            fs::write(at(name).join("7"), b"x").unwrap();
        }
        fs::write(at("reenact-rerun-full").join("kept"), b"x").unwrap();
        fs::write(at("reenact-rerun-file"), b"x").unwrap();
        symlink(at("target"), at("reenact-rerun-link")).unwrap();
        stale::remove(parent.path());
        assert!(!at("reenact-rerun-left").exists());
        for kept in [
            "reenact-rerun-open/7",
            "reenact-rerun-full/kept",
            "reenact-rerun-file",
            "reenact-rerun-link",
            "another/7",
            "target/7",
        ] {
            assert!(at(kept).exists(), "{kept}");
        }
        assert!(living.open(1).is_ok() && living.named().exists());
        let name = living.named().to_path_buf();
        // As if it was killed.
        let Place { around, dir, .. } = living;
        let _ = around.keep();
        drop(dir);
        stale::remove(parent.path());
        assert!(!name.exists());
    }

    #[test]
    fn who_finds_its_directory_taken_makes_another() {
        let parent = tempfile::tempdir().unwrap();
        let place = Place::below(parent.path()).unwrap();
        let open = || OwnedFd::from(File::open(place.named()).unwrap());
        assert!(!stale::claim(&open()), "somebody holds it");
        let other = tempfile::tempdir_in(parent.path()).unwrap();
        let dir = OwnedFd::from(File::open(other.path()).unwrap());
        other.close().unwrap();
        assert!(!stale::claim(&dir), "it is gone");
    }
}
