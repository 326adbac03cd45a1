//! Holds a trace in memory while it is replayed: reading it then neither costs the disk time, nor the
//! memory that a run may have.

use std::fs::File;
use std::io::{self, Read};
use std::os::fd::AsRawFd;
use std::path::Path;
use std::ptr::NonNull;

/// Part of the available memory that a trace may take.
const PART: u64 = 2;

/// A file whose pages stay in the page cache, as those of whoever holds this.
pub struct Pinned {
    begin: NonNull<libc::c_void>,
    bytes: usize,
}

impl Pinned {
    /// Reads a file and holds it; `None` if it is too large for this machine, or not allowed.
    pub fn hold(path: &Path) -> io::Result<Option<Pinned>> {
        let file = File::open(path)?;
        let bytes = file.metadata()?.len();
        if bytes == 0 || bytes > available() / PART {
            return Ok(None);
        }
        let Ok(bytes) = usize::try_from(bytes) else { return Ok(None) };
        // SAFETY: a fresh mapping of an open file; nothing else is touched.
        let begin = unsafe {
            libc::mmap(
                std::ptr::null_mut(),
                bytes,
                libc::PROT_READ,
                libc::MAP_SHARED,
                file.as_raw_fd(),
                0,
            )
        };
        let Some(begin) = NonNull::new(begin).filter(|at| at.as_ptr() != libc::MAP_FAILED) else {
            return Err(io::Error::last_os_error());
        };
        let pinned = Pinned { begin, bytes };
        // SAFETY: the range is the mapping made above.
        match unsafe { libc::mlock(begin.as_ptr(), bytes) } {
            0 => Ok(Some(pinned)),
            _ => Ok(None),
        }
    }
}

impl Drop for Pinned {
    fn drop(&mut self) {
        // SAFETY: the mapping is ours, and nobody has a reference into it.
        unsafe { libc::munmap(self.begin.as_ptr(), self.bytes) };
    }
}

/// Holds our own program and its libraries: a run of ours has them too, and would otherwise read them within
/// its limits of memory and speed. What cannot be held is left out.
pub fn hold_program() -> Vec<Pinned> {
    let maps = std::fs::read_to_string("/proc/self/maps").unwrap_or_default();
    files_of(&maps).into_iter().filter_map(|path| Pinned::hold(Path::new(path)).ok()?).collect()
}

/// Returns the files with code in a table of mappings.
fn files_of(maps: &str) -> Vec<&str> {
    let code =
        maps.lines().filter(|line| line.split(' ').nth(1).is_some_and(|to| to.contains('x')));
    let mut files: Vec<&str> =
        code.filter_map(|line| line.find('/').map(|at| &line[at..])).collect();
    files.sort_unstable();
    files.dedup();
    files
}

/// Returns the bytes of memory that are available.
fn available() -> u64 {
    let mut text = String::new();
    let read = File::open("/proc/meminfo").and_then(|mut file| file.read_to_string(&mut text));
    let line = text.lines().find_map(|line| line.strip_prefix("MemAvailable:"));
    let kib = line.and_then(|line| line.split_whitespace().next()?.parse::<u64>().ok());
    read.ok().and(kib).unwrap_or(0) << 10
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn programs_have_files() {
        let maps = "1-2 r--p 00 fe:00 7  /bin/x\n2-3 r-xp 00 fe:00 7  /bin/x\n3-4 r-xp 00 00:00 0 [vdso]\n\
            4-5 r-xp 0 fe:00 8 /lib/a b.so\n5-6 rw-p 0 fe:00 9 /lib/data\n";
        assert_eq!(files_of(maps), ["/bin/x", "/lib/a b.so"]);
        let _ = hold_program();
    }

    #[test]
    fn a_file_is_held_or_left() {
        let file = tempfile::NamedTempFile::new().unwrap();
        assert!(Pinned::hold(file.path()).unwrap().is_none());
        std::fs::write(file.path(), [1; 5000]).unwrap();
        // Whether it may be held is the user's limit.
        let _ = Pinned::hold(file.path()).unwrap();
        assert!(available() > 0);
        assert!(Pinned::hold(Path::new("/nowhere")).is_err());
    }
}
