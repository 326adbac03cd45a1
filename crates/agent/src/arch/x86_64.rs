//! x86_64.

pub mod access;
pub mod bootstrap;
pub mod entry;
pub mod entry_quiet;
pub mod frames;
pub mod gs;
pub mod head;
pub mod old_calls;
pub mod own_gs;
pub mod places;
pub mod processor;
#[cfg(feature = "image")]
mod routines;
pub mod scan;
pub mod stubs;
