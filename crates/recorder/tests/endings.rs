//! Recordings that end before the program does, and traces without room.

mod fake_agent;

use std::fs::File;
use std::io::{self, Write};
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use fake_agent::recording::{TraceFile, end_program, launch, our_pid, start};
use fake_agent::{Buffer, FakeThread, Random, arena, eventually, reserve, tsc};
use recorder::{Options, Sink, Summary};
use ring::Arena;
use syscalls::record::{GapWhy, StartHow, part};
use trace::Trace;
use trace::event::{Event, EventKind, RECORDER};

/// Makes calls with data that never repeats until recording stops; returns their number.
fn flood(arena: Arena, main: &mut FakeThread) -> u64 {
    let mut random = Random(99);
    while !main.silent && arena.control().stopped.load(Ordering::Relaxed) == 0 {
        one_call(main, &random.bytes(4096));
    }
    main.calls()
}

fn one_call(thread: &mut FakeThread, stored: &[u8]) {
    thread.enter(0, 18, 1, &[3, 4, 4096, 0]);
    let (arg, part, index, flags, hash) = (1, part::WHOLE, 0, 0, 0);
    let true_len = stored.len() as u64;
    thread.data(&Buffer { arg, part, index, flags, true_len, hash, stored });
    thread.exit(4096);
}

/// The trace must be readable, hold exactly the calls of the summary, and end with the gap.
fn check_stopped(file: &TraceFile, summary: &Summary, why: GapWhy) {
    assert_eq!(summary.lost, 0, "{summary:?}");
    assert_eq!(summary.stopped.as_ref().unwrap().0, why);
    assert_eq!(summary.unfinished, None);
    let events = file.events();
    let calls = events.values().flatten().filter(|event| matches!(event.kind, EventKind::Call(_)));
    assert_eq!(calls.count() as u64, summary.calls);
    let last = events[&RECORDER].last().unwrap();
    let EventKind::Gap { why: found, detail, text } = &last.kind else { panic!("{last:?}") };
    assert_eq!((*found, *detail), (why, summary.discarded));
    assert!(!text.is_empty());
    let trace = Trace::open(&file.0).unwrap();
    assert_eq!(trace.totals().unwrap().calls_written, summary.calls);
}

#[test]
fn the_size_limit_is_kept() {
    for size_max in [1 << 20, 5_000_000] {
        let (arena, file) = (arena(32), TraceFile::new(&format!("size-{size_max}")));
        let options = Options { size_max: Some(size_max), ..Options::default() };
        let recorder = start(arena, file.sink(), options);
        let mut main = launch(arena);
        flood(arena, &mut main);
        let summary = recorder.join().unwrap();
        check_stopped(&file, &summary, GapWhy::SizeLimit);
        let length = std::fs::metadata(&file.0).unwrap().len();
        assert_eq!(length, summary.trace_bytes);
        assert!(length <= size_max, "{length} of {size_max}");
        assert!(length >= size_max / 2, "{length} of {size_max}");
    }
}

#[test]
fn the_time_limit_is_kept() {
    let (arena, file) = (arena(32), TraceFile::new("time"));
    let duration = Some(Duration::from_millis(150));
    let recorder = start(arena, file.sink(), Options { duration, ..Options::default() });
    let begin = Instant::now();
    let mut main = launch(arena);
    // A call is in progress when recording stops.
    let mut waiting = FakeThread::begin(arena, StartHow::Thread, 1, 1, our_pid());
    waiting.enter(0, 0, 1, &[0]);
    let made = flood(arena, &mut main);
    let summary = recorder.join().unwrap();
    assert!(begin.elapsed() >= Duration::from_millis(150));
    assert!(begin.elapsed() < Duration::from_secs(5), "{:?}", begin.elapsed());
    // One more for the call that blocks; the last one may be too late, or cut short.
    assert!((made..=made + 2).contains(&summary.calls), "{made} {summary:?}");
    assert_eq!(summary.discarded, 0);
    check_stopped(&file, &summary, GapWhy::TimeLimit);
    // Threads continue without a reader.
    waiting.exit(0);
    for _ in 0..100_000 {
        waiting.enter(0, 39, 1, &[]);
        waiting.exit(1);
    }
    assert!(waiting.silent);
}

#[test]
fn until_exit_leaves_the_rest_alone() {
    let (arena, file) = (arena(8), TraceFile::new("until-exit"));
    let recorder = start(arena, file.sink(), Options { until_exit: true, ..Options::default() });
    let main = launch(arena);
    let mut child = std::process::Command::new("sleep").arg("60").spawn().unwrap();
    let mut fork = FakeThread::begin(arena, StartHow::Fork, 2, 1, child.id());
    one_call(&mut fork, &[1; 4096]);
    main.end();
    let summary = end_program(recorder);
    child.kill().unwrap();
    child.wait().unwrap();
    assert_eq!((summary.calls, summary.processes), (1, 2));
    check_stopped(&file, &summary, GapWhy::UntilExit);
    let exits: Vec<_> = file.events()[&RECORDER]
        .iter()
        .filter(|event| matches!(event.kind, EventKind::Exit { .. }))
        .cloned()
        .collect();
    assert_eq!(exits.len(), 1);
    assert_eq!(exits[0].kind, EventKind::Exit { process: 1, status: Some(0) });
}

