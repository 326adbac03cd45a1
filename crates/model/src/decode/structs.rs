//! Decodes the kernel's structs field by field, and other memory with a layout of its own.

use syscalls::flags::DIRENT_TYPE;
use syscalls::layout::{FieldKind, Layout};

use super::value::{Bytes, Value};
use super::{Surroundings, symbols};

/// Limit for the nesting of structs; the table nests two deep.
const DEPTH_MAX: u32 = 4;

/// Context for decoding values inside memory.
#[derive(Clone, Copy)]
pub struct Around<'a> {
    /// Descriptors of the calling thread.
    pub view: &'a Surroundings<'a>,
    /// True if the memory was read after the call.
    pub out: bool,
}

impl Around<'_> {
    pub(super) fn fd(&self, fd: i32) -> Value {
        let path = if self.out { self.view.new_fd(fd) } else { self.view.fd(fd) };
        Value::Fd { fd, path, dir: false }
    }
}

/// Decodes a struct, leaving out fields that were not captured, and those of a program's own memory that
/// the kernel alone gives a meaning.
pub fn decode(layout: &'static Layout, bytes: &[u8], around: Around<'_>) -> Value {
    decode_nested(layout, bytes, around, 0)
}

fn decode_nested(layout: &'static Layout, bytes: &[u8], around: Around<'_>, depth: u32) -> Value {
    let mut fields = Vec::with_capacity(layout.fields.len());
    let mut cut = false;
    for field in layout.fields.iter().filter(|field| around.out || !field.is_given) {
        match decode_field(field.kind, bytes, field.offset as usize, around, depth) {
            Some(value) => fields.push((field.name, value)),
            None => cut = true,
        }
    }
    Value::Struct { fields, cut }
}

fn decode_field(
    kind: FieldKind,
    bytes: &[u8],
    at: usize,
    around: Around<'_>,
    depth: u32,
) -> Option<Value> {
    Some(match kind {
        FieldKind::Signed(size) => Value::Int(signed(bytes, at, size)?),
        FieldKind::Unsigned(size) => Value::Uint(unsigned(bytes, at, size)?),
        FieldKind::Hex(size) => Value::Hex(unsigned(bytes, at, size)?),
        FieldKind::Mode(size) => Value::Mode(unsigned(bytes, at, size)? as u32),
        FieldKind::Dev(size) => Value::Dev(unsigned(bytes, at, size)?),
        FieldKind::Flags(size, set) => Value::Flags { value: unsigned(bytes, at, size)?, set },
        FieldKind::Enum(size, set) => Value::Enum { value: unsigned(bytes, at, size)?, set },
        FieldKind::Named(size, set) => {
            let value = signed(bytes, at, size)?;
            match symbols::name(set, value as u64) {
                Some(name) => Value::Named { value, name },
                // `sa_handler` holds SIG_DFL, SIG_IGN, or the address of a handler.
                None if value > u32::MAX.into() => Value::Address(value as u64),
                None => Value::Int(value),
            }
        }
        FieldKind::Signal => Value::Signal(signed(bytes, at, 4)? as i32),
        FieldKind::Fd => around.fd(signed(bytes, at, 4)? as i32),
        FieldKind::SigSet => Value::SigSet(unsigned(bytes, at, 8)?),
        FieldKind::Text(size) => {
            let text = bytes.get(at..)?;
            let text = &text[..text.len().min(size.into())];
            let end = text.iter().position(|&c| c == 0);
            let cut = end.is_none() && text.len() < size.into();
            let bytes = text[..end.unwrap_or(text.len())].to_vec();
            Value::Text { bytes, cut, path: false }
        }
        FieldKind::Bytes(size) => {
            let head = bytes.get(at..)?;
            let head = head[..head.len().min(size.into())].to_vec();
            Value::Bytes(Bytes { at: 0, head, len: size.into(), hash: None })
        }
        FieldKind::Struct(layout) => {
            let bytes = bytes.get(at..).filter(|_| depth < DEPTH_MAX)?;
            decode_nested(layout, bytes, around, depth + 1)
        }
        FieldKind::Array(count, kind) => {
            let size = size_of_field(kind);
            let items = (0..usize::from(count)).map_while(|i| {
                decode_field(*kind, bytes, at.checked_add(i.checked_mul(size)?)?, around, depth)
            });
            let items: Vec<Value> = items.collect();
            let more = u64::from(count) - items.len() as u64;
            Value::Array { items, more, at: 0 }
        }
    })
}

fn size_of_field(kind: &FieldKind) -> usize {
    match *kind {
        FieldKind::Signed(size)
        | FieldKind::Unsigned(size)
        | FieldKind::Hex(size)
        | FieldKind::Mode(size)
        | FieldKind::Dev(size)
        | FieldKind::Flags(size, _)
        | FieldKind::Enum(size, _)
        | FieldKind::Named(size, _) => size.into(),
        FieldKind::Signal | FieldKind::Fd => 4,
        FieldKind::SigSet => 8,
        FieldKind::Text(size) | FieldKind::Bytes(size) => size.into(),
        FieldKind::Struct(layout) => layout.size as usize,
        FieldKind::Array(count, kind) => usize::from(count) * size_of_field(kind),
    }
}

