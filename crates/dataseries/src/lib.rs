//! Traces as DataSeries files, in SNIA's system-call schema as Re-Animator writes it.
//!
//! [`file`] handles the bytes: extents, types, checksums; it knows nothing of system calls.
//! `schema` has the types, [`Exporter`] fills them from a trace, [`import`] makes a trace from
//! them.

mod calls;
mod columns;
mod error;
mod export;
pub mod file;
mod import;
mod origin;
mod schema;
mod times;

pub use error::Error;
pub use export::{Exported, Exporter};
pub use file::codec::Codec;
pub use import::{Imported, import};
