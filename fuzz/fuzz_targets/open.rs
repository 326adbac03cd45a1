//! Any bytes as a file: open, all events, all their buffers, verify.
#![no_main]

use libfuzzer_sys::fuzz_target;
use trace::Trace;
use trace::event::EventKind;

fuzz_target!(|bytes: &[u8]| {
    let Ok(mut trace) = Trace::from_stream(std::io::Cursor::new(bytes.to_vec())) else { return };
    for event in trace.events().flatten() {
        let data = match &event.event.kind {
            EventKind::Call(call) => &call.data,
            EventKind::Image { data, .. } => data,
            _ => continue,
        };
        for item in data {
            let _ = trace.content_hash(&item.content);
        }
    }
    let _ = trace.verify();
    let _ = trace.damage();
    let _ = trace.refresh();
});
