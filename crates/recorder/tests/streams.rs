//! The trace has what threads wrote: random streams, and streams that end badly.

mod fake_agent;

use std::fs::File;
use std::io::{self, Write};
use std::sync::atomic::Ordering;
use std::time::Duration;

use fake_agent::recording::{TraceFile, end_program, launch, our_pid, start};
use fake_agent::{Buffer, FakeThread, Random, Who, arena, eventually, reserve, tsc};
use recorder::{Options, Sink};
use ring::{Arena, SLOTS, slot_state};
use syscalls::record::{
    GapWhy, Header, IDENTITY_WORDS, IMAGE_ARG, Identity, RecordKind, SIGINFO_BYTES, StartHow,
    data_flag, enter_flag, part,
};
use trace::Trace;
use trace::event::{Call, Content, Data, Event, EventKind, Outcome, RECORDER};

fn assert_all_free(arena: &Arena) {
    for slot in 0..SLOTS {
        assert_eq!(arena.slot(slot).state.load(Ordering::Relaxed), slot_state::FREE, "{slot}");
    }
    let chunks = arena.control().pool_chunks.load(Ordering::Relaxed) as usize;
    for chunk in 0..chunks {
        assert_eq!(arena.owner(chunk).load(Ordering::Relaxed), 0, "chunk {chunk}");
    }
    assert!(arena.control().slot_bits.iter().all(|bits| bits.load(Ordering::Relaxed) == 0));
}

fn start_event(who: Who) -> EventKind {
    let Who { how, process, parent, pid, tid, .. } = who;
    EventKind::Start { how, process, parent, pid, tid }
}

/// Writes a random buffer; returns its description.
fn random_data(thread: &mut FakeThread, random: &mut Random, arg: u8) -> Data {
    let len = match random.below(12) {
        0 => 0,
        1..4 => random.below(65),
        4..8 => random.below(5000),
        8..11 => 4096,
        _ => random.below(300_000),
    } as usize;
    // A third is repetitive.
    let stored = if random.below(3) == 0 { vec![len as u8; len] } else { random.bytes(len) };
    let cut = random.below(8) == 0;
    let hashed = cut || random.below(8) == 0;
    let mut flags = if random.below(2) == 0 { data_flag::OUT } else { 0 };
    flags |= if cut { data_flag::CUT } else { 0 } | if hashed { data_flag::HASH } else { 0 };
    let hash = u128::from(random.next()) << 64 | u128::from(random.next());
    let true_len = stored.len() as u64 + if cut { 1 + random.below(1000) } else { 0 };
    let (part, index) = (random.below(5) as u8, random.below(1000) as u16);
    thread.data(&Buffer { arg, part, index, flags, true_len, hash, stored: &stored });
    let hash = hashed.then_some(hash);
    Data { arg, part, index, flags, true_len, hash, content: Content::Inline(stored) }
}

/// Writes a random call or other record; returns the event expected in the trace, if any.
fn random_record(thread: &mut FakeThread, random: &mut Random) -> Option<Event> {
    let who = thread.who.thread;
    match random.below(20) {
        0 => {
            let (now, handler) = (tsc(), random.next());
            let info = random.bytes(SIGINFO_BYTES);
            let mut body = vec![now, handler];
            body.extend(info.chunks(8).map(|word| u64::from_le_bytes(word.try_into().unwrap())));
            thread.record(Header::new(RecordKind::Signal, 10, 0, 0), &body);
            let kind = EventKind::Signal { signal: 10, handler, info: info.try_into().unwrap() };
            Some(Event::new(who, now, kind))
        }
        1 => {
            let (now, ns) = (tsc(), random.below(1 << 40));
            thread.record(Header::new(RecordKind::Stall, 0, 0, 0), &[now, ns]);
            Some(Event::new(who, now, EventKind::Stall { ns }))
        }
        kind => {
            let nargs = random.below(7) as usize;
            let mut args = [0; 6];
            args[..nargs].iter_mut().for_each(|arg| *arg = random.next() >> random.below(64));
            let (nr, site) = (random.below(460) as u16, 0x7000_0000 + random.below(50));
            let no_return = kind == 2;
            let slow = if random.below(9) == 0 { enter_flag::SLOW } else { 0 };
            let flags = slow | if no_return { enter_flag::NO_RETURN } else { 0 };
            let entered = thread.enter(flags, nr, site, &args[..nargs]);
            let count = if random.below(3) == 0 { random.below(12) } else { 0 };
            let data = (0..count).map(|arg| random_data(thread, random, arg as u8 % 6)).collect();
            let mut identities = Vec::new();
            if random.below(10) == 0 {
                let words: [u64; IDENTITY_WORDS] = std::array::from_fn(|_| random.next());
                thread.record(Header::new(RecordKind::Identity, 1, 0, 0), &words);
                identities.push((1, Identity::from_words(words)));
            }
            if kind == 3 {
                thread.abandon();
                return None;
            }
            let outcome = if no_return {
                thread.count();
                Outcome::Unfinished
            } else {
                let ret = random.next() as i64 >> random.below(64);
                Outcome::Returned { exit_tsc: thread.exit(ret), ret }
            };
            let nargs = nargs as u8;
            let call = Call { nr, flags, site, nargs, args, outcome, data, identities };
            Some(Event::new(who, entered, EventKind::Call(call)))
        }
    }
}

