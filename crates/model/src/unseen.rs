//! Data that the trace lacks although it has every call: data that moves without a call, and data
//! that the kernel moves between files.
//!
//! A pure fold. The recorder uses it for the counts of its summary. Over a trace, file names and
//! byte counts are known too.

mod fates;
mod in_world;
mod look;
mod words;

use std::borrow::Cow;
use std::collections::{BTreeMap, HashSet};

use serde::{Deserialize, Serialize};
use syscalls::abi::errno::{self, ENOSYS};
use syscalls::layout::IO_EVENT;
use syscalls::mapping::Mapping;
use syscalls::operations::OPERATIONS_FIRST;
use syscalls::record::{OLD_NUMBERS, part, watched};
use syscalls::shape::{Ret, Syscall};
use syscalls::{Act, Classes, Operand};
use trace::event::{Call, Event, EventKind, Outcome};
use trace::{ReadError, Trace};

use crate::contents::{Contents, Stored};
use crate::mapped;
use crate::mappings::ReadOnly;
use crate::operations::{is_late, is_unsubmitted, operations_of};
use crate::path;
use crate::realm;
use crate::world::World;
pub use fates::{Fates, Kept};
use in_world::InWorld;
pub use look::{Look, Opened, OpenedKind};
pub use words::{Note, Way};
use words::{why_no_ring, why_not};

/// Limit for the files and descriptors counted separately; the rest is counted together.
const NAMES_MAX: usize = 10_000;
/// Limit for the processes in `Unseen::askers`.
const ASKERS_MAX: usize = 10_000;
/// Limit for the bytes of completed operations that are read per call.
const REAPED_BYTES_MAX: usize = 1 << 20;
/// Offset of the result in a completed operation.
const RESULT_AT: usize = 16;
/// Limit for the bytes of the auxiliary vector that are read.
const AUXILIARY_BYTES_MAX: usize = 4 << 10;
/// Offset of the flags in a ring's parameters, and the flag for a kernel thread that polls the
/// ring.
const RING_FLAGS_AT: usize = 8;
const RING_POLLED: u32 = 2;

/// A call that returned without an error.
#[derive(Clone, Copy, Debug)]
pub struct Made<'a> {
    /// Its number.
    pub nr: u16,
    /// Its arguments.
    pub args: &'a [u64; 6],
    /// Its result.
    pub ret: i64,
    /// Number of the calling process.
    pub process: u32,
    /// Number of operations submitted by it that are events of their own.
    pub operations: u64,
    /// What is known of the stores to the file that it has mapped: a `syscalls::record::watched`.
    pub watched: u8,
}

/// Amount of data moved in one way.
#[derive(Clone, Copy, Debug, Default)]
struct Amount {
    count: u64,
    bytes: u64,
    /// True if the real values are higher by an unknown amount.
    count_unknown: bool,
    bytes_unknown: bool,
}

/// Data that moved unseen in one way from or to one file.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Blind {
    /// The way in which the data moved.
    pub way: Way,
    /// The file, if it is one.
    pub file: Option<Vec<u8>>,
    /// The name of the descriptor's target if it is not a file.
    pub descriptor: Option<Vec<u8>>,
    /// Number of requests, mappings or calls, if known.
    pub count: Option<u64>,
    /// Number of bytes, if known. For mappings their length, an upper limit of the bytes moved.
    pub bytes: Option<u64>,
    /// Why the trace lacks the data.
    pub why: Cow<'static, str>,
}

/// All data that a trace lacks although it has every call.
#[derive(Clone, PartialEq, Eq, Default, Debug, Serialize, Deserialize)]
pub struct NotSeen {
    /// Unseen data, the most dangerous for a replay first.
    pub blind: Vec<Blind>,
    /// Harmless observations, each with its count.
    pub notes: Vec<(Note, u64)>,
}

