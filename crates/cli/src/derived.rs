//! Traces derived from others.

use std::fs::File;
use std::io::ErrorKind;

use trace::event::Preamble;
use trace::{Rewriter, Trace, WriteError, WriterOptions};

use crate::failure::Failure;

/// Begins a derived trace.
pub fn begin(out: File, preamble: &Preamble) -> Result<Rewriter, Failure> {
    let options = WriterOptions::default();
    Rewriter::new(Box::new(out), preamble, options).map_err(|error| written(&error))
}

/// Converts an error in writing a trace.
pub fn written(error: &WriteError) -> Failure {
    match error {
        WriteError::Io { source, .. } if source.kind() == ErrorKind::BrokenPipe => {
            Failure::BrokenPipe
        }
        _ => Failure::Failed(error.to_string()),
    }
}

/// Returns the preamble of a trace derived from another one.
pub fn preamble(trace: &Trace, how: &str) -> Preamble {
    let mut preamble = trace.preamble().clone();
    // The device of the new trace is another one.
    preamble.trace_dev = 0;
    let join = if preamble.options.is_empty() { "" } else { "; " };
    preamble.options = format!("{}{join}{how}", preamble.options);
    preamble
}

#[cfg(test)]
pub mod tests {
    use std::io::{self, Cursor, Write};
    use std::sync::{Arc, Mutex};

    use super::*;

    #[derive(Clone, Default)]
    struct Kept(Arc<Mutex<Vec<u8>>>);

    impl Write for Kept {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.0.lock().expect("no test panics here").extend_from_slice(bytes);
            Ok(bytes.len())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    /// Returns the trace that `write` derives from another one.
    pub fn in_memory(trace: &Trace, write: impl FnOnce(Rewriter)) -> Trace {
        let kept = Kept::default();
        let options = WriterOptions { workers: 0, remembered: 1 << 10, ..WriterOptions::default() };
        let preamble = preamble(trace, "for a test");
        write(Rewriter::new(Box::new(kept.clone()), &preamble, options).expect("it begins"));
        let bytes = kept.0.lock().expect("no test panics here").clone();
        Trace::from_stream(Cursor::new(bytes)).expect("what was written can be read")
    }
}
