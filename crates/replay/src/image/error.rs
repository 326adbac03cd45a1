//! Why an image cannot be made.

use std::io;

use trace::ReadError;

use super::tree;

/// Why the image could not be made.
#[derive(Debug, thiserror::Error)]
pub enum ImageError {
    /// The trace cannot be read.
    #[error("{0}")]
    Trace(#[from] ReadError),
    /// Stored bytes cannot be read.
    #[error("{0}")]
    Data(String),
    /// The trace names more files than are followed.
    #[error("the trace speaks of more files than can be followed")]
    TooMany,
    /// The given directory cannot be copied.
    #[error("the directory to copy from is {0}")]
    Source(&'static str),
    /// A file of the image cannot be created.
    #[error("cannot make {} in the image: {source}", shown(path))]
    Write {
        /// Its path in the image.
        path: Vec<u8>,
        /// The error.
        source: io::Error,
    },
}

/// Returns the end of a path, for users.
fn shown(path: &[u8]) -> String {
    const SHOWN_MAX: usize = 256;
    let end = &path[path.len().saturating_sub(SHOWN_MAX)..];
    let dots = if end.len() < path.len() { "..." } else { "" };
    format!("{dots}{}", end.escape_ascii())
}

impl From<tree::TooMany> for ImageError {
    fn from(_: tree::TooMany) -> ImageError {
        ImageError::TooMany
    }
}

impl ImageError {
    /// Of a path that cannot be made.
    pub(super) fn write(path: &[u8], source: impl Into<io::Error>) -> ImageError {
        ImageError::Write { path: path.to_vec(), source: source.into() }
    }
}
