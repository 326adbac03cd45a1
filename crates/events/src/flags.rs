//! Names of flags and values, in the order in which they are printed.
//!
//! Where the kernel keeps a value in some bits of a word of flags, the set has a `value_mask`.

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

use crate::shape::FlagSet;

/// Flags, or values, that stand for themselves.
const fn names(name: &'static str, members: &'static [(u64, &'static str)]) -> FlagSet {
    FlagSet { name, value_mask: 0, members }
}

/// Flags around a field that holds one value.
const fn with_field(
    name: &'static str,
    value_mask: u64,
    members: &'static [(u64, &'static str)],
) -> FlagSet {
    FlagSet { name, value_mask, members }
}
