//! What can go wrong.

use std::io;
use std::path::PathBuf;

use parquet::errors::ParquetError;

/// Why tables could not be written.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A file or directory could not be made, written or removed.
    #[error("{}: {source}", path.display())]
    Io {
        /// Which.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// Files are written by threads.
    #[error("cannot start threads that write the files: {0}")]
    Threads(io::Error),
    /// A file could not be written.
    #[error("{}: {source}", path.display())]
    Parquet {
        /// Which.
        path: PathBuf,
        /// Why.
        source: ParquetError,
    },
    /// The directory has these rows already.
    #[error(
        "{} has a run {run:?}; give another name with --run, or --force to replace it",
        root.display()
    )]
    Exists {
        /// The directory.
        root: PathBuf,
        /// The run.
        run: String,
    },
    /// The directory is no place for tables.
    #[error("{} {what}", path.display())]
    Place {
        /// Which.
        path: PathBuf,
        /// What is wrong with it.
        what: &'static str,
    },
}

impl Error {
    /// What to do with errors of files.
    pub fn io(path: impl Into<PathBuf>) -> impl FnOnce(io::Error) -> Error {
        let path = path.into();
        move |source| Error::Io { path, source }
    }
}
