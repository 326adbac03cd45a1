//! A recording as a CTF 1.8 trace, with the names that LTTng gives to events of the kernel and to calls.
//!
//! Each CPU has a stream. Calls stand in that of the CPU on which their thread was, as far as events of
//! the kernel tell; otherwise in the first.

mod metadata;
mod names;
mod stream;

use std::cmp::Reverse;
use std::collections::{BinaryHeap, HashMap};
use std::io::{self, BufWriter, Write};

use model::kernel_events::{KernelAct, kernel_row};
use model::kernel_tasks::{KernelScope, Missing};
use model::scheduling::{CPUS_MAX, Scheduling};
use model::{Contents, Moment};
use syscalls::shape::{ArgKind, Dir};
use trace::Trace;
use trace::event::{Call, EventKind, GapWhy, KernelEvent, Outcome};
use trace::kernel::{KernelKind, KernelLayout, KernelValue};

pub use names::{arguments, event as event_name, field as field_name, letters as request_letters};

use metadata::{Class, Head, Type};
use stream::Stream;

/// Name of the file with the metadata.
pub const METADATA: &str = "metadata";
/// Kinds of events.
const CLASSES_MAX: usize = 1 << 15;
/// Bytes of a text.
const TEXT_BYTES_MAX: usize = 4096;
/// Calls that have not returned yet.
const OPEN_MAX: usize = 1 << 20;

/// Creates a file of the export by its name.
type Create<'a, W, E> = dyn FnMut(&str) -> Result<W, E> + 'a;

/// What is told by an event of a class.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
enum Kind {
    Layout(u32),
    Entry(u16),
    Exit(u16),
}

/// The return of a call.
#[derive(PartialEq, Eq, PartialOrd, Ord)]
struct Return {
    time: u64,
    seq: u64,
    tid: u32,
    pid: u32,
    nr: u16,
    ret: i64,
}

/// What was written.
#[derive(Clone, Copy, Debug, Default)]
pub struct Counts {
    /// Calls.
    pub calls: u64,
    /// Events of the kernel.
    pub kernel: u64,
    /// Events of other kinds, which CTF's readers would not know.
    pub others: u64,
    /// Calls whose CPU is not known.
    pub without_cpu: u64,
}

/// Writes a trace's events, in their order.
pub struct Exporter<'a, W: Write, E> {
    create: &'a mut Create<'a, W, E>,
    head: Head,
    streams: HashMap<u32, Stream<BufWriter<W>>>,
    classes: Vec<Class>,
    ids: HashMap<Kind, u16>,
    scheduling: Scheduling,
    returns: BinaryHeap<Reverse<Return>>,
    seq: u64,
    counts: Counts,
}

