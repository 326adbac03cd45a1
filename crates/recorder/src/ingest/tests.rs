use std::io::{self, Write};
use std::sync::{Arc, Mutex};

use trace::event::Preamble;
use trace::parts::{PartValue, part_id};
use trace::{Compress, Writer, WriterOptions};

use super::*;

/// A file in memory.
#[derive(Clone, Default)]
pub(crate) struct Memory(Arc<Mutex<Vec<u8>>>);

impl Write for Memory {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.lock().unwrap().extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

pub(crate) fn output() -> (Output, Memory) {
    let file = Memory::default();
    let options =
        WriterOptions { compress: Compress::None, workers: 0, ..WriterOptions::default() };
    let writer = Writer::new(Box::new(file.clone()), &Preamble::default(), options).unwrap();
    (Output::new(writer, None, None), file)
}

struct Random(u64);

impl Random {
    fn below(&mut self, bound: usize) -> usize {
        self.0 = self.0.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        ((self.0 >> 33) as usize) % bound
    }
}

fn push(words: &mut Vec<u64>, kind: RecordKind, a: u8, b: u16, c: u32, body: &[u64]) {
    words.push(Header::new(kind, a, b, c).to_word());
    words.extend_from_slice(body);
}

fn push_data(words: &mut Vec<u64>, arg: u8, flags: u8, stored: u64, random: &mut Random) {
    push(words, RecordKind::Data, arg, 3, u32::from(flags) << 8, &[stored + 5, stored]);
    if flags & data_flag::HASH != 0 {
        words.extend([77, 88]);
    }
    let repeats = random.below(4) as u64;
    words.extend((0..stored.div_ceil(8)).map(|word| word << repeats));
}

/// Returns a stream with a record of each kind, and data of all relevant sizes.
fn sound_stream(random: &mut Random) -> Vec<u64> {
    let mut words = Vec::new();
    let start = Start { tsc: 10, thread: 4, process: 2, parent: 1, pid: 300, tid: 301 }.to_words();
    push(&mut words, RecordKind::Start, StartHow::Fork as u8, 0, 0, &start);
    push(&mut words, RecordKind::Image, 0, 0, 301, &[11, 0]);
    push_data(&mut words, IMAGE_ARG, 0, 100_000, random);
    for round in 0..30 {
        let nargs = random.below(7);
        let mut body = vec![100 + round * 10, 0x40_0000];
        body.extend((0..nargs as u64).map(|arg| arg * round));
        push(&mut words, RecordKind::Enter, 0, 17, nargs as u32, &body);
        for _ in 0..random.below(4) {
            let stored = [0, 1, 63, 64, 65, 4096, 65_535, 65_536, 65_537, 150_001];
            let flags = [0, data_flag::OUT, data_flag::HASH][random.below(3)];
            push_data(&mut words, 1, flags, stored[random.below(stored.len())], random);
        }
        if random.below(3) == 0 {
            push(&mut words, RecordKind::Copied, 0, 0, 3, &[]);
        }
        if random.below(5) == 0 {
            push(&mut words, RecordKind::Identity, 0, 0, 0, &[1; IDENTITY_WORDS]);
        }
        if random.below(8) == 0 {
            words.extend([0; 3]);
            push(&mut words, RecordKind::Abandon, 0, 0, 0, &[]);
        } else {
            push(&mut words, RecordKind::Exit, 0, 0, 0, &[105 + round * 10, round]);
        }
        match random.below(6) {
            0 => push(&mut words, RecordKind::Signal, 12, 0, 0, &[106 + round * 10; 8]),
            1 => push(&mut words, RecordKind::Stall, 0, 0, 0, &[107 + round * 10, 9]),
            2 => push(&mut words, RecordKind::Gap, GapWhy::NotFollowed as u8, 0, 0, &[108, 1]),
            _ => {}
        }
    }
    push(&mut words, RecordKind::End, 0, 0, 0, &[500, 30]);
    words
}

fn bytes_of(words: &[u64]) -> Vec<u8> {
    words.iter().flat_map(|word| word.to_le_bytes()).collect()
}

/// Returns the trace of a stream that is fed in pieces of at most so many words.
fn trace_of(words: &[u64], piece_max: usize, random: &mut Random) -> (Vec<u8>, u64) {
    let (mut out, file) = output();
    let mut stream = Stream::default();
    let mut rest = words;
    while !rest.is_empty() {
        let (piece, after) = rest.split_at(rest.len().min(1 + random.below(piece_max)));
        stream.feed(&bytes_of(piece), &mut out).unwrap();
        rest = after;
    }
    stream.close(&mut out);
    out.finish(&trace::event::Totals::default()).unwrap();
    let bytes = file.0.lock().unwrap().clone();
    (bytes, stream.calls())
}

#[test]
fn pieces_make_no_difference() {
    for seed in 1..6 {
        let words = sound_stream(&mut Random(seed));
        let random = &mut Random(seed);
        let whole = trace_of(&words, usize::MAX >> 1, random);
        assert!(whole.0.len() > 1000 && whole.1 > 0);
        for piece_max in [1, 2, 5, 50, 9000] {
            assert!(trace_of(&words, piece_max, random) == whole, "seed {seed}, {piece_max}");
        }
    }
}

#[test]
fn reading_up_to_a_time_makes_no_difference() {
    for seed in 1..6 {
        let words = sound_stream(&mut Random(seed));
        let random = &mut Random(seed);
        let whole = trace_of(&words, usize::MAX >> 1, random);
        for piece_max in [1, 2, 5, 50, 9000] {
            let (mut out, file) = output();
            let mut stream = Stream::default();
            let bytes = bytes_of(&words);
            let (mut at, mut until) = (0, 0);
            let mut waits = 0;
            while at < bytes.len() {
                stream.read_until(until);
                let end = bytes.len().min(at + 8 * (1 + random.below(piece_max)));
                let fed = stream.feed(&bytes[at..end], &mut out).unwrap();
                at += fed;
                assert_eq!(stream.next_tsc().is_some(), at < end);
                if let Some(next) = stream.next_tsc() {
                    assert!(next > until, "{next} was not to be waited for");
                    until = next;
                    waits += 1;
                }
            }
            stream.close(&mut out);
            assert!(waits > 60, "{waits}");
            out.finish(&trace::event::Totals::default()).unwrap();
            let bytes = file.0.lock().unwrap().clone();
            assert!((bytes, stream.calls()) == whole, "seed {seed}, {piece_max}");
        }
    }
}

#[test]
fn damaged_streams_are_refused_or_read_but_do_no_harm() {
    let mut refused = 0;
    for seed in 1..150 {
        let random = &mut Random(seed);
        let mut words = sound_stream(random);
        for _ in 0..1 + random.below(4) {
            let at = random.below(words.len());
            match random.below(4) {
                0 => words[at] ^= 1 << random.below(64),
                1 => words[at] = [0, 1, u64::MAX, 1 << 32, 4][random.below(5)],
                2 => drop(words.drain(at..(at + 1 + random.below(9)).min(words.len()))),
                _ => words[at] = (words[at] & !0xff) | random.below(13) as u64,
            }
        }
        let (mut out, _file) = output();
        let mut stream = Stream::default();
        let bytes = bytes_of(&words);
        let pieces = bytes.chunks(8 * (1 + random.below(3000)));
        refused +=
            usize::from(pieces.map(|piece| stream.feed(piece, &mut out)).any(|r| r.is_err()));
        stream.close(&mut out);
        let calls = out.calls_written;
        assert!(out.full().is_none(), "{:?}", out.full());
        let finished = out.finish(&trace::event::Totals::default()).unwrap();
        assert_eq!((finished.calls, stream.calls()), (calls, calls));
    }
    assert!(refused > 30, "{refused}");
}

#[test]
fn one_call_cannot_take_all_memory() {
    let refuse = |words: &[u64], times: usize| {
        let (mut out, _file) = output();
        let mut stream = Stream::default();
        let mut start = Vec::new();
        let body = Start { tsc: 1, thread: 1, process: 1, parent: 0, pid: 1, tid: 1 }.to_words();
        push(&mut start, RecordKind::Start, StartHow::Launch as u8, 0, 0, &body);
        push(&mut start, RecordKind::Enter, 0, 1, 0, &[1, 1]);
        stream.feed(&bytes_of(&start), &mut out).unwrap();
        let bytes = bytes_of(words);
        (0..times).find_map(|_| stream.feed(&bytes, &mut out).err()).map(|bad| bad.what)
    };
    let mut empty = Vec::new();
    push(&mut empty, RecordKind::Data, 0, 0, 0, &[0, 0]);
    assert_eq!(refuse(&empty, ITEMS_MAX), None);
    assert_eq!(refuse(&empty, ITEMS_MAX + 1), Some("a call with too many buffers"));
    let mut endless = Vec::new();
    push(&mut endless, RecordKind::Data, 0, 0, 0, &[0, STORED_BYTES_MAX + 1]);
    assert_eq!(refuse(&endless, 1), Some("a buffer longer than any"));
    let mut identity = Vec::new();
    push(&mut identity, RecordKind::Identity, 0, 0, 0, &[0; IDENTITY_WORDS]);
    assert_eq!(refuse(&identity, IDENTITIES_MAX), None);
    assert!(refuse(&identity, IDENTITIES_MAX + 1).is_some());
}

#[test]
fn one_call_cannot_name_endless_blobs() {
    let (mut out, _file) = output();
    out.discard();
    let mut stream = Stream::default();
    let mut words = Vec::new();
    let body = Start { tsc: 1, thread: 1, process: 1, parent: 0, pid: 1, tid: 1 }.to_words();
    push(&mut words, RecordKind::Start, StartHow::Launch as u8, 0, 0, &body);
    push(&mut words, RecordKind::Enter, 0, 1, 0, &[1, 1]);
    stream.feed(&bytes_of(&words), &mut out).unwrap();
    let megabyte = vec![7; 1 << 20];
    let mut fed: u64 = 0;
    let refused = 'refused: loop {
        let mut data = Vec::new();
        push(&mut data, RecordKind::Data, 0, 0, 0, &[STORED_BYTES_MAX, STORED_BYTES_MAX]);
        stream.feed(&bytes_of(&data), &mut out).unwrap();
        for _ in 0..STORED_BYTES_MAX >> 20 {
            fed += 1 << 20;
            if let Err(bad) = stream.feed(&megabyte, &mut out) {
                break 'refused bad;
            }
        }
    };
    assert_eq!(refused.what, "a call with too much data");
    assert!(fed <= (IDS_MAX * BLOB_BYTES_MAX) as u64 + (1 << 20), "{fed}");
}

