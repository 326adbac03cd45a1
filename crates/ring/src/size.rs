//! How large the parts of an arena are. The model checker has small ones, where every border is
//! near.

#[cfg(not(loom))]
mod of_arena {
    /// Maximum number of threads recorded at the same time.
    pub const SLOTS: usize = 8192;
    /// Size of a home chunk, the first chunk of every stream.
    pub const HOME_BYTES: usize = 16 << 10;
    /// Size of a pool chunk.
    pub const POOL_BYTES: usize = 64 << 10;
    /// Maximum number of queued chunks per stream: bounds how far a thread gets ahead of the
    /// recorder.
    pub const QUEUE: usize = 128;
    /// Maximum number of pool chunks in an arena.
    pub const POOL_MAX: usize = 64 << 10;
    /// Number of words in the table of notes, see [`crate::Arena::notes`].
    pub const NOTES: usize = 512;
    /// Number of words in the table of files already stored, see [`crate::Arena::files`].
    pub const FILES: usize = 32 << 10;
    /// Number of words in the table of scanned code, see [`crate::Arena::texts`].
    pub const TEXTS: usize = 4 << 10;
    /// Number of words in the table of files that are loaded, see [`crate::Arena::loaded`].
    pub const LOADED: usize = 1 << 10;
}

#[cfg(loom)]
#[allow(missing_docs, reason = "see above")]
mod of_arena {
    pub const SLOTS: usize = 2;
    pub const HOME_BYTES: usize = 16;
    pub const POOL_BYTES: usize = 16;
    pub const QUEUE: usize = 3;
    pub const POOL_MAX: usize = 3;
    pub const NOTES: usize = 0;
    pub const FILES: usize = 0;
    pub const TEXTS: usize = 0;
    pub const LOADED: usize = 0;
}

pub use of_arena::{FILES, HOME_BYTES, LOADED, NOTES, POOL_BYTES, POOL_MAX, QUEUE, SLOTS, TEXTS};
