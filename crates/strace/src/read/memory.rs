//! Encodes memory that has no table layout: addresses, directory entries, sets, signals.

use std::net::{Ipv4Addr, Ipv6Addr};

use syscalls::abi::files::{AF_INET, AF_INET6, AF_NETLINK, AF_UNIX};
use syscalls::flags;
use syscalls::layout::{FieldKind, Layout};

use crate::spelling;

use super::node::Node;
use super::number;
use super::register::number_of;

/// Largest set of bits.
const SET_BYTES_MAX: u64 = 1 << 16;
/// Bytes of `struct siginfo`.
const SIGINFO_BYTES: usize = 128;
/// Longest directory entry whose length fits its 16-bit length field.
const DIRENT_BYTES_MAX: usize = u16::MAX as usize;

/// Finds a field by name.
pub fn field<'n, 'a>(fields: &'n [(&'a str, Node<'a>)], name: &str) -> Option<&'n Node<'a>> {
    fields.iter().find(|(field, _)| *field == name).map(|(_, node)| node)
}

fn number_in(fields: &[(&str, Node<'_>)], name: &str) -> Option<u64> {
    number_of(field(fields, name)?)
}

fn word<'a>(node: &Node<'a>) -> Option<&'a str> {
    match node {
        Node::Word(word) => Some(word),
        _ => None,
    }
}

/// Encodes a time whose nanoseconds are given by name.
pub fn named_time(layout: &'static Layout, word: &str) -> Option<Vec<u8>> {
    let (offset, set) = layout.fields.iter().find_map(|field| match field.kind {
        FieldKind::Named(8, set) => Some((field.offset as usize, set)),
        _ => None,
    })?;
    let (value, _) = set.members.iter().find(|(_, name)| *name == word)?;
    let mut bytes = vec![0; layout.size as usize];
    bytes.get_mut(offset..offset + 8)?.copy_from_slice(&value.to_le_bytes());
    Some(bytes)
}

/// Parses `[INT TERM]` or `~[KILL]`.
pub fn signal_set(node: &Node<'_>) -> Option<u64> {
    let Node::List { items, inverted, cut: false } = node else { return None };
    let mut set = 0u64;
    for item in items {
        set |= 1u64.checked_shl((number::signal(word(item)?)? - 1) as u32)?;
    }
    Some(if *inverted { !set } else { set })
}

