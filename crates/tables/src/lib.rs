//! Recordings as tables of Parquet files, for databases and data frames.
//!
//! What columns there are is derived from the table of system calls ([`mod@row`]); rows are taken
//! apart as they come ([`mod@column`]) and written in the background ([`mod@output`]).

mod batch;
mod calls;
mod column;
pub mod data;
mod error;
mod export;
mod files;
mod hashes;
mod levels;
mod output;
pub mod place;
mod processes;
mod row;
mod schema;
mod table;
mod value;

pub use error::Error;
pub use export::{Export, ITEMS_MAX, Options, STRING_BYTES_MAX, Summary};
