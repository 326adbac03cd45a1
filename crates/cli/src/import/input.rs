//! What an import is given.

use std::fs::File;
use std::io::{self, Read, Seek};
use std::path::Path;

use dataseries::file::reader::Bytes;

use crate::progress::Progress;

/// The files of an import.
pub struct Import<'a> {
    /// Path of the file that is read.
    pub from: &'a Path,
    /// Path of the trace.
    pub to: &'a Path,
    /// True if what is there may be replaced.
    pub force: bool,
    /// True if nothing is to be said.
    pub quiet: bool,
}

/// A file that reports progress when read.
pub struct Input {
    file: File,
    progress: Progress,
}

impl Input {
    /// Begins to read a file, so many times.
    pub fn new(file: File, passes: u64) -> io::Result<Input> {
        let progress = Progress::of_bytes(file.metadata()?.len().saturating_mul(passes));
        Ok(Input { file, progress })
    }
}

impl Input {
    /// Goes back to the beginning.
    pub fn rewind(&self) -> io::Result<()> {
        (&self.file).rewind()
    }
}

impl Bytes for Input {
    fn size(&self) -> io::Result<u64> {
        self.file.size()
    }

    fn read(&self, offset: u64, into: &mut [u8]) -> io::Result<()> {
        self.progress.advance(into.len() as u64);
        self.file.read(offset, into)
    }
}

impl Read for &Input {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        let count = Read::read(&mut &self.file, into)?;
        self.progress.advance(count as u64);
        Ok(count)
    }
}
