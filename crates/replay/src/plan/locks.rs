//! File locks. Overlapping calls get locks of one file in the order in which they returned,
//! otherwise two tasks can deadlock.

use model::Contents;
use model::contents::piece;
use syscalls::Ret;
use syscalls::record::part;
use trace::event::Call;

use crate::treatment::Said;

/// Effect of a call on a lock.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Does {
    /// Acquires it.
    Gets,
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
        let gives_up = match said.row.name {
            "flock" if call.args[1] as i32 & libc::LOCK_UN == 0 => true,
            "fcntl" if is_attempt(call, stored) => false,
            _ => return None,
        };
        match ret {
            0 => Some(Does::Gets),
            _ => match -ret as i32 {
                libc::EAGAIN | libc::EACCES | libc::EINTR | libc::EDEADLK => {
                    Some(Does::Fails { gives_up })
                }
                _ => None,
            },
        }
    }
}

/// Whether `fcntl` asks for a record lock.
fn is_attempt(call: &Call, stored: &mut dyn Contents) -> bool {
    let asks = [libc::F_SETLK, libc::F_SETLKW, libc::F_OFD_SETLK, libc::F_OFD_SETLKW];
    if !asks.contains(&(call.args[1] as i32)) {
        return false;
    }
    let lock = piece(&call.data, 2, part::WHOLE, 0, false);
    let kind = lock.and_then(|data| stored.read(&data.content, size_of::<i16>()).ok());
    let kind = kind.and_then(|bytes| bytes.first_chunk().map(|kind| i16::from_le_bytes(*kind)));
    kind.is_some_and(|kind| i32::from(kind) != libc::F_UNLCK)
}
