//! Any bytes as the payload of a block whose checksums are right. The first bytes of the input choose
//! the block's kind and codec, the format's version, and what its head claims.
#![no_main]

use std::io::Write;
use std::sync::{Arc, LazyLock, Mutex};

use libfuzzer_sys::fuzz_target;
use trace::event::{BlobId, Preamble};
use trace::format::{Head, kind};
use trace::{Trace, Writer, WriterOptions};

/// A file in memory.
#[derive(Clone, Default)]
struct Memory(Arc<Mutex<Vec<u8>>>);

impl Write for Memory {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0.lock().unwrap().extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

/// A trace up to its first block.
static BEGINNING: LazyLock<Vec<u8>> = LazyLock::new(|| {
    let memory = Memory::default();
    let options = WriterOptions { workers: 0, ..WriterOptions::default() };
    drop(Writer::new(Box::new(memory.clone()), &Preamble::default(), options).unwrap());
    memory.0.lock().unwrap().clone()
});

fuzz_target!(|input: &[u8]| {
    let [kind, codec, count, calls, len_0, len_1, len_2, payload @ ..] = input else { return };
    let kinds = [kind::EVENTS, kind::DATA, kind::INDEX, kind::END, *kind];
    // Both versions of the format.
    let version = 1 + codec / 4 % 2;
    let codec = codec % 4;
    let raw_len = match codec {
        0 => payload.len() as u32,
        _ => u32::from_le_bytes([*len_0, *len_1, *len_2, 0]),
    };
    let head = Head {
        kind: kinds[usize::from(*kind) % kinds.len()],
        codec,
        raw_len,
        stored_len: payload.len() as u32,
        offset: BEGINNING.len() as u64,
        payload_crc: crc32fast::hash(payload),
        thread: 1,
        count: (*count).into(),
        calls: (*calls).into(),
        ..Head::default()
    };
    let mut bytes = [&BEGINNING[..], &head.to_bytes(), payload].concat();
    bytes[8] = version;
    let Ok(trace) = Trace::from_stream(std::io::Cursor::new(bytes)) else { return };
    let _ = trace.events().count();
    let _ = trace.blob(BlobId(0)).map(|blob| blob.len());
    let _ = trace.verify();
});
