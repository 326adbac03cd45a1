//! Guarantees of the file in case of truncation, damage, a full disk, and a reader that follows.

mod sample;

use std::io::Write;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use sample::{
    Memory, call, event, events, everything, open, options, preamble, totals, write,
    write_with_gaps,
};
use trace::event::{Content, Event, EventKind, OpenFd, ProcessState, RECORDER, Totals};
use trace::format::{FILE_HEADER_BYTES, HEAD_BYTES, Head, codec, kind};
use trace::{Compress, ReadError, Trace, WriteError, Writer, WriterOptions};

fn sample() -> Vec<u8> {
    write(options(Compress::Zstd(1), 0), |writer| {
        everything(writer);
        writer.flush().unwrap();
        everything_again(writer);
    })
}

/// Adds more calls of thread 1, for several blocks.
fn everything_again(writer: &mut Writer) {
    for round in 0..5 {
        for i in 0..100 {
            let tsc = 500_000 + 1000 * round + i;
            let call = EventKind::Call(call(39, [0; 6], tsc, 7));
            writer.event(&event(1, tsc, call)).unwrap();
        }
        writer.blob(&sample::noise(1000 + round, 5000)).unwrap();
        writer.flush().unwrap();
    }
}

/// Groups events by thread: truncation may only remove the end of each group.
fn by_thread(events: &[Event]) -> Vec<Vec<&Event>> {
    (0..4).map(|thread| events.iter().filter(|event| event.thread == thread).collect()).collect()
}

#[test]
fn a_trace_cut_off_anywhere_is_read_up_to_there() {
    let whole = sample();
    let all = events(&open(&whole));
    let blocks = open(&whole).blocks().to_vec();
    let mut random = sample::Random(1);
    let cuts =
        blocks.iter().map(|head| head.offset as usize).chain([whole.len() - 1, whole.len() - 16]);
    let mut cuts: Vec<usize> = cuts.collect();
    cuts.extend((0..100).map(|_| random.below(whole.len())));
    let after_preamble = blocks[0].offset as usize;
    for cut in cuts {
        if cut < after_preamble {
            let opened = Trace::from_stream(std::io::Cursor::new(whole[..cut].to_vec()));
            assert!(opened.is_err());
            continue;
        }
        let trace = open(&whole[..cut]);
        let there = blocks.iter().take_while(|head| head.end() <= cut as u64).count();
        assert_eq!(trace.blocks(), &blocks[..there], "every whole block is there, cut at {cut}");
        let report = trace.verify();
        assert!(!report.complete);
        assert_eq!(trace.damage().len(), 1, "{:?}", trace.damage());
        let references = report.problems.iter().find(|problem| problem.what.contains("refers"));
        assert_eq!(references, None, "buffers stand before the events that refer to them");
        let read = events(&trace);
        for (part, whole) in by_thread(&read).iter().zip(by_thread(&all)) {
            assert_eq!(part[..], whole[..part.len()]);
        }
    }
}

#[test]
fn the_index_finds_what_the_heads_tell() {
    let whole = sample();
    let unended = open(&whole[..whole.len() - 1]);
    assert_eq!(open(&whole).blocks(), unended.blocks());
    assert_eq!(unended.damage()[0].what, "bytes follow the end of the trace");
    assert!(open(&whole).totals().is_some() && unended.totals().is_some());
}

#[test]
fn many_blocks_have_many_indexes() {
    let bytes = write(options(Compress::None, 1), |writer| {
        for i in 0..10_000 {
            writer.event(&event(1, i, EventKind::Stall { ns: i })).unwrap();
            writer.flush().unwrap();
        }
    });
    let trace = open(&bytes);
    assert!(trace.verify().complete, "{:?}", trace.verify());
    assert_eq!(trace.blocks().len(), 10_000);
    assert_eq!(events(&trace).len(), 10_000);
}

