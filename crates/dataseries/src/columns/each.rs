//! Descriptions of our record types.

use syscalls::record::{GapWhy, Identity, SIGINFO_BYTES, StartHow};
use trace::event::{EventKind, OpenFd, Preamble, ProcessState, Totals};
use trace::manifest::{Content, Ending, Entry, FileKind, Scope, Sums, Xattr};

use super::{Columns, Declare, OWN};

/// The recording: where, when and how it was made. One record.
pub const RECORDING: &str = "Reenact::Trace::Recording";
/// The recorder's counts. One record, if the recording ended properly.
pub const TOTALS: &str = "Reenact::Trace::Totals";
/// A call, except what the fields of its own type hold.
pub const CALL: &str = "Reenact::Trace::Call";
/// Memory that an argument of a call points to, or of an image.
pub const DATA: &str = "Reenact::Trace::Data";
/// Identity of a file at its first use by a call.
pub const IDENTITY: &str = "Reenact::Trace::Identity";
/// An open descriptor of a `State`.
pub const DESCRIPTOR: &str = "Reenact::Trace::Descriptor";
/// A changed path, in its final state.
pub const FILE: &str = "Reenact::Trace::File";
/// Summary of the changed paths.
pub const MANIFEST: &str = "Reenact::Trace::Manifest";

/// Name of a type, and a function that makes a sample event of it.
type Sample = (&'static str, fn() -> EventKind);

/// The types of events other than calls.
pub const EVENTS: &[Sample] = &[
    ("Reenact::Trace::Start", || EventKind::Start {
        how: StartHow::Launch,
        process: 0,
        parent: 0,
        pid: 0,
        tid: 0,
    }),
    ("Reenact::Trace::Image", || EventKind::Image { tid: 0, data: Vec::new() }),
    ("Reenact::Trace::End", || EventKind::End { calls: 0 }),
    ("Reenact::Trace::Signal", || EventKind::Signal {
        signal: 0,
        handler: 0,
        info: [0; SIGINFO_BYTES],
    }),
    ("Reenact::Trace::Stall", || EventKind::Stall { ns: 0 }),
    ("Reenact::Trace::Gap", || EventKind::Gap {
        why: GapWhy::Imported,
        detail: 0,
        text: String::new(),
    }),
    ("Reenact::Trace::State", || EventKind::State(Box::default())),
    ("Reenact::Trace::Exit", || EventKind::Exit { process: 0, status: None }),
];

/// Returns the type of an event other than a call.
pub fn event_name(kind: &EventKind) -> Option<&'static str> {
    let same = |other: &EventKind| std::mem::discriminant(other) == std::mem::discriminant(kind);
    EVENTS.iter().find(|(_, sample)| same(&sample())).map(|(name, _)| *name)
}

/// Returns names and XML of our types.
pub fn declarations() -> Vec<(String, String)> {
    let mut all = Vec::new();
    let mut declare = |name: &str, describe: &mut dyn FnMut(&mut Declare)| {
        let mut xml = Declare::new(name);
        describe(&mut xml);
        all.push((name.to_string(), xml.end()));
    };
    declare(RECORDING, &mut |xml| recording(xml, &mut Preamble::default()));
    declare(TOTALS, &mut |xml| totals(xml, &mut Totals::default()));
    declare(CALL, &mut |xml| call(xml, &mut CallRest::default()));
    declare(DATA, &mut |xml| {
        data(xml, &mut Piece::default());
        xml.bytes(CONTENT, &mut Vec::new());
    });
    declare(IDENTITY, &mut |xml| identity(xml, &mut (0, 0, Identity::default())));
    declare(DESCRIPTOR, &mut |xml| descriptor(xml, &mut (0, OpenFd::default())));
    declare(FILE, &mut |xml| file(xml, &mut (0, Entry::default())));
    declare(MANIFEST, &mut |xml| ending(xml, &mut (0, Ending::default())));
    for (name, sample) in EVENTS {
        declare(name, &mut |xml| event(xml, &mut (Stamp::default(), sample())));
    }
    debug_assert!(all.iter().all(|(name, _)| name.starts_with(OWN)));
    all
}

