//! A trace with calls of all forms.

use std::io::{Cursor, Write};
use std::sync::{Arc, Mutex};

use dataseries::{Codec, Exporter};
use model::Contents;
use trace::event::{
    Call, Content, Data, Event, EventKind, Extras, FieldValue, GapWhy, Identity, OpenFd,
    OtherEvent, Outcome, Preamble, ProcessState, RECORDER, StartHow, Totals,
};
use trace::event_table::row_of;
use trace::format::event_number;
use trace::parts::{Part, part_id};
use trace::{Trace, Writer, WriterOptions};

/// A file in memory.
#[derive(Clone, Default)]
pub struct Memory(Arc<Mutex<Vec<u8>>>);

impl Memory {
    /// Returns what was written so far.
    pub fn bytes(&self) -> Vec<u8> {
        self.0.lock().unwrap().clone()
    }
}

impl Write for Memory {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0.lock().unwrap().extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

/// Reads the bytes that a trace stores.
pub struct Stored<'a>(pub &'a Trace);

impl Contents for Stored<'_> {
    fn each(
        &mut self,
        content: &Content,
        take: &mut dyn FnMut(&[u8]) -> bool,
    ) -> Result<(), String> {
        take(&self.0.content(content).map_err(|error| error.to_string())?);
        Ok(())
    }
}

fn data(arg: u8, part: u8, index: u16, flags: u8, bytes: &[u8]) -> Data {
    let content = Content::Inline(bytes.to_vec());
    Data { arg, part, index, flags, true_len: bytes.len() as u64, hash: None, content }
}

const OUT: u8 = 1;
const CUT: u8 = 2;

struct Making {
    writer: Writer,
    tsc: u64,
}

impl Making {
    fn event(&mut self, thread: u32, kind: EventKind) {
        self.with(thread, kind, Vec::new());
    }

    fn with(&mut self, thread: u32, kind: EventKind, parts: Vec<Part>) {
        self.tsc += 10;
        let mut event = Event::new(thread, self.tsc, kind);
        if !parts.is_empty() {
            event.extras = Some(Box::new(Extras { parts, later_fields: Vec::new() }));
        }
        self.writer.event(&event).unwrap();
    }

    fn call(&mut self, thread: u32, nr: u16, args: &[u64], ret: Option<i64>, data: Vec<Data>) {
        let mut all = [0; 6];
        all[..args.len()].copy_from_slice(args);
        let exit_tsc = self.tsc + 15;
        let outcome = match ret {
            Some(ret) => Outcome::Returned { exit_tsc, ret },
            None => Outcome::Unfinished,
        };
        let identities = match nr {
            257 => vec![(1, Identity { ino: 7, mode: 0o100_644, size: 3, ..Identity::default() })],
            _ => Vec::new(),
        };
        let site = 0x1000 + u64::from(nr);
        let nargs = args.len() as u8;
        let call = Call { nr, flags: 0, site, nargs, args: all, outcome, data, identities };
        self.event(thread, EventKind::Call(call));
        self.tsc += 10;
    }
}

/// Returns the bytes of a trace.
pub fn trace() -> Vec<u8> {
    made(fill)
}

