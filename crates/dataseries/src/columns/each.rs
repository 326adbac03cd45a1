//! Descriptions of our record types.

use syscalls::record::{Identity, SIGINFO_BYTES};
use trace::Malformed;
use trace::event::{Data, EventKind, OpenFd, Preamble, Totals};
use trace::event_fields::FieldVisitor;
use trace::event_table::{self, EventRow, Field};
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
/// An optional part of a call or another event.
pub const PART: &str = "Reenact::Trace::Part";
/// Identity of a file at its first use by a call.
pub const IDENTITY: &str = "Reenact::Trace::Identity";
/// An open descriptor of a `State`.
pub const DESCRIPTOR: &str = "Reenact::Trace::Descriptor";
/// A changed path, in its final state.
pub const FILE: &str = "Reenact::Trace::File";
/// Summary of the changed paths.
pub const MANIFEST: &str = "Reenact::Trace::Manifest";

/// Returns the types of events other than calls, each with the row that it is made of.
pub fn event_types() -> impl Iterator<Item = (String, &'static EventRow)> {
    event_table::rows().map(|row| (event_name(row), row))
}

/// Returns the type of a kind of event: `page_fault` is `Reenact::Trace::PageFault`.
pub fn event_name(row: &EventRow) -> String {
    let capital = |word: &str| match word.split_at_checked(1) {
        Some((first, rest)) => first.to_ascii_uppercase() + rest,
        None => String::new(),
    };
    let words: String = row.name.split('_').map(capital).collect();
    format!("{OWN}{words}")
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
    declare(PART, &mut |xml| part(xml, &mut PartOf::default()));
    declare(IDENTITY, &mut |xml| identity(xml, &mut (0, 0, Identity::default())));
    declare(DESCRIPTOR, &mut |xml| descriptor(xml, &mut (0, OpenFd::default())));
    declare(FILE, &mut |xml| file(xml, &mut (0, Entry::default())));
    declare(MANIFEST, &mut |xml| ending(xml, &mut (0, Ending::default())));
    for (name, row) in event_types() {
        declare(&name, &mut |xml| event(xml, &mut (Stamp::default(), EventKind::blank(row))));
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

/// A record of [`PART`].
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct PartOf {
    /// Position of the event.
    pub event: i64,
    /// What it is: of `trace::parts::part_id`.
    pub id: u64,
    /// Its value, if that is a number.
    pub number: Option<i64>,
    /// Its value otherwise.
    pub bytes: Vec<u8>,
}

/// Describes [`PART`].
pub fn part(columns: &mut impl Columns, of: &mut PartOf) {
    columns.i64("event", &mut of.event);
    columns.u64("part", &mut of.id);
    columns.optional("number", &mut of.number);
    columns.bytes("bytes", &mut of.bytes);
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
    if kind.visit(&mut EventColumns(columns)).is_err() {
        columns.bad();
    }
}

/// The fields of an event as columns. Open descriptors and memory have types of their own.
struct EventColumns<'a, C>(&'a mut C);

impl<C: Columns> FieldVisitor for EventColumns<'_, C> {
    fn u8(&mut self, field: &'static Field, value: &mut u8) -> Result<(), Malformed> {
        self.0.u8(field.name, value);
        Ok(())
    }

    fn u32(&mut self, field: &'static Field, value: &mut u32) -> Result<(), Malformed> {
        self.0.u32(field.name, value);
        Ok(())
    }

    fn u64(&mut self, field: &'static Field, value: &mut u64) -> Result<(), Malformed> {
        self.0.u64(field.name, value);
        Ok(())
    }

    fn i64(&mut self, field: &'static Field, value: &mut i64) -> Result<(), Malformed> {
        self.0.i64(field.name, value);
        Ok(())
    }

    fn optional_i32(
        &mut self,
        field: &'static Field,
        value: &mut Option<i32>,
    ) -> Result<(), Malformed> {
        let mut wide = value.map(i64::from);
        self.0.optional(field.name, &mut wide);
        *value = wide.map(|value| value as i32);
        Ok(())
    }

    fn bytes(&mut self, field: &'static Field, value: &mut Vec<u8>) -> Result<(), Malformed> {
        self.0.bytes(field.name, value);
        Ok(())
    }

    fn text(&mut self, field: &'static Field, value: &mut String) -> Result<(), Malformed> {
        self.0.text(field.name, value);
        Ok(())
    }

    fn siginfo(
        &mut self,
        field: &'static Field,
        value: &mut [u8; SIGINFO_BYTES],
    ) -> Result<(), Malformed> {
        let mut bytes = value.to_vec();
        self.0.bytes(field.name, &mut bytes);
        *value = bytes.try_into().map_err(|_| Malformed("a siginfo has another length"))?;
        Ok(())
    }

    fn four_u32(&mut self, field: &'static Field, value: &mut [u32; 4]) -> Result<(), Malformed> {
        let mut wide = value.map(u64::from).to_vec();
        self.0.words(field.name, &mut wide);
        let wide: [u64; 4] = wide.try_into().map_err(|_| Malformed("there are not four"))?;
        *value = wide.map(|number| number as u32);
        Ok(())
    }

    fn list_u32(&mut self, field: &'static Field, value: &mut Vec<u32>) -> Result<(), Malformed> {
        let mut wide: Vec<u64> = value.iter().map(|number| u64::from(*number)).collect();
        self.0.words(field.name, &mut wide);
        *value = wide.into_iter().map(|number| number as u32).collect();
        Ok(())
    }

    fn pairs(
        &mut self,
        field: &'static Field,
        value: &mut Vec<(u64, u64)>,
    ) -> Result<(), Malformed> {
        let mut flat: Vec<u64> = value.iter().flat_map(|(one, other)| [*one, *other]).collect();
        self.0.words(field.name, &mut flat);
        *value = flat.as_chunks::<2>().0.iter().map(|[one, other]| (*one, *other)).collect();
        Ok(())
    }

    fn descriptors(&mut self, _: &'static Field, _: &mut Vec<OpenFd>) -> Result<(), Malformed> {
        Ok(())
    }

    fn memory(&mut self, _: &'static Field, _: &mut Vec<Data>) -> Result<(), Malformed> {
        Ok(())
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
