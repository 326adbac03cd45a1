//! Doing what may never come to an end: files of a program's own file system, memory that another
//! thread holds.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, sync_channel};
use std::time::Duration;

use crate::threads::start_thread;

/// Threads that may be waiting for ever. With so many of them, nothing more is tried.
const LOST_MAX: usize = 16;

/// Knows how much was begun and has not come to an end. A result should hold nothing that takes long to
/// be dropped, as files do: nobody knows on which thread that happens.
#[derive(Clone, Default)]
pub struct Patience {
    lost: Arc<AtomicUsize>,
}

impl Patience {
    /// Does something on a thread of its own. `None`: it took longer, and may still be going on; or
    /// too much else is.
    pub fn within<T: Send + 'static>(
        &self,
        limit: Duration,
        work: impl FnOnce() -> T + Send + 'static,
    ) -> Option<T> {
        self.begin(work, || ())?.recv_timeout(limit).ok()
    }

    /// Begins something on a thread of its own, and gives what will tell its result. `then` is called
    /// when that is there. `None`: too much else is going on.
    pub fn begin<T: Send + 'static>(
        &self,
        work: impl FnOnce() -> T + Send + 'static,
        then: impl FnOnce() + Send + 'static,
    ) -> Option<Receiver<T>> {
        if self.lost.load(Ordering::SeqCst) >= LOST_MAX {
            return None;
        }
        let (done, result) = sync_channel(1);
        let lost = Arc::clone(&self.lost);
        lost.fetch_add(1, Ordering::SeqCst);
        let work = move || {
            let result = work();
            lost.fetch_sub(1, Ordering::SeqCst);
            // Nobody waits any more if it took too long.
            let _ = done.send(result);
            then();
        };
        if start_thread("patience", work).is_err() {
            self.lost.fetch_sub(1, Ordering::SeqCst);
            return None;
        }
        Some(result)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc::channel;
    use std::time::Instant;

    use super::*;

    #[test]
    fn what_never_ends_is_left_alone() {
        let patience = Patience::default();
        assert_eq!(patience.within(Duration::from_secs(60), || 7), Some(7));
        let moment = Duration::from_millis(1);
        let mut held = Vec::new();
        for _ in 0..LOST_MAX {
            let (end, wait) = channel::<()>();
            held.push(end);
            assert_eq!(patience.within(moment, move || wait.recv().is_ok()), None);
        }
        assert_eq!(patience.within(Duration::from_secs(60), || 7), None);
        // Those that came to an end after all do not count.
        drop(held);
        let begun = Instant::now();
        while patience.within(moment, || 7).is_none() {
            assert!(begun.elapsed() < Duration::from_secs(60), "they are counted for ever");
        }
    }
}
