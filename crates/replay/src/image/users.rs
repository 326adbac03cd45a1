//! User and group ids of threads for file access; calls change them for one thread at a time.

use std::collections::HashMap;

use syscalls::Act;
use syscalls::shape::{Classes, Kind};
use trace::event::{Call, Outcome, ProcessState};

/// Most threads tracked.
const THREADS_MAX: usize = 1 << 16;
/// Id that leaves the current one unchanged.
const SAME: u32 = u32::MAX;

/// Effective user and group, and those for file access.
#[derive(Clone, Copy, Debug)]
struct Ids {
    effective: (u32, u32),
    files: (u32, u32),
}

/// Ids of all threads.
#[derive(Default)]
pub struct Users {
    threads: HashMap<u32, Ids>,
}

impl Users {
    /// Returns user and group of a thread for file access, if known.
    pub fn of(&self, thread: u32) -> Option<(u32, u32)> {
        self.threads.get(&thread).map(|ids| ids.files)
    }

    /// A thread inherits its maker's ids.
    pub fn started(&mut self, thread: u32, maker: u32) {
        if let Some(ids) = self.threads.get(&maker).copied() {
            self.set(thread, ids);
        }
    }

    /// Sets the ids reported for a thread's process.
    pub fn told(&mut self, thread: u32, state: &ProcessState) {
        let [(_, user, files), (_, group, group_of_files)] =
            [state.uids, state.gids].map(|[real, effective, _, files]| (real, effective, files));
        self.set(thread, Ids { effective: (user, group), files: (files, group_of_files) });
    }

    fn set(&mut self, thread: u32, ids: Ids) {
        if self.threads.len() < THREADS_MAX || self.threads.contains_key(&thread) {
            self.threads.insert(thread, ids);
        }
    }

    /// An exec sets the ids for file access to the effective ones.
    pub fn image(&mut self, thread: u32) {
        if let Some(ids) = self.threads.get_mut(&thread) {
            ids.files = ids.effective;
        }
    }

    /// A thread has ended.
    pub fn ended(&mut self, thread: u32) {
        self.threads.remove(&thread);
    }

    /// Handles the return of a call that may change ids. Of several ids that it sets, the second is
    /// the effective one.
    pub fn called(&mut self, thread: u32, call: &Call) {
        let Outcome::Returned { ret: 0.., .. } = call.outcome else { return };
        let Some(row) = syscalls::by_number(call.nr.into()) else { return };
        let Some(ids) = self.threads.get_mut(&thread) else { return };
        if !row.classes.intersects(Classes::CREDS) {
            return;
        }
        let number = usize::from(row.args.len() > 1);
        let Some(arg) = row.args.get(number) else { return };
        let (effective, files) = match arg.kind {
            Kind::Uid => (&mut ids.effective.0, &mut ids.files.0),
            Kind::Gid => (&mut ids.effective.1, &mut ids.files.1),
            _ => return,
        };
        let id = call.args[number] as u32;
        if row.act == Act::SetFileId {
            *files = if id == SAME { *files } else { id };
            return;
        }
        *effective = if id == SAME { *effective } else { id };
        *files = *effective;
    }
}
