//! What can go wrong.

use std::{fmt, io};

/// An error of a trace.
#[derive(Debug)]
pub enum Wrong {
    /// A file cannot be read.
    Read(String, io::Error),
    /// The metadata make no sense, in a line.
    Metadata(u32, String),
    /// A stream makes no sense, from a byte on.
    Stream(String, u64, String),
    /// The directory is not one trace.
    Directory(String),
    /// The trace cannot be written.
    Write(trace::WriteError),
}

impl Wrong {
    pub(crate) fn metadata(line: u32, what: &str) -> Wrong {
        Wrong::Metadata(line, what.into())
    }
}

impl fmt::Display for Wrong {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Wrong::Read(name, error) => write!(out, "{name}: {error}"),
            Wrong::Metadata(line, what) => write!(out, "metadata, line {line}: {what}"),
            Wrong::Stream(name, offset, what) => write!(out, "{name}: byte {offset}: {what}"),
            Wrong::Directory(what) => out.write_str(what),
            Wrong::Write(error) => write!(out, "{error}"),
        }
    }
}

impl std::error::Error for Wrong {}

impl From<trace::WriteError> for Wrong {
    fn from(error: trace::WriteError) -> Wrong {
        Wrong::Write(error)
    }
}