/// Several threads write random records; the trace must have exactly these.
fn random_streams(seed: u64, pool_chunks: usize, threads: u64, records: u64) {
    let (arena, file) = (arena(pool_chunks), TraceFile::new(&format!("random-{seed}")));
    let recorder = start(arena, file.sink(), Options::default());
    let main = launch(arena);
    let parent = main.who;
    let workers: Vec<_> = (0..threads)
        .map(|number| {
            std::thread::spawn(move || {
                let mut random = Random(seed * 1000 + number + 1);
                let mut thread = FakeThread::begin(
                    arena,
                    StartHow::Thread,
                    parent.process,
                    parent.thread,
                    our_pid(),
                );
                let mut expected = vec![];
                for _ in 0..records {
                    expected.extend(random_record(&mut thread, &mut random));
                }
                let (who, calls) = (thread.who, thread.calls());
                thread.end();
                (who, calls, expected)
            })
        })
        .collect();
    let told: Vec<_> = workers.into_iter().map(|worker| worker.join().unwrap()).collect();
    main.end();
    let summary = end_program(recorder);

    assert_eq!((summary.lost, summary.discarded, summary.stopped.as_ref()), (0, 0, None));
    assert_eq!(summary.calls, told.iter().map(|(_, calls, _)| calls).sum::<u64>());
    assert_eq!(u64::from(summary.threads), threads + 1);
    assert_eq!(summary.processes, 1);
    let events = file.events();
    assert_eq!(events.len() as u64, threads + 2, "threads, the main thread and the recorder");
    for (who, calls, expected) in told {
        let found = &events[&who.thread];
        assert_eq!(found.len(), expected.len() + 2, "events of {who:?}");
        assert_eq!(found[0].kind, start_event(who));
        for (found, expected) in found[1..].iter().zip(&expected) {
            assert_eq!(found, expected);
        }
        assert_eq!(found.last().unwrap().kind, EventKind::End { calls });
    }
    let exit = &events[&RECORDER][0].kind;
    assert_eq!(exit, &EventKind::Exit { process: 1, status: Some(0) });
    let trace = Trace::open(&file.0).unwrap();
    let totals = trace.totals().unwrap();
    assert_eq!(totals.calls_made, totals.calls_read);
    assert_eq!(totals.calls_made, totals.calls_written);
    assert_eq!(totals.ring_bytes_published, totals.ring_bytes_read);
    assert_all_free(&arena);
}

#[test]
fn random_streams_arrive_unchanged() {
    random_streams(1, 64, 4, 1500);
}

#[test]
fn a_tiny_pool_is_enough() {
    random_streams(2, 1, 5, 500);
    random_streams(3, 0, 2, 300);
}

#[test]
fn one_thread_uses_many_chunks() {
    random_streams(4, 300, 1, 5000);
}

