//! Synthetic recordings, written call by call.

use std::collections::HashMap;
use std::io::{self, Cursor, Write};
use std::os::fd::AsFd;
use std::path::PathBuf;
use std::sync::{Arc, Mutex};

use model::decode::shape::shape_of;
use syscalls::record::{RESULT, data_flag, part};
use syscalls::shape::{ArgKind, Dir, Of};
use tempfile::TempDir;
use trace::event::{
    Call, Content, Data, Event, EventKind, Identity, OpenFd, Outcome, Preamble, ProcessState,
    StartHow, Totals,
};
use trace::format::zigzag;
use trace::manifest;
use trace::parts::{Part, part_id};
use trace::sources::{Piece, Source, SourcesWriter};
use trace::{Trace, Writer, WriterOptions};

use super::super::{Built, build};
use crate::Fill;
use crate::space::Space;

/// A space without limits.
pub fn space() -> Arc<Space> {
    Arc::new(Space::new(Vec::new(), None).expect("nothing is asked"))
}

const AT_FDCWD: u64 = -100i64 as u64;

/// Identity of a file as calls report it.
pub fn stat(dev: u64, ino: u64, mode: u32) -> Identity {
    let mtime_ns = 1_000_000_000_000_000;
    // SAFETY: these have no arguments and cannot fail.
    let (uid, gid) = unsafe { (libc::geteuid(), libc::getegid()) };
    Identity { dev, ino, mode, nlink: 1, uid, gid, mtime_ns, ..Identity::default() }
}

/// The `struct stat` of an identity.
pub fn stat_bytes(told: Identity) -> [u8; 144] {
    let mut bytes = [0; 144];
    let fields: [(usize, u64); 8] = [
        (0, told.dev),
        (8, told.ino),
        (16, told.nlink.into()),
        (24, u64::from(told.mode) | u64::from(told.uid) << 32),
        (32, told.gid.into()),
        (48, told.size),
        (88, told.mtime_ns as u64 / 1_000_000_000),
        (96, told.mtime_ns as u64 % 1_000_000_000),
    ];
    for (at, value) in fields {
        bytes[at..at + 8].copy_from_slice(&value.to_le_bytes());
    }
    bytes
}

/// Setters for fields of an [`Identity`].
pub trait With {
    fn size(self, size: u64) -> Self;
    fn links(self, links: u32) -> Self;
}

impl With for Identity {
    fn size(self, size: u64) -> Identity {
        Identity { size, ..self }
    }

    fn links(self, nlink: u32) -> Identity {
        Identity { nlink, ..self }
    }
}

/// A recording in progress.
pub struct Recording {
    events: Vec<Event>,
    thread: u32,
    tsc: u64,
    at_end: Vec<manifest::Entry>,
    sources: Vec<(Vec<u8>, u64, Vec<u8>)>,
}

/// The image built from a recording.
pub struct Image {
    root: TempDir,
    pub built: Built,
}

impl Image {
    pub fn path(&self, path: &str) -> PathBuf {
        self.root.path().join(path)
    }

    pub fn names(&self, directory: &str) -> Vec<String> {
        let entries = std::fs::read_dir(self.path(directory)).expect("it is there");
        let names = entries.map(|e| e.expect("readable").file_name().into_string().expect("text"));
        let mut names: Vec<String> = names.collect();
        names.sort();
        names
    }
}

#[derive(Clone, Default)]
struct Kept(Arc<Mutex<Vec<u8>>>);

impl Write for Kept {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.lock().expect("no test panics here").extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Recording {
    /// Starts with one process in a directory.
    pub fn new(cwd: &str) -> Recording {
        Recording::with_open(cwd, &[])
    }

    /// Likewise, with open files: number, path, offset and flags.
    pub fn with_open(cwd: &str, open: &[(i32, &str, u64, u32)]) -> Recording {
        let fds = open.iter().map(|&(fd, target, offset, flags)| OpenFd {
            fd,
            target: target.into(),
            offset,
            flags,
        });
        // SAFETY: these have no arguments and cannot fail.
        let (uid, gid) = unsafe { (libc::geteuid(), libc::getegid()) };
        let state = ProcessState {
            process: 1,
            cwd: cwd.into(),
            root: b"/".to_vec(),
            uids: [uid; 4],
            gids: [gid; 4],
            fds: fds.collect(),
            ..ProcessState::default()
        };
        let mut recording = Recording {
            events: Vec::new(),
            thread: 1,
            tsc: 100,
            at_end: Vec::new(),
            sources: Vec::new(),
        };
        recording.started(1, 0);
        let kind = EventKind::State(Box::new(state));
        recording.events.push(Event::new(0, 150, kind));
        recording
    }

