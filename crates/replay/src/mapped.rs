//! Files that tasks have mapped, as the recorded program had.

use std::io;
use std::os::fd::BorrowedFd;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use rustix::fs::{OFlags, fcntl_getfl, fstat};
use rustix::io::{pread, pwrite};
use syscalls::Handler;
use trace::event::BlobId;

/// Longest mapping that is made: address space is shared by all tasks.
const LENGTH_MAX: u64 = 1 << 40;
const PAGE_BYTES: u64 = 4096;
/// Longest stretch of which the kernel is asked about each page.
const ASKED_MAX: usize = 16 << 30;

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
    /// They were read, not stored, and are to be compared.
    pub is_read: bool,
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
    /// Hash of all of them, if there is one.
    pub hash: Option<u128>,
    /// When they were collected.
    pub tsc: u64,
}

/// A call on memory.
pub struct Asked {
    /// Its number.
    pub number: u16,
    /// How long the memory is.
    pub length: u64,
    /// The argument behind that.
    pub third: u64,
    /// That is the address of a byte for each page, to be filled.
    pub fills: bool,
}

/// A file mapped from an offset on. All tasks have the same memory, so all can use it.
pub struct Mapping {
    /// Offset of its beginning in the file.
    pub offset: u64,
    /// How long it is made.
    first: u64,
    /// How long it must be, sooner or later.
    wanted: AtomicU64,
    region: Mutex<Option<Region>>,
    /// The mapping that this one is a copy of, made when it is needed.
    of: Option<Arc<Mapping>>,
}

struct Region {
    base: usize,
    len: usize,
    /// Device and inode of the file.
    file: (u64, u64),
}

/// A descriptor by which a file is read or written instead of the mapping.
struct Instead<'a> {
    fd: BorrowedFd<'a>,
    size: u64,
}

impl<'a> Instead<'a> {
    /// A task's descriptor, if it is one of the mapped file that may be used so.
    fn of(region: &Region, fd: i32, writes: bool) -> Option<Instead<'a>> {
        if fd < 0 {
            return None;
        }
        // SAFETY: it is used for calls alone, and the kernel rejects closed ones.
        let fd = unsafe { BorrowedFd::borrow_raw(fd) };
        let stat = fstat(fd).ok().filter(|stat| (stat.st_dev, stat.st_ino) == region.file)?;
        let flags = fcntl_getfl(fd).ok()?;
        let is_plain = !flags.intersects(OFlags::APPEND | OFlags::DIRECT | OFlags::PATH);
        let access = flags & OFlags::RWMODE;
        let may = access == OFlags::RDWR
            || access == if writes { OFlags::WRONLY } else { OFlags::RDONLY };
        (is_plain && may).then_some(Instead { fd, size: stat.st_size as u64 })
    }

    fn write(&self, mut offset: u64, bytes: &[&[u8]]) -> io::Result<()> {
        for mut bytes in bytes.iter().copied() {
            // A store does not make the file longer.
            if offset.saturating_add(bytes.len() as u64) > self.size {
                return Err(outside());
            }
            while !bytes.is_empty() {
                let written = pwrite(self.fd, bytes, offset)?;
                bytes = &bytes[written..];
                offset += written as u64;
            }
        }
        Ok(())
    }

    fn read(&self, offset: u64, len: usize) -> io::Result<Vec<u8>> {
        let (mut bytes, mut done) = (vec![0; len], 0);
        while done < len {
            match pread(self.fd, &mut bytes[done..], offset + done as u64)? {
                0 => return Err(outside()),
                read => done += read,
            }
        }
        Ok(bytes)
    }
}

fn outside() -> io::Error {
    io::ErrorKind::InvalidInput.into()
}

fn length(wanted: u64) -> io::Result<usize> {
    if wanted == 0 || wanted > LENGTH_MAX {
        return Err(outside());
    }
    Ok(wanted.next_multiple_of(PAGE_BYTES) as usize)
}

impl Mapping {
    /// Not made yet.
    pub fn new(offset: u64, len: u64) -> Mapping {
        Mapping::with_source(offset, len, None)
    }

    fn with_source(offset: u64, len: u64, of: Option<Arc<Mapping>>) -> Mapping {
        let wanted = AtomicU64::new(len);
        Mapping { offset, first: len, wanted, region: Mutex::new(None), of }
    }

    /// Another mapping of the same file, for a process that begins with a copy of the memory.
    pub fn copy_of(other: &Arc<Mapping>) -> Mapping {
        let wanted = other.wanted.load(Ordering::Relaxed);
        // Copies of copies are of the first one: there may be many after one another.
        let of = Arc::clone(other.of.as_ref().unwrap_or(other));
        Mapping::with_source(other.offset, wanted, Some(of))
    }

