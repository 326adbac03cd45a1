//! Merges the events of all threads.
//!
//! Each thread's events are ordered already. The next event is the one with the lowest time stamp
//! among the threads' next ones; the lowest thread number decides between equal ones. A block is
//! unpacked when its turn comes, so that only one block of each thread is held at a time.

use std::cmp::Reverse;
use std::collections::binary_heap::PeekMut;
use std::collections::{BinaryHeap, HashMap, VecDeque};

use crate::error::ReadError;
use crate::event::{Event, EventKind};
use crate::format::kind;
use crate::reader::{BlockEvents, Trace};

impl Trace {
    /// All events in the order in which they began; see [`EventCursor`].
    pub fn events(&self) -> Events<'_> {
        Events::new(self)
    }

    /// A cursor over the events that does not borrow the trace, to follow one that grows.
    pub fn cursor(&self) -> EventCursor {
        EventCursor::default()
    }
}

/// Memory limit for blocks that are unpacked at the same time. The largest recording, of 8192 busy
/// threads, needs two thirds of it.
const HELD_BYTES_MAX: usize = 1 << 30;

/// An event and its position.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Sequenced {
    /// Position of a call in the order of entry, from 0.
    pub seq: Option<u64>,
    /// The event.
    pub event: Event,
}

/// Iterates over the events of a trace without borrowing it.
///
/// In a growing trace, blocks may appear whose events are older than some that were returned
/// already; they are returned then. Numbers and order are final only if the trace does not grow.
pub struct EventCursor {
    /// Index of each thread's stream.
    threads: HashMap<u32, usize>,
    streams: Vec<Stream>,
    /// Time stamp, thread and stream of every thread that has a next event.
    next: BinaryHeap<Reverse<(u64, u32, usize)>>,
    /// Number of blocks of the trace that were looked at.
    blocks_seen: usize,
    calls: u64,
    held_bytes: usize,
    held_bytes_max: usize,
    failed: bool,
}

impl Default for EventCursor {
    fn default() -> EventCursor {
        EventCursor {
            threads: HashMap::new(),
            streams: Vec::new(),
            next: BinaryHeap::new(),
            blocks_seen: 0,
            calls: 0,
            held_bytes: 0,
            held_bytes_max: HELD_BYTES_MAX,
            failed: false,
        }
    }
}

#[derive(Default)]
struct Stream {
    /// Positions of blocks that are not open yet.
    waiting: VecDeque<usize>,
    open: Option<BlockEvents>,
    /// Whether it is in `next`.
    queued: bool,
}

impl EventCursor {
    /// Returns the next event; `None` if there are none at the moment. A damaged block causes one
    /// error, then its thread continues with its next block.
    pub fn next(&mut self, trace: &Trace) -> Option<Result<Sequenced, ReadError>> {
        let mut next = Sequenced::default();
        Some(self.next_into(trace, &mut next)?.map(|()| next))
    }

    /// Like [`EventCursor::next`], but overwrites an event, reusing its memory.
    pub fn next_into(
        &mut self,
        trace: &Trace,
        into: &mut Sequenced,
    ) -> Option<Result<(), ReadError>> {
        self.look(trace);
        while !self.failed {
            let mut place = self.next.peek_mut()?;
            let Reverse((tsc, thread, at)) = *place;
            let stream = &mut self.streams[at];
            let held_before = stream.held_bytes();
            let event = stream.next(trace, &mut into.event);
            match stream.next_tsc(trace, tsc) {
                Some(next) => {
                    *place = Reverse((next, thread, at));
                    drop(place);
                }
                None => {
                    PeekMut::pop(place);
                    stream.queued = false;
                }
            }
            self.held_bytes += stream.held_bytes();
            self.held_bytes -= held_before;
            if self.held_bytes > self.held_bytes_max {
                self.failed = true;
                return Some(Err(ReadError::Overlap { tsc, max: self.held_bytes_max as u64 }));
            }
            match event {
                Ok(true) => {
                    into.seq = self.sequence(&into.event);
                    return Some(Ok(()));
                }
                Ok(false) => {}
                Err(error) => return Some(Err(error)),
            }
        }
        None
    }

