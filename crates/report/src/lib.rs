//! What a recorded program did, in numbers.
//!
//! Every view is a module with a fold (`add`, and `merge` where the order of events does not
//! matter), a struct of plain numbers that `finish` gives, and `sheet`, which lays them out as
//! tables for whoever shows them.

pub mod cache;
pub mod calls;
pub mod durability;
pub mod files;
pub mod group;
pub mod heat;
pub mod histogram;
pub mod lanes;
mod numbered;
pub mod offsets;
pub mod pass;
pub mod patterns;
mod ranges;
pub mod role;
pub mod sheet;
pub mod spread;
pub mod tasks;
pub mod timeline;
pub mod tracker;

#[cfg(test)]
mod sample;
