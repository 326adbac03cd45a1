//! Names of flags and values, in the order in which they are printed.
//!
//! If some bits of a flags word hold a value, the set has a `value_mask` for them.

mod descriptors;
mod files;
mod ioctl;
mod ipc;
mod memory;
mod mount;
mod network;
mod prctl;
mod process;
mod signal;
mod system;
mod terminal;

pub use descriptors::*;
pub use files::*;
pub use ioctl::*;
pub use ipc::*;
pub use memory::*;
pub use mount::*;
pub use network::*;
pub use prctl::*;
pub use process::*;
pub use signal::*;
pub use system::*;
pub use terminal::*;

use crate::flag_set::FlagSet;

/// Creates a set of separate flags, or of values.
const fn names(name: &'static str, members: &'static [(u64, &'static str)]) -> FlagSet {
    FlagSet { name, value_mask: 0, members, of_rows: None }
}

/// Creates a set of flags with a field that holds one value.
const fn with_field(
    name: &'static str,
    value_mask: u64,
    members: &'static [(u64, &'static str)],
) -> FlagSet {
    FlagSet { name, value_mask, members, of_rows: None }
}