#[test]
fn a_damaged_payload_costs_that_block_only() {
    let mut bytes = sample();
    let blocks = open(&bytes).blocks().to_vec();
    let all = events(&open(&bytes)).len();
    let victim = blocks.iter().find(|head| head.kind == kind::EVENTS && head.calls > 500).unwrap();
    bytes[victim.offset as usize + HEAD_BYTES + 10] ^= 1;
    let trace = open(&bytes);
    let (mut found, mut errors) = (0, Vec::new());
    for event in trace.events() {
        match event {
            Ok(_) => found += 1,
            Err(error) => errors.push(error),
        }
    }
    assert_eq!(found, all - victim.count as usize);
    assert!(matches!(errors[..], [ReadError::Damaged { offset, .. }] if offset == victim.offset));
    let report = trace.verify();
    assert!(!report.complete);
    assert!(report.problems.iter().any(|problem| problem.offset == Some(victim.offset)));
}

#[test]
fn blocks_after_a_damaged_head_are_found() {
    let whole = sample();
    let blocks = open(&whole).blocks().to_vec();
    let victim = blocks[blocks.len() / 2];
    let mut bytes = whole;
    bytes[victim.offset as usize + 20] ^= 0x10;
    // With the index the block's offset is known, and its damaged head is noticed.
    assert_eq!(open(&bytes).blocks(), blocks);
    assert!(!open(&bytes).verify().complete);
    // Without the index it is skipped.
    bytes.pop();
    let trace = open(&bytes);
    assert_eq!(trace.blocks().len(), blocks.len() - 1);
    let damage = trace.damage()[0];
    assert_eq!((damage.offset, damage.bytes), (victim.offset, victim.total_bytes()));
    let report = trace.verify();
    assert!(report.lost >= u64::from(victim.calls) && !report.complete);
}

#[test]
fn blocks_of_unknown_kinds_are_passed_over() {
    let whole = sample();
    let blocks = open(&whole).blocks().to_vec();
    let offset = blocks.last().unwrap().end();
    let mut bytes = whole[..offset as usize].to_vec();
    let payload = b"from a later version";
    let head = Head {
        kind: 99,
        codec: codec::NONE,
        raw_len: payload.len() as u32,
        stored_len: payload.len() as u32,
        offset,
        payload_crc: crc32fast::hash(payload),
        ..Head::default()
    };
    bytes.extend_from_slice(&head.to_bytes());
    bytes.extend_from_slice(payload);
    let trace = open(&bytes);
    assert_eq!((trace.blocks(), trace.unknown_blocks()), (&blocks[..], 1));
    assert_eq!(events(&trace), events(&open(&whole)));
    let at_it = |bytes: &[u8]| {
        let problems = open(bytes).verify().problems;
        problems.iter().any(|problem| problem.offset == Some(offset))
    };
    assert!(!at_it(&bytes));
    *bytes.last_mut().unwrap() ^= 1;
    assert!(at_it(&bytes), "its checksum is checked all the same");
}

/// Makes the shortest trace with a block of every kind.
fn shortest(compress: Compress) -> Vec<u8> {
    write(options(compress, 0), |writer| {
        for i in 0..6 {
            let id = writer.blob(&[i as u8; 100]).unwrap();
            let mut call = call(0, [3, 4, 100, 0, 0, 0], 10 * i, 100);
            call.data.push(sample::data(1, 1, Content::Blobs { len: 100, ids: vec![id] }));
            writer.event(&event(1 + i as u32 % 2, 10 * i, EventKind::Call(call))).unwrap();
        }
    })
}