#[test]
fn a_call_begins_when_what_goes_in_was_copied() {
    let (mut out, file) = output();
    let mut stream = Stream::default();
    let bytes = stream_of(4, |words| {
        push(words, RecordKind::Enter, 0, 1, 0, &[100, 1]);
        // Its files were looked at after that.
        push(words, RecordKind::Copied, 0, 0, 20, &[]);
        push(words, RecordKind::Copied, 0, 0, 30, &[]);
        push(words, RecordKind::Exit, 0, 0, 0, &[135, 0]);
    });
    assert_eq!(stream.feed(&bytes, &mut out), Ok(bytes.len()));
    let events = events_of(out, &file);
    let call = events.iter().find(|event| matches!(event.kind, EventKind::Call(_))).unwrap();
    let copying = Part::number(part_id::COPYING, 30);
    assert_eq!((call.tsc, call.parts()), (130, &[copying][..]));
}

#[test]
fn an_exec_ends_when_it_was_seen_to() {
    // When it was seen to stop, and whether that can be.
    for (stopped, is_sound) in [(150, true), (0, false), (100, false), (900, false)] {
        let (mut out, file) = output();
        let bytes = stream_of(4, |words| {
            push(words, RecordKind::Enter, enter_flag::NO_RETURN, 59, 0, &[100, 1]);
            push(words, RecordKind::Copied, 0, 0, 30, &[]);
            push(words, RecordKind::Image, 0, 0, 301, &[200, stopped]);
        });
        assert_eq!(Stream::default().feed(&bytes, &mut out), Ok(bytes.len()));
        let events = events_of(out, &file);
        let told = |id| {
            let exec = events.iter().find(|event| matches!(event.kind, EventKind::Call(_)));
            let part = exec.and_then(|exec| exec.parts().iter().find(|part| part.id == id));
            part.map(|part| part.value.clone())
        };
        let ends = events.iter().find_map(|event| match &event.kind {
            EventKind::Call(call) => Some((event.tsc, call.outcome)),
            _ => None,
        });
        let exit_tsc = if is_sound { stopped } else { 200 };
        assert_eq!(ends, Some((130, Outcome::Returned { exit_tsc, ret: 0 })));
        assert_eq!(told(part_id::RECORDING), is_sound.then_some(PartValue::Number(50)));
    }
}