impl<'a, W: Write, E: From<io::Error>> Exporter<'a, W, E> {
    /// Begins to write events of a trace.
    pub fn new(trace: &Trace, create: &'a mut Create<'a, W, E>) -> Exporter<'a, W, E> {
        let preamble = trace.preamble();
        // The same trace gets the same name.
        let mut uuid = [0; 16];
        uuid[..8].copy_from_slice(&preamble.epoch_ns.to_be_bytes());
        uuid[8..].copy_from_slice(&preamble.epoch_tsc.to_be_bytes());
        let head = Head {
            uuid,
            epoch_ns: preamble.epoch_ns,
            host: preamble.host.clone(),
            kernel: preamble.kernel.clone(),
            is_partial: false,
        };
        Exporter {
            create,
            head,
            streams: HashMap::new(),
            classes: Vec::new(),
            ids: HashMap::new(),
            scheduling: Scheduling::new(&model::kernel_layouts(trace)),
            returns: BinaryHeap::new(),
            seq: 0,
            counts: Counts::default(),
        }
    }

    /// Takes the next event, which is written if it is wanted.
    pub fn event(
        &mut self,
        moment: &Moment<'_>,
        wanted: bool,
        contents: &mut dyn Contents,
    ) -> Result<(), E> {
        let (event, now) = (moment.event, moment.enter_ns);
        self.return_until(now)?;
        match (&event.kind, event.cpu()) {
            (EventKind::Kernel(kernel), Some(cpu)) if wanted && cpu < CPUS_MAX => {
                self.kernel(cpu, now, kernel, moment)?;
            }
            (EventKind::Gap { why: GapWhy::KernelEvents, detail, .. }, Some(cpu))
                if cpu < CPUS_MAX =>
            {
                self.stream(cpu)?.lost(*detail, now)?;
            }
            (EventKind::Call(call), _) if wanted => self.call(call, moment, contents)?,
            _ => self.counts.others += u64::from(wanted),
        }
        self.scheduling.event(event, now, moment.exit_ns, moment.tid, &mut ());
        Ok(())
    }

    fn stream(&mut self, cpu: u32) -> Result<&mut Stream<BufWriter<W>>, E> {
        if !self.streams.contains_key(&cpu) {
            let file = (self.create)(&format!("channel0_{cpu}"))?;
            let out = BufWriter::with_capacity(1 << 16, file);
            self.streams.insert(cpu, Stream::new(out, cpu, self.head.uuid));
        }
        Ok(self.streams.get_mut(&cpu).expect("it was made"))
    }

    /// The number of a class, made by what it is if it is new.
    fn class(&mut self, kind: Kind, make: impl FnOnce() -> Class) -> Option<u16> {
        if let Some(id) = self.ids.get(&kind) {
            return Some(*id);
        }
        if self.classes.len() >= CLASSES_MAX {
            return None;
        }
        let id = self.classes.len() as u16;
        self.classes.push(make());
        self.ids.insert(kind, id);
        Some(id)
    }

    fn kernel(
        &mut self,
        cpu: u32,
        now: u64,
        event: &KernelEvent,
        moment: &Moment<'_>,
    ) -> Result<(), E> {
        let Some(layout) = moment.world.kernel_layouts().get(event.layout).cloned() else {
            return Ok(());
        };
        if let Some(is_entry) = is_call(&layout) {
            return self.raw_call(cpu, now, event, &layout, is_entry);
        }
        let Some(id) = self.class(Kind::Layout(event.layout), || class_of(&layout)) else {
            return Ok(());
        };
        let mut out = self.begin(cpu, id, now, event.task)?;
        for (field, value) in layout.values(&event.values) {
            if layout.system == "block" && field.name == "rwbs" {
                let bits = match value {
                    KernelValue::Text(letters) => names::request(letters),
                    _ => 0,
                };
                out.extend_from_slice(&bits.to_le_bytes());
                continue;
            }
            put(&mut out, value, field.size);
        }
        // The processes of both, which LTTng tells besides.
        for wanted in born(&layout).into_iter().flatten() {
            let mut values = layout.values(&event.values);
            let task = values
                .find(|(field, _)| field.name == wanted)
                .and_then(|(_, value)| value.number());
            let task = task.unwrap_or(0) as u32;
            let known = self.scheduling.thread(task).and_then(|thread| thread.pid);
            out.extend_from_slice(&known.unwrap_or(task).to_le_bytes());
        }
        self.end(cpu, id, now, &out)?;
        self.counts.kernel += 1;
        Ok(())
    }

    /// A call as the kernel sees it; those that agents have recorded are written with more.
    fn raw_call(
        &mut self,
        cpu: u32,
        now: u64,
        event: &KernelEvent,
        layout: &KernelLayout,
        is_entry: bool,
    ) -> Result<(), E> {
        if self.scheduling.thread(event.task).is_some_and(|thread| thread.has_agent()) {
            return Ok(());
        }
        let mut values = layout.values(&event.values).map(|(_, value)| value);
        let (Some(nr), Some(second)) = (values.next(), values.next()) else { return Ok(()) };
        let nr = nr.number().and_then(|nr| u16::try_from(nr).ok()).unwrap_or(u16::MAX);
        let kind = if is_entry { Kind::Entry(nr) } else { Kind::Exit(nr) };
        // Texts behind addresses are not known here, so these are classes of their own.
        let raw = Kind::Layout(u32::from(nr) | if is_entry { 1 << 30 } else { 1 << 31 });
        let id = match kind {
            Kind::Entry(_) => self.class(raw, || entry_class(nr, false)),
            _ => self.class(kind, || exit_class(nr)),
        };
        let Some(id) = id else { return Ok(()) };
        let mut out = self.begin(cpu, id, now, event.task)?;
        match (is_entry, second) {
            (true, KernelValue::Bytes(bytes)) => {
                let count = self.classes[usize::from(id)].fields.len();
                let mut args = bytes.to_vec();
                args.resize(8 * count, 0);
                out.extend_from_slice(&args);
            }
            (true, _) => {}
            (false, value) => {
                out.extend_from_slice(&value.number().unwrap_or(0).to_le_bytes());
            }
        }
        self.end(cpu, id, now, &out)?;
        self.counts.kernel += 1;
        Ok(())
    }

    /// The context of an event: process, thread, name.
    fn begin(&self, cpu: u32, _: u16, _: u64, task: u32) -> Result<Vec<u8>, E> {
        let thread = self.scheduling.thread(task);
        let pid = thread.and_then(|thread| thread.pid).unwrap_or(task);
        let mut out = Vec::with_capacity(128);
        out.extend_from_slice(&pid.to_le_bytes());
        out.extend_from_slice(&task.to_le_bytes());
        match thread {
            None if task == 0 => put_text(&mut out, format!("swapper/{cpu}").as_bytes()),
            None => put_text(&mut out, b""),
            Some(thread) => put_text(&mut out, &thread.name),
        }
        Ok(out)
    }

    fn end(&mut self, cpu: u32, id: u16, now: u64, bytes: &[u8]) -> Result<(), E> {
        self.stream(cpu)?.event(id, now)?.extend_from_slice(bytes);
        Ok(())
    }

    fn call(
        &mut self,
        call: &Call,
        moment: &Moment<'_>,
        contents: &mut dyn Contents,
    ) -> Result<(), E> {
        let (nr, now) = (call.nr, moment.enter_ns);
        let (pid, tid) = (moment.pid.unwrap_or(0), moment.tid.unwrap_or(0));
        let cpu = self.cpu_of(tid);
        self.counts.calls += 1;
        self.counts.without_cpu += u64::from(self.scheduling.thread(tid).is_none());
        let Some(id) = self.class(Kind::Entry(nr), || entry_class(nr, true)) else {
            return Ok(());
        };
        let mut out = self.call_context(pid, tid);
        let args = syscalls::table::by_number(nr.into()).map(|row| row.args).unwrap_or_default();
        for (at, (_, ty)) in self.classes[usize::from(id)].fields.clone().iter().enumerate() {
            let value = call.args.get(at).copied().unwrap_or(0);
            if *ty != Type::Text {
                out.extend_from_slice(&value.to_le_bytes());
                continue;
            }
            let is_of_arg = |data: &&trace::event::Data| usize::from(data.arg) == at;
            let data = call.data.iter().find(is_of_arg).filter(|_| at < args.len());
            let text = data.map(|data| contents.read(&data.content, TEXT_BYTES_MAX));
            put_text(&mut out, &text.and_then(Result::ok).unwrap_or_default());
        }
        self.end(cpu, id, now, &out)?;
        if let (Outcome::Returned { ret, .. }, Some(time)) = (&call.outcome, moment.exit_ns) {
            self.seq += 1;
            if self.returns.len() >= OPEN_MAX {
                return Ok(());
            }
            let seq = self.seq;
            self.returns.push(Reverse(Return { time, seq, tid, pid, nr, ret: *ret }));
        }
        Ok(())
    }

    fn call_context(&self, pid: u32, tid: u32) -> Vec<u8> {
        let mut out = Vec::with_capacity(128);
        out.extend_from_slice(&pid.to_le_bytes());
        out.extend_from_slice(&tid.to_le_bytes());
        let name = self.scheduling.thread(tid).map(|thread| thread.name.as_slice());
        put_text(&mut out, name.unwrap_or_default());
        out
    }

    fn cpu_of(&self, tid: u32) -> u32 {
        self.scheduling.thread(tid).map_or(0, |thread| thread.cpu())
    }

    /// Writes the returns up to a time.
    fn return_until(&mut self, now: u64) -> Result<(), E> {
        while self.returns.peek().is_some_and(|Reverse(next)| next.time <= now) {
            let Some(Reverse(Return { time, tid, pid, nr, ret, .. })) = self.returns.pop() else {
                break;
            };
            let Some(id) = self.class(Kind::Exit(nr), || exit_class(nr)) else { continue };
            let mut out = self.call_context(pid, tid);
            out.extend_from_slice(&ret.to_le_bytes());
            let cpu = self.cpu_of(tid);
            self.end(cpu, id, time, &out)?;
        }
        Ok(())
    }

    /// Writes what is left, and the metadata.
    pub fn finish(mut self) -> Result<Counts, E> {
        self.return_until(u64::MAX)?;
        // A trace without a stream is none.
        self.stream(0)?;
        for (_, stream) in self.streams {
            stream.finish()?;
        }
        let missing = self.scheduling.missing();
        let is_partial = |scope: &KernelScope| !scope.is_whole || missing != Missing::Nothing;
        self.head.is_partial = self.scheduling.scope().is_some_and(is_partial);
        let mut out = (self.create)(METADATA)?;
        out.write_all(metadata::text(&self.head, &self.classes).as_bytes())?;
        out.flush()?;
        Ok(self.counts)
    }
}

