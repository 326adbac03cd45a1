//! What is told of an image.

use std::collections::{BTreeMap, HashSet};

use model::unseen::NotSeen;

use super::unknown::Unknown;

/// Description of the built image.
#[derive(Debug, Default)]
pub struct Built {
    /// Number of directories.
    pub directories: u64,
    /// Number of regular files.
    pub files: u64,
    /// Number of symbolic links.
    pub links: u64,
    /// Number of fifos and sockets.
    pub special: u64,
    /// Bytes of files with known content.
    pub seen_bytes: u64,
    /// Bytes of files that no call read: they are filler.
    pub unknown_bytes: u64,
    /// Files with so many changed ranges that later reads were not used.
    pub given_up: u64,
    /// What could not be reproduced, and how often.
    pub left_out: BTreeMap<&'static str, u64>,
    /// Content of the recording's final files that was never seen.
    pub unknown: Unknown,
    /// Data that is missing in the trace although it has every call.
    pub not_seen: NotSeen,
    /// What of the image is made up.
    pub made_up: MadeUp,
}

/// What of an image is made up although calls have looked at it, by names.
#[derive(Debug, Default)]
pub struct MadeUp {
    /// Open files that may have filler where the trace has only a hash.
    pub bytes: HashSet<Vec<u8>>,
    /// Links whose texts are longer or shorter than they were.
    pub lengths: HashSet<Vec<u8>>,
}

impl Built {
    /// Notes what could not be reproduced.
    pub(super) fn leave_out(&mut self, what: &'static str) {
        *self.left_out.entry(what).or_default() += 1;
    }
}
