//! Numbers of distinct buffers.

/// Number of a distinct buffer in a trace, counted from 0 in the order of first use.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct BlobId(pub u64);