/// A process that is not a descendant of ours, whatever a ring says.
struct Stranger(u32);

impl Stranger {
    fn new() -> Stranger {
        // Its parent exits at once.
        let mut command = std::process::Command::new("sh");
        command.args(["-c", "sleep 60 >/dev/null 2>&1 & echo $!"]);
        let pid = String::from_utf8(command.output().unwrap().stdout).unwrap();
        Stranger(pid.trim().parse().unwrap())
    }
}

impl Drop for Stranger {
    fn drop(&mut self) {
        // SAFETY: kill takes plain numbers; the process was made by this test and only ends here.
        unsafe { libc::kill(self.0.cast_signed(), libc::SIGKILL) };
    }
}

#[test]
fn nobody_waits_for_strangers() {
    let (arena, file) = (arena(8), TraceFile::new("strangers"));
    let main = launch(arena);
    let stranger = Stranger::new();
    // Also the ids of init and of a process that does not exist, and invalid ids; each also marked
    // as an id of another namespace.
    let mut threads = Vec::new();
    for (process, pid) in (2..).zip([stranger.0, 1, 0x7fff_fff0, 0, u32::MAX]) {
        for foreign in [false, true] {
            let process = process + 100 * u32::from(foreign);
            let (slot, who) = reserve(arena, StartHow::Fork, process, 1, pid);
            arena.slot(slot).foreign_pid.store(foreign.into(), Ordering::Relaxed);
            arena.slot(slot).pid_seen.store(pid, Ordering::Relaxed);
            let mut thread = FakeThread::begin_in(arena, slot, who);
            one_call(&mut thread, &[1; 100]);
            threads.push(thread);
        }
    }
    // Not before: what does not exist makes no call after the recorder has seen that.
    let recorder = start(arena, file.sink(), Options::default());
    eventually("the reading of all", || recorder_has_read(&threads));
    main.end();
    let summary = end_program(recorder);
    assert_eq!((summary.calls, summary.processes), (10, 11), "{summary:?}");
    assert_eq!(summary.stopped, None);
}

/// Records a program with a child that has been made, has this id, and never begins.
fn with_an_unborn_child(name: &str, pid: u32) -> Summary {
    let (arena, file) = (arena(8), TraceFile::new(name));
    let recorder = start(arena, file.sink(), Options::default());
    let mut main = launch(arena);
    let (slot, who) = reserve(arena, StartHow::Fork, 2, main.who.thread, pid);
    arena.slot(slot).pid_seen.store(who.pid, Ordering::Relaxed);
    one_call(&mut main, &[1; 100]);
    main.end();
    end_program(recorder)
}

#[test]
fn who_has_the_id_of_a_child_that_was_killed_early_is_not_waited_for() {
    let (stranger, begin) = (Stranger::new(), Instant::now());
    let summary = with_an_unborn_child("killed-early", stranger.0);
    assert!(begin.elapsed() < Duration::from_secs(5));
    assert_eq!((summary.calls, summary.gaps, summary.stopped), (1, 0, None));
}

#[test]
fn a_child_that_lives_and_has_not_begun_is_missing() {
    let mut child = std::process::Command::new("sleep").arg("60").spawn().unwrap();
    let summary = with_an_unborn_child("not-begun", child.id());
    child.kill().unwrap();
    child.wait().unwrap();
    assert_eq!((summary.calls, summary.gaps, summary.stopped), (1, 1, None));
}

/// Returns whether everything published has been read.
fn recorder_has_read(threads: &[FakeThread]) -> bool {
    threads.iter().all(|thread| {
        let slot = thread.arena.slot(thread.slot);
        // A freed slot is empty.
        slot.consumed.bytes.load(Ordering::SeqCst) == slot.published.load(Ordering::SeqCst)
    })
}

#[test]
fn until_exit_with_nobody_left_is_no_gap() {
    let (arena, file) = (arena(8), TraceFile::new("until-exit-alone"));
    let recorder = start(arena, file.sink(), Options { until_exit: true, ..Options::default() });
    let mut main = launch(arena);
    one_call(&mut main, &[1; 100]);
    main.end();
    let summary = end_program(recorder);
    assert_eq!((summary.calls, summary.gaps, summary.stopped), (1, 0, None));
}

#[test]
fn a_program_that_never_said_a_word_is_over_when_it_has_ended() {
    let (arena, file) = (arena(1), TraceFile::new("silent"));
    let recorder = start(arena, file.sink(), Options::default());
    let slot = arena.reserve_slot().unwrap();
    let begin = Instant::now();
    let summary = end_program(recorder);
    assert!(begin.elapsed() < Duration::from_secs(3));
    assert_eq!((summary.calls, summary.threads, summary.lost), (0, 0, 0));
    assert_eq!(slot, 0);
}

