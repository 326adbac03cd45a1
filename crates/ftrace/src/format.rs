//! Formats of events: the kernel describes each in a text file.

use crate::words::{self, Words};

/// Fields that one event may have.
const FIELDS_MAX: usize = 256;
/// Length of a name or a type.
const WORD_BYTES_MAX: usize = 256;

/// How the kernel writes an event.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Format {
    /// The number by which the event is told apart in buffers.
    pub id: u16,
    /// The system that it belongs to.
    pub system: String,
    /// Its name.
    pub name: String,
    /// Its own fields: those that all events have are left out.
    pub fields: Vec<Field>,
    /// What numbers of them are called.
    pub words: Vec<Words>,
}

/// A field of an event.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Field {
    /// Its name.
    pub name: String,
    /// Its type in C.
    pub c_type: String,
    /// Where it begins in the event.
    pub offset: usize,
    /// Its bytes there.
    pub size: usize,
    /// What they mean.
    pub kind: Kind,
}

/// What the bytes of a field mean.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Kind {
    /// A number of 1, 2, 4 or 8 bytes.
    Unsigned,
    /// A signed number of 1, 2, 4 or 8 bytes.
    Signed,
    /// Characters, up to the first NUL.
    Text,
    /// Bytes of another meaning.
    Bytes,
    /// 16 bits of offset and 16 bits of length: there are characters.
    TextElsewhere,
    /// 16 bits of offset and 16 bits of length: there are bytes.
    BytesElsewhere,
    /// Characters as well, but the offset counts from the end of the field.
    TextBehind,
    /// Bytes as well, but the offset counts from the end of the field.
    BytesBehind,
}

/// The value of a field.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Value<'a> {
    /// A number.
    Unsigned(u64),
    /// A signed number.
    Signed(i64),
    /// Characters.
    Text(&'a [u8]),
    /// Bytes.
    Bytes(&'a [u8]),
}

impl Format {
    /// Reads the text of a `format` file.
    pub fn parse(system: &str, text: &str) -> Result<Format, &'static str> {
        let (mut name, mut id) = (None, None);
        let (mut fields, mut common, mut words) = (Vec::new(), 0, Vec::new());
        for line in text.lines() {
            let line = line.trim();
            if let Some(rest) = line.strip_prefix("name:") {
                name = Some(rest.trim());
            } else if let Some(rest) = line.strip_prefix("ID:") {
                id = rest.trim().parse().ok();
            } else if let Some(rest) = line.strip_prefix("print fmt:") {
                words = words::parse(rest);
            } else if let Some(rest) = line.strip_prefix("field:") {
                let field = Field::parse(rest).ok_or("a field cannot be understood")?;
                if let Some(row) = COMMON.iter().find(|row| row.0 == field.name) {
                    if (field.offset, field.size) != (row.1, row.2) {
                        return Err("its common fields are not where they are expected");
                    }
                    common += 1;
                } else if fields.len() < FIELDS_MAX {
                    fields.push(field);
                } else {
                    return Err("it has too many fields");
                }
            }
        }
        if common != COMMON.len() {
            return Err("it lacks common fields");
        }
        let name = name.filter(|name| is_word(name)).ok_or("it has no name")?.to_string();
        let id = id.ok_or("it has no number")?;
        Ok(Format { id, system: system.to_string(), name, fields, words })
    }

    /// The field with a name.
    pub fn field(&self, name: &str) -> Option<&Field> {
        self.fields.iter().find(|field| field.name == name)
    }
}

/// The fields that all events have, with offset and size; page.rs reads them.
const COMMON: [(&str, usize, usize); 4] = [
    ("common_type", 0, 2),
    ("common_flags", 2, 1),
    ("common_preempt_count", 3, 1),
    ("common_pid", 4, 4),
];

fn is_word(word: &str) -> bool {
    !word.is_empty() && word.len() <= WORD_BYTES_MAX && !word.contains(char::is_whitespace)
}

