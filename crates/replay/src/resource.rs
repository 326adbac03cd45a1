//! Numbers of what calls share: files by their paths, and the queues of pipes and sockets.

use std::hash::{BuildHasher, BuildHasherDefault, DefaultHasher};
use std::rc::Rc;

use model::{Description, Origin};

/// Hashes a path. Files with the same hash wait for each other, which is harmless.
pub fn hash_of(path: &[u8]) -> u64 {
    BuildHasherDefault::<DefaultHasher>::default().hash_one(path)
}

/// Number of the queue that a stream reads from, or writes to (`takes`). Pipes may be reopened by
/// their paths; sockets have no distinct paths, but the ends of a pair have adjacent numbers.
pub fn queue_of(description: &Rc<Description>, takes: bool) -> u64 {
    let own = match (description.origin, description.mark.get()) {
        (Origin::SocketPair | Origin::Passed, 0) => Rc::as_ptr(description) as u64,
        (Origin::SocketPair | Origin::Passed, number) => number,
        _ => return hash_of(&description.path),
    };
    own ^ u64::from(takes)
}
