//! Traces as DataSeries files, in the system-call schema of SNIA as Re-Animator writes it, and back.
//!
//! [`file`] knows the bytes: extents, types, checksums; nothing in it knows about system calls.
//! `schema` has the types, [`Exporter`] fills them from a trace, [`import`] makes a trace of them.

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
