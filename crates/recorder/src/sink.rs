//! Where a trace goes, and what happens when it takes no more.

use std::fs::File;
use std::io::{self, Seek, SeekFrom, Write};
use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use files::Inode;
use rustix::fs::{FallocateFlags, fallocate};
use rustix::io::Errno;
use rustix::process::{Resource, getrlimit};

/// Room that is left on the trace's file system, so that the end of the trace finds a place.
const RESERVE_BYTES: u64 = 1 << 20;

/// Bytes of blocks that the file has already behind what is written, for a disk that is full before we
/// notice: nobody else can take them. An index, a gap and the totals need less.
const KEPT_BYTES: u64 = 512 << 10;
/// Bytes for which blocks are taken at a time.
const STEP_BYTES: u64 = 4 << 20;

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
                let limited = getrlimit(Resource::Fsize).current.is_some();
                let free = free_bytes(&file);
                let end_comes = Arc::new(AtomicBool::new(false));
                // Beyond the limit of file sizes a signal kills us, on some file systems even for
                // blocks that are only kept.
                let ahead = free.filter(|_| !limited).map(|free| Ahead {
                    until: end,
                    kept: KEPT_BYTES.min(free / 4),
                    step: STEP_BYTES.min(free / 8),
                    end_comes: Arc::clone(&end_comes),
                });
                let watched = OwnedFd::from(file.try_clone()?);
                let space = free.map(|free| DiskSpace::new(watched, free, end_comes));
                let mut writes = WholeWrites { file, limited, whole: end, end, ahead };
                // A disk that is full already is noticed by the first write.
                let _ = writes.keep_ahead(0);
                // Not every file system that says so keeps the file's length.
                if writes.file.metadata()?.len() != end {
                    writes.file.set_len(end)?;
                    writes.ahead = None;
                }
                Ok((Box::new(writes), space))
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
    /// Where the file system can do that.
    ahead: Option<Ahead>,
}

/// Blocks that the file has behind its end.
struct Ahead {
    until: u64,
    /// How many bytes there must be.
    kept: u64,
    step: u64,
    /// What comes now may use them.
    end_comes: Arc<AtomicBool>,
}

impl WholeWrites {
    /// Sees to it that so many bytes leave enough blocks for the trace's end.
    fn keep_ahead(&mut self, len: u64) -> io::Result<()> {
        let Some(ahead) = &mut self.ahead else { return Ok(()) };
        let needed = self.end + len + ahead.kept;
        if needed <= ahead.until || ahead.end_comes.load(Ordering::Relaxed) {
            return Ok(());
        }
        let from = ahead.until.max(self.end);
        for until in [needed + ahead.step, needed] {
            match fallocate(&self.file, FallocateFlags::KEEP_SIZE, from, until - from) {
                Ok(()) => {
                    ahead.until = until;
                    return Ok(());
                }
                Err(Errno::NOSPC | Errno::DQUOT) => {}
                Err(_) => {
                    self.ahead = None;
                    return Ok(());
                }
            }
        }
        Err(Errno::NOSPC.into())
    }

    /// What was written since the last flush only takes room. Where blocks are kept, it is written
    /// over, for shortening the file would give them away.
    fn go_back(&mut self) {
        if self.ahead.is_none() {
            let _ = self.file.set_len(self.whole);
        }
        // If even this fails, readers stop there.
        let _ = self.file.seek(SeekFrom::Start(self.whole));
        self.end = self.whole;
    }
}

impl Drop for WholeWrites {
    fn drop(&mut self) {
        // The blocks that are left, and what was torn.
        if self.ahead.is_some() {
            let _ = self.file.set_len(self.end);
        }
    }
}

impl Write for WholeWrites {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if let Err(error) = self.keep_ahead(bytes.len() as u64) {
            self.go_back();
            return Err(error);
        }
        let file = &mut self.file;
        let mut write = || file.write_all(bytes);
        if let Err(error) = if self.limited { without_size_signal(write) } else { write() } {
            self.go_back();
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
    end_comes: Arc<AtomicBool>,
}

impl DiskSpace {
    fn new(file: OwnedFd, free: u64, end_comes: Arc<AtomicBool>) -> DiskSpace {
        let longest = getrlimit(Resource::Fsize).current;
        DiskSpace { file, reserve: RESERVE_BYTES.min(free / 4), longest, end_comes }
    }

    /// How long the trace may get (`ulimit -f`): beyond it a signal would kill us.
    pub fn longest(&self) -> Option<u64> {
        self.longest
    }

    /// What is written from now on may use the blocks that are kept for the trace's end.
    pub fn use_kept(&self) {
        self.end_comes.store(true, Ordering::Relaxed);
    }

    /// The bytes that are free, when `pending` more would leave too few for the trace's end.
    pub fn short_of(&self, pending: u64) -> Option<u64> {
        let free = free_bytes(&self.file)?;
        (free < pending.saturating_add(self.reserve)).then_some(free)
    }
}

fn free_bytes(file: impl AsFd) -> Option<u64> {
    let stat = rustix::fs::fstatvfs(file).ok()?;
    (stat.f_blocks != 0).then(|| stat.f_bavail.saturating_mul(stat.f_frsize))
}