/// Returns true if events of a layout are entries of calls, false if they are returns.
fn is_call(layout: &KernelLayout) -> Option<bool> {
    use model::kernel_events::{KernelAct, kernel_row};
    match kernel_row(&layout.system, &layout.name)?.does {
        KernelAct::Call { .. } => Some(true),
        KernelAct::Return => Some(false),
        _ => None,
    }
}

const WORD: Type = Type::Number { bytes: 8, is_signed: false, is_hex: true };
const SIGNED_WORD: Type = Type::Number { bytes: 8, is_signed: true, is_hex: false };

fn call_name(nr: u16) -> String {
    let row = syscalls::table::by_number(nr.into());
    row.map_or_else(|| "unknown".into(), |row| row.name.replace(':', "_"))
}

/// The class of a call's entry. Its texts are those of an agent, or addresses.
fn entry_class(nr: u16, has_texts: bool) -> Class {
    let row = syscalls::table::by_number(nr.into());
    let args = row.map(|row| row.args).unwrap_or_default();
    let theirs = names::arguments(nr).filter(|names| names.len() == args.len());
    let fields = args.iter().enumerate().map(|(at, arg)| {
        let name = theirs.map_or(arg.name, |names| names[at]).to_string();
        let ty = match arg.kind {
            ArgKind::Path | ArgKind::Str if has_texts => Type::Text,
            ArgKind::Int
            | ArgKind::Long
            | ArgKind::Fd
            | ArgKind::DirFd
            | ArgKind::Pid
            | ArgKind::Signal
            | ArgKind::Offset => SIGNED_WORD,
            ArgKind::Buf(Dir::Out, ..) | ArgKind::Address => WORD,
            ArgKind::Uint | ArgKind::Ulong | ArgKind::Size | ArgKind::Uid | ArgKind::Gid => {
                Type::Number { bytes: 8, is_signed: false, is_hex: false }
            }
            _ => WORD,
        };
        (name, ty)
    });
    Class { name: format!("syscall_entry_{}", call_name(nr)), fields: fields.collect() }
}