    /// It must reach this offset in the file.
    pub fn reach(&self, end: u64) {
        self.wanted.fetch_max(end.saturating_sub(self.offset), Ordering::Relaxed);
    }

    /// Maps the file of a descriptor.
    pub fn make(&self, fd: i32) -> io::Result<()> {
        let len = length(self.first)?;
        let offset = i64::try_from(self.offset).map_err(|_| outside())?;
        let map = |prot| {
            // SAFETY: a new mapping at an address of the kernel's choice.
            of_call(unsafe {
                libc::mmap(std::ptr::null_mut(), len, prot, libc::MAP_SHARED, fd, offset)
            })
        };
        let base = match map(libc::PROT_READ | libc::PROT_WRITE) {
            Err(error) if error.raw_os_error() == Some(libc::EACCES) => map(libc::PROT_READ)?,
            made => made?,
        };
        // SAFETY: it is used for a call alone.
        let stat = fstat(unsafe { BorrowedFd::borrow_raw(fd) })?;
        *self.lock() = Some(Region { base, len, file: (stat.st_dev, stat.st_ino) });
        Ok(())
    }

    fn lock(&self) -> MutexGuard<'_, Option<Region>> {
        self.region.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Calls `act` with the memory of a stretch of the file.
    fn with<T>(
        &self,
        offset: u64,
        len: usize,
        act: impl FnOnce(&mut Region, usize) -> io::Result<T>,
    ) -> io::Result<T> {
        let at = usize::try_from(offset.checked_sub(self.offset).ok_or_else(outside)?);
        let at = at.map_err(|_| outside())?;
        let end = at.checked_add(len).ok_or_else(outside)?;
        let mut region = self.lock();
        if region.is_none()
            && let Some(of) = &self.of
        {
            *region = Some(of.lock().as_ref().ok_or_else(outside)?.again(0, 0)?);
        }
        let region = region.as_mut().ok_or_else(outside)?;
        if end > region.len {
            let wanted = length(self.wanted.load(Ordering::Relaxed))?;
            // Parts of it may be protected in other ways than the rest.
            if region.resize(wanted).is_err() {
                let former = std::mem::replace(region, region.again(0, wanted)?);
                former.remove();
            }
        }
        if end > region.len {
            return Err(outside());
        }
        act(region, at)
    }

    /// Stores bytes at an offset in the file; by a descriptor, if one is given that still is of
    /// this file.
    pub fn store(&self, offset: u64, bytes: &[&[u8]], by: Option<i32>) -> io::Result<()> {
        let len: usize = bytes.iter().map(|bytes| bytes.len()).sum();
        self.with(offset, len, |region, at| {
            if let Some(instead) = by.and_then(|fd| Instead::of(region, fd, true)) {
                return instead.write(offset, bytes);
            }
            let stored = region.store(at, len, bytes);
            match &stored {
                Err(error) if error.raw_os_error() == Some(libc::EINVAL) => {
                    // It is protected by now. A mapping beside it is not.
                    let first = at & !(PAGE_BYTES as usize - 1);
                    let beside = region.again(first, at + len - first)?;
                    let stored = beside
                        .protect(libc::PROT_READ | libc::PROT_WRITE)
                        .and_then(|()| beside.store(at - first, len, bytes));
                    beside.remove();
                    stored
                }
                _ => stored,
            }
        })
    }

    /// Reads bytes at an offset in the file, in the same way.
    pub fn read(&self, offset: u64, len: usize, by: Option<i32>) -> io::Result<Vec<u8>> {
        self.with(offset, len, |region, at| {
            if let Some(instead) = by.and_then(|fd| Instead::of(region, fd, false)) {
                return instead.read(offset, len);
            }
            match region.read(at, len) {
                Err(error) if error.raw_os_error() == Some(libc::EINVAL) => {
                    let first = at & !(PAGE_BYTES as usize - 1);
                    let beside = region.again(first, at + len - first)?;
                    let read =
                        beside.protect(libc::PROT_READ).and_then(|()| beside.read(at - first, len));
                    beside.remove();
                    read
                }
                read => read,
            }
        })
    }

