//! Imports files of other programs: Re-Animator's traces, of all its versions.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, HashMap};
use std::io::Write;

use model::InlineOnly;
use model::decode::shape::shape_of;
use syscalls::Act;
use syscalls::abi::errno;
use syscalls::mapping::Mapping;
use syscalls::record::{IMAGE_ARG, enter_flag, part, watched};
use syscalls::shape::Ret;
use trace::event::{
    BLOB_BYTES_MAX, Call, Content, Data, Event, EventKind, Extras, FieldValue, OpenFd, OtherEvent,
    Outcome, Preamble, ProcessState, RECORDER, StartHow, Totals,
};
use trace::event_table::row_of;
use trace::format::event_number;
use trace::parts::{Part, part_id};
use trace::{Writer, WriterOptions};

use super::end::finish;
use super::imported::Imported;
use super::lives::{Lives, Start, clone_flags};
use super::stream::{Files, Stream};
use super::unmake::{self, Values};
use crate::calls::{CLONE, Form};
use crate::error::Error;
use crate::export::{
    ADDRESS, Caller, Collected, DATA_READ, DESCRIPTOR, Known, LENGTH, OFFSET, PLANS, Plan, READ,
    WRITE, WRITTEN, collect,
};
use crate::file::types::Type;
use crate::origin::{ANOTHER_RECORDER, IMPORTED, Origin};
use crate::schema::{self, SNIA, common};
use crate::times::{self, Unit};

/// Ticks of the trace per second: ticks are nanoseconds.
const HZ: u64 = 1_000_000_000;
/// Open flags of the standard descriptors, which the records do not have.
const ASSUMED_FLAGS: u32 = syscalls::abi::files::O_RDWR as u32;
/// Most mappings that are known at a time.
const MAPPINGS_MAX: usize = 1 << 16;
/// Most records of one call, and most bytes in them.
const GROUP_MAX: usize = 1 << 17;
const GROUP_BYTES_MAX: usize = 64 << 20;

/// Imports the file into a trace.
pub fn import(
    files: &Files<'_, '_>,
    sink: Box<dyn Write + Send>,
    options: WriterOptions,
) -> Result<Imported, Error> {
    let types = &*schema::PARSED;
    let plans = &*PLANS;
    // Reads some records that are read again below; they are counted once.
    let lives = Lives::new(files)?;
    let mut kinds = Vec::new();
    for name in files.used() {
        // Types of SNIA's older namespaces have the same names.
        let plan = plans.named(name).filter(|plan| plan.of_snia());
        if let Some(plan) = plan {
            let of = &types[plan.number];
            kinds.push(RecordType { name: name.into(), plan, of, stream: files.stream(name)? });
        }
    }
    let epoch_ns =
        kinds.iter().filter_map(|kind| begin_of(&kind.values()?)).min().unwrap_or(0).max(0);
    let preamble = Preamble {
        command: Vec::new(),
        recorder_version: ANOTHER_RECORDER.into(),
        epoch_ns: epoch_ns as u64,
        tsc_hz: HZ,
        page_bytes: 4096,
        options: IMPORTED.into(),
        ..Preamble::default()
    };
    let mut foreign = Foreign {
        writer: Writer::new(sink, &preamble, options)?,
        lives,
        epoch_ns,
        now_ns: epoch_ns,
        recorder_tsc: 0,
        end_tsc: 0,
        umask: 0,
        data_bytes: 0,
        unmade: 0,
        has_stores: kinds.iter().any(|kind| kind.plan.is(WRITE) || kind.plan.is(READ)),
        mappings: Mappings::default(),
    };
    foreign.records(&mut kinds)?;
    let mut imported = Imported::default();
    let calls = foreign.writer.calls_written();
    let totals = Totals {
        calls_made: calls,
        calls_read: calls,
        calls_written: calls,
        data_bytes: foreign.data_bytes,
        threads: foreign.lives.threads,
        processes: foreign.lives.processes,
        tsc_hz: HZ,
        end_tsc: foreign.end_tsc,
        ..Totals::default()
    };
    imported.not_told = not_told(foreign.unmade);
    finish(foreign.writer, totals, files, &mut imported)?;
    Ok(imported)
}

