//! What can be wrong with a file that is read, or with writing one.

use std::io;
use std::sync::Arc;

/// Why something could not be read or written.
#[derive(Clone, Debug, thiserror::Error)]
pub enum Error {
    /// Reading or writing failed.
    #[error("at byte {offset}: {source}")]
    Io {
        /// Where.
        offset: u64,
        /// The system's error.
        source: Arc<io::Error>,
    },
    /// The file begins otherwise.
    #[error("this is no DataSeries file: it begins with '{found}'")]
    NotDataSeries {
        /// Its first bytes.
        found: String,
    },
    /// Bytes that make no sense.
    #[error("at byte {offset}: {what}")]
    Damaged {
        /// Where.
        offset: u64,
        /// What is wrong there.
        what: String,
    },
    /// Another schema.
    #[error(
        "{damage}it holds no system calls of the SNIA schema, but {records} records in {extents} \
         extents of {types}"
    )]
    NoCalls {
        /// What is damaged besides.
        damage: String,
        /// Extents that can be read.
        extents: usize,
        /// Records in them.
        records: usize,
        /// Some of the types that it has.
        types: String,
    },
    /// More than is ever read.
    #[error("at byte {offset}: {what} is {found}; at most {max} are read")]
    Limit {
        /// Where.
        offset: u64,
        /// What there is too much of.
        what: &'static str,
        /// How much there is.
        found: u64,
        /// How much there may be.
        max: u64,
    },
    /// The trace that is written.
    #[error(transparent)]
    Write(#[from] trace::WriteError),
    /// The trace that is read.
    #[error("{0}")]
    Trace(String),
}

impl Error {
    /// Damage at an offset.
    pub(crate) fn damaged(offset: u64, what: impl Into<String>) -> Error {
        Error::Damaged { offset, what: what.into() }
    }

    /// An error of the system at an offset.
    pub(crate) fn io(offset: u64, source: io::Error) -> Error {
        Error::Io { offset, source: Arc::new(source) }
    }
}
