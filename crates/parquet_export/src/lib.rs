//! Recordings as Parquet files, for databases and data frames. The rows are those of `tables`; background
//! threads write them ([`mod@output`]).

mod error;
mod export;
mod output;
pub mod place;
mod schema;
mod table;

pub use error::Error;
pub use export::{Export, Options};
pub use tables::Summary;