#[test]
fn an_exec_that_fails_leaves_no_gap() {
    let start = Start { tsc: 10, thread: 4, process: 2, parent: 1, pid: 300, tid: 301 }.to_words();
    let mut words = Vec::new();
    push(&mut words, RecordKind::Start, StartHow::Fork as u8, 0, 0, &start);
    let mut exec = |tsc: u64, end: Option<RecordKind>| {
        push(&mut words, RecordKind::Enter, enter_flag::NO_RETURN, 59, 0, &[tsc, 0x40_0000]);
        push(&mut words, RecordKind::Gap, GapWhy::NotFollowed as u8, 0, 0, &[tsc + 1, 1]);
        match end {
            Some(RecordKind::Exit) => {
                let not_there = -2i64;
                push(&mut words, RecordKind::Exit, 0, 0, 0, &[tsc + 2, not_there as u64]);
            }
            Some(kind) => push(&mut words, kind, 0, 0, 0, &[]),
            None => {}
        }
    };
    exec(100, Some(RecordKind::Exit));
    exec(200, Some(RecordKind::Abandon));
    exec(300, None);
    let (mut out, _) = output();
    let mut stream = Stream::default();
    stream.feed(&bytes_of(&words), &mut out).unwrap();
    assert_eq!((stream.calls(), out.gaps), (2, 0));
    // Nothing followed: the last call was an exec that succeeded.
    stream.close(&mut out);
    assert_eq!((out.calls_written, out.gaps), (2, 1));
    let (_, said) = out.first_gap.unwrap();
    assert!(said.contains("not permitted"), "{said}");
}

