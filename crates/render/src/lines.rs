//! Formats events as lines of text.

use std::fmt::Write as _;
use std::io::{self, Write};

use model::decode::{self, Decoded, Limits, Returned, buffers, siginfo};
use model::mapped::Store;
use model::{Contents, Moment, names};
use syscalls::abi::signals;
use syscalls::record::part;
use trace::event::FieldValue;
use trace::event::{Call, EventKind, KernelEvent, OtherEvent, StartHow};
use trace::kernel::KernelValue;

use crate::amounts::show_time;
use crate::escape::{escape, quote};
use crate::text::{self, Style};

/// Format of lines.
#[derive(Clone, Copy, Debug)]
pub struct Look {
    /// Limits and format of values.
    pub style: Style,
    /// True if a hex dump of the buffers follows each call.
    pub hex: bool,
    /// True if terminal colours are used.
    pub colour: bool,
    /// True if calls are numbered.
    pub seq: bool,
    /// True if processes have the names of their programs.
    pub names: bool,
}

const RED: &str = "31";
const YELLOW: &str = "33";
const CYAN: &str = "36";
const GREY: &str = "90";
const ALARM: &str = "1;31";

/// Appends the line of an event, if it has one.
pub fn event(out: &mut String, moment: &Moment<'_>, contents: &mut dyn Contents, look: Look) {
    let before = out.len();
    prefix(out, moment, look);
    if told(out, moment, contents, look) {
        out.push('\n');
    } else {
        out.truncate(before);
    }
}

/// Appends what a line says of an event, without time and thread. Returns false if it has none.
pub fn told(
    out: &mut String,
    moment: &Moment<'_>,
    contents: &mut dyn Contents,
    look: Look,
) -> bool {
    let text = match &moment.event.kind {
        EventKind::Call(call) => {
            self::call(out, call, moment, contents, look);
            return true;
        }
        EventKind::State(_) | EventKind::KernelLayout(_) | EventKind::Unknown(_) => return false,
        EventKind::End { .. } if moment.is_last_thread() => return false,
        EventKind::Signal { signal, info, .. } => {
            let mut text = String::from("--- ");
            let number = i32::from(*signal);
            match signals::name(number) {
                Some(name) => text.push_str(name),
                None => _ = write!(text, "{number}"),
            }
            text.push(' ');
            text::render(&mut text, &siginfo::decode(info), look.style);
            text.push_str(" ---");
            (YELLOW, text)
        }
        EventKind::Start { how, parent, .. } => (CYAN, started(*how, *parent, moment)),
        EventKind::Image { data, .. } => {
            let mut text = String::from("+++ runs ");
            let given = decode::image::decode(data, contents);
            match decode::image::find(&given, part::ARGV) {
                Some(argv) => text::render(&mut text, argv, look.style),
                None => text.push_str("a new program"),
            }
            text.push_str(" +++");
            (CYAN, text)
        }
        EventKind::End { .. } => (CYAN, "+++ thread ended +++".into()),
        EventKind::Exit { status, .. } => {
            let how = status.map_or_else(|| "ended".into(), text::end_of_process);
            (CYAN, format!("+++ {how} +++"))
        }
        EventKind::Stall { ns } => {
            (YELLOW, format!("--- waited {} for the recorder ---", show_time(*ns)))
        }
        EventKind::Gap { why, detail, text } => {
            let mut line = format!("!!! gap: {}", names::gap(*why).1);
            if *detail != 0 {
                let _ = write!(line, " ({detail})");
            }
            if !text.is_empty() {
                line.push_str(": ");
                escape(&mut line, text.as_bytes(), &[]);
            }
            line.push_str(" !!!");
            (ALARM, line)
        }
        EventKind::Kernel(event) => (GREY, kernel(event, moment)),
        EventKind::Other(other) => match Store::of(moment.event) {
            Some(store) => (YELLOW, stored(&store, contents, look.style)),
            None => (YELLOW, fields(other)),
        },
    };
    paint(out, look, text.0, &text.1);
    true
}

/// Formats what was stored to a mapped file, or read of it.
fn stored(store: &Store<'_>, contents: &mut dyn Contents, style: Style) -> String {
    let Store { address, offset, length, stored, .. } = *store;
    let kind = if store.is_read { "mmap_read" } else { "mmap_write" };
    let mut line = format!("--- {kind} {address:#x}, {length} bytes at {offset} of ");
    quote(&mut line, store.file);
    if style.data && stored != 0 {
        line.push_str(": ");
        match contents.read(&store.content(), style.string_limit) {
            Ok(bytes) => quote(&mut line, &bytes),
            Err(_) => line.push_str("/* damaged */"),
        }
        if length > style.string_limit as u64 {
            line.push_str("...");
        }
    }
    line.push_str(" ---");
    line
}