impl NotSeen {
    /// Computes the result in one pass over a trace.
    pub fn of(trace: &Trace) -> Result<NotSeen, ReadError> {
        let (mut world, mut unseen) = (World::new(), Unseen::new());
        for next in trace.events() {
            let event = next?.event;
            let step = world.step(&event, &mut Stored(trace));
            unseen.event(&event, &world, &mut Stored(trace));
            world.finish(step);
        }
        Ok(unseen.finish_of(trace))
    }

    /// Returns the ways in which data moved, with the number of files or descriptors of each.
    pub fn ways(&self) -> BTreeMap<Way, u64> {
        let mut ways = BTreeMap::new();
        self.blind.iter().for_each(|blind| *ways.entry(blind.way).or_default() += 1);
        ways
    }

    /// Returns a short text of what may make a replay differ, if anything.
    pub fn dangers(&self) -> Option<String> {
        self.in_words(Way::endangers_replay)
    }

    /// Returns a short text of the selected ways in which data moved, if any.
    pub fn in_words(&self, which: impl Fn(Way) -> bool) -> Option<String> {
        let ways = self.ways().into_iter().filter(|(way, _)| which(*way));
        let words: Vec<String> = ways.map(|(way, files)| in_words(way, files)).collect();
        (!words.is_empty()).then(|| words.join(", "))
    }
}

fn in_words(way: Way, files: u64) -> String {
    match way {
        Way::Stores | Way::Loads | Way::Copies if files == 1 => format!("{} (1 file)", way.title()),
        Way::Stores | Way::Loads | Way::Copies => format!("{} ({files} files)", way.title()),
        _ => way.title().to_string(),
    }
}

/// The fold that collects unseen data.
#[derive(Default)]
pub struct Unseen {
    found: BTreeMap<(Way, Vec<u8>), Amount>,
    /// By file (true) or other target (false), and its name.
    copies: BTreeMap<(bool, Vec<u8>), Amount>,
    notes: BTreeMap<Note, u64>,
    /// Rings and their requests, by program; those that other processes have made are `true`.
    rings: BTreeMap<(bool, Vec<u8>), Amount>,
    /// Why they could not be recorded, where it is known.
    why_no_rings: BTreeMap<Vec<u8>, &'static str>,
    /// Requests and number of completed requests, by program.
    aio: BTreeMap<Vec<u8>, (Amount, u64)>,
    read_only: ReadOnly<Opened>,
    /// Files that are mapped as code, or by libraries for their own use.
    executed: HashSet<Vec<u8>>,
    /// Why stores to mapped files could not be recorded, where it is known.
    why_not: BTreeMap<Vec<u8>, &'static str>,
    /// Files mapped for stores since the last [`Unseen::take_stored`].
    stored: Vec<Vec<u8>>,
    /// Pipes that were given memory since the last [`Unseen::take_given`].
    given: Vec<Vec<u8>>,
    /// Processes that have made rings, and those whose rings are not all captured.
    makers: HashSet<u32>,
    owners: HashSet<u32>,
    /// Processes with rings that are captured, and that the kernel polls.
    polled: HashSet<u32>,
    /// Processes that submitted requests since the last [`Unseen::take_askers`].
    askers: Vec<Asker>,
}

/// A process that submitted requests which no call shows.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Asker {
    /// Number of the process.
    pub process: u32,
    /// True if the requests may also open, create, rename and remove files.
    pub may_name: bool,
}

impl Unseen {
    /// Makes an empty fold.
    pub fn new() -> Unseen {
        Unseen::default()
    }

    /// Returns true if calls with this number and these arguments matter to the fold.
    #[inline]
    pub fn follows(nr: u16, args: &[u64; 6]) -> bool {
        if nr & OLD_NUMBERS != 0 {
            return true;
        }
        let row = syscalls::by_number(u64::from(nr));
        let lends = |row: &Syscall| row.classes.intersects(Classes::NETWORK) && row.lends(args);
        row.is_some_and(|row| is_followed(row.act) || is_followed(row.act_of(args)) || lends(row))
    }