    /// Makes a call on the memory where an offset of the file lies, and returns its result. `None`:
    /// it has no equivalent here.
    pub fn ask(&self, asked: &Asked, offset: u64) -> Option<i64> {
        let Asked { number, length: len, third, fills } = *asked;
        let handler = syscalls::by_number(number.into())?.handler;
        let len = usize::try_from(len).ok().filter(|len| *len <= LENGTH_MAX as usize)?;
        let asked = self.with(offset, 0, |region, at| {
            match handler {
                Handler::Remap => {
                    let new = usize::try_from(third).map_err(|_| outside())?;
                    // Parts of it stay where they are.
                    if at != 0
                        || new == 0
                        || len.next_multiple_of(PAGE_BYTES as usize) != region.len
                    {
                        return Ok(None);
                    }
                    return Ok(Some(result(region.resize(new))));
                }
                _ if at.checked_add(len).is_none_or(|end| end > region.len) => return Ok(None),
                _ => {}
            }
            let mut room = match fills {
                true if len > ASKED_MAX => return Ok(None),
                true => vec![0u8; len.div_ceil(PAGE_BYTES as usize)],
                false => Vec::new(),
            };
            let third = match handler {
                _ if fills => room.as_mut_ptr() as u64,
                // Nothing becomes executable.
                Handler::Protect => third & (libc::PROT_READ | libc::PROT_WRITE) as u64,
                _ => third,
            };
            // SAFETY: a call that tells or changes what the kernel does with these pages, to which
            // nobody refers; where it has a buffer, that is long enough.
            let made = unsafe { libc::syscall(number.into(), region.base + at, len, third) };
            Ok(Some(if made == -1 { result(Err(io::Error::last_os_error())) } else { made }))
        });
        asked.unwrap_or_default()
    }
}

fn result(made: io::Result<()>) -> i64 {
    made.map_or_else(|error| -i64::from(error.raw_os_error().unwrap_or(libc::EINVAL)), |()| 0)
}

fn of_call(made: *mut libc::c_void) -> io::Result<usize> {
    if made == libc::MAP_FAILED { Err(io::Error::last_os_error()) } else { Ok(made as usize) }
}

impl Region {
    fn resize(&mut self, len: usize) -> io::Result<()> {
        let len = len.next_multiple_of(PAGE_BYTES as usize);
        // SAFETY: this is our mapping, to which nobody refers, and which may move.
        let base = of_call(unsafe {
            libc::mremap(self.base as *mut _, self.len, len, libc::MREMAP_MAYMOVE)
        });
        *self = Region { base: base?, len, ..*self };
        Ok(())
    }

    /// Maps a part of it once more; 0: all that follows.
    fn again(&self, from: usize, len: usize) -> io::Result<Region> {
        let len = if len == 0 { self.len - from } else { len };
        let len = len.next_multiple_of(PAGE_BYTES as usize);
        // SAFETY: of a shared mapping with an old length of 0, mremap makes another one.
        let base = of_call(unsafe {
            libc::mremap((self.base + from) as *mut _, 0, len, libc::MREMAP_MAYMOVE)
        });
        Ok(Region { base: base?, len, ..*self })
    }

    fn protect(&self, prot: i32) -> io::Result<()> {
        // SAFETY: this is our mapping, to which nobody refers.
        match unsafe { libc::mprotect(self.base as *mut _, self.len, prot) } {
            0 => Ok(()),
            _ => Err(io::Error::last_os_error()),
        }
    }

    /// Reads bytes that end within it.
    fn read(&self, at: usize, len: usize) -> io::Result<Vec<u8>> {
        let first = (self.base + at) & !(PAGE_BYTES as usize - 1);
        let room = self.base + at + len - first;
        // SAFETY: these pages are in our mapping.
        match unsafe { libc::madvise(first as *mut _, room, libc::MADV_POPULATE_READ) } {
            0 => {}
            _ => return Err(io::Error::last_os_error()),
        }
        let mut bytes = vec![0; len];
        // SAFETY: all of it lies within our mapping, and the pages are there.
        unsafe {
            let from = (self.base + at) as *const u8;
            std::ptr::copy_nonoverlapping(from, bytes.as_mut_ptr(), len);
        }
        Ok(bytes)
    }

    /// Stores bytes, `len` together, which end within it.
    fn store(&self, at: usize, len: usize, bytes: &[&[u8]]) -> io::Result<()> {
        let first = (self.base + at) & !(PAGE_BYTES as usize - 1);
        let room = self.base + at + len - first;
        // The kernel makes the pages writable, or says that the file ends before them: a store
        // would be answered by a signal.
        // SAFETY: these pages are in our mapping.
        match unsafe { libc::madvise(first as *mut _, room, libc::MADV_POPULATE_WRITE) } {
            0 => {}
            _ => return Err(io::Error::last_os_error()),
        }
        let mut to = (self.base + at) as *mut u8;
        for bytes in bytes {
            // SAFETY: all bytes together end within our mapping, to whose pages nobody refers.
            unsafe {
                std::ptr::copy_nonoverlapping(bytes.as_ptr(), to, bytes.len());
                to = to.add(bytes.len());
            }
        }
        Ok(())
    }

    fn remove(&self) {
        // SAFETY: this is our mapping, to which nobody refers.
        unsafe { libc::munmap(self.base as *mut _, self.len) };
    }
}

