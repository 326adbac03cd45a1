//! What a thread waited for: by its call, by how it waited, and by who woke it.

use syscalls::act::Act;
use syscalls::shape::Classes;

use super::pieces::{Doing, InCall, Waker};

/// What a call with these arguments may wait for, where signals can wake it.
pub fn may_wait_for(nr: u16, args: &[u64; 6]) -> Option<Doing> {
    let row = syscalls::table::by_number(nr.into())?;
    let has = |class: Classes| row.classes.intersects(class);
    Some(match row.act_of(args) {
        Act::WaitOnWord | Act::Lock | Act::RecordLock { .. } => Doing::Lock,
        Act::SyncFile | Act::SyncData | Act::SyncAll => Doing::Disk,
        // Those that wait, and have to do with nothing but memory.
        _ if row.classes == Classes::WAIT => Doing::Lock,
        _ if has(Classes::PROCESS) => Doing::Child,
        _ if has(Classes::CLOCK.or(Classes::SIGNAL)) && has(Classes::WAIT) => Doing::Asleep,
        _ if has(Classes::IPC) && has(Classes::WAIT) => Doing::Lock,
        _ if has(Classes::DESC.or(Classes::NETWORK).or(Classes::IPC)) => Doing::Peer,
        _ => return None,
    })
}

/// A wait that is over.
pub(super) struct Wait<'a> {
    /// Signals could not end it.
    pub is_deep: bool,
    /// It is one of a thread of the kernel's own.
    pub is_kernel: bool,
    /// It is one in a page fault.
    pub is_in_fault: bool,
    /// The call in which it was.
    pub call: Option<&'a InCall>,
    /// The lock of the kernel that was waited for.
    pub contends: Option<u64>,
    /// Who ended it.
    pub by: Waker,
}

/// What a thread has waited for, and at which lock.
pub(super) fn of_wait(wait: &Wait<'_>) -> (Doing, Option<u64>) {
    let &Wait { call, by, .. } = wait;
    if let Some(lock) = wait.contends {
        return (Doing::Lock, Some(lock));
    }
    let wanted = call.and_then(|call| may_wait_for(call.nr, &call.args));
    if wait.is_deep {
        let doing = match (by, wanted) {
            (Waker::Disk(_), _) | (_, Some(Doing::Disk)) => Doing::Disk,
            // A process made by vfork has begun its program.
            (_, Some(Doing::Child)) => Doing::Child,
            (Waker::Timer, _) => Doing::Asleep,
            (Waker::Thread(_), _) => Doing::Lock,
            _ => Doing::Disk,
        };
        return (doing, None);
    }
    match (wanted, by) {
        (Some(Doing::Lock), _) => (Doing::Lock, call.map(|call| call.args[0])),
        (Some(Doing::Disk), _) => (Doing::Disk, None),
        // What it waited for did not come.
        (Some(Doing::Peer), Waker::Timer) => (Doing::Asleep, None),
        (Some(doing), _) => (doing, None),
        (None, Waker::Disk(_)) => (Doing::Disk, None),
        (None, Waker::Network) if !wait.is_kernel => (Doing::Peer, None),
        (None, _) if wait.is_in_fault => (Doing::Disk, None),
        (None, _) => (Doing::Asleep, None),
    }
}
