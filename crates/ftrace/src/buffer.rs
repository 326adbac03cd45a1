//! The buffer of one CPU.

use std::fs::{File, OpenOptions};
use std::io::{self, Read};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use crate::error::Error;
use crate::page::Page;
use crate::ring::Ring;

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
    stats: PathBuf,
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
    /// Opens a CPU's buffer in its folder.
    pub(crate) fn open(cpu: u32, folder: &Path, page_bytes: usize) -> Result<CpuBuffer, Error> {
        let path = folder.join("trace_pipe_raw");
        let file = OpenOptions::new().read(true).custom_flags(libc::O_NONBLOCK).open(&path);
        let file = file.map_err(|source| Error::of(&path, source))?;
        let pages = Pages { file, page_bytes, stats: folder.join("stats") };
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

    /// What it has lost so far.
    pub fn losses(&self) -> io::Result<Losses> {
        match &self.source {
            Source::Tracefs(pages) => Ok(losses_in(&std::fs::read_to_string(&pages.stats)?)),
            Source::Perf(ring) => Ok(Losses { overrun: ring.lost()?, dropped: 0 }),
        }
    }
}

impl Pages {
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
    fn losses_are_those_of_the_kernel() {
        let stats = "entries: 0\noverrun: 12\ncommit overrun: 3\nbytes: 0\n\
                     oldest event ts: 1.5\nnow ts: 2.5\ndropped events: 4\nread events: 9\n";
        assert_eq!(losses_in(stats), Losses { overrun: 12, dropped: 7 });
        assert_eq!(losses_in(""), Losses::default());
    }
}