/// Describes [`RECORDING`].
pub fn recording(columns: &mut impl Columns, of: &mut Preamble) {
    columns.texts("command", 0, &mut of.command);
    columns.text("recorder_version", &mut of.recorder_version);
    columns.text("host", &mut of.host);
    columns.text("kernel", &mut of.kernel);
    columns.text("cpu", &mut of.cpu);
    columns.u32("cpus", &mut of.cpus);
    columns.u64("memory_bytes", &mut of.memory_bytes);
    columns.u32("page_bytes", &mut of.page_bytes);
    columns.texts("mounts", b'\n', &mut of.mounts);
    columns.u64("trace_dev", &mut of.trace_dev);
    columns.u64("epoch_ns", &mut of.epoch_ns);
    columns.u64("epoch_ticks", &mut of.epoch_tsc);
    columns.u64("ticks_per_s", &mut of.tsc_hz);
    columns.text("options", &mut of.options);
}

/// Describes [`TOTALS`].
pub fn totals(columns: &mut impl Columns, of: &mut Totals) {
    columns.u64("calls_made", &mut of.calls_made);
    columns.u64("calls_read", &mut of.calls_read);
    columns.u64("calls_written", &mut of.calls_written);
    columns.u64("slow_path_calls", &mut of.slow_path_calls);
    columns.u64("ring_bytes_published", &mut of.ring_bytes_published);
    columns.u64("ring_bytes_read", &mut of.ring_bytes_read);
    columns.u64("data_bytes", &mut of.data_bytes);
    columns.u64("stored_bytes", &mut of.stored_bytes);
    columns.u32("threads", &mut of.threads);
    columns.u32("processes", &mut of.processes);
    columns.u64("gaps", &mut of.gaps);
    columns.u64("stall_ns", &mut of.stall_ns);
    columns.u64("ticks_per_s", &mut of.tsc_hz);
    columns.u64("end_ticks", &mut of.end_tsc);
}

/// A record of [`CALL`].
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct CallRest {
    /// Position among all calls and events.
    pub event: i64,
    /// The unique_id of the first record of the call.
    pub id: i64,
    /// Number of records in the call's own type.
    pub records: u32,
    /// Thread number.
    pub thread: u32,
    /// x86_64 number.
    pub nr: u16,
    /// `syscalls::record::enter_flag` bits.
    pub flags: u8,
    /// Address of the `syscall` instruction.
    pub site: u64,
    /// Number of arguments.
    pub nargs: u8,
    /// Values of the arguments.
    pub args: [u64; 6],
    /// Time of the call, in ticks.
    pub entered: u64,
    /// Time of the return, in ticks.
    pub returned: Option<i64>,
    /// Result.
    pub result: Option<i64>,
}

/// Describes [`CALL`].
pub fn call(columns: &mut impl Columns, of: &mut CallRest) {
    columns.i64("event", &mut of.event);
    columns.i64("unique_id", &mut of.id);
    columns.u32("records", &mut of.records);
    columns.u32("thread", &mut of.thread);
    columns.u16("number", &mut of.nr);
    columns.u8("flags", &mut of.flags);
    columns.u64("site", &mut of.site);
    columns.u8("arguments", &mut of.nargs);
    let names = ["arg0", "arg1", "arg2", "arg3", "arg4", "arg5"];
    for (name, arg) in names.into_iter().zip(&mut of.args) {
        columns.u64(name, arg);
    }
    columns.u64("entered_ticks", &mut of.entered);
    columns.optional("returned_ticks", &mut of.returned);
    columns.optional("result", &mut of.result);
    if of.nargs > 6 {
        columns.bad();
    }
}

/// The field of [`DATA`] for the bytes; empty if another record holds them.
pub const CONTENT: &str = "content";

/// A record of [`DATA`].
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Piece {
    /// Position of the call or image.
    pub event: i64,
    /// Number of the argument.
    pub arg: u8,
    /// `syscalls::record::part`.
    pub part: u8,
    /// Index of the element.
    pub index: u16,
    /// `syscalls::record::data_flag` bits.
    pub flags: u8,
    /// Length in the program's memory.
    pub true_len: u64,
    /// XXH3-128 hash of the bytes, or empty.
    pub hash: Vec<u8>,
    /// The unique_id of the record that holds the bytes.
    pub held_by: Option<i64>,
    /// The field of that record.
    pub field: String,
    /// 1 if the next record continues the piece.
    pub goes_on: u8,
}

