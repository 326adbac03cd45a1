//! As whom threads come to files: the user and group of each, which calls change for one thread at a
//! time.

use std::collections::HashMap;

use events::shape::{Arg, Classes, Kind};
use trace::event::{Call, Outcome, ProcessState};

/// Threads that are remembered.
const THREADS_MAX: usize = 1 << 16;
/// An id that stays as it is.
const SAME: u32 = u32::MAX;

/// User and group: in effect, and for files.
#[derive(Clone, Copy, Debug)]
struct Ids {
    effective: (u32, u32),
    files: (u32, u32),
}

/// Those of all threads.
#[derive(Default)]
pub struct Users {
    threads: HashMap<u32, Ids>,
}

impl Users {
    /// The user and the group as whom a thread comes to files, if that is known.
    pub fn of(&self, thread: u32) -> Option<(u32, u32)> {
        self.threads.get(&thread).map(|ids| ids.files)
    }

    /// A thread is as its maker is.
    pub fn started(&mut self, thread: u32, maker: u32) {
        if let Some(ids) = self.threads.get(&maker).copied() {
            self.set(thread, ids);
        }
    }

    /// The kernel told of a thread's process.
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

    /// Another program begins: those for files are those in effect.
    pub fn image(&mut self, thread: u32) {
        if let Some(ids) = self.threads.get_mut(&thread) {
            ids.files = ids.effective;
        }
    }

    /// A thread is over.
    pub fn ended(&mut self, thread: u32) {
        self.threads.remove(&thread);
    }

    /// A call has returned that may have changed them. Of three ids that it sets the second is the one
    /// in effect.
    pub fn called(&mut self, thread: u32, call: &Call) {
        let Outcome::Returned { ret: 0.., .. } = call.outcome else { return };
        let Some(row) = events::by_number(call.nr.into()) else { return };
        let Some(ids) = self.threads.get_mut(&thread) else { return };
        if !row.classes.intersects(Classes::CREDS) {
            return;
        }
        let number = usize::from(row.args.len() > 1);
        let Some(Arg { kind, name }) = row.args.get(number) else { return };
        let (effective, files) = match kind {
            Kind::Uid => (&mut ids.effective.0, &mut ids.files.0),
            Kind::Gid => (&mut ids.effective.1, &mut ids.files.1),
            _ => return,
        };
        let id = call.args[number] as u32;
        if name.starts_with("fs") {
            // It tells the one before, whether it changed it or not.
            *files = if id == SAME { *files } else { id };
            return;
        }
        *effective = if id == SAME { *effective } else { id };
        *files = *effective;
    }
}
