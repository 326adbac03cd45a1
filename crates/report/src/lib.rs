//! What a recorded program did, in numbers.
//!
//! Every view is a module with a fold (`add`, and `merge` where the order of events does not
//! matter), a struct of plain numbers that `finish` gives, and `sheet`, which lays them out as
//! tables for whoever shows them.

pub mod cache;
pub mod calls;
pub mod durability;
pub mod files;
pub mod histogram;
mod numbered;
pub mod pass;
pub mod patterns;
mod ranges;
mod role;
pub mod sheet;
pub mod spread;
pub mod tasks;
pub mod timeline;
mod tracker;

#[cfg(test)]
mod sample;