/// Lists what records of this schema cannot hold.
fn not_told(unmade: u64) -> Vec<String> {
    let mut all = vec![
        "addresses of memory, and structs other than stat, statfs and those of the schema".into(),
        "what processes were when they began: working directory (taken from PWD), ids, descriptors \
         (0 to 2 are taken to be open)"
            .into(),
        "flags of clone (taken to be those of the C library), and bits that no value confirms"
            .into(),
    ];
    if unmade > 0 {
        all.push(format!("which system call {unmade} records stand for (recv, send)"));
    }
    all
}

struct RecordType<'k, 'f, 'r, 'b> {
    name: String,
    plan: &'k Plan,
    of: &'k Type,
    stream: Stream<'f, 'r, 'b>,
}

impl RecordType<'_, '_, '_, '_> {
    fn values(&self) -> Option<Values> {
        self.stream.record().map(|record| unmake::values(self.of, &record))
    }

    /// Returns the position of the next record.
    fn place(&self) -> Option<i64> {
        self.stream.record().map(|record| record.int("unique_id").unwrap_or(i64::MAX))
    }

    /// Reads the records of the next call.
    fn group(&mut self) -> Result<Vec<Values>, Error> {
        let mut group = Vec::new();
        let mut bytes = 0;
        while let Some(values) = self.values() {
            if !group.is_empty() && !self.goes_on(&group, &values) {
                break;
            }
            bytes += values.iter().map(held_bytes).sum::<usize>();
            if group.len() >= GROUP_MAX || bytes > GROUP_BYTES_MAX && !group.is_empty() {
                break;
            }
            group.push(values);
            self.stream.advance()?;
        }
        Ok(group)
    }

    /// Returns whether a record belongs to the same call as those before it.
    fn goes_on(&self, group: &[Values], next: &Values) -> bool {
        let named = &self.plan.named;
        let last = &group[group.len() - 1];
        let both = |field| (unmake::int(last, field), unmake::int(next, field));
        let follows = |field| match both(field) {
            (Some(last), Some(next)) => next == last + 1 && next > 0 || last == -1 && next == 0,
            _ => false,
        };
        let same = |field| {
            let (last, next) = both(field);
            last == next
        };
        same(common::EXECUTING_TID)
            && match self.plan.form {
                Form::One => false,
                Form::Exec => {
                    let ended = unmake::int(last, named.continuation) == Some(-1);
                    !ended
                        && (follows(named.continuation)
                            || unmake::int(next, named.continuation) == Some(-1))
                }
                Form::Vector | Form::Message => follows(named.element),
            }
    }
}

fn held_bytes(value: &crate::export::Collected) -> usize {
    match value {
        crate::export::Collected::Bytes(bytes) => bytes.len() + size_of_val(value),
        _ => size_of_val(value),
    }
}

/// Returns a time of a record, in nanoseconds since 1970. A time in whole seconds is used only if
/// there is no better one.
fn time_of(values: &Values, field: usize) -> Option<i64> {
    const TIME_RECORDED: usize = common::TIME_CALLED + 1;
    let told = unmake::int(values, field);
    let recorded = unmake::int(values, TIME_RECORDED);
    match told {
        Some(time) if times::unit_of(time) == Unit::Seconds => {
            Some(times::to_ns(recorded.unwrap_or(time)))
        }
        Some(time) => Some(times::to_ns(time)),
        None => None,
    }
}

fn begin_of(values: &Values) -> Option<i64> {
    time_of(values, common::TIME_CALLED)
}

struct Foreign {
    writer: Writer,
    lives: Lives,
    epoch_ns: i64,
    /// Time of the last record.
    now_ns: i64,
    recorder_tsc: u64,
    end_tsc: u64,
    umask: u32,
    data_bytes: u64,
    /// Number of records whose type has no call number.
    unmade: u64,
    /// There are records of stores to mapped files.
    has_stores: bool,
    mappings: Mappings,
}

/// Where files are mapped, by process and descriptor.
#[derive(Default)]
struct Mappings(HashMap<(u32, i32), (u64, u64)>);