#[test]
fn a_killed_process_leaves_an_unfinished_call_and_no_gap() {
    let (arena, file) = (arena(8), TraceFile::new("killed"));
    let recorder = start(arena, file.sink(), Options::default());
    let mut main = launch(arena);
    main.enter(0, 39, 1, &[]);
    main.exit(7);

    let mut child = std::process::Command::new("sleep").arg("60").spawn().unwrap();
    let process = arena.control().next_process.fetch_add(1, Ordering::Relaxed);
    let mut fork = FakeThread::begin(arena, StartHow::Fork, process, main.who.thread, child.id());
    // One thread that is killed before its first record, and one that was never created.
    let (slot, who) = reserve(arena, StartHow::Thread, process, fork.who.thread, child.id());
    FakeThread::activate(arena, slot, who);
    reserve(arena, StartHow::Thread, process, fork.who.thread, child.id());
    fork.enter(0, 1, 0x40, &[5, 6, 7]);
    fork.data(&Buffer {
        arg: 1,
        part: part::WHOLE,
        index: 0,
        flags: 0,
        true_len: 5,
        hash: 0,
        stored: b"whole",
    });
    // The next record extends over the end of a chunk, and only a part of it is published.
    let header = Header::new(RecordKind::Data, 2, 0, 0);
    fork.bytes(&header.to_word().to_le_bytes());
    fork.bytes(&70_000u64.to_le_bytes());
    fork.bytes(&70_000u64.to_le_bytes());
    fork.bytes(&[1; 50_000]);
    fork.publish();
    // Some of it is not published at all.
    fork.bytes(&[2; 16]);
    fork.ring();
    let thread = fork.who.thread;
    child.kill().unwrap();
    eventually("the end of all the child's slots", || {
        let in_use = |slot| arena.slot(slot).state.load(Ordering::Relaxed) != slot_state::FREE;
        (0..SLOTS).filter(|&slot| in_use(slot)).count() == 1
    });
    child.wait().unwrap();
    main.end();
    let summary = end_program(recorder);

    assert_eq!((summary.calls, summary.lost, summary.gaps), (2, 0, 0));
    assert_eq!((summary.processes, summary.threads), (2, 2));
    let events = file.events();
    let kinds: Vec<_> = events[&thread].iter().map(|event| &event.kind).collect();
    let EventKind::Call(call) = kinds[1] else { panic!("{kinds:?}") };
    assert_eq!((call.nr, call.outcome), (1, Outcome::Unfinished));
    assert_eq!(call.data.len(), 1);
    assert_eq!(call.data[0].content, Content::Inline(b"whole".to_vec()));
    assert_eq!(kinds[2], &EventKind::End { calls: 1 });
    let exits: Vec<_> = events[&RECORDER].iter().map(|event| &event.kind).collect();
    assert_eq!(exits[0], &EventKind::Exit { process, status: Some(9) });
    let ended = events[&thread].last().unwrap().tsc;
    assert!(ended < events[&RECORDER][0].tsc, "threads end before their process");
    assert_all_free(&arena);
}

#[test]
fn an_exec_ends_the_other_threads_of_its_process_only() {
    let (arena, file) = (arena(8), TraceFile::new("exec"));
    let recorder = start(arena, file.sink(), Options::default());
    let mut main = launch(arena);
    let process = main.who.process;
    let thread_of = |parent: u32| {
        let mut thread = FakeThread::begin(arena, StartHow::Thread, process, parent, our_pid());
        thread.enter(0, 0, 1, &[1]);
        thread
    };
    let old = thread_of(main.who.thread);
    let (silent, _) = reserve(arena, StartHow::Thread, process, old.who.thread, our_pid());
    let mut child = std::process::Command::new("sleep").arg("60").spawn().unwrap();
    let other = FakeThread::begin(arena, StartHow::Fork, process + 1, 1, child.id());

    main.enter(enter_flag::SLOW, 59, 2, &[1, 2, 3]);
    main.data(&Buffer {
        arg: 0,
        part: part::WHOLE,
        index: 0,
        flags: 0,
        true_len: 4,
        hash: 0,
        stored: b"/a/b",
    });
    main.count();
    let image = tsc();
    main.record(Header::new(RecordKind::Image, 0, 0, our_pid()), &[image, 0]);
    let argv = vec![b'v'; 200_000];
    for (part, stored) in [(part::ARGV, &argv[..]), (part::ENVP, b"A=1\0"), (part::AUXV, &[])] {
        let true_len = stored.len() as u64;
        let data = Buffer { arg: IMAGE_ARG, part, index: 0, flags: 0, true_len, hash: 0, stored };
        main.data(&data);
    }
    // The new program creates a thread before the recorder reads anything of the exec.
    let young = thread_of(main.who.thread);
    let (unborn, who) = reserve(arena, StartHow::Thread, process, young.who.thread, our_pid());
    main.enter(0, 12, 2, &[0]);
    main.exit(5);
    main.ring();
    let state = |slot: usize| arena.slot(slot).state.load(Ordering::Relaxed);
    eventually("the end of the old threads", || {
        state(old.slot) == slot_state::FREE && state(silent) == slot_state::FREE
    });
    assert_eq!(state(young.slot), slot_state::ACTIVE);
    assert_eq!(state(unborn), slot_state::RESERVED, "a thread that was made after the exec");
    FakeThread::begin_in(arena, unborn, who).end();
    assert_eq!(state(other.slot), slot_state::ACTIVE);
    assert_eq!(state(main.slot), slot_state::ACTIVE);
    let (old, young, main_thread) = (old.who.thread, young.who.thread, main.who.thread);
    child.kill().unwrap();
    child.wait().unwrap();
    let summary = end_program(recorder);

    assert_eq!((summary.lost, summary.calls, summary.processes), (0, 4, 2));
    let events = file.events();
    let EventKind::Call(exec) = &events[&main_thread][1].kind else { panic!() };
    assert_eq!(exec.outcome, Outcome::Returned { exit_tsc: image, ret: 0 });
    let EventKind::Image { tid, data } = &events[&main_thread][2].kind else { panic!() };
    assert_eq!(*tid, our_pid());
    let contents: Vec<_> = data.iter().map(|data| (data.part, data.content.clone())).collect();
    assert_eq!(contents[0], (part::ARGV, Content::Inline(argv)));
    assert_eq!(contents[1], (part::ENVP, Content::Inline(b"A=1\0".to_vec())));
    assert_eq!(contents[2], (part::AUXV, Content::Inline(vec![])));
    for thread in [old, young] {
        let EventKind::Call(call) = &events[&thread][1].kind else { panic!() };
        assert_eq!(call.outcome, Outcome::Unfinished);
    }
    assert_all_free(&arena);
}

