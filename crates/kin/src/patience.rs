//! Runs work that may never end, because it reads a program's own file system, or memory that
//! another thread has locked.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, sync_channel};
use std::time::Duration;

use crate::threads::start_thread;

/// Maximum number of unfinished threads, which may be blocked for ever; beyond it no work begins.
const LOST_MAX: usize = 16;

/// Counts work that has begun and not ended. Results should not hold anything that is slow to drop,
/// such as files: they may be dropped on any thread.
#[derive(Clone, Default)]
pub struct Patience {
    lost: Arc<AtomicUsize>,
}

impl Patience {
    /// Runs work on its own thread. `None` if it took longer than `limit`, and may still be
    /// running, or if too much other work is unfinished.
    pub fn within<T: Send + 'static>(
        &self,
        limit: Duration,
        work: impl FnOnce() -> T + Send + 'static,
    ) -> Option<T> {
        self.begin(work, || ())?.recv_timeout(limit).ok()
    }

    /// Begins work on its own thread and returns the receiver of its result. Then `then` is called.
    /// `None` if too much other work is unfinished.
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
            // If the work took too long, the receiver is gone.
            let _ = done.send(result);
            then();
        };
        if start_thread("patient", work).is_err() {
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
        // Those that have ended after all no longer count.
        drop(held);
        let begun = Instant::now();
        while patience.within(moment, || 7).is_none() {
            assert!(begun.elapsed() < Duration::from_secs(60), "they are counted for ever");
        }
    }
}
