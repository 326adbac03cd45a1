//! Recordings of two versions of a run, held against each other: what changed, and where they part.
//!
//! Each recording is read once ([`gather`]); what is kept of it are sums for each call, file, program and
//! place in the program, never its events. [`Comparison`] brings the names of both sides together and lays
//! out the differences as tables.

mod amounts;
mod comparison;
mod gather;
mod mixing;
mod names;
mod parting;
mod rank_test;
mod started;
mod starts;
mod tables;
mod verdict;

pub use comparison::Comparison;
pub use gather::{By, Run, Wanted, gather};
pub use names::Same;