    /// Processes an event. Must be called before `World::finish`.
    pub fn event(&mut self, event: &Event, world: &World, contents: &mut dyn Contents) {
        let thread = world.thread(event.thread);
        if let EventKind::Call(call) = &event.kind
            && call.nr >= OPERATIONS_FIRST
            && matches!(call.outcome, Outcome::Returned { .. })
            && is_unsubmitted(event)
        {
            let process = thread.and_then(|thread| world.process(thread.process));
            let program = process.map_or(&[][..], |process| &process.exe);
            self.unsubmitted(thread.map_or(0, |thread| thread.process), program);
        }
        match &event.kind {
            EventKind::Call(call) if is_late(event) => {
                if let Some(ret) = call.success() {
                    let process = thread.and_then(|thread| world.process(thread.process));
                    self.late(call.nr, ret, process.map_or(&[], |process| &process.exe));
                }
            }
            EventKind::Call(call) if Unseen::follows(call.nr, &call.args) => {
                let Outcome::Returned { ret, .. } = call.outcome else { return };
                if errno::is_error(ret) {
                    return self.refused(call, ret);
                }
                let process = thread.map_or(0, |thread| thread.process);
                let (operations, watched) = (operations_of(event), mapped::watched(event));
                let Call { nr, ref args, .. } = *call;
                let made = Made { nr, args, ret, process, operations, watched };
                let thread = event.thread;
                self.call(&made, &mut InWorld { world, thread, process, call, contents });
            }
            EventKind::Image { data, .. } => {
                let Some(thread) = thread else { return };
                let vector = data.iter().find(|data| data.part == part::AUXV);
                let vector = vector.map(|data| contents.read(&data.content, AUXILIARY_BYTES_MAX));
                self.program(thread.process, &vector.and_then(Result::ok).unwrap_or_default());
            }
            EventKind::Exit { process, .. } => self.gone(*process),
            _ => {}
        }
    }

    /// Counts an operation that was found completed when the program may have used what came out.
    pub fn late(&mut self, nr: u16, ret: i64, program: &[u8]) {
        let row = syscalls::by_number(u64::from(nr));
        if ret > 0 && row.is_some_and(|row| row.classes.intersects(Classes::READ)) {
            let bytes = u64::try_from(ret).ok();
            add(&mut self.found, (Way::Late, program.to_vec()), 1, bytes);
        }
    }

    /// Counts an operation that was completed and whose submission was not seen.
    pub fn unsubmitted(&mut self, process: u32, program: &[u8]) {
        add(&mut self.found, (Way::Unsubmitted, program.to_vec()), 1, None);
        self.asks(process, true);
    }

    fn refused(&mut self, call: &Call, ret: i64) {
        let row = syscalls::by_number(u64::from(call.nr));
        let asks = row.is_some_and(|row| row.act == Act::SetUpRing);
        if asks && errno::of_result(ret) == Some(ENOSYS) {
            self.note(Note::RefusedRings);
        }
    }

    /// Processes the start of a program with this auxiliary vector.
    pub fn program(&mut self, process: u32, auxiliary: &[u8]) {
        const VDSO: u64 = 33;
        self.read_only.forget(process);
        self.owners.remove(&process);
        self.makers.remove(&process);
        let (words, _) = auxiliary.as_chunks::<8>();
        let keys = words.iter().step_by(2).map(|key| u64::from_le_bytes(*key));
        if keys.into_iter().any(|key| key == VDSO) {
            *self.notes.entry(Note::Vdso).or_default() += 1;
        }
    }

    /// Forgets a process that ended.
    pub fn gone(&mut self, process: u32) {
        self.owners.remove(&process);
        self.makers.remove(&process);
        self.read_only.forget(process);
    }

    /// Returns the files mapped for stores since the last call of this method.
    pub fn take_stored(&mut self) -> Vec<Vec<u8>> {
        std::mem::take(&mut self.stored)
    }

