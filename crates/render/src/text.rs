//! Values in the notation of strace.

use std::fmt::Write as _;
use std::net::IpAddr;

use model::Value;
use model::decode::symbols;
use model::decode::value::Bytes;
use syscalls::abi::signals;
use syscalls::shape::FlagSet;

pub use model::mounts::major_minor;
use strace::words::{FILE_TYPES, brief};
pub use strace::words::{end_of_process, wait_status};

use crate::escape::{escape, quote};

/// Limits and format of the output.
#[derive(Clone, Copy, Debug)]
pub struct Style {
    /// Number of bytes of strings and plain data.
    pub string_limit: usize,
    /// True if plain data is printed as text, else only its address.
    pub data: bool,
    /// True if environments and structs are printed in full.
    pub verbose: bool,
}

/// Appends the environment of a program, abbreviated unless the style is verbose.
pub fn environment(out: &mut String, value: &Value, style: Style) {
    match value {
        Value::Array { items, more, at } if !style.verbose => {
            let count = items.len() as u64 + more;
            let _ = write!(out, "{at:#x} /* {count} var{} */", if count == 1 { "" } else { "s" });
        }
        _ => render(out, value, style),
    }
}

/// Appends a value.
pub fn render(out: &mut String, value: &Value, style: Style) {
    match value {
        Value::Int(n) => push(out, format_args!("{n}")),
        Value::Uint(n) => push(out, format_args!("{n}")),
        Value::Hex(0) => out.push('0'),
        Value::Hex(n) => push(out, format_args!("{n:#x}")),
        Value::Mode(mode) => render_mode(out, *mode),
        Value::Dev(dev) => {
            let (major, minor) = major_minor(*dev);
            push(out, format_args!("makedev({major:#x}, {minor:#x})"));
        }
        Value::Signal(number) => match signals::name(*number) {
            Some(name) => out.push_str(name),
            None => push(out, format_args!("{number}")),
        },
        Value::SigSet(set) => render_sigset(out, *set),
        Value::Fd { fd, path, dir } => {
            match (fd, dir) {
                (-100, true) => out.push_str("AT_FDCWD"),
                _ => push(out, format_args!("{fd}")),
            }
            if let Some(path) = path {
                out.push('<');
                escape(out, path, &['<', '>']);
                out.push('>');
            }
        }
        Value::Flags { value, set } => render_flags(out, *value, set),
        Value::Enum { value, set } => match symbols::name(set, *value) {
            Some(name) => out.push_str(name),
            None if *value == 0 => out.push('0'),
            None => {
                push(out, format_args!("{value:#x} /* {}??? */", set.name));
            }
        },
        Value::Named { name, .. } => out.push_str(name),
        Value::Address(0) => out.push_str("NULL"),
        Value::Address(at) => push(out, format_args!("{at:#x}")),
        Value::Text { bytes, cut, path } => {
            let limit = if *path { usize::MAX } else { style.string_limit };
            let shown = &bytes[..bytes.len().min(limit)];
            quote(out, shown);
            if *cut || shown.len() < bytes.len() {
                out.push_str("...");
            }
        }
        Value::Bytes(bytes) => render_bytes(out, bytes, style),
        Value::Array { items, more, .. } => {
            out.push('[');
            list(out, items, style);
            if *more > 0 {
                out.push_str(if items.is_empty() { "..." } else { ", ..." });
            }
            out.push(']');
        }
        Value::Struct { fields, cut } => {
            out.push('{');
            let first = fields.first().map_or("", |(name, _)| name);
            let brief = brief(first).filter(|_| !style.verbose);
            let is_shown = |name: &str| brief.is_none_or(|names| names.contains(&name));
            for (index, (name, value)) in
                fields.iter().filter(|(name, _)| is_shown(name)).enumerate()
            {
                if index > 0 {
                    out.push_str(", ");
                }
                out.push_str(name);
                out.push('=');
                render(out, value, style);
            }
            if *cut || brief.is_some() {
                out.push_str(if fields.is_empty() { "..." } else { ", ..." });
            }
            out.push('}');
        }
        Value::FdSet(fds) => {
            out.push('[');
            for (index, fd) in fds.iter().enumerate() {
                push(out, format_args!("{}{fd}", if index > 0 { " " } else { "" }));
            }
            out.push(']');
        }
        Value::WaitStatus(status) => out.push_str(&wait_status(*status)),
        Value::Port(port) => push(out, format_args!("htons({port})")),
        Value::Ip(IpAddr::V4(ip)) => push(out, format_args!("inet_addr(\"{ip}\")")),
        Value::Ip(IpAddr::V6(ip)) => push(out, format_args!("inet_pton(AF_INET6, \"{ip}\")")),
        Value::Changed(before, after) => {
            let (mut old, mut new) = (String::new(), String::new());
            render(&mut old, before, style);
            render(&mut new, after, style);
            out.push_str(&old);
            if old != new {
                out.push_str(" => ");
                out.push_str(&new);
            }
        }
        Value::Fault(at) => push(out, format_args!("{at:#x} /* bad address */")),
        Value::Damaged(at, why) => {
            push(out, format_args!("{at:#x} /* not readable from the trace: "));
            escape(out, why.as_bytes(), &['*']);
            out.push_str(" */");
        }
    }
}

