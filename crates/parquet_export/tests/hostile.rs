//! Nonsensical events in an intact trace: every call of the table, with any arguments, results and
//! memory, gives rows without errors or panics.

use std::io::{self, Write};
use std::path::Path;
use std::sync::{Arc, Mutex};

use model::{Conditions, Contents, Moment, World};
use parquet::file::reader::{FileReader, SerializedFileReader};
use parquet_export::{Export, Options};
use syscalls::record::{RESULT, data_flag};
use trace::event::{
    Call, Content, Data, Event, EventKind, Identity, Outcome, Preamble, ProcessState, StartHow,
};
use trace::{Trace, Writer, WriterOptions};

/// Number of calls in each trace.
const CALLS: u64 = 2000;

/// Calls that carry data in every possible way.
const CARRIERS: &[&str] =
    &["read", "pwrite64", "readv", "sendmsg", "recvmmsg", "setxattr", "getxattrat", "vmsplice"];

/// A small pseudo-random number generator.
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0
    }

    fn below(&mut self, limit: u64) -> u64 {
        self.next() % limit
    }

    /// Returns small numbers, and those at the limits.
    fn word(&mut self) -> u64 {
        match self.below(8) {
            0 => u64::MAX,
            1 => 1 << 63,
            2 => self.next(),
            3 => u64::from(u32::MAX),
            _ => self.below(10),
        }
    }

    fn bytes(&mut self, max: u64) -> Vec<u8> {
        let len = self.below(max);
        let fill = self.below(2);
        (0..len).map(|_| if fill == 0 { self.next() as u8 } else { 1 }).collect()
    }
}

#[derive(Clone, Default)]
struct Kept(Arc<Mutex<Vec<u8>>>);

impl Write for Kept {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.lock().unwrap().extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

fn memory(random: &mut Random, arg: u8) -> Data {
    // One in a hundred is long enough for several blobs.
    let max = if random.below(100) == 0 { 200_000 } else { 300 };
    let bytes = random.bytes(max);
    let true_len = match random.below(4) {
        0 => random.word(),
        _ => bytes.len() as u64,
    };
    let rare = if random.below(8) == 0 { data_flag::CUT | data_flag::FAULT } else { 0 };
    let flags = random.next() as u8 & (data_flag::OUT | rare);
    let hash = (random.below(4) == 0).then(|| u128::from(random.next()));
    let flags = if hash.is_some() { flags | data_flag::HASH } else { flags };
    let part = random.below(12).saturating_sub(6) as u8;
    let index = random.below(3) as u16;
    Data { arg, part, index, flags, true_len, hash, content: Content::Inline(bytes) }
}

fn call(random: &mut Random, nr: u16, tsc: u64) -> Call {
    let mut args = [0; 6];
    args.iter_mut().for_each(|arg| *arg = random.word());
    let outcome = match random.below(5) {
        0 => Outcome::Unfinished,
        1 => Outcome::Returned { exit_tsc: tsc + 5, ret: -(random.below(140) as i64) },
        2 => Outcome::Returned { exit_tsc: tsc.wrapping_sub(9), ret: random.next() as i64 },
        _ => Outcome::Returned { exit_tsc: tsc + 5, ret: random.below(20) as i64 },
    };
    let mut data = Vec::new();
    for arg in 0..6 {
        (0..random.below(4)).for_each(|_| data.push(memory(random, arg)));
    }
    let identity = Identity { mtime_ns: random.next() as i64, ..Identity::default() };
    let identities = match random.below(4) {
        0 => vec![(RESULT, identity), (random.below(9) as u8, identity)],
        _ => Vec::new(),
    };
    let (flags, site, nargs) = (0, random.word(), 6);
    Call { nr, flags, site, nargs, args, outcome, data, identities }
}

/// Makes a trace with every call number, and some invalid ones.
fn trace(seed: u64) -> Trace {
    let mut random = Random(seed);
    let kept = Kept::default();
    let preamble = Preamble { epoch_ns: random.word(), tsc_hz: 1 << 30, ..Preamble::default() };
    let options = WriterOptions { workers: 0, ..WriterOptions::default() };
    let mut writer = Writer::new(Box::new(kept.clone()), &preamble, options).unwrap();
    let mut tsc = 0;
    let mut event = |thread, kind| {
        tsc += 1;
        writer.event(&Event::new(thread, tsc, kind)).unwrap();
        tsc
    };
    for process in 1..4 {
        let how = StartHow::Fork;
        let start = EventKind::Start { how, process, parent: process - 1, pid: 7, tid: 7 };
        event(process, start);
        let state = ProcessState { process, cwd: random.bytes(50), ..ProcessState::default() };
        event(0, EventKind::State(Box::new(state)));
    }
    for round in 0..CALLS {
        let nr = match round % 8 {
            0 => random.next() as u16,
            1 | 2 => {
                let name = CARRIERS[random.below(CARRIERS.len() as u64) as usize];
                syscalls::by_name(name).expect("a call").nr
            }
            _ => (round % 480) as u16,
        };
        let kind = EventKind::Call(call(&mut random, nr, round));
        event(1 + random.below(4) as u32, kind);
    }
    event(0, EventKind::Exit { process: 1, status: Some(-1) });
    event(0, EventKind::Exit { process: 99, status: None });
    writer.flush().unwrap();
    drop(writer);
    let bytes = kept.0.lock().unwrap().clone();
    Trace::from_stream(io::Cursor::new(bytes)).unwrap()
}

/// Reads the bytes that a trace stores.
struct Stored<'a>(&'a Trace);

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

/// Counts the rows in all files below a directory.
fn rows(dir: &Path) -> i64 {
    let mut sum = 0;
    for entry in std::fs::read_dir(dir).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            sum += rows(&path);
            continue;
        }
        let reader = SerializedFileReader::new(std::fs::File::open(&path).unwrap()).unwrap();
        let claimed = reader.metadata().file_metadata().num_rows();
        let read = reader.get_row_iter(None).unwrap().map(Result::unwrap).count();
        assert_eq!(read as i64, claimed, "{}", path.display());
        sum += claimed;
    }
    sum
}

#[test]
fn nonsense_becomes_rows() {
    for seed in [77, 0x5eed] {
        let trace = trace(seed);
        let dir = tempfile::tempdir().unwrap();
        let options = Options {
            root: dir.path().join("out"),
            run: "hostile".into(),
            force: false,
            content: true,
            conditions: Conditions::default(),
        };
        let root = options.root.clone();
        let mut export = Export::new(&trace, options).unwrap();
        let mut world = World::new();
        for next in trace.events() {
            let next = next.unwrap();
            let step = world.step(&next.event, &mut Stored(&trace));
            let clock = |tsc| trace.ticks_to_ns(tsc).max(0).unsigned_abs();
            let moment = Moment::new(next.seq, &next.event, &world, &step, &clock);
            export.add(&moment, true, &mut Stored(&trace)).unwrap();
            world.finish(step);
        }
        let summary = export.finish().unwrap();
        assert_eq!(summary.calls, CALLS);
        assert_eq!(rows(&root.join("calls")), CALLS as i64);
        assert_eq!(rows(&root.join("call")), CALLS as i64);
        assert_eq!(rows(&root.join("processes")), 3);
        assert_eq!(rows(&root.join("data")), summary.buffers as i64);
        assert!(summary.buffers > 100, "{summary:?}");
    }
}
