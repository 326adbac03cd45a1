//! Looks at processes while the kernel executes programs in them: on a thread of its own, because the
//! kernel may have whoever looks wait for the end of an exec, which may never come.

use std::collections::HashMap;
use std::sync::mpsc::{Sender, channel};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use crate::state::Before;

/// Most processes whose state is kept: that of others is read when they stand still.
const KEPT_MAX: usize = 256;
/// Who has looked for so long will not come back.
const LOOK_MAX: Duration = Duration::from_millis(200);
/// Threads that may be looking for ever. With so many of them, nobody looks ahead any more.
const LOST_MAX: usize = 16;

/// What was seen, by the numbers of processes.
#[derive(Default)]
pub struct Ahead {
    shared: Arc<Mutex<Shared>>,
    /// Tells the thread that looks of a process: its id, and its number.
    wanted: Option<Sender<(u32, u32)>>,
    lost: usize,
}

#[derive(Default)]
struct Shared {
    /// `None`: not yet looked at.
    seen: HashMap<u32, Option<Before>>,
    /// Since when it is being looked.
    looks: Option<Instant>,
}

impl Ahead {
    /// A process is about to execute a program.
    pub fn look(&mut self, pid: u32, process: u32) {
        let is_lost = {
            let mut shared = lock(&self.shared);
            if shared.seen.len() >= KEPT_MAX {
                return;
            }
            shared.seen.insert(process, None);
            shared.looks.is_some_and(|since| since.elapsed() > LOOK_MAX)
        };
        if is_lost {
            // What it still finds is nobody's.
            *self = Ahead { lost: self.lost + 1, ..Ahead::default() };
        }
        if self.wanted.is_none() && self.lost < LOST_MAX {
            self.wanted = start(&self.shared);
        }
        if let Some(wanted) = &self.wanted {
            // It ends when we do.
            let _ = wanted.send((pid, process));
        }
    }

    /// What was seen of a process, if somebody has looked.
    pub fn take(&self, process: u32) -> Option<Before> {
        lock(&self.shared).seen.remove(&process).flatten()
    }
}

fn start(shared: &Arc<Mutex<Shared>>) -> Option<Sender<(u32, u32)>> {
    let (wanted, asked) = channel();
    let shared = Arc::clone(shared);
    let look = move || {
        for (pid, process) in asked {
            {
                let mut shared = lock(&shared);
                // It has come to its new program already, or executes none.
                if !shared.seen.contains_key(&process) {
                    continue;
                }
                shared.looks = Some(Instant::now());
            }
            let before = Before::read(pid, process);
            let mut shared = lock(&shared);
            shared.looks = None;
            if let Some(seen) = shared.seen.get_mut(&process) {
                *seen = before;
            }
        }
    };
    kin::start_thread("ahead", look).ok().map(|_| wanted)
}

fn lock(shared: &Mutex<Shared>) -> MutexGuard<'_, Shared> {
    shared.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_seen_is_there_once() {
        let mut ahead = Ahead::default();
        let own = std::process::id();
        assert!(ahead.take(7).is_none());
        // Ours has several threads: nothing is kept of it.
        ahead.look(own, 7);
        ahead.look(u32::MAX, 8);
        while lock(&ahead.shared).looks.is_some() {
            std::thread::yield_now();
        }
        assert!(ahead.take(7).is_none() && ahead.take(8).is_none());
        assert!(lock(&ahead.shared).seen.is_empty());
    }

    #[test]
    fn who_does_not_come_back_is_replaced() {
        let mut ahead = Ahead::default();
        for _ in 0..LOST_MAX + 2 {
            lock(&ahead.shared).looks = Instant::now().checked_sub(2 * LOOK_MAX);
            let former = Arc::clone(&ahead.shared);
            ahead.look(u32::MAX, 9);
            assert!(!Arc::ptr_eq(&former, &ahead.shared));
        }
        assert!(ahead.wanted.is_none());
    }
}
