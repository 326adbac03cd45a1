//! Where a trace's bytes come from.

use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom};
use std::os::unix::fs::FileExt;
use std::sync::{Arc, Mutex, PoisonError};

use crate::error::ReadError;

/// Anything that a trace can be read from.
pub trait ReadSeek: Read + Seek + Send {}
impl<T: Read + Seek + Send> ReadSeek for T {}

/// A trace's bytes.
pub enum Source {
    /// A file: read from many threads at once.
    File(File),
    /// Anything else: one at a time.
    Stream(Mutex<Box<dyn ReadSeek>>),
}

impl Source {
    /// How many bytes there are now.
    pub fn len(&self) -> Result<u64, ReadError> {
        let len = match self {
            Source::File(file) => file.metadata().map(|meta| meta.len()),
            Source::Stream(stream) => {
                stream.lock().unwrap_or_else(PoisonError::into_inner).seek(SeekFrom::End(0))
            }
        };
        len.map_err(|error| io_error(0, error))
    }

    /// Fills `bytes` from a place in the file.
    pub fn read(&self, offset: u64, bytes: &mut [u8]) -> Result<(), ReadError> {
        let read = match self {
            Source::File(file) => file.read_exact_at(bytes, offset),
            Source::Stream(stream) => {
                let mut stream = stream.lock().unwrap_or_else(PoisonError::into_inner);
                stream.seek(SeekFrom::Start(offset)).and_then(|_| stream.read_exact(bytes))
            }
        };
        read.map_err(|error| io_error(offset, error))
    }
}

fn io_error(offset: u64, source: io::Error) -> ReadError {
    ReadError::Io { offset, source: Arc::new(source) }
}
