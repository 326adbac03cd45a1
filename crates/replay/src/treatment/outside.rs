//! Streams with an end in a process that the trace does not follow: transfers through them are
//! answered from the trace.

use std::collections::HashSet;

use model::{Description, Origin};

use super::said::{PLACEHOLDER, is_stream};
use crate::resource::hash_of;

/// Most streams tracked.
const STREAMS_MAX: usize = 1 << 18;

/// Identity of a pipe or socket pair.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
enum PipeOrPair {
    /// A pipe, by the hash of its path.
    Named(u64),
    /// A socket pair, by its number.
    Pair(u64),
}

/// Streams known to have an end outside.
#[derive(Default)]
pub struct Outside {
    known: HashSet<PipeOrPair>,
    /// Streams sent in a message: a received descriptor cannot be matched to one of them.
    sent: HashSet<PipeOrPair>,
    /// A received descriptor is shared with the outside.
    has_received: bool,
}

impl Outside {
    /// Knowledge counter: increases with what is known.
    pub fn learnt(&self) -> u64 {
        self.known.len() as u64 + u64::from(self.has_received)
    }

    /// Whether an open file is one of them.
    pub fn has(&self, description: &Description) -> bool {
        let is_known = |stream| self.known.contains(&stream);
        !self.known.is_empty() && which(description).is_some_and(is_known)
    }

    /// Adds an open file, if it is a stream.
    pub fn add(&mut self, description: &Description) {
        if self.known.len() >= STREAMS_MAX {
            return;
        }
        match which(description) {
            Some(stream) => _ = self.known.insert(stream),
            // It was received in a message: which pair it belongs to is unknown.
            None if description.origin == Origin::Passed => {
                description.mark.set(PLACEHOLDER);
                self.has_received = true;
                self.known.extend(self.sent.drain());
            }
            None => {}
        }
    }

    /// Whether a received descriptor is shared with the outside: then no received descriptor is
    /// sure to have its peer here.
    pub fn has_received(&self) -> bool {
        self.has_received
    }

    /// Notes an open file that was sent in a message.
    pub fn sent(&mut self, description: &Description) {
        if self.has_received {
            self.add(description);
        } else if self.sent.len() < STREAMS_MAX {
            self.sent.extend(which(description));
        }
    }
}

fn which(description: &Description) -> Option<PipeOrPair> {
    match description.origin {
        // The numbers of both ends differ in the last bit.
        Origin::SocketPair => Some(PipeOrPair::Pair(description.mark.get() | 1)),
        Origin::Passed => None,
        _ => is_stream(description).then(|| PipeOrPair::Named(hash_of(&description.path))),
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use super::*;

    fn open(origin: Origin, path: &str, mark: u64) -> Description {
        let mut open = Description::default();
        (open.origin, open.path, open.mark) = (origin, path.into(), Cell::new(mark));
        open
    }

    #[test]
    fn both_ends_are_had_outside() {
        let mut outside = Outside::default();
        outside.add(&open(Origin::Pipe, "pipe:[3]", 0));
        outside.add(&open(Origin::SocketPair, "socket:[]", 4));
        outside.add(&open(Origin::Path, "/a/file", 0));
        assert_eq!(outside.learnt(), 2);
        for (origin, path, mark, is) in [
            (Origin::Pipe, "pipe:[3]", 0, true),
            (Origin::Pipe, "pipe:[4]", 0, false),
            (Origin::SocketPair, "socket:[]", 5, true),
            (Origin::SocketPair, "socket:[]", 6, false),
            (Origin::Path, "/a/file", 0, false),
        ] {
            assert_eq!(outside.has(&open(origin, path, mark)), is, "{path} {mark}");
        }
        let passed = open(Origin::Passed, "received", 0);
        let sent = [6, 8].map(|mark| open(Origin::SocketPair, "socket:[]", mark));
        outside.sent(&sent[0]);
        assert!(!outside.has(&sent[0]));
        outside.add(&passed);
        outside.sent(&sent[1]);
        assert_eq!(passed.mark.get(), PLACEHOLDER);
        assert!(outside.has(&sent[0]) && outside.has(&sent[1]));
    }
}
