//! Recordings as tables of Parquet files, for databases and data frames.
//!
//! Columns are derived from the table of system calls ([`mod@row`]). Rows are split into columns as
//! they are added ([`mod@column`]) and written by background threads ([`mod@output`]).

mod batch;
mod calls;
mod column;
pub mod data;
mod error;
mod export;
mod files;
mod hashes;
mod kernel;
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
