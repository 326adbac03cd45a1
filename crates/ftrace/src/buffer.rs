//! The buffer of one CPU.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Read};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use crate::error::Error;
use crate::instance::write;
use crate::page::Page;
use crate::ring::Ring;

/// How often a buffer may become twice as large.
const DOUBLINGS_MAX: u32 = 3;
/// All buffers together take this part of the machine's memory at most, when they grow.
const MEMORY_PART: u64 = 16;

/// Reads the buffer of one CPU.
#[derive(Debug)]
pub struct CpuBuffer {
    /// The CPU's number.
    pub cpu: u32,
    source: Source,
}

#[derive(Debug)]
enum Source {
    Tracefs(Pages),
    Perf(Ring),
}

/// A buffer of tracefs.
///
/// Pages are read, not mapped: `read` gives a whole one at once, costs about as much as the ioctl
/// that a mapping needs for each, works on every kernel, and what was read does not change.
#[derive(Debug)]
struct Pages {
    file: File,
    page_bytes: usize,
    folder: PathBuf,
    /// How large the buffer is, and how large it may become.
    bytes: u64,
    bytes_most: u64,
}

/// What a CPU's buffer has lost so far, by the kernel's count.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Losses {
    /// Written over before they were read.
    pub overrun: u64,
    /// Lost in an interrupt that came while events were written, or for want of room.
    pub dropped: u64,
}

impl CpuBuffer {
    /// Opens a CPU's buffer of a size in its folder. It grows up to another size.
    pub(crate) fn open(
        cpu: u32,
        folder: &Path,
        page_bytes: usize,
        [bytes, bytes_most]: [u64; 2],
    ) -> Result<CpuBuffer, Error> {
        let path = folder.join("trace_pipe_raw");
        let file = OpenOptions::new().read(true).custom_flags(libc::O_NONBLOCK).open(&path);
        let file = file.map_err(|source| Error::of(&path, source))?;
        let pages = Pages { file, page_bytes, folder: folder.to_path_buf(), bytes, bytes_most };
        Ok(CpuBuffer { cpu, source: Source::Tracefs(pages) })
    }

    /// The buffer of a CPU whose events come through a ring.
    pub(crate) fn of_ring(cpu: u32, ring: Ring) -> CpuBuffer {
        CpuBuffer { cpu, source: Source::Perf(ring) }
    }

    /// The ring through which its events come, if they do.
    pub(crate) fn ring(&self) -> Option<&Ring> {
        match &self.source {
            Source::Tracefs(_) => None,
            Source::Perf(ring) => Some(ring),
        }
    }

    /// Reads the next page, if there is one.
    pub fn read(&mut self, page: &mut Page) -> io::Result<bool> {
        match &mut self.source {
            Source::Tracefs(pages) => pages.read(page),
            Source::Perf(ring) => ring.read(page),
        }
    }

    /// Makes the buffer twice as large, for one that has lost events. True if that was done: the kernel
    /// takes no events of any CPU meanwhile, and does not count them.
    pub fn grow(&mut self) -> bool {
        match &mut self.source {
            Source::Tracefs(pages) => pages.grow(),
            Source::Perf(_) => false,
        }
    }

    /// What it has lost so far.
    pub fn losses(&self) -> io::Result<Losses> {
        match &self.source {
            Source::Tracefs(pages) => {
                Ok(losses_in(&fs::read_to_string(pages.folder.join("stats"))?))
            }
            Source::Perf(ring) => Ok(Losses { overrun: ring.lost()?, dropped: 0 }),
        }
    }
}

/// How large a buffer of a size may become, where there are so many.
pub(crate) fn bytes_most(bytes: u64, buffers: usize) -> u64 {
    // SAFETY: no pointers are involved.
    let [pages, page_bytes] =
        [libc::_SC_PHYS_PAGES, libc::_SC_PAGESIZE].map(|name| unsafe { libc::sysconf(name) });
    let memory = pages.max(0).cast_unsigned().saturating_mul(page_bytes.max(0).cast_unsigned());
    let share = memory / MEMORY_PART / buffers.max(1) as u64;
    bytes.saturating_mul(1 << DOUBLINGS_MAX).min(share).max(bytes)
}

impl Pages {
    /// Where the kernel has no memory for that, it is not asked again.
    fn grow(&mut self) -> bool {
        let bytes = self.bytes.saturating_mul(2).min(self.bytes_most);
        if bytes <= self.bytes {
            return false;
        }
        let kilobytes = bytes.div_ceil(1024).to_string();
        let has_grown = write(&self.folder.join("buffer_size_kb"), &kilobytes, false).is_ok();
        match has_grown {
            true => self.bytes = bytes,
            false => self.bytes_most = self.bytes,
        }
        has_grown
    }

    fn read(&mut self, page: &mut Page) -> io::Result<bool> {
        page.fill(self.page_bytes, |bytes| {
            loop {
                match self.file.read(bytes) {
                    Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(0),
                    Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                    other => return other,
                }
            }
        })
    }
}

fn losses_in(stats: &str) -> Losses {
    let count = |name: &str| {
        let mut lines = stats.lines().filter_map(|line| line.split_once(':'));
        let found = lines.find(|(word, _)| word.trim() == name);
        found.and_then(|(_, value)| value.trim().parse::<u64>().ok()).unwrap_or(0)
    };
    let dropped = count("commit overrun").saturating_add(count("dropped events"));
    Losses { overrun: count("overrun"), dropped }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn buffers_grow_up_to_a_limit() {
        let folder = tempfile::tempdir().unwrap();
        let size = folder.path().join("buffer_size_kb");
        for file in ["trace_pipe_raw", "buffer_size_kb"] {
            fs::write(folder.path().join(file), "").unwrap();
        }
        let sizes = [64 << 10, 200 << 10];
        let mut buffer = CpuBuffer::open(0, folder.path(), 4096, sizes).unwrap();
        for kilobytes in ["128", "200"] {
            assert!(buffer.grow());
            assert_eq!(fs::read_to_string(&size).unwrap(), kilobytes);
        }
        assert!(!buffer.grow());
        // The kernel has no more memory.
        let mut buffer = CpuBuffer::open(0, folder.path(), 4096, sizes).unwrap();
        fs::remove_file(&size).unwrap();
        assert!(!buffer.grow());
        fs::write(&size, "").unwrap();
        assert!(!buffer.grow());
        assert_eq!(bytes_most(1 << 60, 2), 1 << 60);
        assert!((4096..=8 * 4096).contains(&bytes_most(4096, 2)));
    }

    #[test]
    fn losses_are_those_of_the_kernel() {
        let stats = "entries: 0\noverrun: 12\ncommit overrun: 3\nbytes: 0\n\
                     oldest event ts: 1.5\nnow ts: 2.5\ndropped events: 4\nread events: 9\n";
        assert_eq!(losses_in(stats), Losses { overrun: 12, dropped: 7 });
        assert_eq!(losses_in(""), Losses::default());
    }
}
