//! Reads the state of processes while the kernel executes programs in them, on a separate thread:
//! the kernel may block the reader until the exec ends, which may be never.

use std::collections::HashMap;
use std::sync::mpsc::{Sender, channel};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use crate::state::Before;

/// Maximum number of processes whose state is kept; the state of others is read at the exec stop.
const KEPT_MAX: usize = 256;
/// A look that takes longer than this counts as stuck for ever.
const LOOK_MAX: Duration = Duration::from_millis(200);
/// How long to wait for a look at a process whose exec is over: nothing blocks it any more.
const TAKE_WAIT: Duration = Duration::from_millis(2);
/// Maximum number of stuck threads. Beyond that, nothing is read ahead any more.
const LOST_MAX: usize = 16;

/// States read ahead, by process number.
#[derive(Default)]
pub struct Ahead {
    shared: Arc<Shared>,
    /// Sends processes (id and number) to the reading thread.
    wanted: Option<Sender<(u32, u32)>>,
    lost: usize,
}

#[derive(Default)]
struct Shared {
    state: Mutex<State>,
    /// Notified when a look that [`Ahead::take`] waits for is over.
    is_over: Condvar,
}

#[derive(Default)]
struct State {
    /// `None`: not read yet.
    seen: HashMap<u32, Option<Before>>,
    /// The process being read, and since when.
    looks: Option<(u32, Instant)>,
    /// Whether [`Ahead::take`] waits for the end of that look.
    is_awaited: bool,
}

impl Ahead {
    /// Starts reading the state of a process that is about to execute a program.
    pub fn look(&mut self, pid: u32, process: u32) {
        let is_lost = {
            let mut state = lock(&self.shared);
            if state.seen.len() >= KEPT_MAX {
                return;
            }
            state.seen.insert(process, None);
            state.looks.is_some_and(|(_, since)| since.elapsed() > LOOK_MAX)
        };
        if is_lost {
            // The stuck thread keeps the old `Shared`; what it still finds is discarded.
            *self = Ahead { lost: self.lost + 1, ..Ahead::default() };
        }
        if self.wanted.is_none() && self.lost < LOST_MAX {
            self.wanted = start(&self.shared);
        }
        if let Some(wanted) = &self.wanted {
            // The thread ends when its sender is dropped, so it still receives.
            let _ = wanted.send((pid, process));
        }
    }

    /// Returns and removes the state read of a process, if there is one.
    pub fn take(&self, process: u32) -> Option<Before> {
        let mut state = lock(&self.shared);
        if state.looks.is_some_and(|(looked_at, _)| looked_at == process) {
            state.is_awaited = true;
            let is_looking =
                |state: &mut State| state.looks.is_some_and(|(looked_at, _)| looked_at == process);
            let waited = self.shared.is_over.wait_timeout_while(state, TAKE_WAIT, is_looking);
            (state, _) = waited.unwrap_or_else(PoisonError::into_inner);
            state.is_awaited = false;
        }
        state.seen.remove(&process).flatten()
    }
}

fn start(shared: &Arc<Shared>) -> Option<Sender<(u32, u32)>> {
    let (wanted, asked) = channel();
    let shared = Arc::clone(shared);
    let look = move || {
        for (pid, process) in asked {
            {
                let mut state = lock(&shared);
                // The process has reached its new image already, or its exec was cancelled.
                if !state.seen.contains_key(&process) {
                    continue;
                }
                state.looks = Some((process, Instant::now()));
            }
            let before = Before::read(pid, process);
            let mut state = lock(&shared);
            state.looks = None;
            if let Some(seen) = state.seen.get_mut(&process) {
                *seen = before;
            }
            if state.is_awaited {
                shared.is_over.notify_all();
            }
        }
    };
    kin::start_thread("ahead", look).ok().map(|_| wanted)
}

fn lock(shared: &Shared) -> MutexGuard<'_, State> {
    shared.state.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_seen_is_there_once() {
        let mut ahead = Ahead::default();
        let own = std::process::id();
        assert!(ahead.take(7).is_none());
        // This process has several threads, so no state is kept of it.
        ahead.look(own, 7);
        ahead.look(u32::MAX, 8);
        while lock(&ahead.shared).looks.is_some() {
            std::thread::yield_now();
        }
        assert!(ahead.take(7).is_none() && ahead.take(8).is_none());
        assert!(lock(&ahead.shared).seen.is_empty());
    }

    fn looking() -> Ahead {
        let ahead = Ahead::default();
        let mut state = lock(&ahead.shared);
        state.looks = Some((7, Instant::now()));
        state.seen.insert(7, None);
        drop(state);
        ahead
    }

    #[test]
    fn a_look_that_has_begun_is_not_waited_for_for_ever() {
        let ahead = looking();
        assert!(ahead.take(7).is_none());
        assert!(lock(&ahead.shared).seen.is_empty());
    }

    #[test]
    fn a_look_that_has_begun_is_waited_for() {
        let mut child = std::process::Command::new("sleep").arg("9").spawn().unwrap();
        let before = Before::read(child.id(), 7);
        child.kill().unwrap();
        child.wait().unwrap();
        let ahead = looking();
        let ends = || {
            while !lock(&ahead.shared).is_awaited {
                std::thread::yield_now();
            }
            let mut state = lock(&ahead.shared);
            state.looks = None;
            // On a busy machine `take` may have timed out already.
            let seen = state.seen.get_mut(&7).map(|seen| *seen = before);
            ahead.shared.is_over.notify_all();
            seen.is_some()
        };
        std::thread::scope(|scope| {
            let in_time = scope.spawn(ends);
            let taken = ahead.take(7);
            lock(&ahead.shared).is_awaited = true;
            assert_eq!(taken.is_some(), in_time.join().unwrap());
        });
    }

    #[test]
    fn who_does_not_come_back_is_replaced() {
        let mut ahead = Ahead::default();
        for _ in 0..LOST_MAX + 2 {
            let long_ago = Instant::now().checked_sub(2 * LOOK_MAX).unwrap();
            lock(&ahead.shared).looks = Some((9, long_ago));
            let former = Arc::clone(&ahead.shared);
            ahead.look(u32::MAX, 9);
            assert!(!Arc::ptr_eq(&former, &ahead.shared));
        }
        assert!(ahead.wanted.is_none());
    }
}
