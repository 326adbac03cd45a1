//! The text of strace read into a trace.
//!
//! The text is read twice: first for what is only told later (which call made a thread, where the
//! program began), then line by line. What it does not tell is marked as not captured.

mod encode;
mod error;
mod import;
mod line;
mod memory;
mod node;
mod number;
mod ready;
mod survey;
mod tail;
mod text;

pub use error::ImportError;
pub use import::{Imported, Settings, import};

/// Whether the beginning of a file looks like text of strace.
pub fn is_text(head: &[u8]) -> bool {
    let found = head.split(|&c| c == b'\n').map(line::split);
    found.take_while(Result::is_ok).flatten().any(|line| !matches!(line.what, line::What::Nothing))
}
