//! What a thread of its own does for a program, while the supervisor goes on: whatever a program has a
//! hand in may take for ever.

use std::sync::mpsc::{Receiver, TryRecvError};
use std::time::{Duration, Instant};

/// How long it may take, and how long it may wait until others of its users are done. Only the program
/// waits for it.
const LONGEST: Duration = Duration::from_secs(20);

/// Something to be done.
pub struct Errand<T> {
    since: Instant,
    result: Option<Receiver<T>>,
}

/// It has not come to an end in time.
pub struct TookTooLong;

impl<T> Errand<T> {
    /// It was not begun yet.
    pub fn new() -> Errand<T> {
        Errand { since: Instant::now(), result: None }
    }

    /// Begins it, if that was not done and can be done now. `None`: it goes on.
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