#[test]
fn the_recorder_ends_on_demand_and_takes_events_of_others() {
    let (arena, file) = (arena(1), TraceFile::new("demand"));
    let recorder = start(arena, file.sink(), Options::default());
    launch(arena);
    let mut state = recorder::state::read_state(our_pid(), 1).unwrap();
    state.fds.truncate(3);
    let kind = EventKind::State(Box::new(state));
    let event = Event::new(RECORDER, tsc(), kind);
    recorder.handle().event(event.clone());
    recorder.handle().stop(GapWhy::RecorderLost, "asked to".into());
    let summary = recorder.join().unwrap();
    assert_eq!(summary.stopped, Some((GapWhy::RecorderLost, "asked to".into())));
    assert_eq!(file.events()[&RECORDER][0], event);
    assert_eq!(arena.control().stopped.load(Ordering::Relaxed), GapWhy::RecorderLost as u32);
}

/// Accepts a number of bytes, and then fails.
struct Failing {
    file: File,
    left: usize,
}

impl Write for Failing {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if bytes.len() > self.left {
            return Err(io::Error::from_raw_os_error(5));
        }
        self.left -= bytes.len();
        self.file.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[test]
fn a_sink_that_fails_stops_the_recording_and_not_the_program() {
    let (arena, file) = (arena(32), TraceFile::new("failing"));
    let sink = Failing { file: File::create(&file.0).unwrap(), left: 3_000_000 };
    let recorder = start(arena, Sink::Stream(Box::new(sink)), Options::default());
    let mut main = launch(arena);
    one_call(&mut main, &[5; 3000]);
    eventually("the first call's way to the file", || calls_in(&file) == 1);
    flood(arena, &mut main);
    let summary = recorder.join().unwrap();
    let (why, text) = summary.stopped.unwrap();
    assert_eq!(why, GapWhy::WriteFailed);
    assert!(text.contains("Input/output error"), "{text}");
    assert!(summary.unfinished.is_some());
    let trace = Trace::open(&file.0).unwrap();
    assert!(trace.totals().is_none());
    assert!(calls_in(&file) >= 1);
}

/// Counts the calls in a trace that may not even have a header yet.
fn calls_in(file: &TraceFile) -> usize {
    let Ok(trace) = Trace::open(&file.0) else { return 0 };
    let is_call = |event: &Event| matches!(event.kind, EventKind::Call(_));
    trace.events().filter(|event| is_call(&event.as_ref().unwrap().event)).count()
}

#[test]
fn the_exit_of_a_child_is_learnt() {
    let (arena, file) = (arena(8), TraceFile::new("exits"));
    let recorder = start(arena, file.sink(), Options::default());
    let mut main = launch(arena);
    // The first one is reaped at once; the second is a zombie for a while; the third is only known
    // by `process_seen`, not from a record.
    let spawn =
        |script: &str| std::process::Command::new("sh").args(["-c", script]).spawn().unwrap();
    let mut children =
        [spawn("sleep 0.1; exit 3"), spawn("sleep 0.1; kill -15 $$"), spawn("exec sleep 0.1")];
    FakeThread::begin(arena, StartHow::Fork, 2, 1, children[0].id());
    FakeThread::begin(arena, StartHow::Vfork, 3, 1, children[1].id());
    recorder.handle().process_seen(4, children[2].id());
    one_call(&mut main, &[7; 80]);
    children[0].wait().unwrap();
    std::thread::sleep(Duration::from_millis(200));
    children[1].wait().unwrap();
    children[2].wait().unwrap();
    main.end();
    let summary = end_program(recorder);
    assert_eq!((summary.processes, summary.lost), (4, 0));
    let mut exits = Vec::new();
    let mut hidden = Vec::new();
    for event in &file.events()[&RECORDER] {
        match &event.kind {
            EventKind::Exit { process, status } => exits.push((*process, *status)),
            EventKind::Gap { why: GapWhy::NotFollowed, detail, text } => {
                assert!(text.contains("not recorded"), "{text}");
                hidden.push(*detail as u32);
            }
            other => panic!("{other:?}"),
        }
    }
    exits.sort_unstable();
    // A process that exits has made a call, and these recorded none. A killed one need not have.
    let silent = [children[0].id(), children[2].id()];
    assert!(hidden.iter().all(|pid| silent.contains(pid)), "{hidden:?}");
    assert!(hidden.contains(&silent[1]), "{hidden:?}");
    let mut first = exits.remove(1);
    // It may have been reaped before the recorder looked; Linux 6.15 gives the status even then.
    first.1 = first.1.or(Some(3 << 8));
    assert_eq!(first, (2, Some(3 << 8)));
    assert_eq!(exits, [(1, Some(0)), (3, Some(15)), (4, Some(0))]);
}

#[test]
fn what_is_idle_is_on_disk_within_seconds() {
    let (arena, file) = (arena(1), TraceFile::new("idle"));
    let recorder = start(arena, file.sink(), Options::default());
    let mut main = launch(arena);
    one_call(&mut main, &[5; 3000]);
    main.ring();
    eventually("the call's way to the file", || calls_in(&file) == 1);
    main.end();
    assert_eq!(end_program(recorder).calls, 1);
}
