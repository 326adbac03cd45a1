//! What came of an import.

use crate::error::Error;

/// Result of an import.
#[derive(Clone, Debug, Default)]
pub struct Imported {
    /// Number of calls.
    pub calls: u64,
    /// Number of records read.
    pub records: u64,
    /// The file was exported from a trace, so that nothing had to be guessed.
    pub exact: bool,
    /// Damage found in the file; everything else was imported.
    pub damage: Vec<Error>,
    /// Number of extents.
    pub extents: u64,
    /// Number of extents that could not be read.
    pub extents_lost: u64,
    /// Data missing in the file, one line of text for the user each.
    pub not_told: Vec<String>,
    /// Size of the trace in bytes.
    pub bytes: u64,
}