/// Returns the bytes of a trace in which a process stores to a mapped file.
pub fn stores() -> Vec<u8> {
    made(|to| {
        let (how, at) = (StartHow::Launch, 0x7000_0000u64);
        to.event(1, EventKind::Start { how, process: 1, parent: 0, pid: 50, tid: 50 });
        to.call(1, 2, &[5, 0o102, 0o644], Some(3), vec![data(0, 0, 0, 0, b"f")]);
        let watched = vec![Part::number(part_id::WATCHED, 1)];
        let outcome = Outcome::Returned { exit_tsc: to.tsc + 15, ret: at as i64 };
        let args = [0, 0x4000, 3, 1, 3, 0x1000];
        let call = Call { nr: 9, nargs: 6, args, outcome, ..Call::default() };
        to.with(1, EventKind::Call(call), watched);
        to.tsc += 10;
        let page = [7; 4096];
        for (offset, bytes, kept) in [(0x3000, &page[..], 4096), (0x4000, &page[..100], 60)] {
            let id = to.writer.blob(&bytes[..kept]).unwrap();
            let number = |number: u64| FieldValue::Unsigned(number);
            let values = vec![
                number(at + offset - 0x1000),
                number(offset),
                number(bytes.len() as u64),
                FieldValue::Bytes(b"/home/f".to_vec()),
                number(8),
                number(9),
                number(kept as u64),
                FieldValue::Bytes(Vec::new()),
            ];
            let row = row_of(event_number::MMAP_WRITE).unwrap();
            let parts = vec![
                Part::number(part_id::SUBMITTED, 19),
                Part::number(part_id::PROCESS, 1),
                Part::number(part_id::THREAD, 1),
                Part::buffers(&[Some(id)]),
            ];
            to.with(RECORDER, EventKind::Other(OtherEvent { row, values }), parts);
        }
        to.call(1, 231, &[0], None, Vec::new());
        to.event(1, EventKind::End { calls: 3 });
    })
}

fn made(fill: impl FnOnce(&mut Making)) -> Vec<u8> {
    let memory = Memory::default();
    let preamble = Preamble {
        command: vec![b"a".to_vec(), b"b c".to_vec()],
        epoch_ns: 1_700_000_000_000_000_000,
        epoch_tsc: 100,
        tsc_hz: 1_000_000_000,
        ..Preamble::default()
    };
    let options = WriterOptions { workers: 0, remembered: 64, ..WriterOptions::default() };
    let writer = Writer::new(Box::new(memory.clone()), &preamble, options).unwrap();
    let mut making = Making { writer, tsc: 100 };
    fill(&mut making);
    let Making { writer, tsc } = making;
    let calls = writer.calls_written();
    let totals = Totals {
        calls_made: calls,
        calls_read: calls,
        calls_written: calls,
        stored_bytes: writer.stored_bytes(),
        gaps: 1,
        tsc_hz: 1_000_000_000,
        end_tsc: tsc + 100,
        ..Totals::default()
    };
    writer.finish(&totals).unwrap();
    memory.bytes()
}

