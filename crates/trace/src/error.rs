//! What can go wrong.

use std::io;
use std::sync::Arc;

/// Why writing failed.
#[derive(Clone, Debug, thiserror::Error)]
pub enum WriteError {
    /// The file did not take the bytes. All blocks before that are whole; nothing more is written.
    #[error("the trace could not be written at byte {offset}: {source}")]
    Io {
        /// Where the block began that was not written whole.
        offset: u64,
        /// What the system said.
        source: Arc<io::Error>,
    },
    /// There is no room for the threads that pack blocks. Nothing was written.
    #[error(
        "a thread could not be started (ulimit -u, or a cgroup's pids.max, may forbid it): {source}"
    )]
    Thread {
        /// What the system said.
        source: Arc<io::Error>,
    },
    /// Something breaks a limit of the format. It was not written; the writer goes on.
    #[error("an event does not fit into a trace: {what} is {found}, at most {max} can be stored")]
    Limit {
        /// What is too large.
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
    /// The system did not give the bytes.
    #[error("the trace could not be read at byte {offset}: {source}")]
    Io {
        /// Where.
        offset: u64,
        /// What the system said.
        source: Arc<io::Error>,
    },
    /// It is something else.
    #[error(
        "this is no trace: it begins with {found}, a trace begins with \\x89RNT\\r\\n\\x1a\\n; \
         was it made by `reenact record`, and copied as it was?"
    )]
    NotATrace {
        /// Its first bytes, printable.
        found: String,
    },
    /// It was written by a later version.
    #[error(
        "the trace has format version {found}, this program reads versions 1 to {newest}; \
         read it with the version of reenact that recorded it, or a later one"
    )]
    Version {
        /// The file's.
        found: u32,
        /// The newest that is understood.
        newest: u32,
    },
    /// A block does not say what it should.
    #[error("the trace is damaged in the block at byte {offset}: {what}")]
    Damaged {
        /// Where the block begins.
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
        /// Bytes that there are.
        found: u64,
        /// Bytes that there should be.
        needed: u64,
    },
    /// A buffer is too long to be given in one piece.
    #[error("a buffer of {len} bytes is too long for one piece of at most {max}: stream it")]
    ContentTooLong {
        /// Its length.
        len: u64,
        /// The limit.
        max: u64,
    },
    /// More memory would be needed to put the events in order than is allowed.
    #[error(
        "the blocks of too many threads overlap at time stamp {tsc}: to put their events in order \
         would take more than {max} bytes of memory; no recording looks like that"
    )]
    Overlap {
        /// When.
        tsc: u64,
        /// The limit.
        max: u64,
    },
    /// Where the content was to go did not take it.
    #[error("the output did not take the bytes: {source}")]
    Output {
        /// What the system said.
        source: Arc<io::Error>,
    },
}
