//! What the kernel is asked about memory in which files are mapped.

use std::ffi::c_int;
use std::fs::{File, OpenOptions};
use std::io;
use std::ops::Range;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};
use std::os::unix::fs::{FileExt, OpenOptionsExt};

use rustix::fs::{OFlags, fcntl_getfl};
use rustix::io::{Errno, pread};
use syscalls::abi::memory::{
    PAGE_OF_FILE, PAGE_PRESENT, PAGE_STORED, PAGE_SWAPPED, PAGEMAP_AGAIN, PAGEMAP_SCAN, UFFD_API,
    UFFD_NOTICES, UFFD_STORES, UFFDIO_API, UFFDIO_REGISTER,
};

/// pidfd_open for a thread instead of a process: since Linux 6.9.
const PIDFD_THREAD: c_int = libc::O_EXCL;
/// What /proc calls a userfaultfd.
const NAME: &str = "anon_inode:[userfaultfd]";
pub(super) const PAGE_BYTES: u64 = 4096;
/// A page of zeros.
pub(super) static ZEROS: [u8; PAGE_BYTES as usize] = [0; PAGE_BYTES as usize];
/// Half of the memory that one entry of a page table can map.
const HALF_HUGE_BYTES: u64 = 1 << 20;
/// Number of stretches that one look at a page map returns at most.
const STRETCHES: usize = 512;

/// A userfaultfd of a process: notices the first store to a page that it watches.
pub(super) struct Notices(OwnedFd);

impl Notices {
    /// Takes the one that a thread has opened. The descriptor may be that of any file: only the kind
    /// that is meant is used.
    pub fn take(thread: i32, fd: c_int) -> io::Result<Notices> {
        let thread = descriptor(libc::SYS_pidfd_open, thread, PIDFD_THREAD)?;
        let taken = descriptor(libc::SYS_pidfd_getfd, thread.as_raw_fd(), fd)?;
        leaves_some(taken.as_raw_fd())?;
        let name = std::fs::read_link(format!("/proc/self/fd/{}", taken.as_raw_fd()))?;
        if name.as_os_str() != NAME {
            return Err(io::Error::other("no userfaultfd"));
        }
        let mut agreed = [UFFD_API, UFFD_NOTICES, 0];
        ask(taken.as_raw_fd(), UFFDIO_API, &mut agreed)?;
        Ok(Notices(taken))
    }

    /// Watches memory from now on.
    pub fn watch(&self, memory: &Range<u64>) -> io::Result<()> {
        let mut request = [memory.start, memory.end - memory.start, UFFD_STORES, 0];
        ask(self.0.as_raw_fd(), UFFDIO_REGISTER, &mut request).map(|_| ())
    }
}

/// The memory of a process, and which of its pages were stored to.
pub(super) struct Memory {
    map: File,
    bytes: File,
}

impl Memory {
    pub fn open(pid: i32) -> io::Result<Memory> {
        let open = |name| File::open(format!("/proc/{pid}/{name}"));
        Ok(Memory { map: open("pagemap")?, bytes: open("mem")? })
    }

    /// Whether the process still has this memory. It is another one after an exec.
    pub fn is_there(&self) -> bool {
        // Without memory nothing is read, and nothing fails. The address itself is never mapped.
        !matches!(self.bytes.read_at(&mut [0], 0), Ok(0))
    }

    /// Calls `found` with the stretches of pages that were stored to since the last look.
    pub fn stored(&self, memory: Range<u64>, found: &mut dyn FnMut(Range<u64>)) -> io::Result<()> {
        self.scan(memory, [0, PAGE_STORED], found)
    }

    /// The same for memory whose pages are not marked yet: those that are not there count as stored
    /// to, and are marked now.
    pub fn stored_first(
        &self,
        memory: Range<u64>,
        found: &mut dyn FnMut(Range<u64>),
    ) -> io::Result<()> {
        self.scan(memory.clone(), [0, PAGE_STORED | PAGE_PRESENT], found)?;
        // Only what is still not there: a page that was stored to meanwhile is found the next time.
        self.scan(memory, [PAGE_PRESENT, PAGE_PRESENT], &mut |_| ())
    }

    /// Calls `found` with the stretches of pages of the file that are there, but without those of
    /// another category.
    pub fn present(
        &self,
        memory: Range<u64>,
        without: u64,
        found: &mut dyn FnMut(Range<u64>),
    ) -> io::Result<()> {
        let wanted = PAGE_PRESENT | PAGE_OF_FILE;
        self.look(memory, 0, [without, wanted | without], found)
    }

    /// Calls `found` with the stretches of pages that are not there, but without those of another
    /// category, and those that are kept elsewhere.
    pub fn absent(
        &self,
        memory: Range<u64>,
        without: u64,
        found: &mut dyn FnMut(Range<u64>),
    ) -> io::Result<()> {
        let not_wanted = PAGE_PRESENT | PAGE_SWAPPED | without;
        self.look(memory, 0, [not_wanted, not_wanted], found)
    }