fn push(out: &mut String, text: std::fmt::Arguments<'_>) {
    let _ = out.write_fmt(text);
}

fn list(out: &mut String, items: &[Value], style: Style) {
    for (index, item) in items.iter().enumerate() {
        if index > 0 {
            out.push_str(", ");
        }
        render(out, item, style);
    }
}

fn render_bytes(out: &mut String, bytes: &Bytes, style: Style) {
    let Bytes { at, head, len, hash } = bytes;
    if !style.data {
        return push(out, format_args!("{at:#x}"));
    }
    if head.is_empty() && *len > 0 {
        push(out, format_args!("{at:#x} /* {len} bytes"));
        if let Some(hash) = hash {
            push(out, format_args!(", hash {hash:032x}"));
        }
        return out.push_str(" */");
    }
    let shown = &head[..head.len().min(style.string_limit)];
    quote(out, shown);
    if (shown.len() as u64) < *len {
        out.push_str("...");
    }
}

fn render_flags(out: &mut String, value: u64, set: &'static FlagSet) {
    let (names, rest) = symbols::split(set, value);
    out.push_str(&names.join("|"));
    if rest != 0 || names.is_empty() {
        let bar = if names.is_empty() { "" } else { "|" };
        match rest {
            0 => push(out, format_args!("{bar}0")),
            rest => push(out, format_args!("{bar}{rest:#x}")),
        }
    }
}

fn render_mode(out: &mut String, mode: u32) {
    let kind = mode & 0o170_000;
    match FILE_TYPES.iter().find(|(value, _)| *value == kind) {
        Some((_, name)) => push(out, format_args!("{name}|0{:03o}", mode & !kind)),
        None if mode == 0 => out.push('0'),
        None => push(out, format_args!("0{mode:03o}")),
    }
}

fn render_sigset(out: &mut String, set: u64) {
    // Sets with more than half of the signals are printed as their complement.
    let inverted = set.count_ones() > 32;
    let shown = if inverted { !set } else { set };
    out.push_str(if inverted { "~[" } else { "[" });
    let mut first = true;
    for number in (1..=64).filter(|n| shown >> (n - 1) & 1 != 0) {
        if !first {
            out.push(' ');
        }
        first = false;
        let name = signals::name(number).unwrap_or_default();
        out.push_str(name.strip_prefix("SIG").unwrap_or(name));
    }
    out.push(']');
}

#[cfg(test)]
mod tests {
    use super::*;

    const STYLE: Style = Style { string_limit: 8, data: true, verbose: false };

    #[track_caller]
    fn check(value: Value, expected: &str) {
        let mut out = String::new();
        render(&mut out, &value, STYLE);
        assert_eq!(out, expected);
    }

