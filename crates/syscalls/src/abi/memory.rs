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
/// Of shmat: the memory can be read only.
pub const SHM_RDONLY: u32 = 0o10_000;
/// Of shmat: the memory can be executed.
pub const SHM_EXEC: i32 = 0o100_000;
/// Request of ioctl on a list of mappings: the mapping of an address.
pub const PROCMAP_QUERY: u64 = 0xc068_6611;
/// No file.
pub const MAP_ANONYMOUS: u64 = 0x20;
