//! Use of a file in numbers.

/// Use of a file, or of several.
#[derive(Clone, Debug, Default)]
pub struct Used {
    /// Number of times it was opened.
    pub opens: u64,
    /// Calls that named it without opening it (stat, unlink ...).
    pub lookups: u64,
    /// Failed calls on it.
    pub errors: u64,
    /// Calls that read from it.
    pub reads: u64,
    /// Bytes read.
    pub read_bytes: u64,
    /// Calls that wrote to it.
    pub writes: u64,
    /// Bytes written.
    pub write_bytes: u64,
    /// Accesses at offsets that begin where the previous one ended.
    pub sequential: u64,
    /// Accesses at offsets with the same distance as between the previous two.
    pub strided: u64,
    /// All other accesses at offsets.
    pub random: u64,
    /// Bytes that had been read before.
    pub reread_bytes: u64,
    /// Bytes that had been written before.
    pub overwritten_bytes: u64,
    /// Calls that synced it.
    pub syncs: u64,
    /// Time spent in calls on it.
    pub time_ns: u64,
}

impl Used {
    /// Adds the use of another one.
    pub fn add(&mut self, other: &Used) {
        self.opens += other.opens;
        self.lookups += other.lookups;
        self.errors += other.errors;
        self.reads += other.reads;
        self.read_bytes = self.read_bytes.saturating_add(other.read_bytes);
        self.writes += other.writes;
        self.write_bytes = self.write_bytes.saturating_add(other.write_bytes);
        self.sequential += other.sequential;
        self.strided += other.strided;
        self.random += other.random;
        self.reread_bytes = self.reread_bytes.saturating_add(other.reread_bytes);
        self.overwritten_bytes = self.overwritten_bytes.saturating_add(other.overwritten_bytes);
        self.syncs += other.syncs;
        self.time_ns = self.time_ns.saturating_add(other.time_ns);
    }

    /// Returns true if there was any.
    pub fn was_used(&self) -> bool {
        let calls = self.opens + self.lookups + self.errors + self.reads + self.writes + self.syncs;
        calls > 0 || self.time_ns > 0
    }

    /// Returns its numbers: time, opens, reads, bytes read, writes, bytes written, syncs, lookups, errors,
    /// sequential, strided and other accesses, bytes read again and overwritten.
    pub fn numbers(&self) -> [u64; 14] {
        [
            self.time_ns,
            self.opens,
            self.reads,
            self.read_bytes,
            self.writes,
            self.write_bytes,
            self.syncs,
            self.lookups,
            self.errors,
            self.sequential,
            self.strided,
            self.random,
            self.reread_bytes,
            self.overwritten_bytes,
        ]
    }
}
