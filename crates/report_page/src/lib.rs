//! The page of a recording: what the program did, in one HTML file that needs nothing beside it.
//!
//! The numbers are those of the views of [`stats`]; scripts in the page draw them.

mod comparison;
mod data;
mod detail;
mod gather;
mod kernel;
mod other_run;
mod page;
mod pictures;
mod prediction;
mod said;
mod sections;
mod static_page;
mod tables;

pub use comparison::Comparison;
pub use data::Beside;
pub use detail::ASKED_MAX;
pub use gather::{Gathered, Wanted, gather};
pub use other_run::OtherRun;
pub use page::{BEGIN, DATA_BEGIN, DATA_END, write};
pub use prediction::Predictions;
