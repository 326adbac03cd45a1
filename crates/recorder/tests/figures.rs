//! Measures how fast rings are drained. To run: `cargo test --release --test figures -- --ignored`.

mod fake_agent;

use std::time::Instant;

use fake_agent::recording::{TraceFile, end_program, launch, start};
use fake_agent::{Buffer, Random, arena};
use recorder::Options;
use syscalls::record::{Header, RecordKind, part};

/// Returns the CPU time of the threads with that name, in seconds.
fn thread_cpu(name: &str) -> f64 {
    let tasks = std::fs::read_dir("/proc/self/task").unwrap().flatten();
    let of_name = tasks.filter(|task| {
        std::fs::read_to_string(task.path().join("comm")).is_ok_and(|comm| comm.trim() == name)
    });
    let ns = of_name.map(|task| {
        let stat = std::fs::read_to_string(task.path().join("schedstat")).unwrap();
        stat.split(' ').next().unwrap().parse::<u64>().unwrap()
    });
    ns.sum::<u64>() as f64 / 1e9
}

#[test]
#[ignore = "a measurement"]
fn calls_without_data() {
    const CALLS: u64 = 5_000_000;
    let (arena, file) = (arena(1024), TraceFile::new("figure-calls"));
    let recorder = start(arena, file.sink(), Options::default());
    let mut main = launch(arena);
    let begin = Instant::now();
    let enter = Header::new(RecordKind::Enter, 0, 39, 0).to_word();
    let exit = Header::new(RecordKind::Exit, 0, 0, 0).to_word();
    for _ in 0..CALLS {
        let (now, pid) = (fake_agent::tsc(), 4711);
        let mut record = [0u8; 48];
        let words = [enter, now, 0x7f00_1234, exit, now + 90, pid];
        for (to, word) in record.chunks_exact_mut(8).zip(words) {
            to.copy_from_slice(&word.to_le_bytes());
        }
        main.bytes(&record);
        main.count();
        main.publish();
    }
    let produced = begin.elapsed().as_secs_f64();
    main.ring();
    let slot = arena.slot(main.slot);
    let published = slot.published.load(std::sync::atomic::Ordering::Relaxed);
    while slot.consumed.bytes.load(std::sync::atomic::Ordering::Relaxed) != published {
        std::thread::yield_now();
    }
    let all = begin.elapsed().as_secs_f64();
    let (cpu, stalls) = (thread_cpu("reenact/drain"), main.stalls);
    main.end();
    let summary = end_program(recorder);
    assert_eq!((summary.calls, summary.lost), (CALLS, 0));
    let per_call = |seconds: f64| seconds * 1e9 / CALLS as f64;
    println!(
        "calls without data: {:.1} M/s; per call {:.0} ns in all, {:.0} ns to produce, {:.0} ns \
         of the drain's CPU; {stalls} stalls; {:.1} bytes a call",
        CALLS as f64 / all / 1e6,
        per_call(all),
        per_call(produced),
        per_call(cpu),
        summary.trace_bytes as f64 / CALLS as f64
    );
}

/// Makes calls with 4 KiB each, which repeat after `distinct` different ones.
fn calls_with_data(distinct: u64) {
    const CALLS: u64 = 500_000;
    let page_count = distinct.min(1 << 14);
    let (arena, file) = (arena(1024), TraceFile::new(&format!("figure-{distinct}")));
    let recorder = start(arena, file.sink(), Options::default());
    let mut main = launch(arena);
    let mut pages = Random(5).bytes(page_count as usize * 4096);
    let begin = Instant::now();
    for call in 0..CALLS {
        let at = (call % page_count) as usize * 4096;
        let page = &mut pages[at..at + 4096];
        page[..8].copy_from_slice(&(call % distinct).to_le_bytes());
        main.enter(0, 18, 0x7f00_1234, &[3, 0x7000, 4096, call * 4096]);
        let (arg, part, index, flags, hash) = (1, part::WHOLE, 0, 0, 0);
        main.data(&Buffer { arg, part, index, flags, true_len: 4096, hash, stored: page });
        main.exit(4096);
    }
    let all = begin.elapsed().as_secs_f64();
    main.ring();
    let (cpu, stalls) = (thread_cpu("reenact/drain"), main.stalls);
    main.end();
    let summary = end_program(recorder);
    let finished = begin.elapsed().as_secs_f64();
    assert_eq!((summary.calls, summary.lost), (CALLS, 0));
    println!(
        "4 KiB, {distinct} distinct: {:.2} GB/s while producing, {:.2} until finished; {:.0} ns of \
         the drain's CPU a call; {stalls} stalls; trace {:.1} MB",
        (CALLS * 4096) as f64 / all / 1e9,
        (CALLS * 4096) as f64 / finished / 1e9,
        cpu * 1e9 / CALLS as f64,
        summary.trace_bytes as f64 / 1e6
    );
}

#[test]
#[ignore = "a measurement"]
fn calls_with_data_that_repeats_over_1_mib() {
    calls_with_data(1 << 8);
}

#[test]
#[ignore = "a measurement"]
fn calls_with_data_that_repeats_over_64_mib() {
    calls_with_data(1 << 14);
}

#[test]
#[ignore = "a measurement"]
fn calls_with_data_that_never_repeats() {
    calls_with_data(1 << 40);
}