fn exit_class(nr: u16) -> Class {
    let fields = vec![("ret".to_string(), SIGNED_WORD)];
    Class { name: format!("syscall_exit_{}", call_name(nr)), fields }
}

fn class_of(layout: &KernelLayout) -> Class {
    let fields = layout.fields.iter().map(|field| {
        let name = names::field(&layout.system, &layout.name, &field.name);
        let bytes = number_bytes(field.size);
        let is_hex = field.c_type.contains('*') || field.name == "address" || field.name == "ip";
        let ty = match field.kind {
            KernelKind::Text if layout.system == "block" && field.name == "rwbs" => {
                Type::Number { bytes: 4, is_signed: false, is_hex: false }
            }
            KernelKind::Unsigned => Type::Number { bytes, is_signed: false, is_hex },
            KernelKind::Signed => Type::Number { bytes, is_signed: true, is_hex },
            KernelKind::Text => Type::Text,
            KernelKind::Bytes => Type::Bytes,
        };
        (name, ty)
    });
    let mut fields: Vec<(String, Type)> = fields.collect();
    if born(layout).is_some() {
        let ty = || Type::Number { bytes: 4, is_signed: true, is_hex: false };
        fields.extend(names::PROCESSES.map(|name| (name.into(), ty())));
    }
    Class { name: names::event(&layout.system, &layout.name), fields }
}

/// Of an event that makes a thread: the fields with the ids of the maker and of the new one.
fn born(layout: &KernelLayout) -> Option<[&'static str; 2]> {
    match kernel_row(&layout.system, &layout.name)?.does {
        KernelAct::Fork { parent, child, .. } => Some([parent, child]),
        _ => None,
    }
}

/// Bytes of a number of a field of that size.
fn number_bytes(size: u32) -> u8 {
    match size {
        1 | 2 | 4 => size as u8,
        _ => 8,
    }
}

fn put(out: &mut Vec<u8>, value: KernelValue<'_>, size: u32) {
    let bytes = usize::from(number_bytes(size));
    match value {
        KernelValue::Unsigned(number) => out.extend_from_slice(&number.to_le_bytes()[..bytes]),
        KernelValue::Signed(number) => out.extend_from_slice(&number.to_le_bytes()[..bytes]),
        KernelValue::Text(text) => put_text(out, text),
        KernelValue::Bytes(bytes) => {
            out.extend_from_slice(&(bytes.len() as u32).to_le_bytes());
            out.extend_from_slice(bytes);
        }
    }
}

fn put_text(out: &mut Vec<u8>, text: &[u8]) {
    let end = text.iter().position(|byte| *byte == 0).unwrap_or(text.len());
    out.extend_from_slice(&text[..end]);
    out.push(0);
}