fn fill(to: &mut Making) {
    let state = ProcessState {
        process: 1,
        pid: 50,
        cwd: b"/home".to_vec(),
        umask: 0o22,
        groups: vec![1, 2],
        limits: vec![(1, u64::MAX)],
        fds: vec![OpenFd { fd: 1, target: b"pipe:[1]".to_vec(), offset: 3, flags: 1 }],
        ..ProcessState::default()
    };
    to.event(RECORDER, EventKind::State(Box::new(state)));
    let (how, fork) = (StartHow::Launch, StartHow::Fork);
    to.event(1, EventKind::Start { how, process: 1, parent: 0, pid: 50, tid: 50 });
    let argv = vec![data(254, 5, 0, 0, b"a\0b c\0"), data(254, 6, 0, 0, b"PWD=/home\0")];
    to.event(1, EventKind::Image { tid: 50, data: argv });
    let page: Vec<u8> =
        (0..100_000u32).map(|n| (n.wrapping_mul(0x9e37_79b9) >> 24) as u8).collect();
    to.call(
        1,
        257,
        &[0xffff_ffff_ffff_ff9c, 5, 0o102, 0o644],
        Some(3),
        vec![data(1, 0, 0, 0, b"f\xff")],
    );
    to.call(1, 1, &[3, 9, 100_000], Some(100_000), vec![data(1, 0, 0, 0, &page)]);
    to.call(1, 17, &[3, 9, 50, 0], Some(50), vec![data(1, 0, 0, OUT, &page[..50])]);
    to.call(1, 0, &[3, 9, 50], Some(-11), Vec::new());
    let cut = Data { true_len: 50, ..data(1, 0, 0, OUT | CUT, b"") };
    to.call(1, 0, &[3, 9, 50], Some(50), vec![cut]);
    let mut vector = Vec::new();
    for len in [70u64, 0, 30] {
        vector.extend_from_slice(&0x5000u64.to_le_bytes());
        vector.extend_from_slice(&len.to_le_bytes());
    }
    let pieces = vec![
        data(1, 0, 0, 0, &vector),
        data(1, 1, 0, 0, &page[..70]),
        data(1, 1, 2, 0, &page[70..100]),
    ];
    to.call(1, 20, &[3, 0x5000, 3], Some(100), pieces);
    to.call(1, 5, &[3, 9], Some(0), vec![data(1, 0, 0, OUT, &page[..144])]);
    to.call(1, 57, &[], Some(51), Vec::new());
    to.event(2, EventKind::Start { how: fork, process: 2, parent: 1, pid: 51, tid: 51 });
    let strings = vec![
        data(0, 0, 0, 0, b"/bin/x"),
        data(1, 0, 0, 0, b"x"),
        data(1, 0, 1, 0, b"-y"),
        data(2, 0, 0, 0, b"PWD=/tmp"),
    ];
    to.call(2, 59, &[1, 2, 3], None, strings);
    to.event(2, EventKind::Image { tid: 51, data: vec![data(254, 5, 0, 0, b"x\0-y\0")] });
    to.call(2, 302, &[1, 2, 3, 4], Some(0), vec![data(2, 0, 0, 0, &[1; 16])]);
    to.call(2, 1000, &[1, 2, 3, 4, 5, 6], Some(-38), Vec::new());
    to.event(2, EventKind::Signal { signal: 17, handler: 0x77, info: [3; 48] });
    to.event(2, EventKind::Stall { ns: 12 });
    to.call(2, 231, &[3], None, Vec::new());
    to.event(2, EventKind::End { calls: 4 });
    to.event(RECORDER, EventKind::Exit { process: 2, status: Some(0x300) });
    to.call(1, 231, &[0], None, Vec::new());
    to.event(1, EventKind::End { calls: 9 });
    let text = "too much".to_string();
    to.event(RECORDER, EventKind::Gap { why: GapWhy::SizeLimit, detail: 9, text });
}

/// Opens the bytes of a trace.
pub fn open(bytes: Vec<u8>) -> Trace {
    Trace::from_stream(Cursor::new(bytes)).unwrap()
}

/// Returns all events, with data stored inline.
pub fn events(trace: &Trace) -> Vec<Event> {
    let inline = |data: &mut Vec<Data>| {
        for data in data {
            data.content = Content::Inline(trace.content(&data.content).unwrap());
        }
    };
    let whole = |mut event: Event| {
        match &mut event.kind {
            EventKind::Call(call) => inline(&mut call.data),
            EventKind::Image { data, .. } => inline(data),
            _ => {}
        }
        event
    };
    trace.events().map(|event| whole(event.unwrap().event)).collect()
}

/// Exports a trace as DataSeries.
pub fn export(trace: &Trace, codec: Codec) -> Vec<u8> {
    let memory = Memory::default();
    let mut exporter = Exporter::new(Box::new(memory.clone()), trace, codec, true).unwrap();
    for event in trace.events() {
        exporter.event(event.unwrap().event, &mut Stored(trace)).unwrap();
    }
    exporter.finish(&mut Stored(trace)).unwrap();
    memory.bytes()
}

/// Imports DataSeries as a trace.
pub fn import(bytes: &[u8]) -> Result<(dataseries::Imported, Vec<u8>), dataseries::Error> {
    let memory = Memory::default();
    let sink = memory.clone();
    let options = WriterOptions { workers: 0, remembered: 64, ..WriterOptions::default() };
    let imported = dataseries::import(&bytes, || Ok(Box::new(sink)), options)?;
    Ok((imported, memory.bytes()))
}
