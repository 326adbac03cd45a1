//! Errors found in a text.

use std::io;

/// Why a text could not be imported.
#[derive(Debug, thiserror::Error)]
pub enum ImportError {
    /// The text could not be read.
    #[error("{0}")]
    Read(#[from] io::Error),
    /// A line cannot be parsed.
    #[error("line {line}: {what}")]
    Line {
        /// Line number, from 1.
        line: u64,
        /// Description of what was found and what was expected.
        what: String,
    },
    /// No line of the text is a call.
    #[error("no line of the text is a call as strace prints it")]
    Nothing,
    /// The trace could not be written.
    #[error("{0}")]
    Write(#[from] trace::WriteError),
}

/// Description of an error in a line, before the line number is added.
pub type Wrong = String;

/// Quotes bytes of a line, shortened for a message.
pub fn shown(bytes: &[u8]) -> String {
    const SHOWN_MAX: usize = 40;
    let text = bytes[..bytes.len().min(SHOWN_MAX)].escape_ascii();
    format!("'{text}{}'", if bytes.len() > SHOWN_MAX { "..." } else { "" })
}
