//! Any events as a trace, in a file that is whole: image, plan, calls and comparison, in a jail. The
//! input chooses threads, calls, arguments, results and buffers from few that mean something. The
//! jail is another process, whose coverage is not seen: run with `-len_control=0 -timeout=120`.
#![no_main]

use std::io::Write;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::Path;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use syscalls::record::data_flag;
use libfuzzer_sys::fuzz_target;
use replay::jail::{self, Directory, Exit, Powers};
use replay::session::{Image, Session};
use replay::Options;
use trace::event::{
    Call, Content, Data, Event, EventKind, Outcome, Preamble, ProcessState, RECORDER, StartHow,
    Totals,
};
use trace::{Trace, Writer, WriterOptions};

/// Exit code where the jail is not what it should be: nothing is replayed then.
const NOT_CONFINED: u8 = 99;

const PATHS: &[&str] = &[
    "/",
    "/fuzz-a",
    "/fuzz-a/b",
    "fuzz-a",
    "..",
    "../outside/secret",
    "/fuzz-l/x",
    "",
    ".",
    "/proc/self/fd/3",
    "/proc/self/root",
    "/dev/zero",
    "a/../../outside",
];
const VALUES: &[u64] = &[
    0,
    1,
    2,
    3,
    4,
    5,
    9,
    64,
    66,
    0o644,
    0o4755,
    0o020_644,
    1000,
    1001,
    1 << 20,
    1 << 40,
    0x7000_0000_0000,
    libc::AT_FDCWD as u64,
    u64::MAX,
];
const RESULTS: &[i64] = &[0, 1, 3, 4, 5, 64, 1002, 1003, -2, -9, -11, -17, -22, 1 << 32];

/// The input, used up byte by byte.
struct Input<'a>(&'a [u8]);

impl Input<'_> {
    fn byte(&mut self) -> u8 {
        let Some((first, rest)) = self.0.split_first() else { return 0 };
        self.0 = rest;
        *first
    }

    fn one_of<T: Copy>(&mut self, all: &[T]) -> T {
        all[usize::from(self.byte()) % all.len()]
    }
}

/// A file in memory.
#[derive(Clone, Default)]
struct Memory(Arc<Mutex<Vec<u8>>>);

impl Write for Memory {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0.lock().unwrap().extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

fn call(input: &mut Input, tsc: u64) -> Call {
    let nr = u16::from_le_bytes([input.byte(), input.byte()]) % 480;
    let args = [(); 6].map(|()| input.one_of(VALUES));
    let outcome = match input.byte() {
        0 => Outcome::Unfinished,
        time => {
            Outcome::Returned { exit_tsc: tsc + u64::from(time) * 50, ret: input.one_of(RESULTS) }
        }
    };
    let mut data = Vec::new();
    for _ in 0..input.byte() % 4 {
        let arg = input.byte() % 7;
        let bytes = match input.byte() {
            0..128 => input.one_of(PATHS).as_bytes().to_vec(),
            len => vec![input.byte(); usize::from(len) % 64],
        };
        data.push(Data {
            arg,
            part: input.byte() % 6,
            index: u16::from(input.byte() % 3),
            flags: input.one_of(&[0, 0, data_flag::OUT, data_flag::FAULT]),
            true_len: bytes.len() as u64,
            hash: None,
            content: Content::Inline(bytes),
        });
    }
    Call { nr, flags: 0, site: 0, nargs: 6, args, outcome, data, identities: Vec::new() }
}

/// A whole trace.
fn write(input: &mut Input) -> Vec<u8> {
    let memory = Memory::default();
    let options = WriterOptions { workers: 0, ..WriterOptions::default() };
    let preamble = Preamble { tsc_hz: 1_000_000_000, ..Preamble::default() };
    let mut writer = Writer::new(Box::new(memory.clone()), &preamble, options).unwrap();
    let mut tsc = 0;
    let mut push = |thread: u32, tsc: u64, kind| {
        writer.event(&Event::new(thread, tsc, kind)).unwrap();
    };
    let start = |how, process, parent, thread: u32| EventKind::Start {
        how,
        process,
        parent,
        pid: 1000 + process,
        tid: 1000 + thread,
    };
    push(1, 0, start(StartHow::Launch, 1, 0, 1));
    let state = ProcessState {
        process: 1,
        cwd: b"/".to_vec(),
        root: b"/".to_vec(),
        limits: vec![(1024, 1024); 16],
        ..ProcessState::default()
    };
    push(RECORDER, 0, EventKind::State(Box::new(state)));
    while !input.0.is_empty() && tsc < 200_000 {
        tsc += 1 + u64::from(input.byte());
        let thread = u32::from(input.byte() % 5) + 1;
        let kind = match input.byte() {
            0..16 => {
                let how = input.one_of(&[StartHow::Fork, StartHow::Vfork, StartHow::Thread]);
                let process = u32::from(input.byte() % 5) + 1;
                start(how, process, u32::from(input.byte() % 6), thread)
            }
            16..20 => EventKind::Image { tid: 1000 + thread, data: Vec::new() },
            20..24 => EventKind::End { calls: 1 },
            _ => EventKind::Call(call(input, tsc)),
        };
        push(thread, tsc, kind);
    }
    writer.finish(&Totals { tsc_hz: 1_000_000_000, end_tsc: tsc, ..Totals::default() }).unwrap();
    memory.0.lock().unwrap().clone()
}

fuzz_target!(|input: &[u8]| {
    let bytes = write(&mut Input(input));
    let trace = Trace::from_stream(std::io::Cursor::new(bytes)).unwrap();
    let dir = tempfile::tempdir().unwrap();
    let (root, outside) = (dir.path().join("root"), dir.path().join("outside"));
    std::fs::create_dir(&root).unwrap();
    std::fs::create_dir(&outside).unwrap();
    std::fs::write(outside.join("secret"), "secret").unwrap();
    let inode = root.metadata().unwrap().ino();
    let directory = Directory::open(&root).unwrap();
    // Without the filter of calls: the walls behind it are to hold as well.
    let options = jail::Options {
        root: &directory,
        binds: &[],
        identity: Some((0, 0)),
        readable: None,
        filter: false,
    };
    let inmate = jail::spawn(&options, |_| {
        // Should the jail not hold, nothing is tried: the input could do anything.
        let is_root = Path::new("/").metadata().is_ok_and(|found| found.ino() == inode);
        if std::process::id() != 1 || !is_root || outside.exists() {
            return NOT_CONFINED;
        }
        // Most random traces hold a wait that never ends.
        let stuck_after = Duration::from_millis(200);
        let options = Options { powers: Powers::Files, stuck_after, ..Options::default() };
        let image = Image::Trace;
        let session = Session {
            trace: &trace,
            progress: &|_| {},
            image,
            places: &[],
            options,
            ready: None,
            max_size: Some(256 << 20),
            memory: 256 << 20,
            compare: true,
            proc: None,
            log: None,
        };
        session.run();
        0
    });
    assert_eq!(inmate.unwrap().wait().unwrap(), Exit::Code(0));
    assert_eq!(std::fs::read(outside.join("secret")).unwrap(), b"secret");
    assert_eq!(std::fs::read_dir(&outside).unwrap().count(), 1);
    // Modes that were replayed must not keep the directory from being removed.
    let _ = std::fs::set_permissions(&root, PermissionsExt::from_mode(0o700));
});
