//! Work for a program on another thread, while the supervisor continues: whatever depends on a
//! program may block for ever.

use std::sync::mpsc::{Receiver, TryRecvError};
use std::time::{Duration, Instant};

/// Time limit, including the time until other work for its users is done. Only the program waits
/// for it.
const LONGEST: Duration = Duration::from_secs(20);

/// A piece of work and its result.
pub struct Errand<T> {
    since: Instant,
    result: Option<Receiver<T>>,
}

/// The work did not end in time.
pub struct TookTooLong;

impl<T> Errand<T> {
    /// Returns work that has not begun.
    pub fn new() -> Errand<T> {
        Errand { since: Instant::now(), result: None }
    }

    /// Begins the work unless it has begun. Returns its result; `None` while it runs or waits.
    pub fn look(
        &mut self,
        begin: impl FnOnce() -> Option<Receiver<T>>,
    ) -> Option<Result<T, TookTooLong>> {
        if self.result.is_none() {
            self.result = begin();
        }
        let result = match &self.result {
            Some(result) => result.try_recv(),
            None => Err(TryRecvError::Empty),
        };
        match result {
            Ok(result) => Some(Ok(result)),
            Err(TryRecvError::Empty) if self.since.elapsed() < LONGEST => None,
            Err(_) => Some(Err(TookTooLong)),
        }
    }
}
