//! Recordings of a fake agent, and their traces.

use std::collections::BTreeMap;
use std::fs::File;
use std::path::PathBuf;
use std::sync::atomic::Ordering;

use kin::Kin;
use recorder::{Options, Recorder, Sink, Summary};
use ring::Arena;
use syscalls::record::StartHow;
use trace::Trace;
use trace::event::{Call, Content, Event, EventKind, Preamble};

use super::FakeThread;

/// A trace file that is removed on drop.
pub struct TraceFile(pub PathBuf);

impl TraceFile {
    pub fn new(name: &str) -> TraceFile {
        TraceFile(std::env::temp_dir().join(format!("recorder-{name}-{}", std::process::id())))
    }

    pub fn sink(&self) -> Sink {
        Sink::File(File::create(&self.0).unwrap())
    }

    /// Returns all events by thread, with blobs replaced by their contents.
    pub fn events(&self) -> BTreeMap<u32, Vec<Event>> {
        let trace = Trace::open(&self.0).unwrap();
        assert!(trace.damage().is_empty(), "{:?}", trace.damage());
        let mut threads: BTreeMap<u32, Vec<Event>> = BTreeMap::new();
        for sequenced in trace.events() {
            let mut event = sequenced.unwrap().event;
            match &mut event.kind {
                EventKind::Call(Call { data, .. }) | EventKind::Image { data, .. } => {
                    for item in data {
                        item.content = Content::Inline(trace.content(&item.content).unwrap());
                    }
                }
                _ => {}
            }
            threads.entry(event.thread).or_default().push(event);
        }
        threads
    }
}

impl Drop for TraceFile {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.0);
    }
}

fn preamble() -> Preamble {
    recorder::host::preamble(
        vec![b"fake".to_vec()],
        String::new(),
        recorder::host::Calibration::begin(),
    )
    .unwrap()
}

/// Starts a recorder.
pub fn start(arena: Arena, sink: Sink, options: Options) -> Recorder {
    let kin = Kin::default();
    kin.add(our_pid().cast_signed());
    Recorder::start(arena, kin, sink, &preamble(), options).unwrap()
}

/// Returns the process that stands for the program.
pub fn our_pid() -> u32 {
    std::process::id()
}

/// Starts the launched program, for which our own process stands.
pub fn launch(arena: Arena) -> FakeThread {
    let process = arena.control().next_process.fetch_add(1, Ordering::Relaxed);
    FakeThread::begin(arena, StartHow::Launch, process, 0, our_pid())
}

/// Reports the end of the program and waits for the recorder.
pub fn end_program(recorder: Recorder) -> Summary {
    recorder.handle().program_ended(our_pid(), 0);
    recorder.join().unwrap()
}
