//! Any bytes as a DataSeries file: what can be imported is a sound trace that claims nothing.
#![no_main]

use std::io::Cursor;
use std::sync::{Arc, Mutex};

use libfuzzer_sys::fuzz_target;
use trace::{Trace, WriterOptions};

#[derive(Clone, Default)]
struct Memory(Arc<Mutex<Vec<u8>>>);

impl std::io::Write for Memory {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0.lock().unwrap().extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

fuzz_target!(|bytes: &[u8]| {
    let memory = Memory::default();
    let sink = memory.clone();
    let options = WriterOptions { workers: 0, remembered: 64, ..WriterOptions::default() };
    if dataseries::import(&bytes, || Ok(Box::new(sink)), options).is_err() {
        return;
    }
    let written = memory.0.lock().unwrap().clone();
    let trace = Trace::from_stream(Cursor::new(written)).unwrap();
    assert!(trace.events().all(|event| event.is_ok()));
    assert!(!trace.completeness().complete);
});
