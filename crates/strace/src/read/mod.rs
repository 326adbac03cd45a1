//! Reads the text of strace into a trace.
//!
//! The text is read twice: first for what a trace needs earlier than the text has it (which call
//! created a thread, the initial directory), then line by line. What is missing is marked as not
//! captured.

mod encode;
mod error;
mod import;
mod line;
mod memory;
mod node;
mod number;
mod ready;
mod register;
mod survey;
mod tail;
mod text;

pub use error::ImportError;
pub use import::{Imported, Settings, import};

/// Returns whether the beginning of a file looks like text of strace.
pub fn is_text(head: &[u8]) -> bool {
    let found = head.split(|&c| c == b'\n').map(line::split);
    found.take_while(Result::is_ok).flatten().any(|line| !matches!(line.what, line::What::Nothing))
}
