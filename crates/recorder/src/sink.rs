//! Where a trace goes, and what happens when it takes no more.

use std::fs::File;
use std::io::{self, Seek, SeekFrom, Write};
use std::os::fd::{AsFd, OwnedFd};

use files::Inode;
use rustix::fs::{FallocateFlags, fallocate, fstat, ftruncate};
use rustix::process::{Resource, getrlimit};

/// Room that is left on the trace's file system, so that the end of the trace finds a place.
const RESERVE_BYTES: u64 = 1 << 20;

/// Where blocks for the trace's end are kept, far behind it, for a disk that is full before we
/// notice; and how many bytes. An index, a gap and the totals need less.
const KEPT_AT: u64 = 1 << 40;
const KEPT_BYTES: u64 = 512 << 10;

/// Where the trace is written to.
pub enum Sink {
    /// A file, empty and positioned at its start.
    File(File),
    /// Anything else: a pipe, a socket.
    Stream(Box<dyn Write + Send>),
}

impl Sink {
    /// Which file the trace is, if it is one.
    pub(crate) fn inode(&self) -> Option<Inode> {
        match self {
            Sink::File(file) => files::inode_of(file).ok(),
            Sink::Stream(_) => None,
        }
    }

    /// What the writer is given, and what watches the room that is left.
    pub(crate) fn open(self) -> io::Result<(Box<dyn Write + Send>, Option<DiskSpace>)> {
        match self {
            Sink::Stream(stream) => Ok((stream, None)),
            Sink::File(mut file) => {
                // A device or a pipe that was opened by name has no length to fall back to.
                if !file.metadata()?.is_file() {
                    return Ok((Box::new(file), None));
                }
                let end = file.stream_position()?;
                let space = DiskSpace::watch(file.try_clone()?.into());
                let limited = getrlimit(Resource::Fsize).current.is_some();
                Ok((Box::new(WholeWrites { file, limited, whole: end, end }), space))
            }
        }
    }
}

/// A file in which everything between two flushes is there as a whole or not at all.
struct WholeWrites {
    file: File,
    /// It may not grow beyond a length (`ulimit -f`).
    limited: bool,
    /// Where the last flush was.
    whole: u64,
    end: u64,
}

impl Write for WholeWrites {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let file = &mut self.file;
        let mut write = || file.write_all(bytes);
        if let Err(error) = if self.limited { without_size_signal(write) } else { write() } {
            // The torn block would only take room. If even this fails, readers stop there.
            let _ = self.file.set_len(self.whole);
            let _ = self.file.seek(SeekFrom::Start(self.whole));
            self.end = self.whole;
            return Err(error);
        }
        self.end += bytes.len() as u64;
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        self.whole = self.end;
        self.file.flush()
    }
}

/// Beyond the limit of file sizes the kernel kills who writes, by a signal to the thread. Here that
/// is an error like any other.
fn without_size_signal<T>(write: impl FnOnce() -> T) -> T {
    let now = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: sets of signals that are made here; the mask becomes what it was.
    unsafe {
        let (mut signal, mut before) = (std::mem::zeroed(), std::mem::zeroed());
        libc::sigemptyset(&raw mut signal);
        libc::sigaddset(&raw mut signal, libc::SIGXFSZ);
        libc::pthread_sigmask(libc::SIG_BLOCK, &raw const signal, &raw mut before);
        let written = write();
        libc::sigtimedwait(&raw const signal, std::ptr::null_mut(), &raw const now);
        libc::pthread_sigmask(libc::SIG_SETMASK, &raw const before, std::ptr::null_mut());
        written
    }
}

/// Tells when the trace's file system is about to be full.
pub(crate) struct DiskSpace {
    file: OwnedFd,
    reserve: u64,
    longest: Option<u64>,
}

impl DiskSpace {
    /// `None` where the file system tells no sizes.
    fn watch(file: OwnedFd) -> Option<DiskSpace> {
        let free = free_bytes(&file)?;
        let longest = getrlimit(Resource::Fsize).current;
        // Beyond the limit of file sizes a signal kills us, on some file systems even for this.
        if longest.is_none() {
            keep_blocks(&file, KEPT_BYTES.min(free / 4));
        }
        Some(DiskSpace { file, reserve: RESERVE_BYTES.min(free / 4), longest })
    }

    /// How long the trace may get (`ulimit -f`): beyond it a signal would kill us.
    pub fn longest(&self) -> Option<u64> {
        self.longest
    }

    /// Gives the blocks back that were kept for the trace's end.
    pub fn give_back(&self) {
        let flags = FallocateFlags::KEEP_SIZE | FallocateFlags::PUNCH_HOLE;
        let _ = fallocate(&self.file, flags, KEPT_AT, KEPT_BYTES);
    }

    /// The bytes that are free, when `pending` more would leave too few for the trace's end.
    pub fn short_of(&self, pending: u64) -> Option<u64> {
        let free = free_bytes(&self.file)?;
        (free < pending.saturating_add(self.reserve)).then_some(free)
    }
}

/// Keeps blocks behind the end of a file, where the file system can do that.
fn keep_blocks(file: &OwnedFd, bytes: u64) {
    let len = fstat(file).map(|stat| stat.st_size as u64);
    let _ = fallocate(file, FallocateFlags::KEEP_SIZE, KEPT_AT, bytes);
    // Not every one that says so keeps the size.
    if let (Ok(before), Ok(now)) = (len, fstat(file))
        && now.st_size as u64 != before
    {
        let _ = ftruncate(file, before);
    }
}

fn free_bytes(file: impl AsFd) -> Option<u64> {
    let stat = rustix::fs::fstatvfs(file).ok()?;
    (stat.f_blocks != 0).then(|| stat.f_bavail.saturating_mul(stat.f_frsize))
}
