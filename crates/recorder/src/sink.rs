//! The file or stream that a trace is written to, and how a full disk is handled.

use std::fs::File;
use std::io::{self, Seek, SeekFrom, Write};
use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use file_tree::Inode;
use rustix::fs::{FallocateFlags, fallocate};
use rustix::io::Errno;
use rustix::process::{Resource, getrlimit};

/// Room that is left on the trace's file system for the end of the trace.
const RESERVE_BYTES: u64 = 1 << 20;

/// Bytes of blocks allocated behind what is written, in case the disk fills before that is noticed:
/// other files cannot take them. An index, a gap and the totals need less.
const KEPT_BYTES: u64 = 512 << 10;
/// Bytes that are allocated at a time.
const STEP_BYTES: u64 = 4 << 20;

/// Destination of a trace.
pub enum Sink {
    /// A file, empty and positioned at its start.
    File(File),
    /// Anything else: a pipe, a socket.
    Stream(Box<dyn Write + Send>),
}

impl Sink {
    /// Device and inode of the trace, if it is a file.
    pub(crate) fn inode(&self) -> Option<Inode> {
        match self {
            Sink::File(file) => file_tree::inode_of(file).ok(),
            Sink::Stream(_) => None,
        }
    }

    /// Returns the stream for the writer, and a watch over the free space if it is a file.
    pub(crate) fn open(self) -> io::Result<(Box<dyn Write + Send>, Option<DiskSpace>)> {
        match self {
            Sink::Stream(stream) => Ok((stream, None)),
            Sink::File(mut file) => {
                // A device or pipe opened by name has no length to go back to.
                if !file.metadata()?.is_file() {
                    return Ok((Box::new(file), None));
                }
                let end = file.stream_position()?;
                let limited = getrlimit(Resource::Fsize).current.is_some();
                let free = free_bytes(&file);
                let end_comes = Arc::new(AtomicBool::new(false));
                // Beyond the size limit the kernel sends SIGXFSZ, on some file systems even for
                // blocks allocated beyond the end.
                let ahead = free.filter(|_| !limited).map(|free| Ahead {
                    until: end,
                    kept: KEPT_BYTES.min(free / 4),
                    step: STEP_BYTES.min(free / 8),
                    end_comes: Arc::clone(&end_comes),
                });
                let watched = OwnedFd::from(file.try_clone()?);
                let space = free.map(|free| DiskSpace::new(watched, free, end_comes));
                let mut writes = WholeWrites { file, limited, whole: end, end, ahead };
                // If the disk is full already, the first write reports it.
                let _ = writes.keep_ahead(0);
                // Not every file system honours FALLOC_FL_KEEP_SIZE.
                if writes.file.metadata()?.len() != end {
                    writes.file.set_len(end)?;
                    writes.ahead = None;
                }
                Ok((Box::new(writes), space))
            }
        }
    }
}

/// A file in which the bytes between two flushes are kept as a whole or not at all.
struct WholeWrites {
    file: File,
    /// The file's length is limited (`ulimit -f`).
    limited: bool,
    /// Length at the last flush.
    whole: u64,
    end: u64,
    /// Set if the file system can allocate blocks ahead.
    ahead: Option<Ahead>,
}

/// Blocks allocated behind the end of the file.
struct Ahead {
    until: u64,
    /// Number of bytes that must stay allocated.
    kept: u64,
    step: u64,
    /// Set when what follows is the trace's end, which may use them.
    end_comes: Arc<AtomicBool>,
}

impl WholeWrites {
    /// Allocates blocks so that enough are left for the trace's end after writing `len` bytes.
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

    /// Discards what was written since the last flush. Where blocks are allocated ahead it is
    /// overwritten later, since truncating the file would release them.
    fn go_back(&mut self) {
        if self.ahead.is_none() {
            let _ = self.file.set_len(self.whole);
        }
        // If even this fails, readers stop at the torn part.
        let _ = self.file.seek(SeekFrom::Start(self.whole));
        self.end = self.whole;
    }
}

impl Drop for WholeWrites {
    fn drop(&mut self) {
        // Releases the remaining blocks, and removes the torn part.
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

/// Runs `write` so that exceeding the file size limit is an ordinary error: the kernel's SIGXFSZ to
/// this thread is blocked and consumed.
fn without_size_signal<T>(write: impl FnOnce() -> T) -> T {
    let now = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: all signal sets are local and initialised before use; the mask is restored.
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

/// Detects that the trace's file system is almost full.
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

    /// Maximum length of the trace (`ulimit -f`): beyond it a signal would kill the recorder.
    pub fn longest(&self) -> Option<u64> {
        self.longest
    }

    /// Lets the following writes use the blocks kept for the trace's end.
    pub fn use_kept(&self) {
        self.end_comes.store(true, Ordering::Relaxed);
    }

    /// The number of free bytes, if `pending` more would leave too few for the trace's end.
    pub fn short_of(&self, pending: u64) -> Option<u64> {
        let free = free_bytes(&self.file)?;
        (free < pending.saturating_add(self.reserve)).then_some(free)
    }
}

fn free_bytes(file: impl AsFd) -> Option<u64> {
    let stat = rustix::fs::fstatvfs(file).ok()?;
    (stat.f_blocks != 0).then(|| stat.f_bavail.saturating_mul(stat.f_frsize))
}