    /// Adds new blocks of the trace.
    fn look(&mut self, trace: &Trace) {
        let blocks = trace.blocks();
        for (at, head) in blocks.iter().enumerate().skip(self.blocks_seen) {
            if head.kind != kind::EVENTS {
                continue;
            }
            let number = *self.threads.entry(head.thread).or_insert_with(|| {
                self.streams.push(Stream::default());
                self.streams.len() - 1
            });
            let stream = &mut self.streams[number];
            stream.waiting.push_back(at);
            if !stream.queued {
                stream.queued = true;
                self.next.push(Reverse((head.first_tsc, head.thread, number)));
            }
        }
        self.blocks_seen = blocks.len();
    }

    fn sequence(&mut self, event: &Event) -> Option<u64> {
        let is_call = matches!(event.kind, EventKind::Call(_));
        let seq = is_call.then_some(self.calls);
        self.calls += u64::from(is_call);
        seq
    }
}

impl Stream {
    /// Decodes the next event; returns false if its block turns out to be empty.
    fn next(&mut self, trace: &Trace, event: &mut Event) -> Result<bool, ReadError> {
        if self.open.is_none() {
            let Some(at) = self.waiting.pop_front() else { return Ok(false) };
            self.open = Some(trace.decode_block(&trace.blocks()[at])?);
        }
        self.open.as_mut().map_or(Ok(false), |open| open.next_into(event))
    }

    /// Time stamp of the next event; `None` if there are no more. If it cannot be decoded, `now`,
    /// so that the error is returned next.
    fn next_tsc(&mut self, trace: &Trace, now: u64) -> Option<u64> {
        if let Some(open) = &self.open {
            match open.next_tsc() {
                Ok(Some(tsc)) => return Some(tsc),
                Ok(None) => self.open = None,
                Err(_) => return Some(now),
            }
        }
        self.waiting.front().map(|at| trace.blocks()[*at].first_tsc)
    }

    fn held_bytes(&self) -> usize {
        self.open.as_ref().map_or(0, BlockEvents::held_bytes)
    }
}

/// [`EventCursor`] as an iterator.
pub struct Events<'a> {
    trace: &'a Trace,
    cursor: EventCursor,
}

impl<'a> Events<'a> {
    /// Starts at the first event.
    pub(crate) fn new(trace: &'a Trace) -> Events<'a> {
        Events { trace, cursor: EventCursor::default() }
    }
}

impl Iterator for Events<'_> {
    type Item = Result<Sequenced, ReadError>;

    fn next(&mut self) -> Option<Result<Sequenced, ReadError>> {
        self.cursor.next(self.trace)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::{Arc, Mutex};

    use super::*;
    use crate::event::Preamble;
    use crate::{Writer, WriterOptions};

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

    /// Returns a trace of threads that all begin and end at the same time.
    fn overlapping(threads: u32) -> Trace {
        let memory = Memory::default();
        let options = WriterOptions { workers: 0, ..WriterOptions::default() };
        let mut writer =
            Writer::new(Box::new(memory.clone()), &Preamble::default(), options).unwrap();
        for thread in 1..=threads {
            for tsc in 0..1000 {
                let kind = EventKind::Stall { ns: u64::MAX };
                writer.event(&Event::new(thread, tsc, kind)).unwrap();
            }
        }
        writer.flush().unwrap();
        drop(writer);
        let bytes = memory.0.lock().unwrap().clone();
        Trace::from_stream(std::io::Cursor::new(bytes)).unwrap()
    }

    #[test]
    fn too_many_blocks_at_the_same_time_are_an_error() {
        let trace = overlapping(100);
        let mut cursor = EventCursor { held_bytes_max: 100_000, ..EventCursor::default() };
        let events = std::iter::from_fn(|| cursor.next(&trace)).take(200_000);
        let (good, bad): (Vec<_>, Vec<_>) = events.partition(Result::is_ok);
        assert!(good.len() < 100, "it stops when the memory is used up");
        assert!(matches!(bad[..], [Err(ReadError::Overlap { .. })]));
        // With room for all of them they are in order, and the memory is released.
        let mut cursor = EventCursor::default();
        let events: Vec<_> = std::iter::from_fn(|| cursor.next(&trace)).collect();
        assert_eq!(events.len(), 100_000);
        assert_eq!(cursor.held_bytes, 0);
    }
}
