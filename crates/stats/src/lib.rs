//! Statistics of a recorded program.
//!
//! Every view is a module with three parts: a fold (`add`, and `merge` if the order of events does
//! not matter), a struct of plain numbers returned by `finish`, and `sheet`, which formats them as
//! tables.

pub mod activity;
mod belonging;
pub mod block;
pub mod cache;
pub mod call_sites;
pub mod call_states;
pub mod calls;
pub mod chains;
pub mod cpu_time;
pub mod durability;
pub mod file_pages;
pub mod files;
pub mod flame;
pub mod group;
pub mod heat;
pub mod histogram;
pub mod interrupts;
pub mod kernel_counts;
pub mod lanes;
pub mod network;
mod numbered;
pub mod offsets;
pub mod overview;
pub mod pass;
pub mod patterns;
mod program_time;
mod ranges;
pub mod same_device;
pub mod sheet;
pub mod sites;
pub mod slowest;
pub mod spread;
pub mod states;
pub mod steps;
pub mod tasks;
pub mod timeline;
pub mod view;
pub mod views;
pub mod waits;

pub use numbered::name as call_name;

#[cfg(test)]
mod sample;