/// Reads a little-endian unsigned number of 1 to 8 bytes.
pub fn unsigned(bytes: &[u8], at: usize, size: u8) -> Option<u64> {
    let size = usize::from(size.min(8));
    let mut word = [0; 8];
    word[..size].copy_from_slice(bytes.get(at..at.checked_add(size)?)?);
    Some(u64::from_le_bytes(word))
}

/// Reads a little-endian signed number of 1 to 8 bytes.
pub fn signed(bytes: &[u8], at: usize, size: u8) -> Option<i64> {
    let shift = 64 - 8 * u32::from(size.clamp(1, 8));
    Some((unsigned(bytes, at, size)? << shift) as i64 >> shift)
}

/// Decodes directory entries. The old format keeps the type in the last byte of each entry.
pub fn dirents(bytes: &[u8], old: bool, items_max: usize) -> Value {
    let name_at = if old { 18 } else { 19 };
    let mut items = Vec::new();
    let (mut at, mut more) = (0, 0);
    while let Some(entry) = unsigned(bytes, at + 16, 2)
        .and_then(|size| bytes.get(at..at + size as usize))
        .filter(|entry| entry.len() > name_at)
    {
        at += entry.len();
        if items.len() == items_max {
            more += 1;
            continue;
        }
        let kind = if old { entry[entry.len() - 1] } else { entry[18] };
        let name = entry[name_at..].split(|&c| c == 0).next().unwrap_or_default();
        let kind = match DIRENT_TYPE.name_of(kind.into()) {
            Some(name) => Value::Named { value: kind.into(), name },
            None => Value::Uint(kind.into()),
        };
        items.push(Value::fields(vec![
            ("d_ino", Value::Uint(unsigned(entry, 0, 8).unwrap_or(0))),
            ("d_off", Value::Uint(unsigned(entry, 8, 8).unwrap_or(0))),
            ("d_reclen", Value::Uint(entry.len() as u64)),
            ("d_type", kind),
            ("d_name", Value::text(name)),
        ]));
    }
    Value::Array { items, more, at: 0 }
}

/// Decodes an `fd_set`.
pub fn fd_set(bytes: &[u8]) -> Value {
    Value::FdSet(bits_set(bytes).collect())
}

/// Decodes a bit mask of CPUs or memory nodes.
pub fn bits(bytes: &[u8], items_max: usize) -> Value {
    let mut numbers = bits_set(bytes);
    let items = numbers.by_ref().take(items_max).map(|n| Value::Int(n.into())).collect();
    Value::Array { items, more: numbers.count() as u64, at: 0 }
}

fn bits_set(bytes: &[u8]) -> impl Iterator<Item = i32> {
    bytes.iter().zip(0i32..).flat_map(|(byte, index)| {
        (0..8).filter(move |bit| byte >> bit & 1 != 0).map(move |bit| index * 8 + bit)
    })
}

/// Decodes numbers of `size` bytes, each converted by `make`.
pub fn numbers(bytes: &[u8], size: u8, items_max: usize, make: impl Fn(u64) -> Value) -> Value {
    let all = bytes.chunks_exact(usize::from(size));
    let more = all.len().saturating_sub(items_max) as u64;
    let items = all.take(items_max).map(|n| make(unsigned(n, 0, size).unwrap_or(0)));
    Value::Array { items: items.collect(), more, at: 0 }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_of_every_size() {
        let bytes = [0xfe, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 1];
        assert_eq!(signed(&bytes, 0, 1), Some(-2));
        assert_eq!(signed(&bytes, 0, 4), Some(-2));
        assert_eq!(signed(&bytes, 0, 8), Some(-2));
        assert_eq!(unsigned(&bytes, 0, 2), Some(0xfffe));
        assert_eq!(unsigned(&bytes, 8, 1), Some(1));
        assert_eq!(unsigned(&bytes, 8, 2), None);
        assert_eq!(unsigned(&bytes, usize::MAX, 8), None);
    }

    #[test]
    fn what_the_kernel_alone_sets_is_shown_of_answers() {
        let mut bytes = vec![0; 32];
        bytes[24..28].copy_from_slice(&77i32.to_ne_bytes());
        let (world, step) = (crate::World::default(), crate::Step::default());
        let view = &Surroundings::new(&world, &step);
        for (out, expected) in [(false, None), (true, Some(77))] {
            let around = Around { view, out };
            let Value::Struct { fields, cut } = decode(&syscalls::layout::FLOCK, &bytes, around)
            else {
                panic!("no struct")
            };
            let pid = fields.iter().find_map(|(name, value)| match value {
                Value::Int(pid) if *name == "l_pid" => Some(*pid),
                _ => None,
            });
            assert_eq!((pid, cut, fields.len()), (expected, false, 4 + usize::from(out)));
        }
    }

    #[test]
    fn entries_of_length_zero_end_a_directory() {
        let Value::Array { items, .. } = dirents(&[0; 64], false, 10) else { panic!("no array") };
        assert!(items.is_empty());
    }
}