const READ: u16 = 1152;

/// A stream of thread `number` with what `fill` adds after its START.
pub(crate) fn stream_of(number: u32, fill: impl FnOnce(&mut Vec<u64>)) -> Vec<u8> {
    let mut words = Vec::new();
    let start = Start { tsc: 10, thread: number, process: 2, parent: 1, pid: 300, tid: 300 };
    push(&mut words, RecordKind::Start, StartHow::Fork as u8, 0, 0, &start.to_words());
    fill(&mut words);
    bytes_of(&words)
}

/// A call that submits operations with these numbers, of which the kernel takes `made`.
pub(crate) fn submits(words: &mut Vec<u64>, ids: &[u64], made: u64) {
    push(words, RecordKind::Enter, 0, 209, 2, &[100, 0x40_0000, 1, 2]);
    push(words, RecordKind::Data, 1, 0, 0, &[8, 8, 1]);
    for (id, order) in ids.iter().zip(0..) {
        push(words, RecordKind::Submit, 0, READ, 3 | order << 8, &[110, *id, 5, 6, 7]);
        push(words, RecordKind::Data, 2, 0, 0, &[16, 16, *id, 9]);
        push(words, RecordKind::Submitted, 0, 0, 0, &[]);
    }
    push(words, RecordKind::Exit, 0, 0, 0, &[120, made]);
}

pub(crate) fn completes(words: &mut Vec<u64>, id: u64, tsc: u64) {
    push(words, RecordKind::Enter, enter_flag::OPERATION, READ, 3, &[tsc, id, 5, 6, 7]);
    push(words, RecordKind::Data, 1, 0, u32::from(data_flag::OUT) << 8, &[8, 8, 3]);
    push(words, RecordKind::Exit, 0, 0, 0, &[tsc + 1, 8]);
}