    /// Looks for pages that have all of these categories, the first ones inverted, and marks them.
    fn scan(
        &self,
        memory: Range<u64>,
        categories: [u64; 2],
        found: &mut dyn FnMut(Range<u64>),
    ) -> io::Result<()> {
        self.look(memory, PAGEMAP_AGAIN, categories, found)
    }

    fn look(
        &self,
        memory: Range<u64>,
        flags: u64,
        [inverted, wanted]: [u64; 2],
        found: &mut dyn FnMut(Range<u64>),
    ) -> io::Result<()> {
        let mut from = memory.start;
        let mut stretches = [[0u64; 3]; STRETCHES];
        while from < memory.end {
            let mut request = [
                12 * 8,
                flags,
                from,
                memory.end,
                0,
                stretches.as_mut_ptr() as u64,
                STRETCHES as u64,
                0,
                inverted,
                wanted,
                0,
                wanted,
            ];
            let count = ask(self.map.as_raw_fd(), PAGEMAP_SCAN, &mut request)?;
            let walked = request[4];
            for [start, end, _] in &stretches[..count.min(STRETCHES)] {
                found(*start..*end);
            }
            if walked <= from {
                break;
            }
            from = walked;
        }
        Ok(())
    }

    /// Marks all pages of a stretch, whether they are there or not.
    pub fn mark(&self, memory: &Range<u64>) -> io::Result<()> {
        let mut from = memory.start;
        while from < memory.end {
            // Of a huge page only as a whole is marked by one mark, and that mark is lost with the
            // first store to any part of it. Half of one has the kernel take it apart.
            let until = memory.end.min((from + 1).next_multiple_of(HALF_HUGE_BYTES));
            self.stored(from..until, &mut |_| ())?;
            from = until;
        }
        Ok(())
    }

    /// Reads memory, as far as there is any.
    pub fn read(&self, at: u64, length: usize, bytes: &mut Vec<u8>) {
        read(&self.bytes, at, length, bytes);
    }
}

/// Reads a file from an offset on, as far as there is anything, into an empty buffer.
pub(super) fn read(file: &File, from: u64, length: usize, bytes: &mut Vec<u8>) {
    bytes.reserve(length);
    while bytes.len() < length {
        let (done, at) = (bytes.len(), from + bytes.len() as u64);
        let room = &mut bytes.spare_capacity_mut()[..length - done];
        let read = match pread(file, room, at) {
            Ok((read, _)) if !read.is_empty() => read.len(),
            Err(Errno::INTR) => continue,
            _ => break,
        };
        // SAFETY: the kernel has just written that many bytes behind those that were there.
        unsafe { bytes.set_len(done + read) };
    }
}

/// Opens the file of a descriptor of a thread, only to look at what it is.
pub(super) fn file_of(thread: i32, fd: c_int) -> io::Result<File> {
    let thread = descriptor(libc::SYS_pidfd_open, thread, PIDFD_THREAD)?;
    let taken = descriptor(libc::SYS_pidfd_getfd, thread.as_raw_fd(), fd)?;
    // A file that the program may not read is read for nobody: it cannot have been mapped by this.
    let flags = fcntl_getfl(&taken)?;
    if flags.contains(OFlags::PATH) || flags & OFlags::ACCMODE == OFlags::WRONLY {
        return Err(io::ErrorKind::PermissionDenied.into());
    }
    let path = format!("/proc/self/fd/{}", taken.as_raw_fd());
    let file =
        OpenOptions::new().read(true).custom_flags(libc::O_PATH | libc::O_CLOEXEC).open(path)?;
    leaves_some(file.as_raw_fd()).map(|()| file)
}

/// Fails if so many descriptors are open that others of the recorder may soon find none.
pub(super) fn leaves_some(fd: RawFd) -> io::Result<()> {
    let limit = rustix::process::getrlimit(rustix::process::Resource::Nofile).current;
    match limit.is_some_and(|limit| fd as u64 >= limit / 2) {
        true => Err(io::Error::other("too many descriptors")),
        false => Ok(()),
    }
}

fn descriptor(call: libc::c_long, first: RawFd, second: c_int) -> io::Result<OwnedFd> {
    // SAFETY: takes numbers only, and nothing else owns the new descriptor.
    unsafe {
        let fd = libc::syscall(call, first, second, 0);
        if fd < 0 { Err(io::Error::last_os_error()) } else { Ok(OwnedFd::from_raw_fd(fd as i32)) }
    }
}

fn ask<const WORDS: usize>(fd: RawFd, what: u64, request: &mut [u64; WORDS]) -> io::Result<usize> {
    // SAFETY: the request is as long as its number says, and what it points to outlives the call.
    let done = unsafe { libc::ioctl(fd, what as libc::Ioctl, request.as_mut_ptr()) };
    usize::try_from(done).map_err(|_| io::Error::last_os_error())
}
