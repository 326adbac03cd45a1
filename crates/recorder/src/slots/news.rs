//! What reading slots has shown.

use syscalls::record::Start;

/// What reading a slot has shown.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum News {
    /// The START of a thread was read.
    Started(Birth),
    /// The thread has ended, or all of its records were read.
    Ended {
        /// Its process.
        process: u32,
        /// Its END was read, or a gap explains why it is missing.
        accounted: bool,
    },
    /// It runs a new program, so all other threads of its process are gone.
    Image {
        /// Its slot.
        slot: usize,
        /// Its process.
        process: u32,
        /// Time stamp of the IMAGE.
        tsc: u64,
    },
}

/// The START of a thread, and what its creator wrote about it. By now it may have ended, and its
/// slot be free.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Birth {
    /// Its START record.
    pub start: Start,
    /// Its ids are from another pid namespace.
    pub foreign: bool,
    /// Its process's id as its creator got it; 0 if not known yet.
    pub told: u32,
}
