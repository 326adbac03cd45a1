//! The end of a task.

/// Called once, after a task has closed its descriptors.
pub type Ended = Box<dyn FnOnce(End) + Send>;

/// How a task ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum End {
    /// Its body returned.
    Returned,
    /// Its body panicked, with this message.
    Panicked(String),
    /// Its whole group was killed by this signal.
    Killed(i32),
}
