//! Errors of reading and writing files.

use std::io;
use std::sync::Arc;

/// An error of reading or writing a file.
#[derive(Clone, Debug, thiserror::Error)]
pub enum Error {
    /// Reading or writing failed.
    #[error("at byte {offset}: {source}")]
    Io {
        /// Offset in the file.
        offset: u64,
        /// The system error.
        source: Arc<io::Error>,
    },
    /// The file is not a DataSeries file.
    #[error("not a DataSeries file: it begins with '{found}'")]
    NotDataSeries {
        /// Its first bytes.
        found: String,
    },
    /// Bytes that cannot be parsed.
    #[error("at byte {offset}: {what}")]
    Damaged {
        /// Offset in the file.
        offset: u64,
        /// Description of the damage.
        what: String,
    },
    /// The file has another schema.
    #[error(
        "{damage}it holds no system calls of the SNIA schema, but {records} records in {extents} \
         extents of {types}"
    )]
    NoCalls {
        /// Damage found besides.
        damage: String,
        /// Number of readable extents.
        extents: usize,
        /// Number of records in them.
        records: usize,
        /// Some of the types found.
        types: String,
    },
    /// A limit of the reader is exceeded.
    #[error("at byte {offset}: {what} is {found}; at most {max} are read")]
    Limit {
        /// Offset in the file.
        offset: u64,
        /// The quantity that exceeds the limit.
        what: &'static str,
        /// The amount found.
        found: u64,
        /// The limit.
        max: u64,
    },
    /// The trace could not be written.
    #[error(transparent)]
    Write(#[from] trace::WriteError),
    /// The trace could not be read.
    #[error("{0}")]
    Trace(String),
}

impl Error {
    /// Makes an error for damage at an offset.
    pub(crate) fn damaged(offset: u64, what: impl Into<String>) -> Error {
        Error::Damaged { offset, what: what.into() }
    }

    /// Makes an error for a failed system call at an offset.
    pub(crate) fn io(offset: u64, source: io::Error) -> Error {
        Error::Io { offset, source: Arc::new(source) }
    }
}