impl Mappings {
    /// Notes what a call maps. Returns false if it is no file.
    fn add(&mut self, process: u32, call: &Call) -> bool {
        let mapping = Mapping::of(&call.args);
        let is_made = call.ret().is_some_and(|ret| errno::of_result(ret).is_none());
        let maps = syscalls::by_number(call.nr.into()).is_some_and(|row| row.act == Act::Map);
        let Some(fd) = mapping.fd.filter(|_| maps && is_made) else {
            return false;
        };
        if self.0.len() < MAPPINGS_MAX {
            let start = call.ret().unwrap_or_default() as u64;
            self.0.insert((process, fd), (start, call.args[5]));
        }
        true
    }

    /// The address where a file's offset is mapped; 0 if that is not known.
    fn address(&self, process: u32, fd: i32, offset: u64) -> u64 {
        let found = self.0.get(&(process, fd));
        found.map_or(0, |(start, first)| start.wrapping_add(offset.wrapping_sub(*first)))
    }
}

impl Foreign {
    /// Imports all records in order.
    fn records(&mut self, kinds: &mut [RecordType<'_, '_, '_, '_>]) -> Result<(), Error> {
        let mut next: BinaryHeap<Reverse<(i64, usize)>> = BinaryHeap::new();
        next.extend(
            kinds.iter().enumerate().filter_map(|(at, kind)| Some(Reverse((kind.place()?, at)))),
        );
        while let Some(Reverse((place, at))) = next.pop() {
            let kind = &mut kinds[at];
            let group = kind.group()?;
            if let Some(place) = kind.place() {
                next.push(Reverse((place, at)));
            }
            let kind = &kinds[at];
            if let Some(first) = group.first() {
                let first_umask = place == 0 && kind.name == format!("{SNIA}umask");
                if first_umask {
                    let mode = kind.of.field("mode_value");
                    self.umask = mode.and_then(|mode| unmake::int(first, mode)).unwrap_or(0) as u32;
                }
                self.call(kind, &group, first_umask)?;
            }
        }
        Ok(())
    }

    fn tsc(&self, ns: i64) -> u64 {
        ns.saturating_sub(self.epoch_ns).max(0) as u64
    }

    fn write(&mut self, event: &Event) -> Result<(), Error> {
        self.end_tsc = self.end_tsc.max(event.tsc);
        Ok(self.writer.event(event)?)
    }

    fn by_recorder(&mut self, tsc: u64, kind: EventKind) -> Result<(), Error> {
        self.recorder_tsc = self.recorder_tsc.max(tsc);
        self.write(&Event::new(RECORDER, self.recorder_tsc, kind))
    }

