//! fio's I/O log format, version 3, and matching job files.
//!
//! A log is sequential: each job needs its own to run concurrently with others. Times are in
//! microseconds since the start.

use std::collections::{HashSet, VecDeque};
use std::io::{self, Write};

/// Limit for the files that a job has open.
const OPEN_MAX: usize = 64;
/// fio lays out files in blocks of this size.
pub const BLOCK_BYTES: u64 = 4096;

/// An access to a file.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Action {
    /// A read.
    Read {
        /// Offset of the first byte.
        offset: u64,
        /// Number of bytes.
        bytes: u64,
    },
    /// A write.
    Write {
        /// Offset of the first byte.
        offset: u64,
        /// Number of bytes.
        bytes: u64,
    },
    /// `fsync`.
    Sync,
    /// `fdatasync`.
    Datasync,
}

/// Writer for the log of one job.
pub struct Log<W: Write> {
    out: W,
    added: HashSet<usize>,
    /// Open files, the most recently used one last.
    open: VecDeque<(usize, String)>,
    last_us: u64,
}

impl<W: Write> Log<W> {
    /// Begins a log.
    pub fn new(mut out: W) -> io::Result<Log<W>> {
        out.write_all(b"fio version 3 iolog\n")?;
        Ok(Log { out, added: HashSet::new(), open: VecDeque::new(), last_us: 0 })
    }

    /// Returns true if the log has a file.
    pub fn has(&self, file: usize) -> bool {
        self.added.contains(&file)
    }

    /// Adds an access to a file. Times must not descend.
    pub fn add(&mut self, time_ns: u64, file: usize, name: &str, action: Action) -> io::Result<()> {
        let us = (time_ns / 1000).max(self.last_us);
        self.last_us = us;
        if self.added.insert(file) {
            writeln!(self.out, "{us} {name} add")?;
        }
        match self.open.iter().position(|(open, _)| *open == file) {
            Some(at) => {
                let used = self.open.remove(at);
                self.open.extend(used);
            }
            None => {
                if self.open.len() == OPEN_MAX
                    && let Some((_, oldest)) = self.open.pop_front()
                {
                    writeln!(self.out, "{us} {oldest} close")?;
                }
                writeln!(self.out, "{us} {name} open")?;
                self.open.push_back((file, name.to_string()));
            }
        }
        match action {
            Action::Read { offset, bytes } => {
                writeln!(self.out, "{us} {name} read {offset} {bytes}")
            }
            Action::Write { offset, bytes } => {
                writeln!(self.out, "{us} {name} write {offset} {bytes}")
            }
            Action::Sync => writeln!(self.out, "{us} {name} sync 0 0"),
            Action::Datasync => writeln!(self.out, "{us} {name} datasync 0 0"),
        }
    }

    /// Closes the files and ends the log.
    pub fn finish(mut self) -> io::Result<()> {
        for (_, name) in &self.open {
            writeln!(self.out, "{} {name} close", self.last_us)?;
        }
        self.out.flush()
    }
}

/// Returns a file name for fio: a number, and the letters, digits and some signs of a path's end.
pub fn plain_name(number: usize, path: &[u8]) -> String {
    /// Longer names might exceed fio's line length.
    const BYTES_MAX: usize = 64;
    let last = path.rsplit(|c| *c == b'/').next().unwrap_or_default();
    let plain = |c: &u8| match c {
        b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'.' | b'_' | b'-' => char::from(*c),
        _ => '_',
    };
    let name: String = last.iter().take(BYTES_MAX).map(plain).collect();
    format!("files/{number}-{name}")
}

/// Returns the job file that replays all logs concurrently.
pub fn replay_job(logs: usize) -> String {
    let mut text = String::from(
        "# Run in this directory, after prepare.fio: fio replay.fio\n\
         # With replay_no_stall=1 nothing waits for the time at which it was done.\n\
         [global]\nioengine=psync\nthread\n",
    );
    for number in 0..logs {
        text.push_str(&format!("\n[job-{number}]\nread_iolog=job-{number}.log\n"));
    }
    text
}

/// Head of the job file that creates the files to be read.
pub const PREPARE_HEAD: &str = "\
# Run in this directory: fio prepare.fio\n\
[global]\nioengine=psync\nrw=write\nbs=4k\ncreate_only=1\nthread\n";

/// Returns the job that creates a file of this length.
pub fn prepare_job(number: usize, name: &str, bytes: u64) -> String {
    let bytes = bytes.max(1).next_multiple_of(BLOCK_BYTES);
    format!("\n[file-{number}]\nfilename={name}\nfilesize={bytes}\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_are_added_opened_and_closed() {
        let mut bytes = Vec::new();
        let mut log = Log::new(&mut bytes).unwrap();
        log.add(1_000, 7, "files/7-a", Action::Write { offset: 0, bytes: 10 }).unwrap();
        log.add(2_999, 7, "files/7-a", Action::Datasync).unwrap();
        log.add(1_500, 8, "files/8-b", Action::Read { offset: 5, bytes: 1 }).unwrap();
        log.finish().unwrap();
        let expected = "fio version 3 iolog\n\
            1 files/7-a add\n1 files/7-a open\n1 files/7-a write 0 10\n\
            2 files/7-a datasync 0 0\n\
            2 files/8-b add\n2 files/8-b open\n2 files/8-b read 5 1\n\
            2 files/7-a close\n2 files/8-b close\n";
        assert_eq!(String::from_utf8(bytes).unwrap(), expected);
    }

    #[test]
    fn few_files_are_open_at_a_time() {
        let mut bytes = Vec::new();
        let mut log = Log::new(&mut bytes).unwrap();
        for file in 0..1000 {
            let name = plain_name(file, b"/x");
            log.add(0, file, &name, Action::Write { offset: 0, bytes: 1 }).unwrap();
        }
        log.finish().unwrap();
        let text = String::from_utf8(bytes).unwrap();
        let (mut open, mut most) = (0, 0);
        for line in text.lines() {
            open += i32::from(line.ends_with(" open")) - i32::from(line.ends_with(" close"));
            most = most.max(open);
        }
        assert_eq!((open, most), (0, OPEN_MAX as i32));
    }

    #[test]
    fn names_are_harmless() {
        assert_eq!(plain_name(3, b"/a/b c:\n\xff.db"), "files/3-b_c___.db");
        assert_eq!(plain_name(4, b"/a/.."), "files/4-..");
        assert_eq!(plain_name(5, &[b'x'; 5000]).len(), "files/5-".len() + 64);
    }
}