/// Describes [`DATA`], except [`CONTENT`].
pub fn data(columns: &mut impl Columns, of: &mut Piece) {
    columns.i64("event", &mut of.event);
    columns.u8("argument", &mut of.arg);
    columns.u8("part", &mut of.part);
    columns.u16("element", &mut of.index);
    columns.u8("flags", &mut of.flags);
    columns.u64("true_length", &mut of.true_len);
    columns.bytes("xxh3_128", &mut of.hash);
    columns.optional("held_by", &mut of.held_by);
    columns.text("field", &mut of.field);
    columns.u8("goes_on", &mut of.goes_on);
    if !matches!(of.hash.len(), 0 | 16) {
        columns.bad();
    }
}

/// Describes [`IDENTITY`]: position of the call, argument, file.
pub fn identity(columns: &mut impl Columns, of: &mut (i64, u8, Identity)) {
    let (id, arg, file) = of;
    columns.i64("event", id);
    columns.u8("argument", arg);
    columns.u64("dev", &mut file.dev);
    columns.u64("ino", &mut file.ino);
    columns.u32("mode", &mut file.mode);
    columns.u32("nlink", &mut file.nlink);
    columns.u32("uid", &mut file.uid);
    columns.u32("gid", &mut file.gid);
    columns.u64("size", &mut file.size);
    columns.u64("rdev", &mut file.rdev);
    columns.i64("mtime_ns", &mut file.mtime_ns);
}

/// Describes [`DESCRIPTOR`]: position of the state, descriptor.
pub fn descriptor(columns: &mut impl Columns, of: &mut (i64, OpenFd)) {
    let (id, open) = of;
    let mut fd = i64::from(open.fd);
    columns.i64("event", id);
    columns.i64("descriptor", &mut fd);
    columns.bytes("target", &mut open.target);
    columns.u64("offset", &mut open.offset);
    columns.u32("flags", &mut open.flags);
    open.fd = fd as i32;
}

/// Position, thread and time of an event.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Stamp {
    /// Position among all calls and events.
    pub event: i64,
    /// Thread number.
    pub thread: u32,
    /// Time in ticks.
    pub tsc: u64,
}

/// Describes the type of an event other than a call.
pub fn event(columns: &mut impl Columns, of: &mut (Stamp, EventKind)) {
    let (stamp, kind) = of;
    columns.i64("event", &mut stamp.event);
    columns.u32("thread", &mut stamp.thread);
    columns.u64("ticks", &mut stamp.tsc);
    match kind {
        EventKind::Call(_) => columns.bad(),
        EventKind::Signal { signal, handler, info } => {
            columns.u8("signal", signal);
            columns.u64("handler", handler);
            let mut bytes = info.to_vec();
            columns.bytes("siginfo", &mut bytes);
            match bytes.try_into() {
                Ok(bytes) => *info = bytes,
                Err(_) => columns.bad(),
            }
        }
        EventKind::Start { how, process, parent, pid, tid } => {
            let mut code = *how as u8;
            columns.u8("how", &mut code);
            match StartHow::from_wire(code) {
                Some(found) => *how = found,
                None => columns.bad(),
            }
            columns.u32("process", process);
            columns.u32("parent", parent);
            columns.u32("pid", pid);
            columns.u32("tid", tid);
        }
        EventKind::Image { tid, .. } => columns.u32("tid", tid),
        EventKind::End { calls } => columns.u64("calls", calls),
        EventKind::Stall { ns } => columns.u64("ns", ns),
        EventKind::Gap { why, detail, text } => {
            let mut code = *why as u8;
            columns.u8("why", &mut code);
            match GapWhy::from_wire(code) {
                Some(found) => *why = found,
                None => columns.bad(),
            }
            columns.u64("detail", detail);
            columns.text("text", text);
        }
        EventKind::State(state) => self::state(columns, state),
        EventKind::Exit { process, status } => {
            columns.u32("process", process);
            let mut wide = status.map(i64::from);
            columns.optional("status", &mut wide);
            *status = wide.map(|status| status as i32);
        }
    }
}

fn state(columns: &mut impl Columns, of: &mut ProcessState) {
    columns.u32("process", &mut of.process);
    columns.u32("pid", &mut of.pid);
    columns.u32("ppid", &mut of.ppid);
    columns.bytes("exe", &mut of.exe);
    columns.bytes("cwd", &mut of.cwd);
    columns.bytes("root", &mut of.root);
    ids(columns, "uids", &mut of.uids);
    ids(columns, "gids", &mut of.gids);
    let mut groups: Vec<u64> = of.groups.iter().map(|group| u64::from(*group)).collect();
    columns.words("groups", &mut groups);
    of.groups = groups.into_iter().map(|group| group as u32).collect();
    columns.u32("umask", &mut of.umask);
    columns.u64("signals_blocked", &mut of.sig_blocked);
    columns.u64("signals_ignored", &mut of.sig_ignored);
    let mut limits: Vec<u64> = of.limits.iter().flat_map(|(soft, hard)| [*soft, *hard]).collect();
    columns.words("limits", &mut limits);
    of.limits = limits.as_chunks::<2>().0.iter().map(|[soft, hard]| (*soft, *hard)).collect();
    columns.u64("descriptors_left_out", &mut of.fds_left_out);
}