    /// Returns the pipes that were given memory since the last call of this method: what is read from
    /// them may be other bytes than those that the trace has.
    pub fn take_given(&mut self) -> Vec<Vec<u8>> {
        std::mem::take(&mut self.given)
    }

    /// Returns true if a process has rings that are captured and that the kernel polls: its calls then
    /// count again what the kernel has not taken yet.
    pub fn is_polled(&self, process: u32) -> bool {
        self.polled.contains(&process)
    }

    /// Returns the processes that submitted requests since the last call of this method.
    pub fn take_askers(&mut self) -> Vec<Asker> {
        std::mem::take(&mut self.askers)
    }

    fn asks(&mut self, process: u32, may_name: bool) {
        let asker = Asker { process, may_name };
        if self.askers.last() != Some(&asker) && self.askers.len() < ASKERS_MAX {
            self.askers.push(asker);
        }
    }

    /// Returns true if files may have been written by requests that no call shows.
    pub fn has_requests(&self) -> bool {
        let asked = |amount: &Amount| amount.count > 0 || amount.count_unknown;
        self.found.keys().any(|(way, _)| *way == Way::Unsubmitted)
            || self.rings.values().any(asked)
            || self.aio.values().any(|(amount, _)| asked(amount))
    }

    /// Processes a call.
    pub fn call(&mut self, made: &Made<'_>, look: &mut dyn Look) {
        if made.nr & OLD_NUMBERS != 0 {
            return add(&mut self.found, (Way::OldCalls, look.program()), 1, None);
        }
        let Some(row) = syscalls::by_number(u64::from(made.nr)) else { return };
        let args = made.args;
        let returned = u64::try_from(made.ret).unwrap_or(0);
        if row.lends(args) && returned != 0 {
            self.lent(row, made, look);
        }
        match row.act_of(args) {
            Act::Map => self.mapped(made, look),
            Act::Unmap => self.read_only.unmapped(made.process, range(args)),
            Act::Protect if Mapping::allows_stores(args[2]) => {
                for (file, bytes) in self.read_only.made_writable(made.process, range(args)) {
                    if made.watched != watched::YES {
                        self.unwatched(&file, made.watched);
                        self.stores_to(file, bytes);
                    }
                }
            }
            Act::AttachMemory => self.note(Note::SharedMemory),
            Act::SetUpRing => {
                self.makers.insert(made.process);
                let flags = look.memory(1, RING_FLAGS_AT + 4).unwrap_or_default();
                let flags = flags.get(RING_FLAGS_AT..).and_then(|flags| flags.first_chunk());
                let polled = flags.is_some_and(|f| u32::from_le_bytes(*f) & RING_POLLED != 0);
                if made.watched == watched::YES {
                    if polled {
                        self.polled.insert(made.process);
                        return;
                    }
                } else {
                    self.owners.insert(made.process);
                    if let Some(why) = why_no_ring(made.watched) {
                        self.why_no_rings.insert(look.program(), why);
                    }
                }
                let ring = self.rings.entry((false, look.program())).or_default();
                ring.count_unknown |= polled;
                if polled {
                    self.asks(made.process, true);
                }
            }
            Act::SubmitToRing | Act::SubmitToAio if returned <= made.operations => {}
            // It counts what the kernel has not taken yet again.
            Act::SubmitToRing
                if self.polled.contains(&made.process) && made.watched != watched::NOT_THIS => {}
            Act::SubmitToRing => {
                let not_seen = returned - made.operations;
                let is_own = match made.watched {
                    watched::NOT_THIS => &self.owners,
                    _ => &self.makers,
                };
                let is_taken = !is_own.contains(&made.process);
                self.rings.entry((is_taken, look.program())).or_default().count += not_seen;
                self.asks(made.process, true);
            }
            Act::SubmitToAio => {
                let not_seen = returned - made.operations;
                self.aio.entry(look.program()).or_default().0.count += not_seen;
                self.asks(made.process, false);
            }
            // Without an entry its submission was not seen, which is told.
            Act::MoveUnseen if last(row, args) == 0 => {}
            Act::MoveUnseen => {
                add(
                    &mut self.found,
                    (Way::Entries, [row.name.as_bytes(), b" of ", &look.program()].concat()),
                    1,
                    None,
                );
            }
            Act::ReapFromAio => self.reaped(returned, look),
            Act::Copy => {
                let source = row.value_of(args, Operand::Source).unwrap_or(u64::MAX);
                self.copied(source, returned, look);
            }
            Act::CloneFile => {
                let source = row.value_of(args, Operand::Source).unwrap_or(u64::MAX);
                self.cloned(source, None, look);
            }
            Act::CloneRange => {
                let words = look.memory(2, 24).unwrap_or_default();
                let (words, _) = words.as_chunks::<8>();
                if let [fd, _, length] = words {
                    let length = u64::from_le_bytes(*length);
                    let length = Some(length).filter(|length| *length != 0);
                    self.cloned(u64::from_le_bytes(*fd), length, look);
                }
            }
            _ => {}
        }
    }

