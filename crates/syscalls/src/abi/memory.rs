//! Numbers in calls that map memory.

/// The memory can be written.
pub const PROT_WRITE: u64 = 2;
/// The memory can be executed.
pub const PROT_EXEC: u64 = 4;
/// Bits with the type of a mapping.
pub const MAP_TYPE: u64 = 0xf;
/// Stores reach the file.
pub const MAP_SHARED: u64 = 1;
/// Stores reach the file; unknown flags are errors.
pub const MAP_SHARED_VALIDATE: u64 = 3;
/// Of shmat: the memory can be executed.
pub const SHM_EXEC: i32 = 0o100_000;
/// No file.
pub const MAP_ANONYMOUS: u64 = 0x20;