#[test]
fn short_buffers_that_come_again_from_far_are_stored_once() {
    const CONTENTS: u64 = 9000;
    const CALLS: u64 = 100_000;
    let content = |i: u64| sample::noise(i % CONTENTS, 64);
    let bytes = write(options(Compress::None, 0), |writer| {
        for i in 0..CALLS {
            let mut call = call(18, [3, 4, 64, 64 * i, 0, 0], 10 * i, 64);
            call.data.push(sample::data(1, 0, Content::Inline(content(i))));
            writer.event(&event(1, 10 * i, EventKind::Call(call))).unwrap();
        }
    });
    assert!((bytes.len() as u64) < CALLS * 40, "{} bytes", bytes.len());
    let trace = open(&bytes);
    assert!(trace.verify().complete);
    let mut count = 0;
    for (i, event) in (0..).zip(events(&trace)) {
        let EventKind::Call(call) = event.kind else { panic!("only calls were written") };
        assert_eq!(trace.content(&call.data[0].content).unwrap(), content(i), "call {i}");
        count += 1;
    }
    assert_eq!(count, CALLS);
}

#[test]
fn no_byte_of_a_trace_can_change_unnoticed() {
    for compress in [Compress::None, Compress::Lz4, Compress::Zstd(1)] {
        let sound = shortest(compress);
        assert!(open(&sound).verify().complete);
        for at in 0..sound.len() {
            for change in [0xff, 1 << (at % 8), 1 << ((at + 3) % 8)] {
                let mut bytes = sound.clone();
                bytes[at] ^= change;
                let Ok(trace) = Trace::from_stream(std::io::Cursor::new(bytes)) else { continue };
                let report = trace.verify();
                assert!(!report.complete, "byte {at} of {} changed by {change}", sound.len());
                assert_ne!(report.problems, []);
            }
        }
    }
}

#[test]
fn an_index_of_other_blocks_is_noticed() {
    let sound = shortest(Compress::None);
    let offset = open(&sound).blocks().last().unwrap().end() as usize;
    let mut bytes = sound;
    assert_eq!(bytes[offset + 4], kind::INDEX);
    // Changes the thread of the last listed block, and corrects all checksums.
    let index_bytes = u32::from_le_bytes(bytes[offset + 12..offset + 16].try_into().unwrap());
    let payload = offset + HEAD_BYTES..offset + HEAD_BYTES + index_bytes as usize;
    let listed = payload.end - HEAD_BYTES;
    bytes[listed + 28] ^= 1;
    for (from, to, crc_at) in [
        (listed, listed + 76, listed + 76),
        (payload.start, payload.end, offset + 24),
        (offset, offset + 76, offset + 76),
    ] {
        let crc = crc32fast::hash(&bytes[from..to]).to_le_bytes();
        bytes[crc_at..crc_at + 4].copy_from_slice(&crc);
    }
    let with_end = open(&bytes).verify();
    assert!(!with_end.complete && !with_end.problems.is_empty());
    // Without the end, the index is compared with the blocks found.
    bytes.truncate(payload.end);
    let problems = open(&bytes).verify().problems;
    let told = |problem: &trace::Problem| problem.what.contains("does not list");
    assert!(problems.iter().any(|problem| problem.offset == Some(offset as u64) && told(problem)));
}

#[test]
fn foreign_files_are_named_as_such() {
    let refused = |bytes: &[u8]| {
        Trace::from_stream(std::io::Cursor::new(bytes.to_vec())).err().unwrap().to_string()
    };
    assert!(refused(b"").contains("begins with nothing"));
    assert!(refused(b"\x7fELF\x02\x01\x01\0 and so on").contains("begins with \\x7fELF"));
    let mut later = sample();
    later[8] = 3;
    assert!(refused(&later).contains("format version 3"));
    assert!(refused(&sample()[..FILE_HEADER_BYTES]).contains("byte 16"));
}

#[test]
fn what_follows_the_end_is_told() {
    let whole = sample();
    let twice = [whole.clone(), whole.clone()].concat();
    let trace = open(&twice);
    assert_eq!(trace.damage()[0].offset, whole.len() as u64);
    assert_eq!(events(&trace), events(&open(&whole)));
    assert!(!trace.completeness().complete);
}

