//! Which format a file has that is not a trace.

use std::fs::File;
use std::io::{self, Read, Seek};

/// Number of bytes used to detect the format.
const HEAD_BYTES: u64 = 4096;

/// Returns the beginning of a file, and rewinds it.
pub fn head(file: &mut (impl Read + Seek)) -> io::Result<Vec<u8>> {
    let mut head = Vec::new();
    file.by_ref().take(HEAD_BYTES).read_to_end(&mut head)?;
    file.rewind()?;
    Ok(head)
}

/// Formats that can be imported.
pub enum Format {
    /// A DataSeries file.
    DataSeries,
    /// Text of strace.
    Strace,
}

impl Format {
    /// Detects the format from the beginning of a file.
    pub fn of(head: &[u8]) -> Option<Format> {
        let dataseries = head.starts_with(dataseries::file::MAGIC).then_some(Format::DataSeries);
        dataseries.or_else(|| strace::read::is_text(head).then_some(Format::Strace))
    }
}

/// Returns advice on a file that is no trace but can be imported.
pub fn advice(mut file: &File) -> Option<&'static str> {
    file.rewind().ok()?;
    Some(match Format::of(&head(&mut file).ok()?)? {
        Format::DataSeries => "it is a DataSeries file: `reenact import` makes a trace of it",
        Format::Strace => "it is the text of strace: `reenact import` makes a trace of it",
    })
}