/// Formats an event of the kernel: the thread that ran, its name, its fields.
fn kernel(event: &KernelEvent, moment: &Moment<'_>) -> String {
    let mut line = format!("<{}> ", event.task);
    let Some(layout) = moment.world.kernel_layouts().get(event.layout) else {
        let _ = write!(line, "an event of the kernel without a layout ({})", event.layout);
        return line;
    };
    escape(&mut line, layout.name.as_bytes(), &[]);
    for (field, value) in layout.values(&event.values) {
        line.push(' ');
        escape(&mut line, field.name.as_bytes(), &[]);
        line.push('=');
        let number = value.number().map(|number| number as u64);
        if let Some(words) = number.and_then(|number| layout.words(field, number)) {
            escape(&mut line, words.as_bytes(), &[]);
            continue;
        }
        if let (DEVICE_TYPE, Some(number)) = (field.c_type.as_str(), number) {
            device(&mut line, number, moment);
            continue;
        }
        match value {
            // As large as an address: hardly anything else is.
            KernelValue::Unsigned(number) if number >> 32 != 0 => {
                let _ = write!(line, "{number:#x}");
            }
            KernelValue::Unsigned(number) => line.push_str(&number.to_string()),
            KernelValue::Signed(number) => line.push_str(&number.to_string()),
            KernelValue::Text(text) => quote(&mut line, text),
            KernelValue::Bytes(bytes) => {
                bytes.iter().for_each(|byte| _ = write!(line, "{byte:02x}"));
            }
        }
    }
    line
}

/// The type in C of fields that name a device.
const DEVICE_TYPE: &str = "dev_t";

/// Appends a device, with its name in brackets if it is known.
fn device(line: &mut String, number: u64, moment: &Moment<'_>) {
    let (major, minor) = model::kernel_devices::major_minor(number);
    let _ = write!(line, "{major}:{minor}");
    if let Some(name) = moment.world.kernel_devices().name(number) {
        line.push('<');
        escape(line, name, &['<', '>']);
        line.push('>');
    }
}

/// Formats an event that has nothing but its row.
fn fields(event: &OtherEvent) -> String {
    let mut line = format!("--- {}", event.row.name);
    for (field, value) in event.fields() {
        let _ = write!(line, " {}=", field.name);
        match value {
            FieldValue::Unsigned(number) => line.push_str(&number.to_string()),
            FieldValue::Signed(number) => line.push_str(&number.to_string()),
            FieldValue::Bytes(bytes) => quote(&mut line, bytes),
            FieldValue::Text(text) => quote(&mut line, text.as_bytes()),
        }
    }
    line.push_str(" ---");
    line
}

/// Characters of a name of a program that are shown, as the kernel has it.
const NAME_MAX: usize = 15;

fn prefix(out: &mut String, moment: &Moment<'_>, look: Look) {
    if look.seq {
        let number = moment.seq.map(|seq| seq.to_string()).unwrap_or_default();
        let _ = write!(out, "{number:>7} ");
    }
    match moment.event.cpu() {
        Some(cpu) => at(out, &format!("cpu{cpu}"), moment.enter_ns),
        None if look.names => {
            let who = format!("{}{}", who((moment.pid, moment.tid)), named(moment));
            at(out, &format!("{who:<16}"), moment.enter_ns);
        }
        None => lane(out, (moment.pid, moment.tid), moment.enter_ns),
    }
}

/// Returns the name of the program of an event's process in brackets, if it is known.
fn named(moment: &Moment<'_>) -> String {
    let process = moment.process().and_then(|number| moment.world.process(number));
    let Some(process) = process else { return String::new() };
    let name = process.exe.rsplit(|byte| *byte == b'/').next().unwrap_or_default();
    if name.is_empty() {
        return String::new();
    }
    let mut text = String::from("<");
    escape(&mut text, &name[..name.len().min(NAME_MAX)], &['<', '>']);
    text.push('>');
    text
}

/// Appends process, thread and time.
pub fn lane(out: &mut String, ids: (Option<u32>, Option<u32>), ns: u64) {
    at(out, &who(ids), ns);
}

fn at(out: &mut String, who: &str, ns: u64) {
    let (seconds, ns) = (ns / 1_000_000_000, ns % 1_000_000_000);
    let _ = write!(out, "{who:<7} {seconds:>3}.{:06} ", ns / 1000);
}

/// Formats process and thread id; a main thread has only the process id.
pub fn who(ids: (Option<u32>, Option<u32>)) -> String {
    match ids {
        (Some(pid), Some(tid)) if pid != tid => format!("{pid}/{tid}"),
        (Some(pid), _) => pid.to_string(),
        _ => "-".into(),
    }
}

fn paint(out: &mut String, look: Look, colour: &str, text: &str) {
    if look.colour {
        let _ = write!(out, "\x1b[{colour}m{text}\x1b[0m");
    } else {
        out.push_str(text);
    }
}