    fn started(&mut self, thread: u32, parent: u32) {
        let how = if parent == 0 { StartHow::Launch } else { StartHow::Fork };
        self.tsc += 10;
        let id = 100 + thread;
        let kind = EventKind::Start { how, process: thread, parent, pid: id, tid: id };
        self.events.push(Event::new(thread, self.tsc, kind));
        self.tsc = self.tsc.max(200);
    }

    /// Starts a child process.
    pub fn fork(&mut self, thread: u32) {
        self.numbers("fork", &[], i64::from(100 + thread));
        self.started(thread, self.thread);
    }

    /// Starts another thread of this process.
    pub fn thread(&mut self, thread: u32) {
        const SHARED: i32 =
            libc::CLONE_VM | libc::CLONE_FS | libc::CLONE_FILES | libc::CLONE_THREAD;
        self.numbers("clone", &[SHARED as u64], i64::from(100 + thread));
        self.started(thread, self.thread);
        let Some(last) = self.events.last_mut() else { return };
        if let EventKind::Start { how, process, pid, .. } = &mut last.kind {
            (*how, *process, *pid) = (StartHow::Thread, self.thread, 100 + self.thread);
        }
    }

    /// A child process of this one shows up at this time.
    pub fn child(&mut self, thread: u32, tsc: u64) {
        self.tsc = tsc - 10;
        self.started(thread, self.thread);
    }

    /// Ends the current thread.
    pub fn end(&mut self) {
        self.tsc += 10;
        let kind = EventKind::End { calls: 0 };
        self.events.push(Event::new(self.thread, self.tsc, kind));
    }

    /// Ends a process.
    pub fn ends(&mut self, process: u32) {
        self.tsc += 10;
        let kind = EventKind::Exit { process, status: Some(9) };
        self.events.push(Event::new(0, self.tsc, kind));
    }

    /// Sets begin and end of the last call.
    pub fn lasting(&mut self, begin: u64, end: u64) {
        let Some(last) = self.events.last_mut() else { return };
        last.tsc = begin;
        if let EventKind::Call(Call { outcome: Outcome::Returned { exit_tsc, .. }, .. }) =
            &mut last.kind
        {
            *exit_tsc = end;
        }
    }

    /// The last call submits so many operations.
    pub fn submits(&mut self, count: u64) {
        self.part(Part::number(part_id::OPERATIONS, count));
    }

    /// The last call is an operation, which was submitted and found completed then.
    pub fn in_flight(&mut self, submitted: u64, found: u64) {
        self.lasting(found, found);
        let ticks = zigzag(submitted.wrapping_sub(found) as i64);
        self.part(Part::number(part_id::SUBMITTED, ticks));
    }

    fn part(&mut self, part: Part) {
        self.last().extras.get_or_insert_default().parts.push(part);
    }

    /// Sorts the events by time, for calls that were added in another order.
    pub fn in_order(&mut self) {
        self.events.sort_by_key(|event| event.tsc);
    }

    /// Selects the thread that makes the following calls.
    pub fn by(&mut self, thread: u32) -> &mut Recording {
        self.thread = thread;
        self
    }

    /// Makes all calls made by `calls` overlap with the last one of them.
    pub fn overlapping(&mut self, calls: impl FnOnce(&mut Recording)) {
        let (before, begin) = (self.events.len(), self.tsc + 1);
        calls(self);
        let Some(last) = self.events.last_mut() else { return };
        last.tsc = begin;
        let mut last = self.events.split_off(self.events.len() - 1);
        let rest = self.events.split_off(before);
        self.events.append(&mut last);
        self.events.extend(rest);
    }

    /// Adds a call: its arguments, and the data of some of them.
    pub fn call(&mut self, name: &str, args: &[u64], data: &[(u8, &[u8])], ret: i64) -> &mut Call {
        let row = syscalls::by_name(name).unwrap_or_else(|| panic!("{name} has no row"));
        let mut all = [0; 6];
        all[..args.len()].copy_from_slice(args);
        let (tsc, exit_tsc) = (self.tsc + 2, self.tsc + 8);
        self.tsc += 10;
        let mut call = Call {
            nr: row.nr,
            flags: 0,
            site: 0x1000,
            nargs: row.args.len() as u8,
            args: all,
            outcome: Outcome::Returned { exit_tsc, ret },
            data: Vec::new(),
            identities: Vec::new(),
        };
        let shape = shape_of(&call);
        for (arg, bytes) in data {
            let Some(kind) = shape.args.get(usize::from(*arg)).map(|arg| arg.kind) else {
                continue;
            };
            let out = matches!(kind, ArgKind::Buf(Dir::Out, ..));
            let vector = matches!(kind, ArgKind::Buf(_, Of::Iovec, _));
            call.data.push(Data {
                arg: *arg,
                part: if vector { part::CONTENT } else { part::WHOLE },
                index: 0,
                flags: if out { data_flag::OUT } else { 0 },
                true_len: bytes.len() as u64,
                hash: None,
                content: Content::Inline(bytes.to_vec()),
            });
        }
        self.events.push(Event::new(self.thread, tsc, EventKind::Call(call)));
        match self.events.last_mut().map(|event| &mut event.kind) {
            Some(EventKind::Call(call)) => call,
            _ => unreachable!("a call was pushed"),
        }
    }

