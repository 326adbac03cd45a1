//! Any bytes as text of strace: what is imported must be a trace that can be read.
#![no_main]

use std::io::{Cursor, Write};
use std::sync::{Arc, Mutex};

use libfuzzer_sys::fuzz_target;
use strace::read::{self, Settings};
use trace::{Trace, WriterOptions};

#[derive(Clone, Default)]
struct Kept(Arc<Mutex<Vec<u8>>>);

impl Write for Kept {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0.lock().expect("one thread").extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

fuzz_target!(|bytes: &[u8]| {
    let kept = Kept::default();
    let sink = kept.clone();
    let options = WriterOptions { workers: 0, remembered: 1024, ..WriterOptions::default() };
    let settings = Settings { uid: 0, gid: 0, version: "fuzz", options };
    let open = || Ok(Cursor::new(bytes));
    let sink = || Ok(Box::new(sink) as Box<dyn Write + Send>);
    let _ = read::is_text(bytes);
    if read::import(open, sink, settings).is_ok() {
        let written = std::mem::take(&mut *kept.0.lock().expect("one thread"));
        let trace = Trace::from_stream(Cursor::new(written)).expect("a trace");
        trace.events().for_each(|event| drop(event.expect("a sound event")));
    }
});
