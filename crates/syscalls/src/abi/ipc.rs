//! Numbers of System V's inter-process communication.

/// Command that tells about an object.
pub const IPC_STAT: u64 = 2;