    #[test]
    fn numbers() {
        check(Value::Int(-5), "-5");
        check(Value::Hex(255), "0xff");
        check(Value::Mode(0o644), "0644");
        check(Value::Mode(0o100_755), "S_IFREG|0755");
        check(Value::Mode(0), "0");
        check(Value::Dev(0x801), "makedev(0x8, 0x1)");
        check(Value::Address(0), "NULL");
        check(Value::Signal(2), "SIGINT");
        check(Value::Signal(99), "99");
    }

    #[test]
    fn strings_and_data() {
        check(Value::text("12345678"), "\"12345678\"");
        check(Value::text("123456789"), "\"12345678\"...");
        let path = Value::Text { bytes: b"/a/long/path".to_vec(), cut: false, path: true };
        check(path, "\"/a/long/path\"");
        let bytes = |head: &[u8], len, hash| {
            Value::Bytes(Bytes { at: 0x1000, head: head.to_vec(), len, hash })
        };
        check(bytes(b"abc", 3, None), "\"abc\"");
        check(bytes(b"abc", 9, None), "\"abc\"...");
        let hash = "0x1000 /* 9 bytes, hash 00000000000000000000000000000007 */";
        check(bytes(b"", 9, Some(7)), hash);
        check(bytes(b"", 0, None), "\"\"");
    }

    #[test]
    fn descriptors() {
        let fd =
            |fd, path: Option<&[u8]>, dir| Value::Fd { fd, path: path.map(<[u8]>::to_vec), dir };
        check(fd(3, Some(b"/etc/passwd"), false), "3</etc/passwd>");
        check(fd(3, Some(b"/tmp/a>b\x1b"), false), "3</tmp/a\\076b\\033>");
        check(fd(-1, None, false), "-1");
        check(fd(-100, Some(b"/home"), true), "AT_FDCWD</home>");
        check(fd(-100, None, false), "-100");
    }

    #[test]
    fn signal_sets() {
        check(Value::SigSet(0), "[]");
        check(Value::SigSet(1 << 1 | 1 << 14), "[INT TERM]");
        check(Value::SigSet(!(1 << 8 | 1 << 18)), "~[KILL STOP]");
        check(Value::SigSet(u64::MAX), "~[]");
    }

    #[test]
    fn wait_statuses() {
        check(Value::WaitStatus(0), "{WIFEXITED(s) && WEXITSTATUS(s) == 0}");
        check(Value::WaitStatus(0x100), "{WIFEXITED(s) && WEXITSTATUS(s) == 1}");
        check(Value::WaitStatus(9), "{WIFSIGNALED(s) && WTERMSIG(s) == SIGKILL}");
        check(
            Value::WaitStatus(0x8b),
            "{WIFSIGNALED(s) && WTERMSIG(s) == SIGSEGV && WCOREDUMP(s)}",
        );
        check(Value::WaitStatus(0x137f), "{WIFSTOPPED(s) && WSTOPSIG(s) == SIGSTOP}");
        check(Value::WaitStatus(0xffff), "{WIFCONTINUED(s)}");
        assert_eq!(end_of_process(0x300), "exited with 3");
        assert_eq!(end_of_process(0x86), "killed by SIGABRT (core dumped)");
    }

    #[test]
    fn lists_and_structs() {
        check(Value::list(vec![Value::Int(1), Value::Int(2)]), "[1, 2]");
        check(Value::Array { items: vec![Value::Int(1)], more: 3, at: 0 }, "[1, ...]");
        check(Value::fields(vec![("a", Value::Int(1)), ("b", Value::Int(2))]), "{a=1, b=2}");
        check(Value::Struct { fields: vec![("a", Value::Int(1))], cut: true }, "{a=1, ...}");
        check(Value::FdSet(vec![3, 4]), "[3 4]");
        let changed = Value::Changed(Box::new(Value::Int(1)), Box::new(Value::Int(2)));
        check(changed, "1 => 2");
        let same = Value::Changed(Box::new(Value::Int(1)), Box::new(Value::Int(1)));
        check(same, "1");
    }
}