#[test]
fn a_ring_that_was_written_over_costs_its_own_thread_only() {
    let (arena, file) = (arena(16), TraceFile::new("scribbled"));
    let recorder = start(arena, file.sink(), Options::default());
    let main = launch(arena);
    let begin = || FakeThread::begin(arena, StartHow::Thread, main.who.process, 1, our_pid());
    let mut sound = begin();
    let mut victims = Vec::new();
    for case in 0..6 {
        let mut victim = begin();
        victim.enter(0, 39, 1, &[]);
        victim.exit(1);
        victim.ring();
        eventually("the reading of its first records", || {
            arena.slot(victim.slot).consumed.bytes.load(Ordering::Relaxed) != 0
        });
        match case {
            // An unknown kind, an EXIT without a call, a call within a call, endless data.
            0 => victim.bytes(&0xdead_beefu64.to_le_bytes()),
            1 => victim.record(Header::new(RecordKind::Exit, 0, 0, 0), &[1, 2]),
            2 => {
                victim.enter(0, 1, 1, &[]);
                victim.enter(0, 2, 1, &[]);
            }
            3 => {
                victim.enter(0, 1, 1, &[]);
                let header = Header::new(RecordKind::Data, 1, 0, 0);
                victim.record(header, &[u64::MAX, u64::MAX]);
            }
            // Impossible counters, and a queue of invalid chunks.
            4 => arena.slot(victim.slot).published.store(u64::MAX / 2, Ordering::Release),
            _ => {
                let queue = &arena.slot(victim.slot).queue;
                queue.iter().for_each(|id| id.store(u32::MAX, Ordering::Relaxed));
                victim.enter(0, 1, 1, &[]);
                // The current chunk is known to the reader; the next one has to be looked up.
                let beyond = ring::HOME_BYTES as u64 + 8;
                arena.slot(victim.slot).published.store(beyond, Ordering::Release);
            }
        }
        if case < 4 {
            victim.publish();
        }
        victim.ring();
        victims.push((case, victim));
    }
    // No thread that goes on writing blocks forever, and the pool does not run dry.
    std::thread::sleep(Duration::from_millis(60));
    for (case, victim) in &mut victims {
        for _ in 0..if *case < 4 { 40_000 } else { 0 } {
            victim.enter(0, 39, 1, &[]);
            victim.exit(1);
        }
    }
    for _ in 0..10_000 {
        sound.enter(0, 39, 1, &[]);
        sound.exit(1);
    }
    let sound_thread = sound.who.thread;
    sound.end();
    let threads: Vec<u32> = victims.iter().map(|(_, victim)| victim.who.thread).collect();
    drop(victims);
    main.end();
    let summary = end_program(recorder);

    assert!(summary.lost > 4 * 40_000 - 100, "{summary:?}");
    assert_eq!(summary.gaps, 6);
    let events = file.events();
    assert_eq!(events[&sound_thread].len(), 10_002);
    for thread in threads {
        let gap = events[&thread].iter().find_map(|event| match &event.kind {
            EventKind::Gap { why: GapWhy::RecorderLost, text, .. } => Some(text),
            _ => None,
        });
        assert!(gap.is_some_and(|text| text.contains("no agent writes")), "{thread} {gap:?}");
    }
    assert_all_free(&arena);
}

