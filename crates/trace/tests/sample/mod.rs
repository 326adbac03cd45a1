//! Traces in memory, for the tests.
#![allow(dead_code, reason = "every test file uses its own part")]

pub mod lines;
pub mod manifest;
pub mod sources;

use std::io::Write;
use std::sync::{Arc, Mutex};

use trace::event::{
    CPU_STREAM, Call, Content, Data, Event, EventKind, Extras, GapWhy, Identity, KernelEvent,
    KernelLayout, OpenFd, Outcome, Preamble, ProcessState, RECORDER, StartHow, Totals,
    UnknownEvent,
};
use trace::kernel::{KernelField, KernelKind, KernelValue, KernelWords, put_value};
use trace::parts::{Part, part_id};
use trace::{Compress, Trace, Writer, WriterOptions};

/// A file in memory.
#[derive(Clone, Default)]
pub struct Memory(pub Arc<Mutex<Vec<u8>>>);

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

pub fn options(compress: Compress, workers: usize) -> WriterOptions {
    WriterOptions { compress, workers, ..WriterOptions::default() }
}

pub fn preamble() -> Preamble {
    Preamble {
        command: vec![b"cat".to_vec(), b"\xff\xfe.txt".to_vec()],
        recorder_version: "0.1.0".into(),
        host: "example".into(),
        kernel: "6.18.0".into(),
        cpu: "a processor".into(),
        cpus: 2,
        memory_bytes: 8 << 30,
        page_bytes: 4096,
        mounts: vec![b"22 1 8:1 / / rw - ext4 /dev/sda1 rw".to_vec()],
        trace_dev: 2049,
        epoch_ns: 1_700_000_000_000_000_000,
        epoch_tsc: 1000,
        tsc_hz: 2_000_000_000,
        options: "--data full".into(),
    }
}

/// Returns totals that match what a writer was given.
pub fn totals(writer: &Writer, gaps: u64) -> Totals {
    let calls = writer.calls_written();
    Totals {
        calls_made: calls,
        calls_read: calls,
        calls_written: calls,
        stored_bytes: writer.stored_bytes(),
        gaps,
        tsc_hz: 2_000_000_000,
        end_tsc: 1_000_000,
        ..Totals::default()
    }
}

/// Writes a trace that `fill` provides.
pub fn write(options: WriterOptions, fill: impl FnOnce(&mut Writer)) -> Vec<u8> {
    write_with_gaps(options, 0, fill)
}

/// Writes a trace to which `fill` adds that many gaps.
pub fn write_with_gaps(
    options: WriterOptions,
    gaps: u64,
    fill: impl FnOnce(&mut Writer),
) -> Vec<u8> {
    let memory = Memory::default();
    let mut writer = Writer::new(Box::new(memory.clone()), &preamble(), options).unwrap();
    fill(&mut writer);
    let totals = totals(&writer, gaps);
    let finished = writer.finish(&totals).unwrap();
    let bytes = memory.bytes();
    assert_eq!(finished.trace_bytes, bytes.len() as u64);
    bytes
}

pub fn open(bytes: &[u8]) -> Trace {
    Trace::from_stream(std::io::Cursor::new(bytes.to_vec())).unwrap()
}

/// Changes up to three bytes in the payload of the first block of a kind, and fixes its checksums.
pub fn scribble(sound: &[u8], kind: u8, random: &mut Random) -> Vec<u8> {
    let mut bytes = sound.to_vec();
    let at = bytes.windows(5).position(|five| five == [0xb1, b'R', b'N', b'B', kind]).unwrap();
    let stored = u32::from_le_bytes(bytes[at + 12..at + 16].try_into().unwrap()) as usize;
    let payload = at + trace::format::HEAD_BYTES..at + trace::format::HEAD_BYTES + stored;
    for _ in 0..1 + random.below(3) {
        let place = payload.start + random.below(stored);
        bytes[place] = random.next() as u8;
    }
    let crc = crc32fast::hash(&bytes[payload]).to_le_bytes();
    bytes[at + 24..at + 28].copy_from_slice(&crc);
    let crc = crc32fast::hash(&bytes[at..at + 76]).to_le_bytes();
    bytes[at + 76..at + 80].copy_from_slice(&crc);
    bytes
}

pub fn events(trace: &Trace) -> Vec<Event> {
    trace.events().map(|event| event.unwrap().event).collect()
}