    fn call(
        &mut self,
        kind: &RecordType<'_, '_, '_, '_>,
        group: &[Values],
        first_umask: bool,
    ) -> Result<(), Error> {
        let Some(row) = kind.plan.row else { return Ok(()) };
        if kind.plan.is(WRITE) || kind.plan.is(READ) {
            let is_read = kind.plan.is(READ);
            return group.iter().try_for_each(|values| self.store(kind.of, values, is_read));
        }
        let [Some(mut nr), of_process] = row.calls else {
            self.unmade += group.len() as u64;
            return Ok(());
        };
        // The result of an exec is in its last record, that of a vector in its first.
        let (first, last) = (&group[0], &group[group.len() - 1]);
        let told = if row.form == Form::Exec { last } else { first };
        let tid = unmake::int(first, common::EXECUTING_TID)
            .or_else(|| unmake::int(first, common::EXECUTING_PID))
            .unwrap_or(1);
        let begin_ns = begin_of(first).unwrap_or(self.now_ns);
        self.now_ns = begin_ns;

        let (task, start) = self.lives.task(tid);
        if let Some(of_process) = of_process
            && i64::from(task.pid) == tid
        {
            nr = of_process;
        }
        let task = *task;
        let tsc = self.tsc(begin_ns).max(task.last_tsc);
        if let Some(start) = start {
            self.start(start, task.thread, task.process, task.pid, tsc)?;
        }
        // The leading umask record is no call of the program, and its result is garbage.
        let ret = match first_umask {
            true => Some(self.umask.into()),
            false => unmake::result(told).map(|ret| within(nr, ret)),
        };
        let mut call = unmake::call(kind.plan, nr, group, ret);
        if kind.plan.is(CLONE) {
            let told = unmake::int(first, kind.of.field("flag_value").unwrap_or_default());
            call.args[0] = clone_flags(told, Some(call.args[1] as i64)) as u64;
        }
        let end_ns = time_of(told, common::TIME_RETURNED);
        let exit_tsc = end_ns.map_or(tsc, |ns| self.tsc(ns)).max(tsc);
        let never = shape_of(&call).ret == Ret::Never;
        let executed = row.form == Form::Exec && ret == Some(0);
        match ret {
            Some(ret) if !executed => call.outcome = Outcome::Returned { exit_tsc, ret },
            _ => call.flags |= if never { enter_flag::NO_RETURN } else { 0 },
        }
        self.origin(kind, group, &mut call, (tid, task.pid), tsc, executed.then_some(exit_tsc))?;
        self.data_bytes += call.data.iter().map(|data| data.true_len).sum::<u64>();
        let mut event = Event::new(task.thread, tsc, EventKind::Call(call.clone()));
        if self.has_stores && self.mappings.add(task.process, &call) {
            let word = match Mapping::of(&call.args).changes_file() {
                true => watched::YES,
                false => watched::READS,
            };
            let parts = vec![Part::number(part_id::WATCHED, word.into())];
            event.extras = Some(Box::new(Extras { parts, later_fields: Vec::new() }));
        }
        self.write(&event)?;

        let (task, _) = self.lives.task(tid);
        task.calls += 1;
        task.last_tsc = exit_tsc;
        let task = *task;
        if executed {
            let image = EventKind::Image { tid: tid as u32, data: image(&call) };
            self.write(&Event::new(task.thread, exit_tsc, image))?;
            self.lives.exec(tid, task.process);
        } else if never && row.form != Form::Exec {
            let status = (call.args[0] as i32 & 0xff) << 8;
            let kind = EventKind::End { calls: task.calls };
            self.write(&Event::new(task.thread, exit_tsc, kind))?;
            if self.lives.exit(tid) {
                // The exit of the process comes after the end of its last thread.
                let kind = EventKind::Exit { process: task.process, status: Some(status) };
                self.by_recorder(exit_tsc.saturating_add(1), kind)?;
            }
        }
        Ok(())
    }

    /// Imports a store to a mapped file.
    fn store(&mut self, of: &Type, values: &Values, is_read: bool) -> Result<(), Error> {
        let number = |name: &str| unmake::int(values, of.field(name)?);
        let tid = unmake::int(values, common::EXECUTING_TID)
            .or_else(|| unmake::int(values, common::EXECUTING_PID))
            .unwrap_or(1);
        let begin_ns = begin_of(values).unwrap_or(self.now_ns);
        self.now_ns = begin_ns;
        let tsc = self.tsc(begin_ns);
        let (task, start) = self.lives.task(tid);
        let task = *task;
        if let Some(start) = start {
            self.start(start, task.thread, task.process, task.pid, tsc)?;
        }
        let (offset, fd) = (number(OFFSET).unwrap_or(0) as u64, number(DESCRIPTOR).unwrap_or(-1));
        let field = if is_read { DATA_READ } else { WRITTEN };
        let bytes = match of.field(field).and_then(|at| values.get(at)) {
            Some(Collected::Bytes(bytes)) => &bytes[..],
            _ => &[],
        };
        let length = number(LENGTH).map_or(bytes.len() as u64, |length| length as u64);
        let bytes = &bytes[..bytes.len().min(usize::try_from(length).unwrap_or(usize::MAX))];
        let mut ids = Vec::new();
        for page in bytes.chunks(BLOB_BYTES_MAX) {
            ids.push(Some(self.writer.blob(page)?));
        }
        let kind = if is_read { event_number::MMAP_READ } else { event_number::MMAP_WRITE };
        let row = row_of(kind).expect("the table has it");
        let told = number(ADDRESS).map(|address| address as u64);
        let mapped = self.mappings.address(task.process, fd as i32, offset);
        let values = vec![
            FieldValue::Unsigned(told.unwrap_or(mapped)),
            FieldValue::Unsigned(offset),
            FieldValue::Unsigned(length),
            FieldValue::Bytes(Vec::new()),
            FieldValue::Unsigned(0),
            FieldValue::Unsigned(0),
            FieldValue::Unsigned(bytes.len() as u64),
            FieldValue::Bytes(Vec::new()),
        ];
        let mut parts = vec![
            Part::number(part_id::PROCESS, task.process.into()),
            Part::number(part_id::THREAD, task.thread.into()),
        ];
        parts.extend((!ids.is_empty()).then(|| Part::buffers(&ids)));
        self.recorder_tsc = self.recorder_tsc.max(tsc);
        let kind = EventKind::Other(OtherEvent { row, values });
        let extras = Some(Box::new(Extras { parts, later_fields: Vec::new() }));
        self.write(&Event { extras, ..Event::new(RECORDER, self.recorder_tsc, kind) })
    }

