//! From events as they were read to a recording: entries and returns of calls become calls, all others
//! events of the kernel, with layouts by the metadata.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap, HashMap, VecDeque};
use std::io::{self, Write};

use model::kernel_tasks::{KernelScope, Missing};
use model::scheduling::CPUS_MAX;
use syscalls::record::enter_flag;
use syscalls::shape::{ArgKind, Ret, Syscall};
use syscalls::{Act, Handler};
use trace::event::{
    BLOB_BYTES_MAX, CPU_STREAM, Call, Content, Data, Event, EventKind, GapWhy, INLINE_BYTES_MAX,
    Outcome, Preamble, RECORDER, StartHow, Totals,
};
use trace::event_table::row_of;
use trace::format::event_number;
use trace::kernel::{KernelField, KernelKind, KernelLayout, KernelRef, KernelValue, put_value};
use trace::{Writer, WriterOptions};

use crate::error::Wrong;
use crate::metadata::{EventClass, Metadata};
use crate::spelling;
use crate::stream::{Raw, Stream, plain};
use crate::types::{Type, Typed};
use crate::values::Value;

/// Ticks of the trace are nanoseconds.
const TICKS_PER_SECOND: u64 = 1_000_000_000;
/// Threads of one trace.
const THREADS_MAX: usize = 1 << 20;
/// Calls of a thread that may be open.
const OPEN_MAX: usize = 4;
/// Unknown calls that are named.
const UNKNOWN_SHOWN: usize = 32;
/// Damage that is told.
const DAMAGE_MAX: usize = 100;
/// Where texts are said to lie: addresses of theirs are not told.
const SOMEWHERE: u64 = 4096;
/// Arguments of a call.
const ARGS: usize = 6;

/// What was imported.
#[derive(Debug, Default)]
pub struct Imported {
    /// Calls.
    pub calls: u64,
    /// Other events.
    pub events: u64,
    /// Threads that made calls, and their processes.
    pub threads: u32,
    /// Their processes.
    pub processes: u32,
    /// Events that the tracer has dropped, as it counted them.
    pub lost: u64,
    /// Returns of calls whose entries are not there.
    pub returns_alone: u64,
    /// Entries and returns whose thread is not told.
    pub nobodys: u64,
    /// Calls that are not known, by name.
    pub unknown: BTreeMap<String, u64>,
    /// What could not be read.
    pub damage: Vec<String>,
}

