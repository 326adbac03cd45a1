//! Formats values in strace's syntax, with all strings in hexadecimal.

use std::fmt::Write as _;
use std::net::IpAddr;

use model::Value;
use model::decode::symbols;
use model::decode::value::Bytes;
use model::mounts::major_minor;
use syscalls::layout::{FieldKind, Layout};
use syscalls::shape::FlagSet;

use crate::spelling::{self, Field, Form, Piece, STRING_BYTES_MAX, Shown, TIME, VAL};
use crate::words;

/// Sets with at least this many signals are printed inverted.
pub const SET_INVERTED: u32 = 42;

type Fields = [(&'static str, Value)];

/// Appends a value by its type alone.
pub fn plain(out: &mut String, value: &Value) {
    match value {
        Value::Int(n) => push(out, format_args!("{n}")),
        Value::Uint(n) => push(out, format_args!("{n}")),
        Value::Hex(n) => hex(out, *n),
        Value::Mode(mode) => file_mode(out, *mode),
        Value::Dev(dev) => {
            let (major, minor) = major_minor(*dev);
            out.push_str("makedev(");
            hex(out, major);
            out.push_str(", ");
            hex(out, minor);
            out.push(')');
        }
        Value::Signal(number) => out.push_str(&words::signal(*number)),
        Value::SigSet(set) => out.push_str(&words::signal_set(*set, SET_INVERTED)),
        Value::Fd { fd: -100, dir: true, .. } => out.push_str("AT_FDCWD"),
        Value::Fd { fd, .. } => push(out, format_args!("{fd}")),
        Value::Flags { value, set } => flags(out, *value, set),
        Value::Enum { value, set } => match symbols::name(set, *value) {
            Some(name) => out.push_str(spelling::name(name)),
            None => unknown(out, *value, set),
        },
        Value::Named { name, .. } => out.push_str(spelling::name(name)),
        Value::Address(0) => out.push_str("NULL"),
        Value::Address(at) | Value::Fault(at) | Value::Damaged(at, _) => hex(out, *at),
        Value::Text { bytes, cut, .. } => quote(out, bytes, *cut),
        Value::Bytes(Bytes { at, head, len, .. }) if head.is_empty() && *len > 0 => hex(out, *at),
        Value::Bytes(Bytes { head, len, .. }) => quote(out, head, (head.len() as u64) < *len),
        Value::Array { items, more, .. } => array(out, items, *more, ", ", plain),
        Value::Struct { fields, cut } => {
            let shown = fields.iter().filter(|(name, value)| !is_hidden(name, value));
            braces(out, shown, *cut, |out, (name, value)| named_field(out, name, value));
        }
        Value::FdSet(fds) => {
            let fds: Vec<String> = fds.iter().map(i32::to_string).collect();
            push(out, format_args!("[{}]", fds.join(" ")));
        }
        Value::WaitStatus(status) => out.push_str(&words::wait_status(*status)),
        Value::Port(port) => push(out, format_args!("htons({port})")),
        Value::Ip(IpAddr::V4(ip)) => {
            out.push_str("inet_addr(");
            quote(out, ip.to_string().as_bytes(), false);
            out.push(')');
        }
        Value::Ip(IpAddr::V6(ip)) => {
            out.push_str("inet_pton(AF_INET6, ");
            quote(out, ip.to_string().as_bytes(), false);
            out.push_str(", &sin6_addr)");
        }
        Value::Changed(before, after) => changed(out, before, after, plain),
    }
}

/// Appends a value before and after the call, or once if both are equal.
pub fn changed(
    out: &mut String,
    before: &Value,
    after: &Value,
    mut show: impl FnMut(&mut String, &Value),
) {
    let (mut old, mut new) = (String::new(), String::new());
    show(&mut old, before);
    show(&mut new, after);
    if old == new {
        return out.push_str(&old);
    }
    push(out, format_args!("{old} => {new}"));
}

/// Appends one or several structs of a known layout.
pub fn of_layout(out: &mut String, layout: &'static Layout, value: &Value) {
    match value {
        Value::Array { items, more, .. } => {
            array(out, items, *more, ", ", |out, item| of_layout(out, layout, item));
        }
        Value::Changed(before, after) => {
            changed(out, before, after, |out, value| of_layout(out, layout, value));
        }
        Value::Struct { fields, cut } => match spelling::form(layout.name) {
            Some(form) => formed(out, form, layout, fields, *cut),
            None => braces(out, fields.iter(), *cut, |out, (name, value)| {
                push(out, format_args!("{name}="));
                of_field(out, layout, name, value);
            }),
        },
        _ => plain(out, value),
    }
}

/// Appends a field of a layout; it may itself be a struct.
fn of_field(out: &mut String, layout: &'static Layout, name: &str, value: &Value) {
    match layout.fields.iter().find(|field| field.name == name).map(|field| field.kind) {
        Some(FieldKind::Struct(inner)) => of_layout(out, inner, value),
        _ => plain(out, value),
    }
}

fn formed(
    out: &mut String,
    form: &'static Form,
    layout: &'static Layout,
    fields: &Fields,
    cut: bool,
) {
    let find = |name: &str| fields.iter().find(|(field, _)| *field == name).map(|(_, v)| v);
    let shown = form.fields.iter().filter_map(|piece| {
        let value = find(piece.field)?;
        let wanted = match piece.shown {
            Shown::With(field, bits) | Shown::HexWith(field, bits) => {
                number(find(field)?) & bits != 0
            }
            Shown::OfDevice(mode) => is_device(find(mode)?),
            Shown::NotOfDevice(mode) => !is_device(find(mode)?),
            Shown::NotZero => number(value) != 0,
            _ => true,
        };
        wanted.then_some((piece, value))
    });
    let shown: Vec<(&Piece, &Value)> = shown.collect();
    braces(out, shown.iter(), cut, |out, (piece, value)| {
        push(out, format_args!("{}=", piece.name));
        match piece.shown {
            Shown::Plain | Shown::OfDevice(_) | Shown::NotOfDevice(_) => {
                of_field(out, layout, piece.field, value)
            }
            // Conditional fields are times or numbers.
            Shown::With(..) if matches!(value, Value::Struct { .. }) => time(out, value),
            Shown::With(..) => plain(out, value),
            Shown::Hex | Shown::HexWith(..) | Shown::NotZero => hex(out, number(value)),
            Shown::Seconds(nanoseconds) => {
                plain(out, value);
                let ns = find(nanoseconds).map_or(0, number);
                comment(out, words::date(number(value) as i64, ns));
            }
            Shown::Handler if matches!(value, Value::Int(_)) => hex(out, number(value)),
            Shown::Handler => plain(out, value),
            Shown::Time => time(out, value),
            Shown::Limit => limit(out, value),
            Shown::Ticks => ticks(out, number(value)),
            Shown::Val => {
                push(out, format_args!("{{{VAL}="));
                plain(out, value);
                out.push('}');
            }
            Shown::Twice => {
                let n = number(value);
                push(out, format_args!("{{u32={}, u64={n}}}", n as u32));
            }
        }
    });
}

/// Appends a time with its date, or the name of a special time.
pub fn time(out: &mut String, value: &Value) {
    let Value::Struct { fields, .. } = value else { return plain(out, value) };
    let [seconds, nanoseconds] = TIME;
    if let Some((_, Value::Named { name, .. })) =
        fields.iter().find(|(name, _)| *name == nanoseconds)
    {
        return out.push_str(name);
    }
    plain(out, value);
    let part = |name| fields.iter().find(|(field, _)| *field == name).map_or(0, |(_, v)| number(v));
    comment(out, words::date(part(seconds) as i64, part(nanoseconds)));
}

/// Appends a field of a struct that has no layout in the table.
fn named_field(out: &mut String, name: &str, value: &Value) {
    let how = spelling::field(name);
    match how {
        Some(Field::Unnamed) => return plain(out, value),
        Some(Field::Union) => {
            let n = number(value);
            push(out, format_args!("si_int={}, si_ptr=", n as i32));
            return plain(out, &Value::Address(n));
        }
        _ => push(out, format_args!("{name}=")),
    }
    match (how, value) {
        (Some(Field::Network), _) => push(out, format_args!("htonl({})", number(value))),
        (Some(Field::Digits), _) => push(out, format_args!("{:08x}", number(value))),
        (Some(Field::SocketPath), Value::Text { bytes, cut, .. })
            if bytes.first() == Some(&b'@') =>
        {
            out.push('@');
            quote(out, &bytes[1..], *cut);
        }
        (Some(Field::Ticks), _) => ticks(out, number(value)),
        (Some(Field::Flags(set)), _) => flags(out, number(value), set),
        _ => plain(out, value),
    }
}

fn is_hidden(name: &str, value: &Value) -> bool {
    matches!((spelling::field(name), value), (Some(Field::NotNull), Value::Address(0)))
}

/// Appends several values in square brackets.
pub fn array(
    out: &mut String,
    items: &[Value],
    more: u64,
    between: &str,
    mut show: impl FnMut(&mut String, &Value),
) {
    out.push('[');
    for (index, item) in items.iter().enumerate() {
        if index > 0 {
            out.push_str(between);
        }
        show(out, item);
    }
    if more > 0 {
        out.push_str(if items.is_empty() { "..." } else { ", ..." });
    }
    out.push(']');
}

fn braces<T>(
    out: &mut String,
    fields: impl Iterator<Item = T>,
    cut: bool,
    mut show: impl FnMut(&mut String, T),
) {
    out.push('{');
    let mut between = "";
    for field in fields {
        out.push_str(between);
        between = ", ";
        show(out, field);
    }
    if cut {
        push(out, format_args!("{between}..."));
    }
    out.push('}');
}

/// Appends a string in hexadecimal, as `-xx` does.
pub fn quote(out: &mut String, bytes: &[u8], cut: bool) {
    const DIGITS: &[u8; 16] = b"0123456789abcdef";
    let shown = &bytes[..bytes.len().min(STRING_BYTES_MAX)];
    out.reserve(shown.len() * 4 + 2);
    out.push('"');
    for byte in shown {
        out.push_str("\\x");
        out.push(char::from(DIGITS[usize::from(byte >> 4)]));
        out.push(char::from(DIGITS[usize::from(byte & 15)]));
    }
    out.push('"');
    if cut || shown.len() < bytes.len() {
        out.push_str("...");
    }
}

/// Appends flags by name.
pub fn flags(out: &mut String, value: u64, set: &'static FlagSet) {
    let (names, rest) = symbols::split(set, value);
    match (names.is_empty(), rest) {
        (true, _) => unknown(out, value, set),
        (false, rest) => {
            let names: Vec<&str> = names.into_iter().map(spelling::name).collect();
            out.push_str(&names.join("|"));
            if rest != 0 {
                push(out, format_args!("|{rest:#x}"));
            }
        }
    }
}

fn unknown(out: &mut String, value: u64, set: &FlagSet) {
    hex(out, value);
    if value != 0 && !set.name.is_empty() {
        push(out, format_args!(" /* {}??? */", set.name));
    }
}

/// Appends permissions and file type.
pub fn file_mode(out: &mut String, mode: u32) {
    const BITS: &[(u32, &str)] = &[(0o4000, "S_ISUID"), (0o2000, "S_ISGID"), (0o1000, "S_ISVTX")];
    let kind = mode & 0o170_000;
    let Some((_, name)) = words::FILE_TYPES.iter().find(|(value, _)| *value == kind) else {
        return number_mode(out, mode);
    };
    out.push_str(name);
    for (bit, name) in BITS {
        if mode & bit != 0 {
            push(out, format_args!("|{name}"));
        }
    }
    out.push('|');
    number_mode(out, mode & 0o777);
}

/// Appends permissions as a number.
pub fn number_mode(out: &mut String, mode: u32) {
    match mode {
        0..=0o77 => push(out, format_args!("{mode:03o}")),
        _ => push(out, format_args!("0{mode:o}")),
    }
}

fn limit(out: &mut String, value: &Value) {
    match value {
        Value::Int(n) if *n as u64 > 1024 && n % 1024 == 0 => {
            push(out, format_args!("{}*1024", *n as u64 / 1024));
        }
        _ => plain(out, value),
    }
}

fn ticks(out: &mut String, ticks: u64) {
    push(out, format_args!("{ticks}"));
    if ticks != 0 {
        push(out, format_args!(" /* {}.{:02} s */", ticks / 100, ticks % 100));
    }
}

/// Appends a number in hexadecimal.
pub fn hex(out: &mut String, value: u64) {
    match value {
        0 => out.push('0'),
        _ => push(out, format_args!("{value:#x}")),
    }
}

fn comment(out: &mut String, text: Option<String>) {
    if let Some(text) = text {
        push(out, format_args!(" /* {text} */"));
    }
}

fn is_device(mode: &Value) -> bool {
    matches!(mode, Value::Mode(mode) if matches!(mode & 0o170_000, 0o020_000 | 0o060_000))
}

/// Returns the number in a value, or 0 if it has none.
pub fn number(value: &Value) -> u64 {
    match value {
        Value::Int(n) | Value::Named { value: n, .. } => *n as u64,
        Value::Uint(n) | Value::Hex(n) | Value::Dev(n) | Value::Address(n) => *n,
        Value::Flags { value, .. } | Value::Enum { value, .. } => *value,
        Value::Mode(mode) => (*mode).into(),
        Value::Signal(n) => *n as u64,
        _ => 0,
    }
}

pub(super) fn push(out: &mut String, text: std::fmt::Arguments<'_>) {
    let _ = out.write_fmt(text);
}
