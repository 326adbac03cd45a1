//! Side lanes: what is known of the lanes for operations in flight.

use model::DescriptorTable;
use syscalls::requests::Entry;

use crate::order::Index;

/// Maximum number of operations of a process that are made beside each other.
pub const SIDE_LANES_MAX: usize = 256;

/// All side lanes.
#[derive(Default)]
pub struct SideLanes {
    /// The one that was used last is the last.
    pub all: Vec<SideLane>,
    /// The lane of an entry that the next one of its thread waits for.
    pub link: Option<(u32, Index)>,
    /// The entry that is about to be planned, for a lane, and its thread.
    pub entry: Option<(Index, u32, Entry)>,
}

/// A lane for operations.
pub struct SideLane {
    pub index: Index,
    pub process: u32,
    /// Who made it.
    pub maker: Index,
    /// The descriptors that both have.
    pub table: *const DescriptorTable,
}

impl SideLanes {
    /// Whether there are any.
    pub fn any(&self) -> bool {
        !self.all.is_empty()
    }
}

/// Which lanes are meant.
#[derive(Clone, Copy)]
pub enum SideLanesOf {
    /// Those of a process.
    Process(u32),
    /// Those that a lane has made.
    Maker(Index),
}