fn started(how: StartHow, parent: u32, moment: &Moment<'_>) -> String {
    let by = match moment.world.ids(parent) {
        Some((_, tid)) => format!(" by {tid}"),
        None => String::new(),
    };
    match how {
        StartHow::Launch => "+++ launched +++".into(),
        StartHow::Thread => format!("+++ thread started{by} +++"),
        StartHow::Fork | StartHow::Vfork => {
            format!("+++ process started{by} ({}) +++", names::start(how))
        }
    }
}

/// Appends a call with its arguments, without the result.
pub fn called(
    out: &mut String,
    call: &Call,
    moment: &Moment<'_>,
    contents: &mut dyn Contents,
    style: Style,
) -> Decoded {
    let limit = style.string_limit;
    let items = if style.verbose { usize::MAX } else { limit };
    let data = if style.data { limit } else { 0 };
    let limits = Limits { strings: limit, data, items };
    let decoded = decode::decode(call, &moment.view(), contents, limits);
    out.push_str(&decoded.name);
    out.push('(');
    for (index, (_, value)) in decoded.args.iter().enumerate() {
        if index > 0 {
            out.push_str(", ");
        }
        match decoded.environment == Some(index) {
            true => text::environment(out, value, style),
            false => text::render(out, value, style),
        }
    }
    out.push(')');
    if decoded.unknown_variant {
        out.push_str(" /* buffer not captured */");
    }
    decoded
}

fn call(
    out: &mut String,
    call: &Call,
    moment: &Moment<'_>,
    contents: &mut dyn Contents,
    look: Look,
) {
    let decoded = called(out, call, moment, contents, look.style);
    match &decoded.result {
        Returned::Value(value) => {
            out.push_str(" = ");
            text::render(out, value, look.style);
        }
        Returned::Error { errno, name } => {
            let text = match name {
                Some((name, meaning)) => format!("-1 {name} ({meaning})"),
                None => format!("-1 (error {errno})"),
            };
            out.push_str(" = ");
            paint(out, look, RED, &text);
        }
        Returned::Never => out.push_str(" = ?"),
        Returned::Unfinished => out.push_str(" <unfinished ...>"),
    }
    if let Some(ns) = moment.duration_ns() {
        let _ = write!(out, " <{}.{:09}>", ns / 1_000_000_000, ns % 1_000_000_000);
    }
}

/// Number of bytes per line of a dump.
const DUMP_BYTES: usize = 16;

/// Writes a hex dump of a call's data.
pub fn hex_dump(out: &mut dyn Write, call: &Call, contents: &mut dyn Contents) -> io::Result<()> {
    for buffer in buffers(call).iter().filter(|buffer| buffer.plain) {
        writeln!(out, " * {} bytes of {}", buffer.len(), buffer.name)?;
        let mut dump = Dump { out: &mut *out, offset: 0, line: Vec::new() };
        for data in &buffer.pieces {
            let mut written = Ok(());
            let read = contents.each(&data.content, &mut |bytes| {
                written = dump.push(bytes);
                written.is_ok()
            });
            written?;
            if let Err(why) = read {
                let mut text = String::new();
                escape(&mut text, why.as_bytes(), &[]);
                writeln!(dump.out, " | not readable from the trace: {text}")?;
            }
        }
        dump.end_line()?;
        if buffer.is_cut() {
            out.write_all(b" | (cut)\n")?;
        }
    }
    Ok(())
}

/// A hex dump being written.
struct Dump<'a> {
    out: &'a mut dyn Write,
    offset: u64,
    line: Vec<u8>,
}

impl Dump<'_> {
    fn push(&mut self, mut bytes: &[u8]) -> io::Result<()> {
        while !bytes.is_empty() {
            let take = bytes.len().min(DUMP_BYTES - self.line.len());
            self.line.extend_from_slice(&bytes[..take]);
            bytes = &bytes[take..];
            if self.line.len() == DUMP_BYTES {
                self.end_line()?;
            }
        }
        Ok(())
    }

    fn end_line(&mut self) -> io::Result<()> {
        if !self.line.is_empty() {
            write!(self.out, " | {:05x} ", self.offset)?;
            self.out.write_all(&dump_line(&self.line))?;
            self.offset += self.line.len() as u64;
            self.line.clear();
        }
        Ok(())
    }
}

/// Column of the text in a dump's line, counted after the offset.
const DUMP_TEXT_AT: usize = 3 * DUMP_BYTES + 3;

fn dump_line(bytes: &[u8]) -> Vec<u8> {
    const DIGITS: &[u8; 16] = b"0123456789abcdef";
    let mut line = vec![b' '; DUMP_TEXT_AT + bytes.len()];
    for (index, byte) in bytes.iter().enumerate() {
        // Each half of the line begins with a blank.
        let at = 1 + 3 * index + index / (DUMP_BYTES / 2);
        line[at] = DIGITS[usize::from(byte >> 4)];
        line[at + 1] = DIGITS[usize::from(byte & 15)];
        let shown = if (b' '..=b'~').contains(byte) { *byte } else { b'.' };
        line[DUMP_TEXT_AT + index] = shown;
    }
    line.push(b'\n');
    line
}
