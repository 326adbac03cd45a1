//! Whether what the recorded program printed last ends with a line.

use std::path::Path;

use model::decode::buffers;
use model::file_use;
use trace::Trace;
use trace::event::{Call, Event, EventKind};

/// Blocks of events at the end of a trace in which the last output is looked for: a whole trace would take
/// long to read.
const BLOCKS_MAX: usize = 16;
/// Longest output that is looked at.
const BYTES_MAX: u64 = 1 << 20;

/// Returns true if the last bytes that went to standard output or standard error are no whole line, as far
/// as the end of the trace shows.
pub fn is_open(path: &Path) -> bool {
    let Ok(trace) = Trace::open(path) else { return false };
    last_output(&trace).is_some_and(|call| ends_within_a_line(&trace, &call))
}

fn last_output(trace: &Trace) -> Option<Call> {
    let mut last: Option<(u64, Call)> = None;
    for head in trace.blocks().iter().rev().take(BLOCKS_MAX) {
        // Others hold the buffers.
        let Ok(mut events) = trace.decode_block(head) else { continue };
        let mut event = Event::default();
        while let Ok(true) = events.next_into(&mut event) {
            if let EventKind::Call(call) = &event.kind
                && is_output(call)
                && last.as_ref().is_none_or(|(tsc, _)| *tsc <= event.tsc)
            {
                last = Some((event.tsc, call.clone()));
            }
        }
    }
    Some(last?.1)
}

fn is_output(call: &Call) -> bool {
    let of = file_use::of(call.nr);
    let to = of.to.map(|arg| call.args[usize::from(arg)]);
    to.is_some_and(|fd| fd == 1 || fd == 2) && of.moved(call).is_some_and(|bytes| bytes > 0)
}

fn ends_within_a_line(trace: &Trace, call: &Call) -> bool {
    let all = buffers(call);
    let last = all.iter().rfind(|buffer| buffer.plain).and_then(|buffer| buffer.pieces.last());
    // What was not stored is taken for a line.
    let content = last.map(|piece| &piece.content).filter(|content| content.len() <= BYTES_MAX);
    let bytes = content.and_then(|content| trace.content(content).ok()).unwrap_or_default();
    bytes.last().is_some_and(|last| !b"\n\r".contains(last))
}