impl Field {
    /// Reads what stands behind `field:`, such as `char comm[16]; offset:8; size:16;`.
    fn parse(text: &str) -> Option<Field> {
        let mut parts = text.split(';').map(str::trim);
        let declared = parts.next()?;
        let (mut offset, mut size, mut signed) = (None, None, false);
        for part in parts {
            match part.split_once(':') {
                Some(("offset", value)) => offset = value.parse().ok(),
                Some(("size", value)) => size = value.parse().ok(),
                Some(("signed", value)) => signed = value != "0",
                _ => {}
            }
        }
        let (mut c_type, mut name) = declared.rsplit_once(char::is_whitespace)?;
        let mut array = "";
        if let Some(at) = name.find('[') {
            (name, array) = name.split_at(at);
        }
        // A pointer's star may stand at the name.
        let stars = name.len() - name.trim_start_matches('*').len();
        let pointer = &name[..stars];
        name = &name[stars..];
        c_type = c_type.trim();
        if !is_word(name) || c_type.len() > WORD_BYTES_MAX || array.len() > WORD_BYTES_MAX {
            return None;
        }
        let (offset, size) = (offset?, size?);
        let c_type = format!("{c_type}{pointer}{array}");
        let kind = kind_of(&c_type, size, signed)?;
        Some(Field { name: name.to_string(), c_type, offset, size, kind })
    }

    /// Its value in the bytes of an event: nothing or 0 where they are too short for it.
    pub fn value<'a>(&self, event: &'a [u8]) -> Value<'a> {
        let own = self.offset.checked_add(self.size).and_then(|end| event.get(self.offset..end));
        let own = own.unwrap_or_default();
        let elsewhere = |base: usize| {
            let place = number(own) as usize;
            let start = base + (place & 0xffff);
            event.get(start..start + (place >> 16)).unwrap_or_default()
        };
        let behind = self.offset.saturating_add(self.size).min(event.len());
        match self.kind {
            Kind::Unsigned => Value::Unsigned(number(own)),
            Kind::Signed => Value::Signed(signed(own)),
            Kind::Text => Value::Text(until_nul(own)),
            Kind::Bytes => Value::Bytes(own),
            Kind::TextElsewhere => Value::Text(until_nul(elsewhere(0))),
            Kind::BytesElsewhere => Value::Bytes(elsewhere(0)),
            Kind::TextBehind => Value::Text(until_nul(elsewhere(behind))),
            Kind::BytesBehind => Value::Bytes(elsewhere(behind)),
        }
    }

    /// Its value as a number, 0 if it is none.
    pub fn unsigned(&self, event: &[u8]) -> u64 {
        match self.value(event) {
            Value::Unsigned(number) => number,
            Value::Signed(number) => number as u64,
            Value::Text(_) | Value::Bytes(_) => 0,
        }
    }
}

fn kind_of(c_type: &str, size: usize, signed: bool) -> Option<Kind> {
    let is_text = |rest: &str| rest.trim_start().trim_start_matches("const ").starts_with("char[");
    if let Some(rest) = c_type.strip_prefix("__data_loc") {
        let kind = if is_text(rest) { Kind::TextElsewhere } else { Kind::BytesElsewhere };
        return (size == 4).then_some(kind);
    }
    if let Some(rest) = c_type.strip_prefix("__rel_loc") {
        let kind = if is_text(rest) { Kind::TextBehind } else { Kind::BytesBehind };
        return (size == 4).then_some(kind);
    }
    if c_type.ends_with(']') {
        return Some(if is_text(c_type) { Kind::Text } else { Kind::Bytes });
    }
    Some(match (size, signed) {
        (1 | 2 | 4 | 8, true) => Kind::Signed,
        (1 | 2 | 4 | 8, false) => Kind::Unsigned,
        _ => Kind::Bytes,
    })
}

fn number(bytes: &[u8]) -> u64 {
    let mut wide = [0; 8];
    let len = bytes.len().min(8);
    wide[..len].copy_from_slice(&bytes[..len]);
    u64::from_le_bytes(wide)
}

fn signed(bytes: &[u8]) -> i64 {
    let unused = 64 - 8 * bytes.len().clamp(1, 8) as u32;
    (number(bytes) << unused) as i64 >> unused
}

