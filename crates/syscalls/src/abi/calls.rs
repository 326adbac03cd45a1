//! Numbers of calls that are made, or made up, outside the agent.

/// Closes a descriptor.
pub const CLOSE: u16 = 3;
/// Has a command for each of many things to do with a descriptor.
pub const FCNTL: u16 = 72;
