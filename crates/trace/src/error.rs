//! Errors of reading and writing.

use std::io;
use std::sync::Arc;

/// Why writing failed.
#[derive(Clone, Debug, thiserror::Error)]
pub enum WriteError {
    /// The file did not take the bytes. All earlier blocks are whole; nothing more is written.
    #[error("the trace could not be written at byte {offset}: {source}")]
    Io {
        /// Start of the block that was not written whole.
        offset: u64,
        /// Error of the system.
        source: Arc<io::Error>,
    },
    /// A compression thread could not be started. Nothing was written.
    #[error(
        "a thread could not be started (ulimit -u, or a cgroup's pids.max, may forbid it): {source}"
    )]
    Thread {
        /// Error of the system.
        source: Arc<io::Error>,
    },
    /// A limit of the format is exceeded. The item was not written; the writer can be used further.
    #[error("an event does not fit into a trace: {what} is {found}, at most {max} can be stored")]
    Limit {
        /// The item that is too large.
        what: &'static str,
        /// Its value.
        found: u64,
        /// The limit.
        max: u64,
    },
}

/// Why reading failed.
#[derive(Clone, Debug, thiserror::Error)]
pub enum ReadError {
    /// The bytes could not be read.
    #[error("the trace could not be read at byte {offset}: {source}")]
    Io {
        /// Offset of the bytes.
        offset: u64,
        /// Error of the system.
        source: Arc<io::Error>,
    },
    /// The file is not a trace.
    #[error(
        "not a trace of reenact: it begins with {found}; was it made by `reenact record`, and copied as it was?"
    )]
    NotATrace {
        /// Its first bytes in printable form.
        found: String,
    },
    /// It was written by a later version.
    #[error(
        "the trace has format version {found}, this program reads versions 1 to {newest}; \
         read it with the version of reenact that recorded it, or a later one"
    )]
    Version {
        /// Version of the file.
        found: u32,
        /// Newest version that can be read.
        newest: u32,
    },
    /// A block is malformed.
    #[error("the trace is damaged in the block at byte {offset}: {what}")]
    Damaged {
        /// Offset of the block.
        offset: u64,
        /// What is wrong.
        what: &'static str,
    },
    /// An event refers to a buffer that the file does not hold.
    #[error("the trace holds no buffer {id}: it was cut off or damaged before the buffer's block")]
    NoBlob {
        /// The buffer's number.
        id: u64,
    },
    /// A buffer is not as long as the event says.
    #[error("the trace is damaged: a buffer has {found} bytes, the event says {needed}")]
    ContentLen {
        /// Bytes found.
        found: u64,
        /// Bytes that the event announces.
        needed: u64,
    },
    /// A buffer is too long to be returned in one piece.
    #[error("a buffer of {len} bytes is too long for one piece of at most {max}: stream it")]
    ContentTooLong {
        /// Its length.
        len: u64,
        /// The limit.
        max: u64,
    },
    /// Sorting the events would need more memory than is allowed.
    #[error(
        "the blocks of too many threads overlap at time stamp {tsc}: to put their events in order \
         would take more than {} MiB of memory; no recording looks like that",
        .max >> 20
    )]
    Overlap {
        /// Time stamp at which that happened.
        tsc: u64,
        /// The limit.
        max: u64,
    },
    /// The output for the content failed.
    #[error("the output did not take the bytes: {source}")]
    Output {
        /// Error of the system.
        source: Arc<io::Error>,
    },
}