/// Number, site, count of buffers and parts of a call, and whether it returned.
pub(crate) type Told = (u16, u64, usize, Vec<(u64, PartValue)>, bool);

pub(crate) fn calls_of(out: Output, file: &Memory) -> Vec<Told> {
    let mut calls = Vec::new();
    for event in events_of(out, file) {
        let parts = event.parts().iter().map(|part| (part.id, part.value.clone())).collect();
        if let EventKind::Call(call) = event.kind {
            let returned = call.outcome != Outcome::Unfinished;
            calls.push((call.nr, call.site, call.data.len(), parts, returned));
        }
    }
    calls
}

fn events_of(out: Output, file: &Memory) -> Vec<trace::event::Event> {
    out.finish(&trace::event::Totals::default()).unwrap();
    let bytes = file.0.lock().unwrap().clone();
    let trace = trace::Trace::from_stream(std::io::Cursor::new(bytes)).unwrap();
    trace.events().map(|event| event.unwrap().event).collect()
}

#[test]
fn a_completion_has_what_was_submitted() {
    let (mut out, file) = output();
    let mut stream = Stream::default();
    let bytes = stream_of(4, |words| {
        submits(words, &[70, 71, 72], 2);
        completes(words, 71, 200);
        // Not submitted after all, and unknown.
        completes(words, 72, 300);
        completes(words, 99, 400);
    });
    assert_eq!(stream.feed(&bytes, &mut out), Ok(bytes.len()));
    stream.give_up_operations(500, &mut out);
    let number = |number: u64| PartValue::Number(number);
    let now = (part_id::COMPLETED, number(0));
    let submitted = |ago: i64| (part_id::SUBMITTED, number(trace::format::zigzag(-ago)));
    let expected = vec![
        (209, 0x40_0000, 1, vec![(part_id::OPERATIONS, number(2))], true),
        (READ, 0x40_0000, 2, vec![submitted(90), now.clone()], true),
        (READ, 0, 1, vec![now.clone()], true),
        (READ, 0, 1, vec![now], true),
        (READ, 0x40_0000, 1, vec![submitted(390)], false),
    ];
    assert_eq!((stream.calls(), stream.given_up()), (5, 1));
    assert_eq!(calls_of(out, &file), expected);
}

#[test]
fn a_completion_waits_for_the_stream_of_the_submission() {
    let submission = stream_of(4, |words| submits(words, &[70], 1));
    let completion = stream_of(5, |words| completes(words, 70, 200));
    for piece in [8, 16, 24, completion.len()] {
        let (mut out, file) = output();
        let (mut one, mut other) = (Stream::default(), Stream::default());
        other.patient = true;
        let (mut at, mut waited) = (0, false);
        while at < completion.len() {
            let to = completion.len().min(at + piece);
            at += other.feed(&completion[at..to], &mut out).unwrap();
            if other.next_tsc().is_some() {
                assert!(!waited, "it waits again");
                waited = true;
                one.feed(&submission, &mut out).unwrap();
            }
        }
        assert!(waited, "{piece}");
        assert!(calls_of(out, &file).iter().any(|(nr, _, data, ..)| (*nr, *data) == (READ, 2)));
    }
}

#[test]
fn operations_out_of_place_are_malformed() {
    let cases: [fn(&mut Vec<u64>); 4] = [
        |words| push(words, RecordKind::Submit, 0, READ, 0, &[1, 2]),
        |words| push(words, RecordKind::Submitted, 0, 0, 0, &[]),
        |words| {
            push(words, RecordKind::Enter, 0, 209, 0, &[100, 0]);
            push(words, RecordKind::Submit, 0, READ, 0, &[1, 2]);
            push(words, RecordKind::Submit, 0, READ, 0, &[1, 2]);
        },
        |words| {
            push(words, RecordKind::Enter, 0, 209, 0, &[100, 0]);
            push(words, RecordKind::Submit, 0, READ, 0, &[1, 2]);
            push(words, RecordKind::Exit, 0, 0, 0, &[1, 2]);
        },
    ];
    for case in cases {
        let (mut out, _) = output();
        let bytes = stream_of(4, case);
        assert!(Stream::default().feed(&bytes, &mut out).is_err());
    }
}