fn until_nul(bytes: &[u8]) -> &[u8] {
    let end = bytes.iter().position(|byte| *byte == 0);
    &bytes[..end.unwrap_or(bytes.len())]
}

#[cfg(test)]
pub mod tests {
    use super::*;

    /// What Linux 6.18 says of some events.
    pub const SWITCH: &str = include_str!("../tests/kept/sched_switch.format");
    const IRQ: &str = include_str!("../tests/kept/irq_handler_entry.format");
    const ENTER: &str = include_str!("../tests/kept/sys_enter.format");
    const BLOCK: &str = include_str!("../tests/kept/block_rq_issue.format");

    #[test]
    fn numbers_and_names() {
        let format = Format::parse("sched", SWITCH).unwrap();
        assert_eq!((format.name.as_str(), format.system.as_str()), ("sched_switch", "sched"));
        let names: Vec<&str> = format.fields.iter().map(|field| field.name.as_str()).collect();
        let expected = [
            "prev_comm",
            "prev_pid",
            "prev_prio",
            "prev_state",
            "next_comm",
            "next_pid",
            "next_prio",
        ];
        assert_eq!(names, expected);
        let state = format.field("prev_state").unwrap();
        assert_eq!((state.kind, state.offset, state.size), (Kind::Signed, 32, 8));
        assert_eq!(format.fields[0].kind, Kind::Text);
        assert_eq!(format.fields[0].c_type, "char[16]");

        let mut event = vec![0; 64];
        event[8..11].copy_from_slice(b"cat");
        event[24..28].copy_from_slice(&(-5i32).to_le_bytes());
        assert_eq!(format.fields[0].value(&event), Value::Text(b"cat"));
        assert_eq!(format.fields[1].value(&event), Value::Signed(-5));
    }

    #[test]
    fn text_elsewhere() {
        let format = Format::parse("irq", IRQ).unwrap();
        let name = format.field("name").unwrap();
        assert_eq!(name.kind, Kind::TextElsewhere);
        let mut event = vec![0; 16];
        event[12..16].copy_from_slice(&(5u32 << 16 | 16).to_le_bytes());
        event.extend_from_slice(b"disk\0");
        assert_eq!(name.value(&event), Value::Text(b"disk"));
        // It may not lead out of the event.
        event.truncate(20);
        assert_eq!(name.value(&event), Value::Text(b""));
        assert_eq!(name.value(&event[..13]), Value::Text(b""));
        assert_eq!(name.value(b""), Value::Text(b""));
    }

    #[test]
    fn arrays_are_text_or_bytes() {
        let enter = Format::parse("raw_syscalls", ENTER).unwrap();
        assert_eq!(enter.field("args").unwrap().kind, Kind::Bytes);
        assert_eq!(enter.field("args").unwrap().c_type, "unsigned long[6]");
        let block = Format::parse("block", BLOCK).unwrap();
        assert_eq!(block.field("rwbs").unwrap().kind, Kind::Text);
        assert_eq!(block.field("sector").unwrap().kind, Kind::Unsigned);
        assert_eq!(block.field("dev").unwrap().kind, Kind::Unsigned);
    }

    #[test]
    fn what_makes_no_sense_is_refused() {
        assert!(Format::parse("x", "").is_err());
        assert!(Format::parse("x", "name: y\nID: 3\n").is_err());
        let elsewhere = SWITCH.replace("common_pid;\toffset:4", "common_pid;\toffset:5");
        assert!(Format::parse("sched", &elsewhere).is_err());
        assert!(Format::parse("sched", &SWITCH.replace("ID: ", "ID: x")).is_err());
        let many = "\tfield:int a;\toffset:8;\tsize:4;\tsigned:1;\n".repeat(FIELDS_MAX + 1);
        assert!(Format::parse("sched", &(SWITCH.to_string() + &many)).is_err());
        assert_eq!(Field::parse("int;\toffset:1;\tsize:2;"), None);
        assert_eq!(Field::parse("__data_loc char[] a;\toffset:1;\tsize:8;"), None);
        let huge = Field::parse("int a;\toffset:18446744073709551615;\tsize:4;").unwrap();
        assert_eq!(huge.value(&[1; 64]), Value::Unsigned(0));
    }
}