    fn note(&mut self, note: Note) {
        *self.notes.entry(note).or_default() += 1;
    }

    fn mapped(&mut self, made: &Made<'_>, look: &dyn Look) {
        let mapping = Mapping::of(made.args);
        let opened = mapping.fd.and_then(|fd| look.opened(fd));
        let unknown = || Opened {
            name: format!("descriptor {}", mapping.fd.unwrap_or(-1)).into(),
            kind: OpenedKind::File,
        };
        let opened = opened.unwrap_or_else(unknown);
        self.read_only.mapped(made.process, made.ret as u64, &mapping, || opened.clone());
        if mapping.fd.is_none() {
            if mapping.is_shared {
                self.note(Note::SharedMemory);
            }
            return;
        }
        let is_taken = realm::is_ring(&opened.name) && !self.owners.contains(&made.process);
        if is_taken && made.watched != watched::SHADOWED {
            // Another process has made it: what this one submits and takes there is not told.
            self.rings.entry((true, look.program())).or_default().count_unknown = true;
            self.asks(made.process, true);
        }
        match opened.kind {
            OpenedKind::Pipe | OpenedKind::Other => self.note(Note::DeviceMemory),
            OpenedKind::Memory if !mapping.changes_file() => self.note(Note::SharedMemory),
            OpenedKind::File | OpenedKind::Memory
                if mapping.changes_file() && made.watched == watched::YES => {}
            OpenedKind::File | OpenedKind::Memory if mapping.changes_file() => {
                self.unwatched(&opened, made.watched);
                self.stores_to(opened, mapping.length);
            }
            OpenedKind::File | OpenedKind::Memory if made.watched == watched::READS => {}
            OpenedKind::File | OpenedKind::Memory => {
                if mapping.is_executable || realm::is_of_libraries(&opened.name) {
                    self.executed.insert(opened.name.clone());
                }
                add(&mut self.found, (Way::Loads, opened.name), 1, Some(mapping.length));
            }
        }
    }

    /// Notes why stores to a mapped file could not be recorded.
    fn unwatched(&mut self, opened: &Opened, word: u8) {
        if let Some(why) = why_not(word)
            && self.why_not.len() < NAMES_MAX
        {
            self.why_not.insert(opened.name.clone(), why);
        }
    }

    /// Counts stores to a mapped file or to shared memory.
    fn stores_to(&mut self, opened: Opened, bytes: u64) {
        self.stored.push(opened.name.clone());
        match opened.kind {
            OpenedKind::Memory => self.note(Note::SharedMemory),
            _ => add(&mut self.found, (Way::Stores, opened.name), 1, Some(bytes)),
        }
    }

