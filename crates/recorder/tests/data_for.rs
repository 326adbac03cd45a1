//! Rules by path: excluded data never gets into the trace, in whatever order the rings are read.

mod fake_agent;

use std::collections::BTreeMap;

use fake_agent::recording::{TraceFile, end_program, launch, our_pid, start};
use fake_agent::{Buffer, FakeThread, Random, arena, tsc};
use recorder::{DataRule, DataRules, Options};
use ring::{Arena, DataMode};
use syscalls::record::{Header, RecordKind, StartHow, data_flag, part};
use trace::event::{Call, Content, Data, EventKind};
use xxhash_rust::xxh3::xxh3_128;

const READ: u16 = 0;
const WRITE: u16 = 1;
const OPEN: u16 = 2;
const CLOSE: u16 = 3;
const CLONE: u16 = 56;
/// Flags of clone for a thread: everything is shared.
const THREAD: u64 = 0x10f00;

fn options(rules: &[(&str, DataMode)]) -> Options {
    let rule = |(glob, mode): &(&str, DataMode)| DataRule { glob: (*glob).into(), mode: *mode };
    let rules = rules.iter().map(rule).collect();
    Options { data: DataRules { usual: DataMode::Full, rules }, ..Options::default() }
}

fn buffer(arg: u8, flags: u8, stored: &[u8]) -> Buffer<'_> {
    let true_len = stored.len() as u64;
    Buffer { arg, part: part::WHOLE, index: 0, flags, true_len, hash: 0, stored }
}

fn open(thread: &mut FakeThread, path: &str, fd: i64) {
    thread.enter(0, OPEN, 0x1000, &[1, 0, 0]);
    thread.data(&buffer(0, 0, path.as_bytes()));
    thread.exit(fd);
}

fn close(thread: &mut FakeThread, fd: u64) {
    thread.enter(0, CLOSE, 0x1000, &[fd]);
    thread.exit(0);
}

fn read(thread: &mut FakeThread, fd: u64, bytes: &[u8]) {
    thread.enter(0, READ, 0x1000, &[fd, 1, 1 << 20]);
    thread.data(&buffer(1, data_flag::OUT, bytes));
    thread.exit(bytes.len() as i64);
}

/// Returns the contents that were read and written, by thread.
fn contents(file: &TraceFile) -> BTreeMap<u32, Vec<Data>> {
    let mut found: BTreeMap<u32, Vec<Data>> = BTreeMap::new();
    for (thread, events) in file.events() {
        for event in events {
            if let EventKind::Call(Call { nr: READ | WRITE, data, .. }) = event.kind {
                found.entry(thread).or_default().extend(data);
            }
        }
    }
    found
}

fn stored(data: &Data) -> &[u8] {
    match &data.content {
        Content::Inline(bytes) => bytes,
        Content::Blobs { .. } => unreachable!("the contents were fetched"),
    }
}

#[test]
fn each_mode_keeps_what_it_says() {
    let (arena, file) = (arena(8), TraceFile::new("modes"));
    let rules = [("*.key", DataMode::None), ("*.log", DataMode::Hash)];
    let recorder = start(arena, file.sink(), options(&rules));
    let mut thread = launch(arena);
    // Longer than what an event stores inline.
    let long = format!("/{}/a", "directory/".repeat(20));
    let sizes = [1, 64, 65, 5000, 65_536, 200_001];
    let mut random = Random(7);
    let mut expected = Vec::new();
    for (fd, end) in [(3, "key"), (4, "log"), (5, "txt")] {
        open(&mut thread, &format!("{long}.{end}"), fd);
        for size in sizes {
            let bytes = random.bytes(size);
            read(&mut thread, fd as u64, &bytes);
            expected.push((end, bytes));
        }
    }
    // Already cut by the agent, which hashed the whole.
    for fd in [3, 4] {
        thread.enter(0, WRITE, 0x1000, &[fd, 1, 1000]);
        let flags = data_flag::CUT | data_flag::HASH;
        let cut = Buffer { true_len: 1000, hash: 99, ..buffer(1, flags, &[b'k'; 100]) };
        thread.data(&cut);
        thread.exit(1000);
    }
    thread.end();
    let summary = end_program(recorder);
    assert_eq!((summary.lost, summary.gaps), (0, 0));

    let found = contents(&file).remove(&1).unwrap();
    assert_eq!(found.len(), expected.len() + 2);
    for (data, (end, bytes)) in found.iter().zip(&expected) {
        assert_eq!(data.true_len, bytes.len() as u64);
        let flags = data.flags & (data_flag::CUT | data_flag::HASH);
        match *end {
            "key" => assert_eq!((flags, data.hash), (data_flag::CUT, None)),
            "log" => {
                assert_eq!(flags, data_flag::CUT | data_flag::HASH);
                assert_eq!(data.hash, Some(xxh3_128(bytes)));
            }
            _ => assert_eq!((flags, stored(data)), (0, &bytes[..])),
        }
        assert_eq!(data.content.is_empty(), *end != "txt");
    }
    let cut: Vec<_> =
        found[expected.len()..].iter().map(|data| (data.hash, stored(data))).collect();
    assert_eq!(cut, [(None, &b""[..]), (Some(99), b"")]);
}

