//! Files that tasks have mapped, as the recorded program had.

use std::io;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use trace::event::BlobId;

/// Longest mapping that is made: address space is shared by all tasks.
const LENGTH_MAX: u64 = 1 << 40;
const PAGE_BYTES: u64 = 4096;

/// A file that a recorded process has mapped.
#[derive(Clone)]
pub struct MappedFile {
    /// The mapping here; `None` if the replay has no such file.
    pub mapping: Option<Arc<Mapping>>,
    /// Its path when it was mapped.
    pub path: Arc<[u8]>,
}

/// Bytes stored to a mapped file.
pub struct KeptStore {
    /// The mapping.
    pub mapping: Arc<Mapping>,
    /// Path of the file when it was mapped.
    pub path: Arc<[u8]>,
    /// Where in the file.
    pub offset: u64,
    /// Number of bytes.
    pub length: u64,
    /// The buffers that have them.
    pub ids: Vec<BlobId>,
    /// When they were collected.
    pub tsc: u64,
}

/// A file mapped from an offset on. All tasks have the same memory, so all can use it.
pub struct Mapping {
    /// Offset of its beginning in the file.
    pub offset: u64,
    /// How long it must be.
    wanted: AtomicU64,
    region: Mutex<Option<Region>>,
}

struct Region {
    base: usize,
    len: usize,
}

impl Mapping {
    /// Not made yet.
    pub fn new(offset: u64, len: u64) -> Mapping {
        Mapping { offset, wanted: AtomicU64::new(len), region: Mutex::new(None) }
    }

    /// It must reach this offset in the file.
    pub fn reach(&self, end: u64) {
        self.wanted.fetch_max(end.saturating_sub(self.offset), Ordering::Relaxed);
    }

    fn wanted(&self) -> io::Result<usize> {
        let wanted = self.wanted.load(Ordering::Relaxed);
        if wanted == 0 || wanted > LENGTH_MAX {
            return Err(io::ErrorKind::InvalidInput.into());
        }
        Ok(wanted.next_multiple_of(PAGE_BYTES) as usize)
    }

    /// Maps the file of a descriptor.
    pub fn make(&self, fd: i32) -> io::Result<()> {
        let len = self.wanted()?;
        let offset = i64::try_from(self.offset).map_err(|_| io::ErrorKind::InvalidInput)?;
        let (prot, flags) = (libc::PROT_READ | libc::PROT_WRITE, libc::MAP_SHARED);
        // SAFETY: a new mapping at an address of the kernel's choice.
        let base = unsafe { libc::mmap(std::ptr::null_mut(), len, prot, flags, fd, offset) };
        if base == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        let mut region = self.region.lock().unwrap_or_else(PoisonError::into_inner);
        *region = Some(Region { base: base as usize, len });
        Ok(())
    }

    /// Stores bytes at an offset in the file.
    pub fn store(&self, offset: u64, bytes: &[&[u8]]) -> io::Result<()> {
        let len: usize = bytes.iter().map(|bytes| bytes.len()).sum();
        let outside = || io::Error::from(io::ErrorKind::InvalidInput);
        let at = offset.checked_sub(self.offset).ok_or_else(outside)? as usize;
        let end = at.checked_add(len).ok_or_else(outside)?;
        let mut region = self.region.lock().unwrap_or_else(PoisonError::into_inner);
        let region = region.as_mut().ok_or_else(outside)?;
        if end > region.len {
            region.grow(self.wanted()?)?;
        }
        if end > region.len {
            return Err(outside());
        }
        let first = (region.base + at) & !(PAGE_BYTES as usize - 1);
        let room = region.base + end - first;
        // The kernel makes the pages writable, or says that the file ends before them: a store
        // would be answered by a signal.
        // SAFETY: these pages are in our mapping.
        match unsafe { libc::madvise(first as *mut _, room, libc::MADV_POPULATE_WRITE) } {
            0 => {}
            _ => return Err(io::Error::last_os_error()),
        }
        let mut to = (region.base + at) as *mut u8;
        for bytes in bytes {
            // SAFETY: all bytes together end within our mapping, to whose pages nobody refers.
            unsafe {
                std::ptr::copy_nonoverlapping(bytes.as_ptr(), to, bytes.len());
                to = to.add(bytes.len());
            }
        }
        Ok(())
    }
}

impl Region {
    fn grow(&mut self, len: usize) -> io::Result<()> {
        // SAFETY: this is our mapping, to which nobody refers, and which may move.
        let base =
            unsafe { libc::mremap(self.base as *mut _, self.len, len, libc::MREMAP_MAYMOVE) };
        if base == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        *self = Region { base: base as usize, len };
        Ok(())
    }
}

impl Drop for Mapping {
    fn drop(&mut self) {
        let region = self.region.get_mut().unwrap_or_else(PoisonError::into_inner);
        if let Some(Region { base, len }) = region {
            // SAFETY: this is our mapping, to which nobody refers.
            unsafe { libc::munmap(*base as *mut _, *len) };
        }
    }
}

#[cfg(test)]
mod tests {
    use std::io::{Read, Seek, Write};
    use std::os::fd::AsRawFd;

    use super::*;

    #[test]
    fn what_is_stored_is_in_the_file() {
        let mut file = tempfile::tempfile().unwrap();
        file.write_all(&[7; 5000]).unwrap();
        let mapping = Mapping::new(4096, 100);
        let abc = [&b"ab"[..], b"c"];
        assert!(mapping.store(4096, &abc).is_err(), "it is not made");
        mapping.make(file.as_raw_fd()).unwrap();
        mapping.store(4100, &abc).unwrap();
        assert!(mapping.store(4000, &abc).is_err(), "it is before the mapping");
        assert!(mapping.store(8191, &abc).is_err(), "it is behind the mapping");
        mapping.reach(16384);
        assert!(mapping.store(8191, &abc).is_err(), "it is behind the file");
        file.set_len(16384).unwrap();
        mapping.store(8191, &abc).unwrap();
        let mut all = Vec::new();
        file.rewind().unwrap();
        file.read_to_end(&mut all).unwrap();
        assert_eq!((&all[4099..4104], &all[8190..8195]), (&b"\x07abc\x07"[..], &b"\0abc\0"[..]));
        assert!(Mapping::new(0, 0).make(file.as_raw_fd()).is_err());
        assert!(Mapping::new(1, 10).make(file.as_raw_fd()).is_err());
        assert!(Mapping::new(u64::MAX - 1, 10).make(file.as_raw_fd()).is_err());
    }
}