    fn reaped(&mut self, events: u64, look: &mut dyn Look) {
        let bytes = look.memory(3, REAPED_BYTES_MAX);
        let (sum, reaped) = self.aio.entry(look.program()).or_default();
        *reaped += events;
        let bytes = bytes.unwrap_or_default();
        let size = IO_EVENT.size as usize;
        let results = bytes.chunks_exact(size).map(|event| {
            event[RESULT_AT..].first_chunk().map_or(0, |result| i64::from_le_bytes(*result))
        });
        sum.bytes_unknown |= (bytes.len() / size) as u64 != events;
        let moved = results.fold(0u64, |sum, result| sum.saturating_add(result.max(0) as u64));
        sum.bytes = sum.bytes.saturating_add(moved);
    }

    /// Memory was given to a pipe or a socket, to be read from there.
    fn lent(&mut self, row: &Syscall, made: &Made<'_>, look: &dyn Look) {
        let gives = row.act == Act::GivePages;
        let target = if gives { Operand::SourceOrTarget } else { Operand::Target };
        let fd = row.value_of(made.args, target).unwrap_or(u64::MAX) as i32;
        if gives && !look.is_writable(fd) {
            return;
        }
        let name = look.opened(fd).map_or_else(|| format!("descriptor {fd}").into(), |it| it.name);
        if gives && self.given.len() < NAMES_MAX {
            self.given.push(name.clone());
        }
        // Some count messages.
        let bytes = Some(made.ret as u64).filter(|_| row.ret == Ret::Size);
        add(&mut self.found, (Way::Lent, name), 1, bytes);
    }

    fn copied(&mut self, fd: u64, bytes: u64, look: &dyn Look) {
        self.cloned(fd, Some(bytes), look);
    }

    fn cloned(&mut self, fd: u64, bytes: Option<u64>, look: &dyn Look) {
        if bytes == Some(0) {
            return;
        }
        let fd = fd as i32;
        let Some(opened) = look.opened(fd) else {
            return add(&mut self.copies, (false, format!("descriptor {fd}").into()), 1, bytes);
        };
        match opened.kind {
            OpenedKind::File => add(&mut self.copies, (true, opened.name), 1, bytes),
            OpenedKind::Other => add(&mut self.copies, (false, opened.name), 1, bytes),
            // The data got there by a recorded call.
            OpenedKind::Memory | OpenedKind::Pipe => self.note(Note::KeptCopies),
        }
    }

    /// Returns true if the kernel copied from a file that was opened by this path.
    pub fn copied_from(&self, name: &[u8]) -> bool {
        self.copies.contains_key(&(true, path::resolve(b"/", name)))
    }

    /// Returns the result for a trace.
    pub fn finish_of(self, trace: &Trace) -> NotSeen {
        let fates = Fates::of(trace);
        self.finish(&|path| fates.kept(path))
    }