/// Encodes a set of numbers, in as many bytes as the call passed.
pub fn bits(items: &[Node<'_>], length: u64) -> Option<Vec<u8>> {
    let mut bytes = vec![0u8; usize::try_from(length.min(SET_BYTES_MAX)).ok()?];
    for item in items {
        let bit = usize::try_from(number_of(item)?).ok()?;
        if bit as u64 >= SET_BYTES_MAX * 8 {
            return None;
        }
        if bit / 8 >= bytes.len() {
            bytes.resize((bit / 8 + 1).next_multiple_of(8), 0);
        }
        bytes[bit / 8] |= 1 << (bit % 8);
    }
    Some(bytes)
}

/// Parses a wait status printed with its decoding macros.
pub fn wait_status(node: &Node<'_>) -> Option<i32> {
    let Node::Struct { plain, .. } = node else { return None };
    let mut parts = Vec::new();
    for node in plain {
        match node {
            Node::Several(several) => parts.extend(several),
            one => parts.push(one),
        }
    }
    let calls = |name: &str| parts.iter().any(|p| matches!(p, Node::Call(n, _) if *n == name));
    let value = parts.last().and_then(|node| word(node));
    let signal = |word: &str| number::signal(word).or_else(|| number::plain(word)?.try_into().ok());
    if calls("WIFCONTINUED") {
        return Some(0xffff);
    }
    if calls("WIFEXITED") {
        return Some((number::plain(value?)?.clamp(0, 255) as i32) << 8);
    }
    if calls("WIFSTOPPED") {
        return Some((signal(value?)? & 0xff) << 8 | 0x7f);
    }
    if calls("WIFSIGNALED") {
        let named = parts.iter().find_map(|part| signal(word(part)?));
        return Some(named? & 0x7f | if calls("WCOREDUMP") { 0x80 } else { 0 });
    }
    None
}

/// Encodes a siginfo in the kernel's layout.
pub fn siginfo(fields: &[(&str, Node<'_>)]) -> Option<Vec<u8>> {
    const PLACES: &[(&str, usize, usize)] = &[
        ("si_errno", 4, 4),
        ("si_pid", 16, 4),
        ("si_uid", 20, 4),
        ("si_timerid", 16, 4),
        ("si_overrun", 20, 4),
        ("si_int", 24, 4),
        ("si_ptr", 24, 8),
        ("si_utime", 32, 8),
        ("si_stime", 40, 8),
        ("si_addr", 16, 8),
        ("si_band", 16, 8),
        ("si_fd", 24, 4),
        ("si_call_addr", 16, 8),
    ];
    let mut bytes = vec![0; SIGINFO_BYTES];
    let mut put = |at: usize, size: usize, value: u64| {
        bytes[at..at + size].copy_from_slice(&value.to_le_bytes()[..size]);
    };
    let signal = number::signal(word(field(fields, "si_signo")?)?)?;
    put(0, 4, signal as u64);
    let code = word(field(fields, "si_code")?)?;
    let named = (-64..=0x80).find(|n| syscalls::abi::signals::code_name(signal, *n) == Some(code));
    put(8, 4, named.map(|n| n as u64).or_else(|| number::any(code))?);
    for (name, at, size) in PLACES {
        if let Some(value) = number_in(fields, name) {
            put(*at, *size, value);
        }
    }
    if let Some(status) = field(fields, "si_status").and_then(|node| word(node)) {
        let value = number::any(status).or_else(|| Some(number::signal(status)? as u64));
        put(24, 4, value?);
    }
    Some(bytes)
}

/// Encodes a directory entry of getdents64.
pub fn dirent(node: &Node<'_>) -> Option<Vec<u8>> {
    let Node::Struct { fields, cut: false, .. } = node else { return None };
    let Node::Text { bytes: name, cut: false } = field(fields, "d_name")? else { return None };
    let size = usize::try_from(number_in(fields, "d_reclen")?).ok()?;
    let needed = 19 + name.len() + 1;
    if size < needed || size > DIRENT_BYTES_MAX {
        return None;
    }
    let mut bytes = vec![0; size];
    bytes[..8].copy_from_slice(&number_in(fields, "d_ino")?.to_le_bytes());
    bytes[8..16].copy_from_slice(&number_in(fields, "d_off")?.to_le_bytes());
    bytes[16..18].copy_from_slice(&(size as u16).to_le_bytes());
    let kind = word(field(fields, "d_type")?)?;
    bytes[18] = number::of_set(kind, &flags::DIRENT_TYPE)? as u8;
    bytes[19..19 + name.len()].copy_from_slice(name);
    Some(bytes)
}

/// Encodes a socket address by its family.
pub fn sockaddr(fields: &[(&str, Node<'_>)], plain: &[Node<'_>]) -> Option<Vec<u8>> {
    let family = word(field(fields, spelling::field::ADDRESS_FAMILY)?)?;
    let family = number::of_set(family, &flags::AF)? as u16;
    let mut bytes = family.to_ne_bytes().to_vec();
    let port = |name| match field(fields, name)? {
        Node::Call("htons", parts) => Some((number_of(parts.first()?)? as u16).to_be_bytes()),
        _ => None,
    };
    let text = |node: &Node<'_>| match node {
        Node::Text { bytes, cut: false } => std::str::from_utf8(bytes).ok().map(str::to_string),
        _ => None,
    };
    match family {
        AF_UNIX => {
            if let Some(node) = field(fields, "sun_path") {
                let Node::Text { bytes: path, cut: false } = node else { return None };
                bytes.extend_from_slice(path);
                if path.first() != Some(&0) {
                    bytes.push(0);
                }
            }
        }
        AF_INET => {
            bytes.extend(port("sin_port")?);
            let Node::Call("inet_addr", parts) = field(fields, "sin_addr")? else { return None };
            let ip: Ipv4Addr = text(parts.first()?)?.parse().ok()?;
            bytes.extend(ip.octets());
            bytes.resize(16, 0);
        }
        AF_INET6 => {
            bytes.extend(port("sin6_port")?);
            let flow = match field(fields, "sin6_flowinfo")? {
                Node::Call("htonl", parts) => number_of(parts.first()?)? as u32,
                _ => return None,
            };
            bytes.extend(flow.to_be_bytes());
            let address = plain.iter().find_map(|node| match node {
                Node::Call("inet_pton", parts) => text(parts.get(1)?),
                _ => None,
            })?;
            let ip: Ipv6Addr = address.parse().ok()?;
            bytes.extend(ip.octets());
            bytes.extend((number_in(fields, "sin6_scope_id")? as u32).to_ne_bytes());
        }
        AF_NETLINK => {
            bytes.extend([0; 2]);
            bytes.extend((number_in(fields, "nl_pid")? as u32).to_ne_bytes());
            let groups = u32::from_str_radix(word(field(fields, "nl_groups")?)?, 16).ok()?;
            bytes.extend(groups.to_ne_bytes());
        }
        _ => return None,
    }
    Some(bytes)
}

/// Size of a field in bytes, if the field is a plain number or struct.
pub fn field_bytes(kind: &FieldKind) -> Option<usize> {
    Some(match *kind {
        FieldKind::Signed(size)
        | FieldKind::Unsigned(size)
        | FieldKind::Hex(size)
        | FieldKind::Mode(size)
        | FieldKind::Dev(size)
        | FieldKind::Flags(size, _)
        | FieldKind::Enum(size, _)
        | FieldKind::Named(size, _) => size.into(),
        FieldKind::Struct(layout) => layout.size as usize,
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::super::node::Cursor;
    use super::*;

    fn node(text: &str) -> Node<'_> {
        Cursor::new(text.as_bytes()).item().expect("a value")
    }

    #[test]
    fn statuses_come_back() {
        for status in [0, 0x300, 9, 0x8b, 0x137f, 0xffff] {
            let text = crate::words::wait_status(status);
            assert_eq!(wait_status(&node(&text)), Some(status), "{text}");
        }
    }

    #[test]
    fn sets_come_back() {
        for set in [0, 1, 1 << 1 | 1 << 63, !(1 << 8)] {
            let text = crate::words::signal_set(set, 42);
            assert_eq!(signal_set(&node(&text)), Some(set), "{text}");
        }
        assert_eq!(
            bits(&[Node::Word("3"), Node::Word("9")], 8),
            Some(vec![8, 2, 0, 0, 0, 0, 0, 0])
        );
        assert_eq!(bits(&[Node::Word("99999999")], 8), None);
    }
}
