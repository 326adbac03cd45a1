//! Threads of ours.

use std::io;
use std::thread::{Builder, JoinHandle};

/// Starts one. The error says what is missing.
pub fn start_thread<T: Send + 'static>(
    name: &str,
    work: impl FnOnce() -> T + Send + 'static,
) -> io::Result<JoinHandle<T>> {
    Builder::new().name(name.into()).spawn(work).map_err(|error| {
        let limits = match error.raw_os_error() {
            Some(libc::EINVAL) => "unshare --pid needs --fork",
            _ => "ulimit -u, or a cgroup's pids.max, may forbid it",
        };
        io::Error::new(error.kind(), format!("a thread could not be started ({limits}): {error}"))
    })
}
