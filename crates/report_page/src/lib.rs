//! The page of a recording: what the program did, in one HTML file that needs nothing beside it.
//!
//! The numbers are those of the views of [`stats`]; scripts in the page draw them.

mod comparison;
mod data;
mod gather;
mod page;
mod pictures;
mod tables;

pub use comparison::Comparison;
pub use gather::{Gathered, gather};
pub use page::{BEGIN, DATA_BEGIN, DATA_END, write};
