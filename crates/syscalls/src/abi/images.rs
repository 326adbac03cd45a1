//! Numbers in what the kernel tells a new program.

/// Entries of the auxiliary vector that say where the program and its interpreter lie: addresses of
/// headers, interpreter and entry, and the counts that belong to them.
pub const AT_PLACES: [u64; 5] = [3, 4, 5, 7, 9];
/// Entries that say what the processor can do.
pub const AT_FEATURES: [u64; 2] = [16, 26];
/// Address of 16 random bytes.
pub const AT_RANDOM: u64 = 25;
/// Address of the path by which the program was executed.
pub const AT_EXECFN: u64 = 31;