/// Threads with shared descriptors open, read and close files under the same number, each step in
/// another thread.
fn threads_share_a_number(arena: Arena, seed: u64, others: usize, steps: usize) {
    let file = TraceFile::new(&format!("shared-{seed}-{others}"));
    let recorder = start(arena, file.sink(), options(&[("*.key", DataMode::None)]));
    let mut random = Random(seed);
    let main = launch(arena);
    let who = main.who;
    let begin = |_| FakeThread::begin(arena, StartHow::Thread, who.process, who.thread, our_pid());
    let mut threads: Vec<_> = (0..others).map(begin).collect();
    threads.push(main);
    let mut secret = 0;
    for step in 0..steps {
        let mut any = || random.below(others as u64 + 1) as usize;
        let (opener, first, second, closer) = (any(), any(), any(), any());
        let is_secret = random.below(2) == 0;
        let (path, byte) = if is_secret { ("/a.key", b'K') } else { ("/a.txt", b'P') };
        open(&mut threads[opener], path, 3);
        // Both short and long ones.
        for reader in [first, second] {
            let len = [10, 3000][random.below(2) as usize];
            read(&mut threads[reader], 3, &vec![byte; len]);
            secret += usize::from(is_secret);
        }
        close(&mut threads[closer], 3);
        if step % 100 == 99 {
            std::thread::sleep(std::time::Duration::from_millis(1));
        }
    }
    threads.into_iter().for_each(FakeThread::end);
    let summary = end_program(recorder);
    assert_eq!((summary.lost, summary.gaps), (0, 0));

    let all: Vec<Data> = contents(&file).into_values().flatten().collect();
    assert_eq!(all.len(), 2 * steps);
    assert!(!all.iter().any(|data| stored(data).contains(&b'K')), "a secret is in the trace");
    let withheld = all.iter().filter(|data| data.content.is_empty());
    assert_eq!(withheld.clone().count(), secret, "plain contents are all there");
    assert!(withheld.into_iter().all(|data| data.hash.is_none()), "no doubt arose");
}

#[test]
fn threads_that_share_descriptors_are_told_apart_by_time() {
    for seed in 1..6 {
        threads_share_a_number(arena(16), seed, 1, 500);
        threads_share_a_number(arena(16), seed, 5, 300);
    }
}

#[test]
fn rings_that_overflow_are_read_in_order_all_the_same() {
    let arena = arena(3);
    let file = TraceFile::new("order-flood");
    let recorder = start(arena, file.sink(), options(&[("*.key", DataMode::None)]));
    let mut main = launch(arena);
    let who = main.who;
    open(&mut main, "/a.key", 3);
    open(&mut main, "/a.txt", 4);
    let flood = |fd: u64, byte: u8| {
        std::thread::spawn(move || {
            let mut thread =
                FakeThread::begin(arena, StartHow::Thread, who.process, who.thread, our_pid());
            (0..2000).for_each(|_| read(&mut thread, fd, &vec![byte; 8000]));
            thread.end();
        })
    };
    let floods = [flood(3, b'K'), flood(4, b'P')];
    floods.into_iter().for_each(|thread| thread.join().unwrap());
    main.end();
    let summary = end_program(recorder);
    assert_eq!((summary.lost, summary.gaps, summary.calls), (0, 0, 4002));
    let all: Vec<Data> = contents(&file).into_values().flatten().collect();
    let kept = all.iter().filter(|data| !data.content.is_empty());
    assert!(kept.clone().all(|data| stored(data) == [b'P'; 8000]));
    assert_eq!((all.len(), kept.count()), (4000, 2000));
}

/// The exec is only read when much of what follows it is available, which must not be in doubt.
#[test]
fn threads_that_began_after_an_exec_are_read_in_order() {
    const STEPS: usize = 2000;
    let arena = arena(128);
    let file = TraceFile::new("order-exec");
    let mut main = launch(arena);
    main.record(Header::new(RecordKind::Image, 0, 0, our_pid()), &[tsc(), 0]);
    let who = main.who;
    main.enter(0, CLONE, 0x1000, &[THREAD]);
    let mut other = FakeThread::begin(arena, StartHow::Thread, who.process, who.thread, our_pid());
    main.exit(other.who.thread.into());
    for step in 0..STEPS {
        let (path, byte) = if step % 2 == 0 { ("/a.key", b'K') } else { ("/a.txt", b'P') };
        open(&mut main, path, 3);
        read(&mut other, 3, &[byte; 3000]);
        close(&mut main, 3);
    }
    let recorder = start(arena, file.sink(), options(&[("*.key", DataMode::None)]));
    other.end();
    main.end();
    assert_eq!(end_program(recorder).lost, 0);
    let all: Vec<Data> = contents(&file).into_values().flatten().collect();
    let kept: Vec<&[u8]> = all.iter().map(stored).filter(|bytes| !bytes.is_empty()).collect();
    assert_eq!((all.len(), kept.len()), (STEPS, STEPS / 2));
    assert!(kept.into_iter().all(|bytes| bytes == [b'P'; 3000]));
}