pub fn call(nr: u16, args: [u64; 6], tsc: u64, ret: i64) -> Call {
    Call {
        nr,
        flags: 0,
        site: 0x7f00_0000_1000 + u64::from(nr),
        nargs: 6,
        args,
        outcome: Outcome::Returned { exit_tsc: tsc + 200, ret },
        data: Vec::new(),
        identities: Vec::new(),
    }
}

pub fn event(thread: u32, tsc: u64, kind: EventKind) -> Event {
    Event::new(thread, tsc, kind)
}

pub fn data(arg: u8, flags: u8, content: Content) -> Data {
    Data { arg, part: 0, index: 0, flags, true_len: content.len(), hash: None, content }
}

/// Returns pseudo-random bytes, deterministic for a seed.
pub fn noise(seed: u64, len: usize) -> Vec<u8> {
    let mut random = Random(seed);
    (0..len).map(|_| random.next() as u8).collect()
}

/// A pseudo-random number generator.
pub struct Random(pub u64);

impl Random {
    pub fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ self.0 >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ mixed >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ mixed >> 31
    }

    pub fn below(&mut self, limit: usize) -> usize {
        (self.next() % limit.max(1) as u64) as usize
    }
}

/// Fills a trace with everything that an event can hold: two processes, three threads, small and
/// large buffers, a call without an end.
pub fn everything(writer: &mut Writer) {
    fill(writer, 3000, 40);
}

/// Events of the kernel on two CPUs, and their layout.
pub fn kernel_events(tsc: u64) -> Vec<Event> {
    let field = |name: &str, kind, size| KernelField {
        name: name.into(),
        c_type: "char[16]".into(),
        kind,
        size,
    };
    let mut layout = KernelLayout {
        number: 0,
        system: "sched".into(),
        name: "sched_switch".into(),
        fields: vec![
            field("prev_comm", KernelKind::Text, 16),
            field("prev_state", KernelKind::Signed, 8),
            field("next_pid", KernelKind::Unsigned, 4),
            field("mask", KernelKind::Bytes, 8),
        ],
        words: vec![KernelWords { field: 1, are_flags: true, all: vec![(1, "S".into())] }],
    };
    layout.number_by_content(&[]);
    let number = layout.number;
    let mut all = vec![event(RECORDER, tsc, EventKind::KernelLayout(Box::new(layout)))];
    for i in 0..20u64 {
        let mut values = Vec::new();
        put_value(&mut values, KernelValue::Text(b"cat"));
        put_value(&mut values, KernelValue::Signed(-(i as i64)));
        put_value(&mut values, KernelValue::Unsigned(i));
        put_value(&mut values, KernelValue::Bytes(&[i as u8; 8]));
        let kernel = KernelEvent { layout: number, task: 100 + i as u32, flags: 1, values };
        all.push(event(CPU_STREAM | (i % 2) as u32, tsc + i, EventKind::Kernel(kernel)));
    }
    all
}