fn ids(columns: &mut impl Columns, name: &'static str, of: &mut [u32; 4]) {
    let mut wide = of.map(u64::from).to_vec();
    columns.words(name, &mut wide);
    match <[u64; 4]>::try_from(wide) {
        Ok(wide) => *of = wide.map(|id| id as u32),
        Err(_) => columns.bad(),
    }
}

/// Describes [`FILE`]: position, entry.
pub fn file(columns: &mut impl Columns, of: &mut (i64, Entry)) {
    let (id, entry) = of;
    columns.i64("event", id);
    columns.bytes("path", &mut entry.path);
    let mut code = entry.kind as u32;
    columns.u32("kind", &mut code);
    match FileKind::from_wire(code) {
        Some(kind) => entry.kind = kind,
        None => columns.bad(),
    }
    columns.u32("mode", &mut entry.mode);
    columns.u32("uid", &mut entry.uid);
    columns.u32("gid", &mut entry.gid);
    columns.u64("nlink", &mut entry.nlink);
    columns.u64("size", &mut entry.size);
    columns.u64("rdev", &mut entry.rdev);
    columns.u64("same", &mut entry.same);
    content(columns, &mut entry.content);
    columns.bytes("target", &mut entry.target);
    let mut names: Vec<Vec<u8>> = entry.xattrs.iter().map(|xattr| xattr.name.clone()).collect();
    columns.texts("xattr_names", 0, &mut names);
    let halves = |hash: u128| [hash as u64, (hash >> 64) as u64];
    let mut hashes: Vec<u64> = entry.xattrs.iter().flat_map(|xattr| halves(xattr.hash)).collect();
    columns.words("xattr_hashes", &mut hashes);
    let whole = |[low, high]: [u64; 2]| u128::from(low) | u128::from(high) << 64;
    let hashes = hashes.as_chunks::<2>().0.iter().map(|halves| whole(*halves));
    entry.xattrs = names.into_iter().zip(hashes).map(|(name, hash)| Xattr { name, hash }).collect();
}

fn content(columns: &mut impl Columns, of: &mut Content) {
    let mut sums = match of {
        Content::Hashed(sums) => std::mem::take(sums),
        _ => Sums::default(),
    };
    let codes = [
        Content::None,
        Content::Hashed(Sums::default()),
        Content::Unreadable,
        Content::Mapped,
        Content::Unsteady,
        Content::TooLong,
    ];
    let same = |other: &Content| std::mem::discriminant(other) == std::mem::discriminant(of);
    let mut code = codes.iter().position(same).unwrap_or(0) as u64;
    columns.u64("content", &mut code);
    let mut whole = vec![sums.whole as u64, (sums.whole >> 64) as u64];
    columns.words("content_hash", &mut whole);
    columns.u64("piece_bytes", &mut sums.piece_bytes);
    columns.words("piece_hashes", &mut sums.pieces);
    match whole[..] {
        [low, high] => sums.whole = u128::from(low) | u128::from(high) << 64,
        _ => columns.bad(),
    }
    match codes.into_iter().nth(code as usize) {
        Some(Content::Hashed(_)) => *of = Content::Hashed(sums),
        Some(other) => *of = other,
        None => columns.bad(),
    }
}

/// Describes [`MANIFEST`]: position, summary.
pub fn ending(columns: &mut impl Columns, of: &mut (i64, Ending)) {
    let (id, ending) = of;
    columns.i64("event", id);
    let mut code = ending.scope as u64;
    columns.u64("scope", &mut code);
    let scopes = [Scope::Whole, Scope::Truncated, Scope::StoppedEarly];
    match scopes.into_iter().find(|scope| *scope as u64 == code) {
        Some(scope) => ending.scope = scope,
        None => columns.bad(),
    }
    columns.u64("left_out", &mut ending.left_out);
}
