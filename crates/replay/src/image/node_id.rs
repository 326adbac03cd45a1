//! Numbers of files.

/// Number of a file of any type.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct NodeId(pub(super) u32);

impl NodeId {
    /// The root directory.
    pub const ROOT: NodeId = NodeId(0);

    /// Returns a mark for objects that belong to this file; 0 is no mark.
    pub fn mark(self) -> u64 {
        u64::from(self.0) + 1
    }

    /// Returns the file of a mark.
    pub fn of_mark(mark: u64) -> Option<NodeId> {
        Some(NodeId(u32::try_from(mark.checked_sub(1)?).ok()?))
    }
}
