//! What the planner knows of open files that lanes used recently.

use std::rc::Rc;

use model::Description;

use crate::certainty::Certainty;

/// Number of open files cached per lane.
pub const KNOWN_MAX: usize = 8;

/// Cached files that a lane used last, by descriptor.
pub type Known = [Option<Remembered>; KNOWN_MAX];

/// An open file and its cached properties.
pub struct Remembered {
    /// The open file.
    pub description: Rc<Description>,
    /// The judge's knowledge counter at that time.
    pub learnt: u64,
    /// The properties.
    pub file: File,
}

/// Properties of an open file.
#[derive(Clone, Copy)]
pub struct File {
    /// The replay has it.
    pub here: bool,
    /// Taken from another process.
    pub taken: bool,
    /// A stream, which may deliver bytes in other portions.
    pub stream: bool,
    /// Its type is unknown: it may be a named pipe.
    pub unknown: bool,
    /// What a result that differs proves.
    pub certainty: Certainty,
    /// Hash of its path.
    pub hash: u64,
    /// Of a stream: the queues that it reads from and writes to.
    pub queues: (u64, u64),
    /// Identifies it as long as it is open.
    pub opened: usize,
}
