//! Our own record types, for what a trace has beyond SNIA's schema. One description per type serves
//! to declare, write and read it.

mod each;

pub use each::*;

use crate::file::extent::{Record, Value};
use crate::file::types::FieldType;
use crate::file::writer::Filling;

/// Prefix of the names of our types.
pub const OWN: &str = "Reenact::Trace::";

/// Visits the fields of a record in order, to declare, write or read them.
pub trait Columns {
    /// A signed integer.
    fn i64(&mut self, name: &'static str, value: &mut i64);
    /// A signed integer that may be missing.
    fn optional(&mut self, name: &'static str, value: &mut Option<i64>);
    /// Bytes.
    fn bytes(&mut self, name: &'static str, value: &mut Vec<u8>);
    /// Marks the record that is read as invalid.
    fn bad(&mut self) {}

    /// An unsigned integer.
    fn u64(&mut self, name: &'static str, value: &mut u64) {
        let mut wide = *value as i64;
        self.i64(name, &mut wide);
        *value = wide as u64;
    }

    /// A 32-bit integer.
    fn u32(&mut self, name: &'static str, value: &mut u32) {
        let mut wide = i64::from(*value);
        self.i64(name, &mut wide);
        *value = u32::try_from(wide).unwrap_or_else(|_| {
            self.bad();
            0
        });
    }

    /// A 16-bit integer.
    fn u16(&mut self, name: &'static str, value: &mut u16) {
        let mut wide = u32::from(*value);
        self.u32(name, &mut wide);
        *value = u16::try_from(wide).unwrap_or_else(|_| {
            self.bad();
            0
        });
    }

    /// An 8-bit integer.
    fn u8(&mut self, name: &'static str, value: &mut u8) {
        let mut wide = u32::from(*value);
        self.u32(name, &mut wide);
        *value = u8::try_from(wide).unwrap_or_else(|_| {
            self.bad();
            0
        });
    }

    /// A string.
    fn text(&mut self, name: &'static str, value: &mut String) {
        let mut bytes = std::mem::take(value).into_bytes();
        self.bytes(name, &mut bytes);
        *value = String::from_utf8_lossy(&bytes).into_owned();
    }

    /// Strings, each terminated by `end`, which none of them contains.
    fn texts(&mut self, name: &'static str, end: u8, value: &mut Vec<Vec<u8>>) {
        let mut bytes = value.join(&end);
        bytes.extend((!value.is_empty()).then_some(end));
        self.bytes(name, &mut bytes);
        let whole = |text: &[u8]| text.strip_suffix(&[end]).unwrap_or(text).to_vec();
        *value = bytes.split_inclusive(|c| *c == end).map(whole).collect();
    }

    /// 64-bit integers, little-endian.
    fn words(&mut self, name: &'static str, value: &mut Vec<u64>) {
        let mut bytes: Vec<u8> = value.iter().flat_map(|word| word.to_le_bytes()).collect();
        self.bytes(name, &mut bytes);
        let (words, rest) = bytes.as_chunks::<8>();
        if !rest.is_empty() {
            self.bad();
        }
        *value = words.iter().map(|word| u64::from_le_bytes(*word)).collect();
    }
}

/// Declares a type as XML.
pub struct Declare {
    xml: String,
}

impl Declare {
    /// Begins the declaration of a type.
    pub fn new(name: &str) -> Declare {
        let xml = format!("<ExtentType name=\"{name}\" namespace=\"reenact\" version=\"1.00\">\n");
        Declare { xml }
    }

    /// Adds a field.
    pub fn field(&mut self, name: &str, kind: &str, null: bool) {
        let null = if null { " opt_nullable=\"yes\"" } else { "" };
        self.xml.push_str(&format!("  <field name=\"{name}\" type=\"{kind}\"{null}/>\n"));
    }

    /// Returns the XML.
    pub fn end(mut self) -> String {
        self.xml.push_str("</ExtentType>\n");
        self.xml
    }
}

impl Columns for Declare {
    fn i64(&mut self, name: &'static str, _: &mut i64) {
        self.field(name, FieldType::Int64.name(), false);
    }

    fn optional(&mut self, name: &'static str, _: &mut Option<i64>) {
        self.field(name, FieldType::Int64.name(), true);
    }

    fn bytes(&mut self, name: &'static str, _: &mut Vec<u8>) {
        self.field(name, FieldType::Variable.name(), false);
    }
}

/// Writes the fields of a record.
pub struct Put<'a> {
    record: Filling<'a>,
    next: usize,
}

impl<'a> Put<'a> {
    /// Continues a record that was begun.
    pub fn new(record: Filling<'a>) -> Put<'a> {
        Put { record, next: 0 }
    }

    /// Returns the record and the position of its next field.
    pub fn rest(self) -> (Filling<'a>, usize) {
        (self.record, self.next)
    }
}

impl Columns for Put<'_> {
    fn i64(&mut self, _: &'static str, value: &mut i64) {
        self.record.int(self.next, *value);
        self.next += 1;
    }

    fn optional(&mut self, _: &'static str, value: &mut Option<i64>) {
        if let Some(value) = value {
            self.record.int(self.next, *value);
        }
        self.next += 1;
    }

    fn bytes(&mut self, _: &'static str, value: &mut Vec<u8>) {
        self.record.bytes(self.next, value);
        self.next += 1;
    }
}

/// Reads a record by the names of its fields.
pub struct Get<'a> {
    record: Record<'a>,
    bad: bool,
}

impl<'a> Get<'a> {
    /// Reads a record by its description; returns `None` if the record does not fit.
    pub fn read<T: Default>(
        record: Record<'a>,
        describe: impl FnOnce(&mut Get<'a>, &mut T),
    ) -> Option<T> {
        let mut get = Get { record, bad: false };
        let mut value = T::default();
        describe(&mut get, &mut value);
        (!get.bad).then_some(value)
    }

    /// Like `read`, starting from a given value.
    pub fn read_into<T>(
        record: Record<'a>,
        mut value: T,
        describe: impl FnOnce(&mut Get<'a>, &mut T),
    ) -> Option<T> {
        let mut get = Get { record, bad: false };
        describe(&mut get, &mut value);
        (!get.bad).then_some(value)
    }
}

impl Columns for Get<'_> {
    fn i64(&mut self, name: &'static str, value: &mut i64) {
        match self.record.int(name) {
            Some(found) => *value = found,
            None => self.bad = true,
        }
    }

    fn optional(&mut self, name: &'static str, value: &mut Option<i64>) {
        *value = self.record.int(name);
    }

    fn bytes(&mut self, name: &'static str, value: &mut Vec<u8>) {
        match self.record.named(name) {
            Value::Bytes(bytes) => *value = bytes.to_vec(),
            _ => self.bad = true,
        }
    }

    fn bad(&mut self) {
        self.bad = true;
    }
}
