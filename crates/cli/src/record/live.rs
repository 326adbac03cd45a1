//! Prints calls while they are recorded, as strace does.

use std::fs::File;
use std::io::{self, BufWriter};
use std::os::fd::AsRawFd;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use recorder::start_thread;
use trace::Trace;

use crate::failure::Failure;
use crate::message;
use crate::show;

/// Interval between looks at a file that has no readable beginning yet.
const BEGIN_INTERVAL: Duration = Duration::from_millis(10);

/// A thread that prints.
pub struct Live {
    thread: JoinHandle<Result<(), Failure>>,
    is_over: Arc<AtomicBool>,
}

impl Live {
    /// Starts to print what is written to a file.
    pub fn begin(file: &File, name: &Path) -> io::Result<Live> {
        // A description of its own: the recorder's has the place where it writes.
        let file = File::open(format!("/proc/self/fd/{}", file.as_raw_fd()))?;
        let is_over = Arc::new(AtomicBool::new(false));
        let (over, name) = (Arc::clone(&is_over), name.display().to_string());
        let thread = start_thread("live", move || {
            let is_over = || over.load(Ordering::Acquire);
            let mut trace = loop {
                match Trace::from_file(file.try_clone()?) {
                    Ok(trace) => break trace,
                    Err(_) if is_over() => return Ok(()),
                    Err(_) => thread::sleep(BEGIN_INTERVAL),
                }
            };
            show::live(&mut trace, name, BufWriter::new(io::stderr()), &is_over)
        })?;
        Ok(Live { thread, is_over })
    }

    /// Prints what is left, when nothing more is written.
    pub fn end(self) {
        self.is_over.store(true, Ordering::Release);
        match self.thread.join() {
            Ok(Ok(()) | Err(Failure::BrokenPipe)) => {}
            Ok(Err(failure)) => message::warn(&format!("--live ended early: {failure}")),
            Err(_) => message::warn("--live ended early"),
        }
    }
}
