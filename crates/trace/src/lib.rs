//! The trace file: format, writer, reader. No other crate knows its bytes on disk.
//!
//! [`Writer`] takes events and buffers, [`Trace`] returns them. The frame of the file is defined in
//! [`format`](mod@format), the encoding of events in `encode` and `decode`.

mod blob_id;
mod blobs;
mod block_bytes;
pub mod borrowed;
mod compress;
mod decode;
mod dedup;
mod described;
mod encode;
pub mod error;
pub mod event;
pub mod event_fields;
pub mod event_table;
mod far;
mod fingerprint;
pub mod format;
pub mod growing;
pub mod kernel;
mod known;
pub mod manifest;
mod merge;
pub mod parts;

mod pipeline;
mod reader;
mod rewrite;
mod scan;
mod slots;
mod source;
pub mod sources;
mod verify;
mod wire;
pub mod writer;

pub use blobs::{Blob, DataPayload};
pub use borrowed::{CallRef, ContentRef, DataRef};
pub use compress::Compress;
pub use error::{ReadError, WriteError};
pub use merge::{EventCursor, Events, Sequenced};
pub use reader::{BlockEvents, CONTENT_BYTES_MAX, Trace};
pub use rewrite::Rewriter;
pub use scan::Damage;
pub use source::ReadSeek;
pub use verify::{Problem, Report};
pub use wire::Malformed;
pub use writer::{Finished, Writer, WriterOptions};
