//! The source of a trace's bytes.

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
    /// A file, which several threads can read at once.
    File(File),
    /// Anything else, which one thread can read at a time.
    Stream(Mutex<Box<dyn ReadSeek>>),
}

impl Source {
    /// The present number of bytes.
    pub fn len(&self) -> Result<u64, ReadError> {
        let len = match self {
            Source::File(file) => file.metadata().map(|meta| meta.len()),
            Source::Stream(stream) => {
                stream.lock().unwrap_or_else(PoisonError::into_inner).seek(SeekFrom::End(0))
            }
        };
        len.map_err(|error| io_error(0, error))
    }

    /// Fills `bytes` from an offset.
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
