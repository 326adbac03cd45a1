//! What happened often, and how often is worth a word.

/// Minimum count of a reported pattern.
pub const OFTEN: u64 = 100;
/// Minimum count of patterns that wait for a disk, and of short transfers.
pub const OFTEN_SLOW: u64 = 20;
/// Limit for the call sites and directories that are counted.
pub const COUNTED_MAX: usize = 1 << 16;

/// Count and cost of a repeated event.
#[derive(Clone, Debug, Default)]
pub struct Often {
    /// How often it happened.
    pub count: u64,
    /// Bytes of all.
    pub bytes: u64,
    /// Time of all.
    pub ns: u64,
}

impl Often {
    /// Counts one more.
    pub fn add(&mut self, bytes: u64, ns: u64) {
        self.count += 1;
        self.bytes = self.bytes.saturating_add(bytes);
        self.ns = self.ns.saturating_add(ns);
    }

    /// Counts all that another one counted.
    pub fn merge(&mut self, other: &Often) {
        self.count += other.count;
        self.bytes = self.bytes.saturating_add(other.bytes);
        self.ns = self.ns.saturating_add(other.ns);
    }
}