    /// Returns the last event.
    pub fn last(&mut self) -> &mut Event {
        self.events.last_mut().expect("something has happened")
    }

    /// Adds a call whose arguments are numbers.
    pub fn numbers(&mut self, name: &str, args: &[u64], ret: i64) {
        self.call(name, args, &[], ret);
    }

    /// Adds a call whose first arguments are texts.
    pub fn paths(&mut self, name: &str, texts: &[&str], ret: i64) {
        let texts: Vec<Vec<u8>> = texts.iter().map(|t| [t.as_bytes(), b"\0"].concat()).collect();
        let data: Vec<(u8, &[u8])> =
            texts.iter().zip(0u8..).map(|(text, arg)| (arg, &text[..])).collect();
        self.call(name, &[1, 1], &data, ret);
    }

    pub fn open(&mut self, path: &str, flags: u64, fd: i64) -> Told<'_> {
        self.openat(AT_FDCWD, path, flags, fd)
    }

    pub fn openat(&mut self, dir: u64, path: &str, flags: u64, fd: i64) -> Told<'_> {
        let text = [path.as_bytes(), b"\0"].concat();
        Told(self.call("openat", &[dir, 1, flags, 0o644], &[(1, &text)], fd))
    }

    pub fn read(&mut self, fd: u64, bytes: &[u8]) {
        let len = bytes.len();
        self.call("read", &[fd, 1, len as u64], &[(1, bytes)], len as i64);
    }

    /// Adds a read of `len` bytes, of which only the first are stored.
    pub fn read_cut(&mut self, fd: u64, stored: &[u8], len: u64) {
        let call = self.call("read", &[fd, 1, len], &[(1, stored)], len as i64);
        call.data[0].true_len = len;
    }

    pub fn pread(&mut self, fd: u64, bytes: &[u8], offset: u64) {
        let len = bytes.len();
        self.call("pread64", &[fd, 1, len as u64, offset], &[(1, bytes)], len as i64);
    }

    pub fn write(&mut self, fd: u64, bytes: &[u8]) {
        let len = bytes.len();
        self.call("write", &[fd, 1, len as u64], &[(1, bytes)], len as i64);
    }

    pub fn lseek(&mut self, fd: u64, offset: u64) {
        self.numbers("lseek", &[fd, offset, 0], offset as i64);
    }

    pub fn stat(&mut self, path: &str, told: Identity) {
        self.stat_call("stat", path, told);
    }

    pub fn lstat(&mut self, path: &str, told: Identity) {
        self.stat_call("lstat", path, told);
    }

    pub fn fstat(&mut self, fd: u64, told: Identity) {
        self.call("fstat", &[fd, 1], &[(1, &stat_bytes(told))], 0);
    }

    fn stat_call(&mut self, name: &str, path: &str, told: Identity) {
        let text = [path.as_bytes(), b"\0"].concat();
        self.call(name, &[1, 1], &[(0, &text), (1, &stat_bytes(told))], 0);
    }

    pub fn readlink(&mut self, path: &str, target: &[u8]) {
        self.readlink_into(4096, path, target);
    }

    /// Adds a readlink with a buffer of this size.
    pub fn readlink_into(&mut self, size: u64, path: &str, text: &[u8]) {
        let path = [path.as_bytes(), b"\0"].concat();
        let data: [(u8, &[u8]); 2] = [(0, &path), (1, text)];
        self.call("readlink", &[1, 1, size], &data, text.len() as i64);
    }

    /// Adds a directory listing: names and types.
    pub fn listed(&mut self, fd: u64, names: &[(&str, u8)]) {
        let mut bytes = Vec::new();
        for (name, kind) in names {
            let len = (19 + name.len() + 1).next_multiple_of(8);
            let begin = bytes.len();
            bytes.extend([0; 16]);
            bytes.extend((len as u16).to_le_bytes());
            bytes.push(*kind);
            bytes.extend(name.as_bytes());
            bytes.resize(begin + len, 0);
        }
        let ret = bytes.len() as i64;
        self.call("getdents64", &[fd, 1, 4096], &[(1, &bytes)], ret);
    }

    /// Starts another program.
    pub fn another_program(&mut self) {
        self.tsc += 10;
        let kind = EventKind::Image { tid: 100 + self.thread, data: Vec::new() };
        self.events.push(Event::new(self.thread, self.tsc, kind));
    }

    /// Adds a symbolic link to the final manifest, which must be sorted by path.
    pub fn ends_with_link(&mut self, path: &str, target: &str) {
        let (path, target) = (path.into(), target.into());
        let kind = manifest::FileKind::Link;
        self.at_end.push(manifest::Entry { path, kind, target, ..manifest::Entry::default() });
    }

    /// Adds a regular file to the final manifest.
    pub fn ends_with_file(&mut self, path: &str, mode: u32, (uid, gid): (u32, u32)) {
        let (path, kind) = (path.into(), manifest::FileKind::Regular);
        self.at_end.push(manifest::Entry {
            path,
            kind,
            mode,
            uid,
            gid,
            ..manifest::Entry::default()
        });
    }

    /// Adds content of a copy source, as read by the recorder after the recording.
    pub fn ends_with_source(&mut self, path: &str, offset: u64, bytes: &[u8]) {
        self.sources.push((path.into(), offset, bytes.to_vec()));
    }

    /// Returns all events.
    pub fn events(&self) -> impl Iterator<Item = Event> {
        self.events.clone().into_iter()
    }

    /// Writes the trace.
    pub fn trace(&self) -> Trace {
        let kept = Kept::default();
        let options = WriterOptions { workers: 0, ..WriterOptions::default() };
        let preamble = Preamble { tsc_hz: 1_000_000_000, ..Preamble::default() };
        let mut writer =
            Writer::new(Box::new(kept.clone()), &preamble, options).expect("memory takes all");
        let mut sorted: HashMap<u32, Vec<&Event>> = HashMap::new();
        for event in &self.events {
            sorted.entry(event.thread).or_default().push(event);
        }
        for event in sorted.values().flatten() {
            writer.event(event).expect("memory takes all");
        }
        let mut sources = SourcesWriter::default();
        for (path, offset, bytes) in &self.sources {
            let blobs = bytes.chunks(1000).map(|part| writer.blob(part).expect("memory takes all"));
            let (offset, len, blobs) = (*offset, bytes.len() as u64, blobs.collect());
            let pieces = vec![Piece { offset, len, hash: None, blobs }];
            let mut source = Source { path: path.clone(), pieces, ..Source::default() };
            sources.add(&mut writer, &mut source).expect("memory takes all");
        }
        sources.close(&mut writer).expect("memory takes all");
        let mut manifest = manifest::ManifestWriter::default();
        for link in &self.at_end {
            manifest.add(&mut writer, &mut link.clone()).expect("memory takes all");
        }
        let ending = manifest::Ending { scope: manifest::Scope::Whole, left_out: 0 };
        manifest.end(&mut writer, ending).expect("memory takes all");
        writer.finish(&Totals::default()).expect("memory takes all");
        let bytes = kept.0.lock().expect("no test panics here").clone();
        Trace::from_stream(Cursor::new(bytes)).expect("it is sound")
    }

    /// Builds the image of the initial files.
    pub fn image(&self) -> Image {
        let root = tempfile::tempdir().expect("a temporary directory");
        let directory = std::fs::File::open(root.path()).expect("it is there");
        let built = build(&self.trace(), directory.as_fd(), &[], &space(), &Fill::Zeros, &|_| {})
            .expect("an image");
        Image { root, built }
    }
}

/// An open, to which the identity of its file can be added.
pub struct Told<'a>(&'a mut Call);

impl Told<'_> {
    /// Adds the identity after the open.
    pub fn told(self, identity: Identity) {
        self.0.identities.push((RESULT, identity));
    }

    /// Adds the identity before the open.
    pub fn told_before(self, identity: Identity) {
        self.0.identities.push((1, identity));
    }

    /// Adds previous content of one window of the file.
    pub fn stored(self, window: u16, bytes: &[u8]) -> Self {
        self.0.data.push(Data {
            arg: 1,
            part: part::SNAPSHOT,
            index: window,
            flags: 0,
            true_len: bytes.len() as u64,
            hash: None,
            content: Content::Inline(bytes.to_vec()),
        });
        self
    }
}