#[test]
fn lost_calls_are_computed() {
    let memory = Memory::default();
    let mut writer =
        Writer::new(Box::new(memory.clone()), &preamble(), WriterOptions::default()).unwrap();
    everything(&mut writer);
    let honest = totals(&writer, 0);
    let calls_made = honest.calls_made + 3;
    writer.finish(&Totals { calls_made, ..honest }).unwrap();
    let report = open(&memory.bytes()).completeness();
    assert_eq!((report.lost, report.complete), (3, false));
}

#[test]
fn a_gap_is_no_loss_but_not_complete() {
    let bytes = write_with_gaps(WriterOptions::default(), 1, |writer| {
        everything(writer);
        sample::gap(writer);
    });
    let report = open(&bytes).verify();
    assert_eq!((report.lost, report.gaps, report.complete), (0, 1, false));
    assert_eq!(report.problems, []);
}

#[test]
fn the_end_of_a_thread_is_held_against_its_calls() {
    let bytes = write(WriterOptions::default(), |writer| {
        writer.event(&event(1, 5, EventKind::Call(call(39, [0; 6], 5, 7)))).unwrap();
        writer.event(&event(1, 6, EventKind::End { calls: 2 })).unwrap();
    });
    let report = open(&bytes).verify();
    assert_eq!((report.lost, report.complete), (1, false));
}

#[test]
fn times_count_from_the_start() {
    let trace = open(&sample());
    assert_eq!(trace.ticks_to_ns(1000), 0);
    assert_eq!(trace.ticks_to_ns(1000 + 2_000_000_000), 1_000_000_000);
    assert_eq!(trace.ticks_to_ns(0), -500);
}

/// A disk with limited room.
struct Disk {
    memory: Memory,
    room: Arc<AtomicUsize>,
}