#[test]
fn counters_that_cannot_be_are_not_believed() {
    let (arena, file) = (arena(16), TraceFile::new("counters"));
    let recorder = start(arena, file.sink(), Options::default());
    let main = launch(arena);
    let mut liar = FakeThread::begin(arena, StartHow::Thread, main.who.process, 1, our_pid());
    liar.enter(0, 39, 1, &[]);
    liar.exit(1);
    let slot = arena.slot(liar.slot);
    slot.calls.store(u64::MAX, Ordering::Relaxed);
    slot.stall_ns.store(u64::MAX, Ordering::Relaxed);
    slot.state.store(ring::slot_state::ENDED, Ordering::Release);
    liar.ring();
    main.end();
    let summary = end_program(recorder);
    // The false counter shows that calls are missing, but no more than fit into a ring.
    assert!((1..1 << 20).contains(&summary.lost), "{summary:?}");
    assert!(summary.stall_ns < 600_000_000_000, "{summary:?}");
}

/// Writes to a file, slowly.
struct Slow(File);

impl Write for Slow {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let len = bytes.len().min(4096);
        std::thread::sleep(Duration::from_micros(300));
        self.0.write(&bytes[..len])
    }

    fn flush(&mut self) -> io::Result<()> {
        self.0.flush()
    }
}

#[test]
fn a_slow_sink_stalls_the_threads_and_loses_nothing() {
    let (arena, file) = (arena(4), TraceFile::new("slow"));
    let sink = Sink::Stream(Box::new(Slow(File::create(&file.0).unwrap())));
    let recorder = start(arena, sink, Options::default());
    let main = launch(arena);
    let process = main.who.process;
    let workers: Vec<_> = (0..2)
        .map(|number| {
            std::thread::spawn(move || {
                let mut random = Random(number + 77);
                let mut thread = FakeThread::begin(arena, StartHow::Thread, process, 1, our_pid());
                for _ in 0..2500 {
                    thread.enter(0, 18, 1, &[3, 4, 4096, 0]);
                    let stored = random.bytes(4096);
                    let (part, index, true_len) = (part::WHOLE, 0, 4096);
                    let (arg, flags, hash) = (1, 0, 0);
                    let stored = &stored[..];
                    thread.data(&Buffer { arg, part, index, flags, true_len, hash, stored });
                    thread.exit(4096);
                }
                let stalls = thread.stalls;
                thread.end();
                stalls
            })
        })
        .collect();
    let stalls: u64 = workers.into_iter().map(|worker| worker.join().unwrap()).sum();
    main.end();
    let summary = end_program(recorder);
    assert!(stalls > 0 && summary.stall_ns > 0);
    assert_eq!((summary.calls, summary.lost), (5000, 0));
    assert_eq!(summary.data_bytes, 5000 * 4096);
    let events = file.events();
    assert_eq!(
        events.values().flatten().filter(|e| matches!(e.kind, EventKind::Call(_))).count(),
        5000
    );
}

#[test]
fn slots_are_used_again_and_again() {
    let (arena, file) = (arena(4), TraceFile::new("recycled"));
    let recorder = start(arena, file.sink(), Options::default());
    let main = launch(arena);
    let parent = main.who;
    let workers: Vec<_> = (0..4)
        .map(|_| {
            std::thread::spawn(move || {
                for _ in 0..3000 {
                    let (process, maker) = (parent.process, parent.thread);
                    let mut thread =
                        FakeThread::begin(arena, StartHow::Thread, process, maker, our_pid());
                    for _ in 0..5 {
                        thread.enter(0, 39, 1, &[]);
                        thread.exit(1);
                    }
                    thread.end();
                }
            })
        })
        .collect();
    workers.into_iter().for_each(|worker| worker.join().unwrap());
    main.end();
    let summary = end_program(recorder);
    assert_eq!((summary.threads, summary.calls, summary.lost), (12_001, 60_000, 0));
    assert_all_free(&arena);
}