impl Drop for Mapping {
    fn drop(&mut self) {
        let region = self.region.get_mut().unwrap_or_else(PoisonError::into_inner);
        if let Some(region) = region {
            region.remove();
        }
    }
}

#[cfg(test)]
mod tests {
    use std::io::{Read, Seek, Write};
    use std::os::fd::AsRawFd;
    use std::os::unix::fs::FileExt;

    use syscalls::ArgKind;

    use super::*;

    #[test]
    fn what_is_stored_is_in_the_file() {
        let mut file = tempfile::tempfile().unwrap();
        file.write_all(&[7; 5000]).unwrap();
        let mapping = Mapping::new(4096, 100);
        let abc = [&b"ab"[..], b"c"];
        assert!(mapping.store(4096, &abc, None).is_err(), "it is not made");
        mapping.make(file.as_raw_fd()).unwrap();
        mapping.store(4100, &abc, None).unwrap();
        assert!(mapping.store(4000, &abc, None).is_err(), "it is before the mapping");
        assert!(mapping.store(8191, &abc, None).is_err(), "it is behind the mapping");
        mapping.reach(16384);
        assert!(mapping.store(8191, &abc, None).is_err(), "it is behind the file");
        file.set_len(16384).unwrap();
        mapping.store(8191, &abc, None).unwrap();
        let mut all = Vec::new();
        file.rewind().unwrap();
        file.read_to_end(&mut all).unwrap();
        assert_eq!((&all[4099..4104], &all[8190..8195]), (&b"\x07abc\x07"[..], &b"\0abc\0"[..]));
        assert_eq!(mapping.read(4100, 3, None).unwrap(), b"abc");
        assert!(mapping.read(16380, 8, None).is_err(), "it ends behind the file");
        // By a descriptor, if it is one of the file and may be used so.
        let own = |fd: &std::fs::File| Some(fd.as_raw_fd());
        mapping.store(4500, &[b"d", b"ef"], own(&file)).unwrap();
        assert_eq!(mapping.read(4499, 5, own(&file)).unwrap(), b"\x07def\x07");
        assert!(mapping.store(16382, &abc, own(&file)).is_err(), "the file becomes no longer");
        assert!(mapping.read(16382, 3, own(&file)).is_err());
        let mut other = tempfile::tempfile().unwrap();
        other.write_all(&[9; 8192]).unwrap();
        for by in [own(&other), Some(-1), Some(i32::MAX)] {
            mapping.store(4600, &abc, by).unwrap();
            assert_eq!(mapping.read(4600, 3, by).unwrap(), b"abc");
        }
        let appends = rustix::fs::fcntl_setfl(&file, OFlags::APPEND);
        mapping.store(4700, &abc, own(&file)).unwrap();
        assert_eq!((appends, file.metadata().unwrap().len()), (Ok(()), 16384), "it is not used");
        // What is protected is stored to all the same, and copies are mappings of their own.
        let mapping = Arc::new(mapping);
        let copy = Mapping::copy_of(&mapping);
        let ask = |mapping: &Mapping, name, offset: u64, len, third| {
            let row = syscalls::by_name(name).unwrap();
            let fills = row.args.iter().any(|arg| matches!(arg.kind, ArgKind::Buf(..)));
            mapping.ask(&Asked { number: row.nr, length: len, third, fills }, offset)
        };
        assert_eq!(ask(&mapping, "mprotect", 4096, 4096, 0), Some(0));
        mapping.store(4200, &abc, None).unwrap();
        assert_eq!(mapping.read(4200, 3, None).unwrap(), b"abc");
        copy.store(4300, &abc, None).unwrap();
        assert_eq!(ask(&mapping, "msync", 4096, 8192, 4), Some(0));
        assert_eq!(ask(&mapping, "msync", 4097, 8192, 4), Some(-22));
        assert_eq!(ask(&mapping, "mincore", 4096, 12288, 0), Some(0));
        assert_eq!(ask(&mapping, "madvise", 4096, 4096, 4), Some(0));
        assert_eq!(ask(&mapping, "msync", 4096, 1 << 30, 4), None, "it is not so long");
        assert_eq!(ask(&mapping, "msync", 0, 4096, 4), None, "it begins later");
        assert_eq!(ask(&copy, "mremap", 4096, 12288, 4096), Some(0));
        assert_eq!(ask(&copy, "mremap", 8192, 4096, 8192), None, "not all of it");
        file.read_exact_at(&mut all[..300], 4096).unwrap();
        assert_eq!((&all[104..107], &all[204..207]), (&b"abc"[..], &b"abc"[..]));
        assert!(Mapping::new(0, 0).make(file.as_raw_fd()).is_err());
        assert!(Mapping::new(1, 10).make(file.as_raw_fd()).is_err());
        assert!(Mapping::new(u64::MAX - 1, 10).make(file.as_raw_fd()).is_err());
    }
}