    /// Returns the result. `kept` returns the fate of a file that was copied from.
    pub fn finish(mut self, kept: &dyn Fn(&[u8]) -> Kept) -> NotSeen {
        let mut blind = Vec::new();
        let mut push = |way, name: Vec<u8>, is_file, amount: Amount, why| {
            let named = Some(name).filter(|name| !name.is_empty());
            let (file, descriptor) = if is_file { (named, None) } else { (None, named) };
            let count = Some(amount.count).filter(|_| !amount.count_unknown);
            let bytes = Some(amount.bytes).filter(|_| !amount.bytes_unknown);
            blind.push(Blind { way, file, descriptor, count, bytes, why: Cow::Borrowed(why) });
        };
        for ((is_taken, program), mut ring) in self.rings {
            if ring.count == 0 && !ring.count_unknown {
                *self.notes.entry(Note::UnusedRings).or_default() += 1;
                continue;
            }
            ring.bytes_unknown = true;
            let (what, why) = match is_taken {
                true => ("io_uring of another process in", words::TAKEN),
                false => (
                    "io_uring of",
                    self.why_no_rings.get(&program).copied().unwrap_or(Way::Ring.why()),
                ),
            };
            push(Way::Ring, in_program(what, &program), false, ring, why);
        }
        for (program, (mut sum, reaped)) in
            self.aio.into_iter().filter(|(_, (sum, _))| sum.count > 0)
        {
            sum.bytes_unknown |= reaped != sum.count;
            push(Way::Aio, of_program("Linux AIO", &program), false, sum, Way::Aio.why());
        }
        for ((is_file, name), amount) in self.copies {
            match if is_file { kept(&name) } else { Kept::No(Way::Copies.why()) } {
                Kept::Yes => *self.notes.entry(Note::KeptCopies).or_default() += amount.count,
                Kept::No(why) => push(Way::Copies, name, is_file, amount, why),
            }
        }
        for ((way, name), amount) in self.found {
            match way {
                Way::Loads if self.executed.contains(&name) => {
                    *self.notes.entry(Note::ProgramFiles).or_default() += 1;
                }
                Way::Late => {
                    push(way, of_program("Linux AIO", &name), false, amount, way.why());
                }
                Way::Unsubmitted => {
                    push(way, of_program("operations", &name), false, amount, way.why());
                }
                Way::Lent | Way::Entries => push(way, name, false, amount, way.why()),
                Way::OldCalls => push(way, of_program("int 0x80", &name), false, amount, way.why()),
                Way::Stores => {
                    let why = self.why_not.get(&name).copied().unwrap_or(way.why());
                    push(way, name, true, amount, why);
                }
                _ => push(way, name, true, amount, way.why()),
            }
        }
        blind.sort_by(|a, b| (a.way, &a.file).cmp(&(b.way, &b.file)));
        NotSeen { blind, notes: self.notes.into_iter().collect() }
    }
}

/// Returns the last argument of a call.
fn last(row: &Syscall, args: &[u64; 6]) -> u64 {
    row.args.len().checked_sub(1).and_then(|arg| args.get(arg)).copied().unwrap_or(0)
}

fn of_program(what: &str, program: &[u8]) -> Vec<u8> {
    in_program(&[what, " of"].concat(), program)
}

/// Adds the program to what ends with a preposition.
fn in_program(what: &str, program: &[u8]) -> Vec<u8> {
    match what.rsplit_once(' ') {
        Some((what, _)) if program.is_empty() => what.into(),
        _ => [what.as_bytes(), b" ", program].concat(),
    }
}

/// Returns true if calls with this act matter to the fold.
pub const fn is_followed(act: Act) -> bool {
    matches!(
        act,
        Act::Map
            | Act::Unmap
            | Act::Protect
            | Act::AttachMemory
            | Act::SetUpRing
            | Act::SubmitToRing
            | Act::SubmitToAio
            | Act::ReapFromAio
            | Act::Copy
            | Act::CloneFile
            | Act::CloneRange
            | Act::GivePages
            | Act::LendMemory
            | Act::MoveUnseen
    )
}

/// Returns the address range given by the first two arguments of a call.
fn range(args: &[u64; 6]) -> std::ops::Range<u64> {
    args[0]..args[0].saturating_add(args[1])
}

/// Name for all files beyond the limit.
const OTHERS: &[u8] = b"(others)";

/// Key of a count.
trait Named: Ord {
    /// Returns the key that counts everything beyond the limit.
    fn others(self) -> Self;
}

impl Named for (Way, Vec<u8>) {
    fn others(self) -> Self {
        (self.0, OTHERS.to_vec())
    }
}

impl Named for (bool, Vec<u8>) {
    fn others(self) -> Self {
        (self.0, OTHERS.to_vec())
    }
}

fn add<K: Named>(amounts: &mut BTreeMap<K, Amount>, key: K, count: u64, bytes: Option<u64>) {
    let is_full = amounts.len() >= NAMES_MAX && !amounts.contains_key(&key);
    let amount = amounts.entry(if is_full { key.others() } else { key }).or_default();
    amount.count = amount.count.saturating_add(count);
    amount.bytes = amount.bytes.saturating_add(bytes.unwrap_or(0));
    amount.bytes_unknown |= bytes.is_none();
}

#[cfg(test)]
mod tests;