/// Fills a trace with that many small calls and large buffers.
pub fn fill(writer: &mut Writer, calls: u64, buffers: u64) {
    let mut random = Random(5);
    let mut put = |event: Event| writer.event(&event).unwrap();
    let start = |thread, how, process, parent| {
        let (pid, tid) = (100 + process, 100 + thread);
        event(thread, 1000 * u64::from(thread), EventKind::Start { how, process, parent, pid, tid })
    };
    put(start(1, StartHow::Launch, 1, 0));
    let image = |part, text: &[u8]| Data {
        part,
        ..data(syscalls::record::IMAGE_ARG, 0, Content::Inline(text.to_vec()))
    };
    let words = vec![image(5, b"cat\0x.txt\0"), image(6, b"HOME=/\0"), image(7, &[6; 64])];
    put(event(1, 1010, EventKind::Image { tid: 101, data: words }));
    let state = ProcessState {
        process: 1,
        pid: 101,
        ppid: 100,
        exe: b"/usr/bin/cat".to_vec(),
        cwd: b"/home/\xff".to_vec(),
        root: b"/".to_vec(),
        uids: [1000; 4],
        gids: [100, 100, 100, 101],
        groups: vec![100, 4],
        umask: 0o22,
        sig_blocked: 1 << 63,
        sig_ignored: 0,
        limits: vec![(1024, u64::MAX)],
        fds: vec![OpenFd { fd: 0, target: b"/dev/null".to_vec(), offset: 3, flags: 0o2000000 }],
        fds_left_out: 0,
    };
    let cut = ProcessState { fds_left_out: 70_000, ..state.clone() };
    put(event(RECORDER, 1020, EventKind::State(Box::new(state))));
    put(event(RECORDER, 1030, EventKind::State(Box::new(cut))));
    put(start(2, StartHow::Vfork, 2, 1));
    put(start(3, StartHow::Thread, 1, 1));
    let mut tsc = 4000;
    for i in 0..calls {
        let thread = 1 + random.below(3) as u32;
        tsc += 50 + random.next() % 100;
        let nr = [39, 0, 1, 18][random.below(4)];
        let mut call = call(nr, [3, 0x7ffc_0000_0000, 4096, i * 4096, 0, 0], tsc, 4096);
        match random.below(40) {
            0 => call.data.push(data(1, 1, Content::Inline(noise(i, 1 + random.below(64))))),
            1 => {
                let hash = Some(u128::from(random.next()) << 64 | u128::from(i));
                let item = data(2, 8, Content::Inline(vec![]));
                call.data.push(Data { hash, true_len: 9000, index: 3, part: 1, ..item });
            }
            2 => {
                let identity =
                    Identity { ino: i, mode: 0o100644, mtime_ns: -5, ..Identity::default() };
                call.identities.push((syscalls::record::RESULT, identity));
            }
            3 => call.outcome = Outcome::Returned { exit_tsc: tsc + 9, ret: -2 },
            _ => {}
        }
        put(event(thread, tsc, EventKind::Call(call)));
    }
    put(event(3, tsc, EventKind::Stall { ns: 5000 }));
    put(unknown(3, tsc));
    let signal = EventKind::Signal { signal: 10, handler: 0x5555_0000_1234, info: [9; 48] };
    put(event(1, tsc + 1, signal.clone()));
    put(with_later_fields(event(1, tsc + 1, signal)));
    let mut unfinished = call(231, [0; 6], tsc, 0);
    unfinished.outcome = Outcome::Unfinished;
    put(event(2, tsc + 2, EventKind::Call(unfinished)));
    put(event(RECORDER, tsc + 3, EventKind::Exit { process: 2, status: Some(9) }));
    put(event(RECORDER, tsc + 4, EventKind::Exit { process: 1, status: None }));
    kernel_events(tsc + 5).into_iter().for_each(&mut put);
    for i in 0..buffers {
        let bytes = noise(i % 30, 100 + 3000 * i as usize);
        let content = trace::ContentRef::Bytes(&bytes);
        let (true_len, hash) = (bytes.len() as u64, None);
        let item = trace::DataRef { arg: 1, part: 0, index: 0, flags: 1, true_len, hash, content };
        let parts = [Part::number(part_id::USER_CPU, 700 * i), Part::number(part_id::STACK, 1)];
        let call = trace::CallRef {
            nr: 0,
            flags: 1,
            site: 0x40_1000,
            nargs: 3,
            args: [3, 0x7ffc_0000_0000, bytes.len() as u64, 0, 0, 0],
            outcome: Outcome::Returned { exit_tsc: tsc + 50 + i, ret: bytes.len() as i64 },
            data: &[item],
            identities: &[],
            parts: &parts[..i as usize % 3],
        };
        writer.call(1, tsc + 10 + i, &call).unwrap();
    }
}

/// An event of a kind that comes later than this version, with a part that comes later too.
pub fn unknown(thread: u32, tsc: u64) -> Event {
    let kind = EventKind::Unknown(UnknownEvent { number: 60, body: vec![7, 200, 1, 3] });
    let parts = vec![Part::number(part_id::CPU, 3), Part::number(1000, 5)];
    let extras = Some(Box::new(Extras { parts, later_fields: Vec::new() }));
    Event { extras, ..event(thread, tsc, kind) }
}

/// The same event with fields that come later than this version.
pub fn with_later_fields(event: Event) -> Event {
    let extras = Extras { parts: Vec::new(), later_fields: vec![9, 9, 9] };
    Event { extras: Some(Box::new(extras)), ..event }
}

/// Ends the recording of `everything` with a gap.
pub fn gap(writer: &mut Writer) {
    let text = "the limit of 1 MiB".into();
    let gap = EventKind::Gap { why: GapWhy::SizeLimit, detail: 1 << 20, text };
    writer.event(&event(RECORDER, 900_000, gap)).unwrap();
}
