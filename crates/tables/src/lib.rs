//! Recordings as tables, whoever writes them: Parquet files, or Arrow streams for Python.
//!
//! Columns are derived from the table of system calls ([`mod@row`]). [`Tables`] takes events and adds rows,
//! which are split into columns at once ([`mod@column`]). Writers take the rows of a table from time to time.

pub mod batch;
mod calls;
pub mod column;
mod columns;
pub mod data;
mod files;
mod fold;
mod hashes;
mod kernel;
pub mod levels;
mod plain;
mod processes;
mod row;
pub mod schema;
mod table;
mod value;

pub use columns::{columns, columns_with};
pub use fold::{ITEMS_MAX, STRING_BYTES_MAX, Summary, Tables};
pub use table::{CALL, Choice, Kind, Table, UNKNOWN};
