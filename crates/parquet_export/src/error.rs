//! Errors of an export.

use std::io;
use std::path::PathBuf;

use parquet::errors::ParquetError;

/// Reason why tables could not be written.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A file or directory could not be created, written or removed.
    #[error("{}: {source}", path.display())]
    Io {
        /// Path of the file.
        path: PathBuf,
        /// The cause.
        source: io::Error,
    },
    /// The writer threads could not be started.
    #[error("cannot start threads that write the files: {0}")]
    Threads(io::Error),
    /// A Parquet file could not be written.
    #[error("{}: {source}", path.display())]
    Parquet {
        /// Path of the file.
        path: PathBuf,
        /// The cause.
        source: ParquetError,
    },
    /// The directory already has rows of this run.
    #[error(
        "{} has a run {run:?}; give another name with --run, or --force to replace it",
        root.display()
    )]
    Exists {
        /// The directory.
        root: PathBuf,
        /// Name of the run.
        run: String,
    },
    /// The directory is unsuitable for tables.
    #[error("{} {what}", path.display())]
    Place {
        /// Path of the directory.
        path: PathBuf,
        /// The reason.
        what: &'static str,
    },
}

impl Error {
    /// Returns a function that adds a path to an I/O error.
    pub fn io(path: impl Into<PathBuf>) -> impl FnOnce(io::Error) -> Error {
        let path = path.into();
        move |source| Error::Io { path, source }
    }
}
