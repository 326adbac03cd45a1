//! The atomic types of the shared memory: those of the processor, or with `--cfg loom` those of the
//! model checker, which tries what other threads may see (`tests/protocol.rs`).

#[cfg(not(loom))]
pub use core::sync::atomic::{AtomicU32, AtomicU64, Ordering, fence};
#[cfg(loom)]
pub use loom::sync::atomic::{AtomicU32, AtomicU64, Ordering, fence};