    /// Keeps with the call what its records hold and an export of the call would lose.
    fn origin(
        &self,
        kind: &RecordType<'_, '_, '_, '_>,
        group: &[Values],
        call: &mut Call,
        (tid, pid): (i64, u32),
        tsc: u64,
        began_program: Option<u64>,
    ) -> Result<(), Error> {
        let mut origin = Origin::default();
        let ns = |tsc: u64| (tsc as i64).wrapping_add(self.epoch_ns);
        let returned = match (call.outcome, began_program) {
            (Outcome::Returned { exit_tsc, ret }, _) => Some((ns(exit_tsc), ret)),
            (_, Some(tsc)) => Some((ns(tsc), 0)),
            _ => None,
        };
        let known = Known {
            call: &*call,
            caller: Caller { pid: Some(pid), tid: Some(tid as u32), ..Caller::default() },
            called: ns(tsc),
            returned,
        };
        for (number, found) in (0u32..).zip(group) {
            let written = collect(kind.plan, kind.of, number, &known, &mut InlineOnly)?;
            origin.compare(number, &written, found, kind.of);
        }
        call.data.extend(origin.piece());
        Ok(())
    }

    /// Starts a task at its first record.
    fn start(
        &mut self,
        start: Start,
        thread: u32,
        process: u32,
        pid: u32,
        tsc: u64,
    ) -> Result<(), Error> {
        let Start { tid, how, parent } = start;
        let kind = EventKind::Start { how, process, parent, pid, tid: tid as u32 };
        self.write(&Event::new(thread, tsc, kind))?;
        if how != StartHow::Launch {
            return Ok(());
        }
        let state = ProcessState {
            process,
            pid,
            cwd: self.lives.directory(tid),
            root: b"/".to_vec(),
            umask: self.umask,
            fds: (0..3).map(standard).collect(),
            ..ProcessState::default()
        };
        self.by_recorder(tsc, EventKind::State(Box::new(state)))
    }
}

/// Truncates results to 32 bits: some writers left garbage above.
fn within(nr: u16, ret: i64) -> i64 {
    let narrow = syscalls::by_number(nr.into())
        .is_some_and(|row| matches!(row.ret, Ret::Int | Ret::Fd | Ret::Pid | Ret::Id | Ret::Mode));
    if narrow { i64::from(ret as i32) } else { ret }
}

/// Returns a standard descriptor, of which nothing is known.
fn standard(fd: i32) -> OpenFd {
    OpenFd { fd, target: b"(not told)".to_vec(), offset: 0, flags: ASSUMED_FLAGS }
}

/// Returns arguments and environment of a new program.
fn image(call: &Call) -> Vec<Data> {
    let strings = |arg: u8, part: u8| {
        let mut all = Vec::new();
        for data in call.data.iter().filter(|data| data.arg == arg && data.part == part::WHOLE) {
            if let Content::Inline(bytes) = &data.content {
                all.extend_from_slice(bytes);
                all.push(0);
            }
        }
        Data {
            arg: IMAGE_ARG,
            part,
            index: 0,
            flags: 0,
            true_len: all.len() as u64,
            hash: None,
            content: Content::Inline(all),
        }
    };
    vec![strings(1, part::ARGV), strings(2, part::ENVP)]
}
