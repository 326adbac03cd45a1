//! Writes traces as an attacker would: valid files with arbitrary contents.

use std::fs::File;
use std::path::Path;

use syscalls::record::{Identity, data_flag, part};
use trace::event::{
    Call, Content, Data, Event, EventKind, OpenFd, Outcome, Preamble, ProcessState, RECORDER,
    StartHow, Totals,
};
use trace::{Writer, WriterOptions};

/// The descriptor argument for the working directory.
pub const CWD: u64 = libc::AT_FDCWD as u64;

/// A pointer argument; it is never dereferenced.
pub const POINTER: u64 = 0x7000_0000_0000;

/// Ticks per second: a tick is a nanosecond.
const HZ: u64 = 1_000_000_000;

/// Writes a trace.
pub struct Script {
    writer: Writer,
    tsc: u64,
}

/// Builds a call.
pub struct Made {
    call: Call,
}

impl Script {
    /// Begins a trace of one program: thread 1 of process 1, run by root in `/`.
    pub fn new(path: &Path) -> Script {
        Script::empty(path).begun()
    }

    /// Starts the first program.
    pub fn begun(self) -> Script {
        let mut script = self;
        script.start(1, StartHow::Launch, 1, 0);
        script.state(1, |_| {});
        script.push(1, EventKind::Image { tid: 1001, data: Vec::new() });
        script
    }

    /// Begins a trace without events.
    pub fn empty(path: &Path) -> Script {
        Script::told(path, "", vec![b"22 1 8:1 / / rw - ext4 /dev/sda1 rw".to_vec()])
    }

    /// Begins a trace with the name and mounts of a machine.
    pub fn told(path: &Path, host: &str, mounts: Vec<Vec<u8>>) -> Script {
        let host = host.to_string();
        let preamble = Preamble { tsc_hz: HZ, host, mounts, ..Preamble::default() };
        let file = Box::new(File::create(path).unwrap());
        let options = WriterOptions { workers: 0, ..WriterOptions::default() };
        Script { writer: Writer::new(file, &preamble, options).unwrap(), tsc: 0 }
    }

    /// Adds an event, a little later than the one before.
    pub fn push(&mut self, thread: u32, kind: EventKind) {
        self.tsc += 1000;
        self.at(self.tsc, thread, kind);
    }

    /// Adds an event at any time.
    pub fn at(&mut self, tsc: u64, thread: u32, kind: EventKind) {
        self.writer.event(&Event::new(thread, tsc, kind)).unwrap();
    }

    /// Advances the time, and returns it.
    pub fn pass(&mut self, ticks: u64) -> u64 {
        self.tsc += ticks;
        self.tsc
    }

    pub fn start(&mut self, thread: u32, how: StartHow, process: u32, parent: u32) {
        let (pid, tid) = (1000 + process, 1000 + thread);
        self.push(thread, EventKind::Start { how, process, parent, pid, tid });
    }

    pub fn state(&mut self, process: u32, change: impl FnOnce(&mut ProcessState)) {
        let standard = |fd| OpenFd { fd, target: b"/dev/null".to_vec(), offset: 0, flags: 2 };
        let mut limits = vec![(1024, 4096); 16];
        // No limit on file sizes.
        limits[libc::RLIMIT_FSIZE as usize] = (u64::MAX, u64::MAX);
        let mut state = ProcessState {
            process,
            pid: 1000 + process,
            cwd: b"/".to_vec(),
            root: b"/".to_vec(),
            umask: 0o22,
            limits,
            fds: (0..3).map(standard).collect(),
            ..ProcessState::default()
        };
        change(&mut state);
        self.push(RECORDER, EventKind::State(Box::new(state)));
    }

    /// Adds a call of thread 1 without buffers.
    pub fn plain(&mut self, nr: libc::c_long, args: &[u64], ret: i64) {
        self.call(1, made(nr, args, ret));
    }

    /// Adds a call of thread 1 whose argument `arg` is a path.
    pub fn path(&mut self, nr: libc::c_long, args: &[u64], arg: u8, path: &str, ret: i64) {
        self.call(1, made(nr, args, ret).text(arg, path));
    }

