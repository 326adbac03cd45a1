//! File locks. Overlapping calls get locks of one file in the order in which they returned,
//! otherwise two tasks can deadlock. What a call is told that asks beside them is chance.

use model::Contents;
use model::contents::piece;
use syscalls::abi::errno::{self, EACCES, EAGAIN, EDEADLK, EINTR};
use syscalls::abi::files::{F_UNLCK, LOCK_UN};
use syscalls::record::part;
use syscalls::{Act, Ret};
use trace::event::Call;

use crate::treatment::Said;

/// Effect of a call on a lock.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Does {
    /// Acquires it.
    Gets,
    /// Releases it, or closes the file and may release it so.
    Releases,
    /// Asks whether another process has it.
    Asks,
    /// Did not get it. Not tried again: it could succeed now, or wait forever.
    Fails {
        /// It released its previous lock before it tried.
        gives_up: bool,
    },
}

impl Does {
    /// Effect of a call that returned `ret`.
    pub fn of(said: &Said, call: &Call, ret: i64, stored: &mut dyn Contents) -> Option<Does> {
        if said.ret != Ret::Int {
            return None;
        }
        let gives_up = match said.act {
            Act::Lock if call.args[1] & LOCK_UN == 0 => true,
            Act::RecordLock { .. } if is_attempt(call, stored) => false,
            Act::Lock | Act::RecordLock { .. } | Act::Close => {
                return (ret == 0).then_some(Does::Releases);
            }
            Act::AskRecordLock => return (ret == 0).then_some(Does::Asks),
            _ => return None,
        };
        match errno::of_result(ret) {
            None if ret == 0 => Some(Does::Gets),
            Some(EAGAIN | EACCES | EINTR | EDEADLK) => Some(Does::Fails { gives_up }),
            _ => None,
        }
    }
}

/// What a call does with the locks of a file.
#[derive(Clone, Copy, Debug)]
pub struct Lock {
    /// Hash of the file's path.
    pub file: u64,
    pub does: Does,
}

impl Lock {
    /// Whether what this one is told beside the other one is chance.
    pub fn is_told_beside(self, other: Lock) -> bool {
        self.does == Does::Asks && matches!(other.does, Does::Gets | Does::Releases)
    }
}

/// Whether a record lock is asked for, not released.
fn is_attempt(call: &Call, stored: &mut dyn Contents) -> bool {
    let lock = piece(&call.data, 2, part::WHOLE, 0, false);
    let kind = lock.and_then(|data| stored.read(&data.content, size_of::<i16>()).ok());
    let kind = kind.and_then(|bytes| bytes.first_chunk().map(|kind| i16::from_le_bytes(*kind)));
    kind.is_some_and(|kind| kind != F_UNLCK)
}