impl Write for Disk {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        let room = self.room.load(Ordering::Relaxed).min(bytes.len());
        if room == 0 {
            return Err(std::io::Error::from_raw_os_error(28));
        }
        self.room.fetch_sub(room, Ordering::Relaxed);
        self.memory.write(&bytes[..room])
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

#[test]
fn a_full_disk_leaves_a_valid_beginning() {
    let mut random = sample::Random(3);
    for workers in [0, 1, 2] {
        for _ in 0..20 {
            let room = 400 + random.below(200_000);
            let memory = Memory::default();
            let disk = Disk { memory: memory.clone(), room: Arc::new(AtomicUsize::new(room)) };
            let options = options(Compress::Zstd(1), workers);
            let mut writer = Writer::new(Box::new(disk), &preamble(), options).unwrap();
            // Writing fails at some point, and keeps failing.
            let mut failed = false;
            for i in 0..20_000 {
                let thread = 1 + (i % 3) as u32;
                let call = EventKind::Call(call(39, [i ^ random.next(), 0, 0, 0, 0, 0], i, 7));
                let added = writer.event(&event(thread, i, call));
                assert!(!failed || added.is_err());
                failed |= added.is_err();
                if i % 500 == 0 {
                    failed |= writer.flush().is_err();
                }
            }
            let totals = totals(&writer, 0);
            let error = writer.finish(&totals).unwrap_err();
            let WriteError::Io { offset, source } = error else { panic!("{error}") };
            assert_eq!(source.raw_os_error(), Some(28));
            let trace = open(&memory.bytes());
            assert_eq!(trace.blocks().last().map_or(offset, Head::end), offset);
            let read = events(&trace).len();
            assert!(trace.blocks().iter().map(|head| head.count as usize).sum::<usize>() == read);
            assert!(trace.completeness().problems.len() == 1, "nothing but the end is missing");
        }
    }
}

#[test]
fn a_trace_goes_on_where_the_disk_was_full() {
    let mut random = sample::Random(4);
    for workers in [0, 1, 2] {
        for _ in 0..20 {
            let room = Arc::new(AtomicUsize::new(400 + random.below(200_000)));
            let memory = Memory::default();
            let disk = Disk { memory: memory.clone(), room: Arc::clone(&room) };
            let options = options(Compress::Zstd(1), workers);
            let mut writer = Writer::new(Box::new(disk), &preamble(), options).unwrap();
            let mut made = 0;
            let error = loop {
                let args = [random.next(), 0, 0, 0, 0, 0];
                let call = EventKind::Call(call(39, args, made, 7));
                let added = writer.event(&event(1 + (made % 3) as u32, made, call));
                made += 1;
                let flushed = if made % 500 == 0 { writer.flush() } else { Ok(()) };
                if let Err(error) = added.and(flushed) {
                    break error;
                }
            };
            let WriteError::Io { offset, .. } = error else { panic!("{error}") };
            // The user of the writer truncates the torn block.
            memory.0.lock().unwrap().truncate(offset as usize);
            room.store(usize::MAX, Ordering::Relaxed);
            assert!(writer.recover());
            let left = writer.calls_written();
            assert!(left < made);
            sample::gap(&mut writer);
            let totals = totals(&writer, 1);
            let finished = writer.finish(&totals).unwrap();
            let trace = open(&memory.bytes());
            assert_eq!(finished.trace_bytes, memory.bytes().len() as u64);
            let report = trace.verify();
            assert!(report.problems.is_empty() && !report.complete, "{report:?}");
            let (calls, last) = events(&trace).into_iter().fold((0, None), |(calls, _), event| {
                (calls + u64::from(matches!(event.kind, EventKind::Call(_))), Some(event))
            });
            assert_eq!((calls, trace.totals().unwrap().calls_written), (left, left));
            let last = last.unwrap();
            assert!(last.thread == RECORDER && matches!(last.kind, EventKind::Gap { .. }));
        }
    }
}

/// Accepts some bytes, then panics.
struct Panics(usize);

impl Write for Panics {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0 = self.0.checked_sub(bytes.len()).expect("a defect for the test");
        Ok(bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

#[test]
fn a_panic_in_a_worker_is_an_error_and_no_wait_for_ever() {
    for workers in [1, 3] {
        let options = options(Compress::None, workers);
        let mut writer = Writer::new(Box::new(Panics(5000)), &preamble(), options).unwrap();
        // More than may wait for a worker.
        for i in 0..4 {
            let bytes = sample::noise(i, 60_000);
            (0..200).for_each(|j| drop(writer.blob(&bytes[j..])));
            let _ = writer.flush();
        }
        let totals = totals(&writer, 0);
        let error = writer.finish(&totals).unwrap_err();
        assert!(error.to_string().contains("panicked"), "{error}");
    }
}

#[test]
fn a_reader_follows() {
    let path = std::env::temp_dir().join(format!("trace-follow.{}.rnt", std::process::id()));
    let file = std::fs::File::create(&path).unwrap();
    let options = options(Compress::Zstd(1), 0);
    let mut writer = Writer::new(Box::new(file), &preamble(), options).unwrap();
    let mut trace = Trace::open(&path).unwrap();
    let mut cursor = trace.cursor();
    let mut seen = Vec::new();
    for round in 0..10_u64 {
        for i in 0..50 {
            let tsc = round * 1000 + i;
            let stall = EventKind::Stall { ns: tsc };
            writer.event(&event(1 + (i % 2) as u32, tsc, stall)).unwrap();
        }
        assert!(cursor.next(&trace).is_none());
        writer.flush().unwrap();
        assert!(trace.refresh().unwrap());
        while let Some(next) = cursor.next(&trace) {
            seen.push(next.unwrap().event.tsc);
        }
        assert_eq!(seen.len(), 50 * (round as usize + 1), "what is flushed is seen");
        assert!(!trace.refresh().unwrap());
    }
    assert!(seen.is_sorted());
    assert_eq!(trace.damage().len(), 1, "not ended yet");
    let totals = totals(&writer, 0);
    writer.finish(&totals).unwrap();
    trace.refresh().unwrap();
    assert!(trace.damage().is_empty() && trace.verify().complete);
    std::fs::remove_file(path).unwrap();
}

#[test]
fn equal_buffers_are_stored_once_as_long_as_they_are_remembered() {
    let page = |i: u64| sample::noise(i, 4096);
    let options = WriterOptions { remembered: 0, ..options(Compress::None, 1) };
    let bytes = write(options, |writer| {
        let first = writer.blob(&page(0)).unwrap();
        assert_eq!(writer.blob(&page(0)).unwrap(), first);
        assert_ne!(writer.blob(&page(0)[..4095]).unwrap(), first);
        // Still known after some more: the minimum is hundreds of buffers, not thousands.
        (1..100).for_each(|i| assert!(writer.blob(&page(i)).is_ok()));
        assert_eq!(writer.blob(&page(0)).unwrap(), first);
        (100..8000).for_each(|i| assert!(writer.blob(&page(i)).is_ok()));
        let again = writer.blob(&page(0)).unwrap();
        assert_ne!(again, first);
        assert_eq!(writer.blob(&page(0)).unwrap(), again);
        assert_eq!(writer.stored_bytes(), 8001 * 4096 + 4095);
    });
    let trace = open(&bytes);
    assert!(trace.verify().complete);
    let blob = trace.blob(trace::event::BlobId(0)).unwrap();
    assert_eq!(*blob, page(0));
    assert_eq!(blob.hash(), xxhash_rust::xxh3::xxh3_128(&page(0)));
    assert!(trace.blob(trace::event::BlobId(8002)).is_err());
}

#[test]
fn hashes_are_those_that_everybody_computes() {
    let noise = sample::noise(1, 64 << 10);
    let lengths: Vec<usize> = (0..=1100).chain([4095, 4096, 10_000, noise.len()]).collect();
    let bytes = write(options(Compress::None, 0), |writer| {
        for len in &lengths {
            writer.blob(&noise[..*len]).unwrap();
        }
    });
    let trace = open(&bytes);
    for (id, len) in lengths.iter().enumerate() {
        let (id, expected) = (trace::event::BlobId(id as u64), &noise[..*len]);
        let hash = xxhash_rust::xxh3::xxh3_128(expected);
        assert_eq!(trace.blob(id).unwrap().hash(), hash, "{len} bytes");
        let twice = Content::Blobs { len: 2 * *len as u64, ids: vec![id, id] };
        let hash = xxhash_rust::xxh3::xxh3_128(&expected.repeat(2));
        assert_eq!(trace.content_hash(&twice).unwrap(), hash, "{len} bytes in two pieces");
    }
}

#[test]
fn what_is_repeated_is_known_in_any_order() {
    let page = |i: u64| sample::noise(i, 4096 - i as usize % 3);
    write(options(Compress::None, 0), |writer| {
        let ids: Vec<_> = (0..300).map(|i| writer.blob(&page(i)).unwrap()).collect();
        let forwards = 0..300;
        let twice = (0..300).flat_map(|i| [i, i]);
        let orders = [forwards.clone().collect(), forwards.rev().collect(), twice.collect()];
        let mut random = sample::Random(9);
        let shuffled: Vec<u64> = (0..300).map(|_| random.next() % 300).collect();
        for order in orders.into_iter().chain([shuffled]) {
            for i in order {
                assert_eq!(writer.blob(&page(i)).unwrap(), ids[i as usize]);
            }
        }
    });
}

#[test]
fn what_breaks_a_limit_is_refused_and_the_rest_goes_on() {
    let stall = |tsc| event(1, tsc, EventKind::Stall { ns: tsc });
    let bytes = write(WriterOptions::default(), |writer| {
        writer.event(&stall(1)).unwrap();
        let text = "x".repeat(3 << 20);
        let huge = EventKind::Gap { why: trace::event::GapWhy::TooManyThreads, detail: 0, text };
        let refused = writer.event(&event(1, 2, huge)).unwrap_err();
        assert!(matches!(refused, WriteError::Limit { .. }), "{refused}");
        let mut wide = call(39, [1; 6], 3, 0);
        wide.nargs = 7;
        assert!(writer.event(&event(1, 3, EventKind::Call(wide))).is_err());
        assert!(writer.blob(&[0; (64 << 10) + 1]).is_err());
        writer.event(&event(1, 4, EventKind::Call(call(39, [1; 6], 4, 0)))).unwrap();
        writer.event(&stall(5)).unwrap();
    });
    let trace = open(&bytes);
    assert!(trace.verify().complete, "{:?}", trace.verify());
    let times: Vec<u64> = events(&trace).iter().map(|event| event.tsc).collect();
    assert_eq!(times, [1, 4, 5]);
}

#[test]
fn descriptors_without_room_are_left_out_and_counted() {
    let open_fd = |fd| OpenFd { fd, target: vec![b'x'; 3000], offset: 0, flags: 0 };
    let state = ProcessState {
        process: 7,
        exe: b"/bin/true".to_vec(),
        fds: (0..1000).map(open_fd).collect(),
        fds_left_out: 5,
        ..ProcessState::default()
    };
    let bytes = write(WriterOptions::default(), |writer| {
        writer.event(&event(RECORDER, 1, EventKind::State(Box::new(state)))).unwrap();
    });
    let trace = open(&bytes);
    assert!(trace.verify().complete);
    let [Event { kind: EventKind::State(state), .. }] = &events(&trace)[..] else { panic!() };
    assert_eq!((state.process, state.exe.as_slice()), (7, &b"/bin/true"[..]));
    assert!(state.fds.len() > 300);
    assert!(state.fds.iter().zip(0..).all(|(open, fd)| open.fd == fd), "the lowest are kept");
    assert_eq!(state.fds.len() as u64 + state.fds_left_out, 1005);
}

#[test]
fn thousands_of_threads_are_written_and_read_in_order() {
    let threads = 5000_u64;
    let bytes = write(options(Compress::Zstd(1), 1), |writer| {
        for round in 0..4 {
            for thread in 1..=threads {
                let tsc = round * 10_000 + thread;
                let call = EventKind::Call(call(39, [0; 6], tsc, 7));
                writer.event(&event(thread as u32, tsc, call)).unwrap();
            }
        }
        for thread in 1..=threads {
            let end = EventKind::End { calls: 4 };
            writer.event(&event(thread as u32, 90_000 + thread, end)).unwrap();
        }
    });
    let trace = open(&bytes);
    assert!(trace.verify().complete);
    let times: Vec<u64> = events(&trace).iter().map(|event| event.tsc).collect();
    assert_eq!(times.len(), 5 * threads as usize);
    assert!(times.is_sorted());
}

#[test]
fn a_buffer_too_long_for_one_piece_is_streamed() {
    let trace = open(&sample());
    let ids = vec![trace::event::BlobId(0); 3];
    let one = trace.blob(ids[0]).unwrap().len() as u64;
    let mut out = Vec::new();
    let content = Content::Blobs { len: 3 * one, ids: ids.clone() };
    trace.write_content(&content, &mut out).unwrap();
    assert_eq!(out.len() as u64, 3 * one);
    for wrong in [3 * one - 1, 3 * one + 1, 0] {
        let content = Content::Blobs { len: wrong, ids: ids.clone() };
        let refused = trace.content(&content).unwrap_err();
        assert!(matches!(refused, ReadError::ContentLen { .. }), "{refused}");
    }
    let content = Content::Blobs { len: 1 << 40, ids };
    assert!(matches!(trace.content(&content), Err(ReadError::ContentTooLong { .. })));
}