/// What becomes of the events of a class.
enum Fate {
    Entry(Option<&'static Syscall>, Vec<Option<usize>>),
    Exit(Option<&'static Syscall>),
    Kernel { layout: u32, fields: Vec<Planned> },
}

/// What becomes of a value.
struct Planned {
    kind: KernelKind,
    is_kept: bool,
    is_request: bool,
}

struct Thread {
    number: u32,
    process: u32,
    calls: u64,
    last: u64,
    /// Calls that have not returned, the earliest first. At most one is, but streams may tell of the
    /// next one's entry first if it has the same time.
    open: VecDeque<Open>,
}

/// A call that has not returned.
struct Open {
    row: &'static Syscall,
    begin: u64,
    call: Call,
}

struct Import {
    writer: Writer,
    base: i128,
    fates: Vec<Fate>,
    threads: HashMap<u32, Thread>,
    /// Living threads and number by process id.
    processes: HashMap<u32, (u32, u32)>,
    /// Who runs on a CPU.
    running: HashMap<u32, u32>,
    lasts: HashMap<u32, u64>,
    done: Imported,
    data_bytes: u64,
    gaps: u64,
    end: u64,
    values: Vec<u8>,
}

/// Reads the streams of a trace, and writes them as a recording. `sink` opens it.
pub fn import(
    metadata: &Metadata,
    mut streams: Vec<Stream>,
    sink: impl FnOnce() -> io::Result<Box<dyn Write + Send>>,
    options: WriterOptions,
    version: &str,
) -> Result<Imported, Wrong> {
    let mut numbers: HashMap<(u64, u64), usize> = HashMap::new();
    for (place, event) in metadata.events.iter().enumerate() {
        numbers.insert((event.stream, event.id), place);
    }
    let find = |kind: (u64, u64)| numbers.get(&kind).copied();
    let mut done = Imported::default();
    let mut heap = BinaryHeap::new();
    let mut nexts: Vec<Option<Raw>> = Vec::new();
    for (place, stream) in streams.iter_mut().enumerate() {
        let raw = read(stream, metadata, &find, &mut done);
        heap.extend(raw.as_ref().map(|raw| Reverse((raw.time, place))));
        nexts.push(raw);
    }
    let base = heap.peek().map_or(0, |Reverse((time, _))| *time);
    let environment = |key: &str| metadata.environment.get(key).cloned().unwrap_or_default();
    let preamble = Preamble {
        recorder_version: "(CTF)".into(),
        host: environment("hostname"),
        kernel: [environment("kernel_release"), environment("kernel_version")]
            .join(" ")
            .trim()
            .into(),
        page_bytes: 4096,
        epoch_ns: u64::try_from(base).unwrap_or(0),
        tsc_hz: TICKS_PER_SECOND,
        options: format!("imported from CTF by reenact {version}"),
        ..Preamble::default()
    };
    let sink = sink().map_err(|error| Wrong::Read("the trace that is written".into(), error))?;
    let writer = Writer::new(sink, &preamble, options)?;
    let mut import = Import {
        writer,
        base,
        fates: Vec::new(),
        threads: HashMap::new(),
        processes: HashMap::new(),
        running: HashMap::new(),
        lasts: HashMap::new(),
        done,
        data_bytes: 0,
        gaps: 0,
        end: 0,
        values: Vec::new(),
    };
    import.begin(metadata)?;
    while let Some(Reverse((_, place))) = heap.pop() {
        let Some(raw) = nexts[place].take() else { continue };
        if let Some(at) = find(raw.kind) {
            import.event(raw, at, &metadata.events[at])?;
        }
        let raw = read(&mut streams[place], metadata, &find, &mut import.done);
        heap.extend(raw.as_ref().map(|raw| Reverse((raw.time, place))));
        nexts[place] = raw;
    }
    for stream in &mut streams {
        let (cpu, lost) = stream.lost_at_end();
        import.lost(cpu, lost, import.end)?;
    }
    import.finish()
}

/// The next event of a stream. What cannot be read ends it.
fn read(
    stream: &mut Stream,
    metadata: &Metadata,
    find: &dyn Fn((u64, u64)) -> Option<usize>,
    done: &mut Imported,
) -> Option<Raw> {
    stream.next(metadata, find).unwrap_or_else(|wrong| {
        if done.damage.len() < DAMAGE_MAX {
            done.damage.push(wrong.to_string());
        }
        None
    })
}

impl Import {
    fn begin(&mut self, metadata: &Metadata) -> Result<(), Wrong> {
        let (why, text) = (GapWhy::Imported, "a CTF trace".to_string());
        self.gap(RECORDER, 0, EventKind::Gap { why, detail: 0, text })?;
        let says = |(key, word): (&str, &str)| {
            metadata.environment.get(key).is_some_and(|value| value == word)
        };
        if says(spelling::DOMAIN)
            && let Some(row) = row_of(event_number::KERNEL_SCOPE)
        {
            let missing = match says(spelling::PARTIAL) {
                true => Missing::Switches,
                false => Missing::Nothing,
            };
            let scope = KernelScope { is_whole: true, missing, ..KernelScope::default() };
            self.write(RECORDER, 0, EventKind::Other(scope.event(row)))?;
        }
        let mut layouts: Vec<KernelLayout> = Vec::new();
        for class in &metadata.events {
            let fate = match spelling::call(&class.name) {
                Some((row, true)) => {
                    Fate::Entry(row, row.map_or(Vec::new(), |row| places(row, class)))
                }
                Some((row, false)) => Fate::Exit(row),
                None => {
                    let (mut layout, fields) = layout(class);
                    let is_same = |other: &&KernelLayout| {
                        other.system == layout.system
                            && other.name == layout.name
                            && other.fields == layout.fields
                    };
                    if let Some(same) = layouts.iter().find(is_same) {
                        layout.number = same.number;
                    } else {
                        layout.number_by_content(&layouts);
                        layouts.push(layout.clone());
                        self.write(RECORDER, 0, EventKind::KernelLayout(Box::new(layout.clone())))?;
                    }
                    Fate::Kernel { layout: layout.number, fields }
                }
            };
            self.fates.push(fate);
        }
        Ok(())
    }

    fn write(&mut self, stream: u32, time: u64, kind: EventKind) -> Result<(), Wrong> {
        let time = self.in_order(stream, time);
        Ok(self.writer.event(&Event::new(stream, time, kind))?)
    }

    /// A time that is not before the last one of a stream.
    fn in_order(&mut self, stream: u32, time: u64) -> u64 {
        let last = self.lasts.entry(stream).or_default();
        *last = (*last).max(time);
        self.end = self.end.max(*last);
        *last
    }

    fn gap(&mut self, stream: u32, time: u64, kind: EventKind) -> Result<(), Wrong> {
        self.gaps += 1;
        self.write(stream, time, kind)
    }

    fn lost(&mut self, cpu: u32, count: u64, time: u64) -> Result<(), Wrong> {
        if count == 0 {
            return Ok(());
        }
        self.done.lost = self.done.lost.saturating_add(count);
        let why = GapWhy::KernelEvents;
        let kind = EventKind::Gap { why, detail: count, text: String::new() };
        self.gap(CPU_STREAM | cpu.min(CPUS_MAX - 1), time, kind)
    }

    fn event(&mut self, raw: Raw, at: usize, class: &EventClass) -> Result<(), Wrong> {
        let time = u64::try_from(raw.time - self.base).unwrap_or(0);
        let cpu = raw.cpu.min(CPUS_MAX - 1);
        self.lost(cpu, raw.lost, time)?;
        let number = |names: &[&str]| {
            let find = |name| raw.context.iter().find(|(of, _)| of == name);
            let found = names.iter().find_map(find)?.1.number()?;
            u32::try_from(found).ok()
        };
        let told = number(&spelling::THREAD);
        let task = told.or_else(|| self.running.get(&cpu).copied()).unwrap_or(0);
        let pid = number(&spelling::PROCESS).unwrap_or(task);
        let (switch, next) = spelling::SWITCHED_TO;
        if class.name == switch
            && let Some((_, value)) = raw.fields.iter().find(|(name, _)| name == next)
            && let Some(next) = value.number().and_then(|next| u32::try_from(next).ok())
        {
            self.running.insert(cpu, next);
        }
        let fates = std::mem::take(&mut self.fates);
        let result = match &fates[at] {
            Fate::Entry(..) | Fate::Exit(_) if task == 0 || CPU_STREAM & task != 0 => {
                self.done.nobodys += 1;
                Ok(())
            }
            Fate::Entry(Some(row), places) => self.entry(task, pid, time, row, places, &raw),
            Fate::Entry(None, _) => {
                if self.done.unknown.len() < UNKNOWN_SHOWN {
                    *self.done.unknown.entry(class.name.clone()).or_default() += 1;
                }
                Ok(())
            }
            Fate::Exit(row) => self.exit(task, time, *row, &raw),
            Fate::Kernel { layout, fields } => self.kernel(cpu, task, time, *layout, fields, &raw),
        };
        self.fates = fates;
        result
    }

    fn kernel(
        &mut self,
        cpu: u32,
        task: u32,
        time: u64,
        layout: u32,
        fields: &[Planned],
        raw: &Raw,
    ) -> Result<(), Wrong> {
        self.values.clear();
        let kept = fields.iter().zip(&raw.fields).filter(|(field, _)| field.is_kept);
        for (field, (_, value)) in kept {
            if field.is_request {
                let letters = ctf_export::request_letters(value.number().unwrap_or(0) as u32);
                put_value(&mut self.values, KernelValue::Text(letters.as_bytes()));
            } else {
                put(&mut self.values, field.kind, value);
            }
        }
        self.done.events += 1;
        let time = self.in_order(CPU_STREAM | cpu, time);
        let event = KernelRef { layout, task, flags: 0, values: &self.values };
        Ok(self.writer.kernel(cpu, time, &event)?)
    }

    /// The living thread with an id, which its first call makes.
    fn thread(&mut self, tid: u32, pid: u32, time: u64) -> Result<Option<&mut Thread>, Wrong> {
        if !self.threads.contains_key(&tid) {
            if self.threads.len() >= THREADS_MAX {
                return Ok(None);
            }
            self.done.threads += 1;
            let number = self.done.threads;
            let is_first = number == 1;
            let is_new = !self.processes.contains_key(&pid);
            if is_new {
                self.done.processes += 1;
                self.processes.insert(pid, (0, self.done.processes));
            }
            let Some((living, process)) = self.processes.get_mut(&pid) else { return Ok(None) };
            *living += 1;
            let process = *process;
            let how = match (is_first, is_new) {
                (true, _) => StartHow::Launch,
                (_, true) => StartHow::Fork,
                (_, false) => StartHow::Thread,
            };
            let kind = EventKind::Start { how, process, parent: 0, pid, tid };
            self.write(number, time, kind)?;
            self.threads.insert(
                tid,
                Thread { number, process: pid, calls: 0, last: time, open: VecDeque::new() },
            );
        }
        Ok(self.threads.get_mut(&tid))
    }

    fn entry(
        &mut self,
        tid: u32,
        pid: u32,
        time: u64,
        row: &'static Syscall,
        places: &[Option<usize>],
        raw: &Raw,
    ) -> Result<(), Wrong> {
        let mut call =
            Call { nr: row.nr, nargs: row.args.len().min(ARGS) as u8, ..Call::default() };
        if row.ret == Ret::Never {
            call.flags |= enter_flag::NO_RETURN;
        }
        for (place, (_, value)) in places.iter().zip(&raw.fields) {
            let Some(at) = *place else { continue };
            match value {
                Value::Text(text) if !matches!(row.args[at].kind, ArgKind::Path | ArgKind::Str) => {
                    // An array that stands for memory: that it was there is all that is kept.
                    call.args[at] = if text.is_empty() { 0 } else { SOMEWHERE };
                }
                Value::Text(text) => {
                    let mut bytes = text.clone();
                    bytes.push(0);
                    call.args[at] = SOMEWHERE;
                    let true_len = bytes.len() as u64;
                    self.data_bytes += true_len;
                    let content = self.content(bytes)?;
                    call.data.push(Data { arg: at as u8, true_len, content, ..Data::default() });
                }
                Value::Bytes(_) => call.args[at] = SOMEWHERE,
                value => call.args[at] = value.number().unwrap_or(0) as u64,
            }
        }
        if model::decode::shape::shape_of(&call).unknown_variant {
            call.flags |= enter_flag::UNKNOWN_VARIANT;
        }
        let Some(thread) = self.thread(tid, pid, time)? else { return Ok(()) };
        thread.open.push_back(Open { row, begin: time, call });
        let number = thread.number;
        if thread.open.len() > OPEN_MAX
            && let Some(Open { begin, call, .. }) = thread.open.pop_front()
        {
            self.call(tid, number, begin, call)?;
        }
        if row.ret == Ret::Never && row.act != Act::Execute && row.handler != Handler::SignalReturn
        {
            self.ends(tid, pid, row.act == Act::EndProcess, time)?;
        }
        Ok(())
    }

    fn content(&mut self, bytes: Vec<u8>) -> Result<Content, Wrong> {
        if bytes.len() <= INLINE_BYTES_MAX {
            return Ok(Content::Inline(bytes));
        }
        let mut ids = Vec::new();
        for piece in bytes.chunks(BLOB_BYTES_MAX) {
            ids.push(self.writer.blob(piece)?);
        }
        Ok(Content::Blobs { len: bytes.len() as u64, ids })
    }

    fn call(&mut self, tid: u32, number: u32, time: u64, call: Call) -> Result<(), Wrong> {
        self.done.calls += 1;
        if let Some(thread) = self.threads.get_mut(&tid) {
            thread.calls += 1;
        }
        self.write(number, time, EventKind::Call(call))
    }

    fn exit(
        &mut self,
        tid: u32,
        time: u64,
        row: Option<&'static Syscall>,
        raw: &Raw,
    ) -> Result<(), Wrong> {
        let Some(thread) = self.threads.get_mut(&tid) else {
            self.done.returns_alone += u64::from(row.is_some());
            return Ok(());
        };
        let number = thread.number;
        let is_its = |open: &Open| row.is_some_and(|row| row.nr == open.row.nr);
        let Some(place) = thread.open.iter().position(is_its) else {
            self.done.returns_alone += u64::from(row.is_some());
            return Ok(());
        };
        // Those before have not returned, as far as is told.
        let mut closed: VecDeque<Open> = thread.open.drain(..=place).collect();
        let Some(Open { row, begin, mut call }) = closed.pop_back() else { return Ok(()) };
        for Open { begin, call, .. } in closed {
            self.call(tid, number, begin, call)?;
        }
        let ret = raw.fields.iter().find(|(name, _)| name == spelling::RESULT);
        let ret = ret.and_then(|(_, value)| value.number()).unwrap_or(0);
        let begins_program = row.act == Act::Execute && ret == 0;
        call.outcome = Outcome::Returned { exit_tsc: time.max(begin), ret };
        self.call(tid, number, begin, call)?;
        self.lasts.entry(number).and_modify(|last| *last = (*last).max(time));
        self.end = self.end.max(time);
        if begins_program {
            self.write(number, time, EventKind::Image { tid, data: Vec::new() })?;
        }
        Ok(())
    }

    /// A thread ends, or all of its process do.
    fn ends(&mut self, tid: u32, pid: u32, is_all: bool, time: u64) -> Result<(), Wrong> {
        let mut gone: Vec<u32> = vec![tid];
        if is_all {
            let others = self.threads.iter().filter(|(_, thread)| thread.process == pid);
            gone.extend(others.map(|(other, _)| *other).filter(|other| *other != tid));
            gone[1..].sort_unstable();
        }
        for tid in gone {
            self.end_thread(tid, time)?;
        }
        Ok(())
    }

    fn end_thread(&mut self, tid: u32, time: u64) -> Result<(), Wrong> {
        let Some(thread) = self.threads.get_mut(&tid) else { return Ok(()) };
        let number = thread.number;
        for Open { begin, call, .. } in std::mem::take(&mut thread.open) {
            self.call(tid, number, begin, call)?;
        }
        let Some(thread) = self.threads.remove(&tid) else { return Ok(()) };
        let time = self.in_order(number, time.max(thread.last));
        self.write(number, time, EventKind::End { calls: thread.calls })?;
        self.lasts.remove(&number);
        let Some((living, process)) = self.processes.get_mut(&thread.process) else {
            return Ok(());
        };
        *living = living.saturating_sub(1);
        if *living == 0 {
            let process = *process;
            self.processes.remove(&thread.process);
            // After what its threads did last, which has the same time.
            self.write(RECORDER, time + 1, EventKind::Exit { process, status: None })?;
        }
        Ok(())
    }

    fn finish(mut self) -> Result<Imported, Wrong> {
        let mut left: Vec<(u32, u32)> =
            self.threads.iter().map(|(tid, thread)| (thread.number, *tid)).collect();
        left.sort_unstable();
        for (_, tid) in left {
            self.end_thread(tid, self.end)?;
        }
        let totals = Totals {
            calls_made: self.done.calls,
            calls_read: self.done.calls,
            calls_written: self.done.calls,
            data_bytes: self.data_bytes,
            stored_bytes: self.writer.stored_bytes(),
            threads: self.done.threads,
            processes: self.done.processes,
            gaps: self.gaps,
            tsc_hz: TICKS_PER_SECOND,
            end_tsc: self.end,
            ..Totals::default()
        };
        self.writer.finish(&totals)?;
        Ok(self.done)
    }
}

/// The arguments that fields of a call's entry are.
fn places(row: &Syscall, class: &EventClass) -> Vec<Option<usize>> {
    let theirs = ctf_export::arguments(row.nr).unwrap_or_default();
    let Some(Type::Struct(fields, _)) = class.fields.as_deref().map(|of| &of.of) else {
        return Vec::new();
    };
    let lengths = lengths(fields);
    let place = |name: &str| {
        let by_theirs = theirs.iter().position(|of| *of == name);
        by_theirs.or_else(|| row.args.iter().position(|arg| arg.name == name))
    };
    let count = row.args.len().min(ARGS);
    let found: Vec<Option<usize>> = fields
        .iter()
        .map(|(name, _)| {
            let is_length = lengths.contains(&name.as_str());
            place(&plain(name)).filter(|at| *at < count && !is_length)
        })
        .collect();
    // Where names are others, and as many: those in their places.
    if found.iter().all(Option::is_none) && fields.len() <= count {
        return (0..fields.len()).map(Some).collect();
    }
    found
}

/// Fields that say how long others are.
fn lengths(fields: &[(String, std::rc::Rc<Typed>)]) -> Vec<&str> {
    let length = |of: &Typed| -> Option<String> {
        match &of.of {
            Type::Sequence(_, name) => Some(name.rsplit('.').next()?.to_string()),
            _ => None,
        }
    };
    let names: Vec<String> = fields.iter().filter_map(|(_, of)| length(of)).collect();
    fields
        .iter()
        .map(|(name, _)| name.as_str())
        .filter(|name| names.iter().any(|of| of == name))
        .collect()
}

/// The layout of events of a class, and what becomes of their values.
fn layout(class: &EventClass) -> (KernelLayout, Vec<Planned>) {
    let (system, name) = spelling::event(&class.name);
    let mut planned = Vec::new();
    let mut fields = Vec::new();
    if let Some(of) = &class.fields {
        flat("", of, &mut |field, kind, bytes, is_length| {
            let field = spelling::field(&system, &name, &field);
            let is_request = (system.as_str(), field.as_str()) == spelling::REQUEST
                && matches!(kind, KernelKind::Unsigned | KernelKind::Signed);
            let kind = if is_request { KernelKind::Text } else { kind };
            planned.push(Planned { kind, is_kept: !is_length, is_request });
            if !is_length {
                fields.push(KernelField { name: field, c_type: String::new(), kind, size: bytes });
            }
        });
    }
    (KernelLayout { number: 0, system, name, fields, words: Vec::new() }, planned)
}

/// The values of a type in their order: name, kind, bytes, and whether it is but a length.
fn flat(prefix: &str, of: &Typed, take: &mut dyn FnMut(String, KernelKind, u32, bool)) {
    let number = |int: &crate::types::Int| {
        let kind = if int.is_signed { KernelKind::Signed } else { KernelKind::Unsigned };
        (kind, int.bits.div_ceil(8).next_power_of_two())
    };
    let (kind, bytes) = match &of.of {
        Type::Struct(fields, _) => {
            let lengths = lengths(fields);
            for (name, of) in fields {
                let dot = if prefix.is_empty() { "" } else { "." };
                let full = format!("{prefix}{dot}{}", plain(name));
                let is_length = lengths.contains(&name.as_str());
                flat(&full, of, &mut |name, kind, bytes, inner| {
                    take(name, kind, bytes, inner || is_length);
                });
            }
            return;
        }
        Type::Int(int) | Type::Enum(int, _) => number(int),
        Type::Array(of, count) => match of.is_byte() {
            Some(false) => (KernelKind::Bytes, *count as u32),
            _ => (KernelKind::Text, 0),
        },
        Type::Sequence(of, _) if of.is_byte() == Some(false) => (KernelKind::Bytes, 0),
        Type::Float(_) | Type::Text | Type::Sequence(..) | Type::Variant(..) => {
            (KernelKind::Text, 0)
        }
    };
    take(prefix.into(), kind, bytes, false);
}

/// Appends a value as its layout has it.
fn put(out: &mut Vec<u8>, kind: KernelKind, value: &Value) {
    let number = value.number().unwrap_or(0);
    let text = match value {
        Value::Text(bytes) | Value::Bytes(bytes) => bytes.clone(),
        Value::Unsigned(number) => number.to_string().into_bytes(),
        Value::Signed(number) => number.to_string().into_bytes(),
    };
    put_value(
        out,
        match kind {
            KernelKind::Unsigned => KernelValue::Unsigned(number as u64),
            KernelKind::Signed => KernelValue::Signed(number),
            KernelKind::Text => KernelValue::Text(&text),
            KernelKind::Bytes => KernelValue::Bytes(&text),
        },
    );
}