    /// Adds a call of thread 1 with two paths.
    pub fn paths(&mut self, nr: libc::c_long, args: &[u64], paths: [(u8, &str); 2], ret: i64) {
        let [first, second] = paths;
        self.call(1, made(nr, args, ret).text(first.0, first.1).text(second.0, second.1));
    }

    /// Adds an open by thread 1.
    pub fn open(&mut self, path: &str, flags: i32, ret: i64) {
        let args = [CWD, POINTER, flags as u64, 0o644];
        self.path(libc::SYS_openat, &args, 1, path, ret);
    }

    /// Adds a write by thread 1.
    pub fn write(&mut self, fd: u64, bytes: &[u8]) {
        let args = [fd, POINTER, bytes.len() as u64];
        let ret = bytes.len() as i64;
        self.call(1, made(libc::SYS_write, &args, ret).bytes(1, part::WHOLE, 0, bytes));
    }

    pub fn call(&mut self, thread: u32, made: Made) {
        self.tsc += 1000;
        let mut call = made.call;
        if let Outcome::Returned { exit_tsc, .. } = &mut call.outcome {
            *exit_tsc = self.tsc + 500;
        }
        self.at(self.tsc, thread, EventKind::Call(call));
    }

    /// Ends thread 1 and the file, as a recorder does.
    pub fn finish(mut self) {
        let calls = self.writer.calls_written();
        self.push(1, EventKind::End { calls });
        let totals = Totals {
            calls_made: calls,
            calls_read: calls,
            calls_written: calls,
            tsc_hz: HZ,
            end_tsc: self.tsc + 1000,
            ..Totals::default()
        };
        self.writer.finish(&totals).unwrap();
    }
}

/// Makes a call that returned.
pub fn made(nr: libc::c_long, args: &[u64], ret: i64) -> Made {
    let mut all = [0; 6];
    all[..args.len()].copy_from_slice(args);
    Made {
        call: Call {
            nr: nr as u16,
            flags: 0,
            site: 0x40_0000,
            nargs: args.len() as u8,
            args: all,
            outcome: Outcome::Returned { exit_tsc: 0, ret },
            data: Vec::new(),
            identities: Vec::new(),
        },
    }
}

impl Made {
    /// Adds memory that an argument points to.
    pub fn bytes(self, arg: u8, part: u8, flags: u8, bytes: &[u8]) -> Made {
        self.claimed(arg, part, flags, bytes, bytes.len() as u64)
    }

    /// Adds memory with a larger claimed length.
    pub fn claimed(mut self, arg: u8, part: u8, flags: u8, bytes: &[u8], true_len: u64) -> Made {
        let cut = if true_len > bytes.len() as u64 { data_flag::CUT } else { 0 };
        self.call.data.push(Data {
            arg,
            part,
            index: 0,
            flags: flags | cut,
            true_len,
            hash: None,
            content: Content::Inline(bytes.to_vec()),
        });
        self
    }

    /// Adds memory filled with one byte, which is stored as one buffer that is repeated.
    pub fn repeated(self, arg: u8, part: u8, flags: u8, byte: u8, times: usize) -> Made {
        self.bytes(arg, part, flags, &vec![byte; times * 1024])
    }

    /// Adds a string.
    pub fn text(self, arg: u8, text: &str) -> Made {
        self.bytes(arg, part::WHOLE, 0, text.as_bytes())
    }

    /// Adds the identity of the file at a path argument.
    #[allow(dead_code, reason = "traces that are only read have it")]
    pub fn identity(&mut self, arg: u8, identity: Identity) {
        self.call.identities.push((arg, identity));
    }

    /// Makes the call one that never returned.
    pub fn unfinished(mut self) -> Made {
        self.call.outcome = Outcome::Unfinished;
        self
    }

    /// Returns the call as an event, with this time of return.
    pub fn event(mut self, exit: u64) -> EventKind {
        if let Outcome::Returned { exit_tsc, .. } = &mut self.call.outcome {
            *exit_tsc = exit;
        }
        EventKind::Call(self.call)
    }
}
