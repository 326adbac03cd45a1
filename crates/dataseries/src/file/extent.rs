//! Extents: records of one type, with checksums and compression.

use super::codec::{self, Codec};
use super::types::{Bit, Field, FieldType, Type};
use super::{Order, hash, pad4};
use crate::error::Error;

/// Size of the head before the type's name.
pub const HEAD_BYTES: usize = 28;
/// Offset of the checksum of the stored bytes.
const ADLER_AT: usize = 16;
/// A variable section begins with the length word of an empty value, which is not stored.
const EMPTY_BYTES: usize = 4;
/// Most bytes of a section that are read.
pub const SECTION_BYTES_MAX: usize = 256 << 20;

/// The head of an extent.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Head {
    /// Offset of the extent in the file.
    pub offset: u64,
    /// Stored sizes of the two sections.
    stored: [usize; 2],
    /// Codec numbers of the two sections.
    codes: [u8; 2],
    /// Number of records.
    pub records: usize,
    /// Unpacked size of the variable section.
    variable_bytes: usize,
    adler: u32,
    body: u32,
    /// Name of the type.
    pub name: String,
}

impl Head {
    /// Parses the first bytes of an extent: `HEAD_BYTES` and the type's name.
    pub fn parse(bytes: &[u8], offset: u64, order: Order) -> Result<Head, String> {
        if bytes.len() < HEAD_BYTES {
            return Err("the file ends in the head of an extent".into());
        }
        let word = |at| order.u32(bytes, at) as usize;
        let head = Head {
            offset,
            stored: [word(0), word(4)],
            codes: [bytes[24], bytes[25]],
            records: word(8),
            variable_bytes: word(12),
            adler: order.u32(bytes, ADLER_AT),
            body: order.u32(bytes, 20),
            name: String::new(),
        };
        let name = bytes.get(HEAD_BYTES..HEAD_BYTES + usize::from(bytes[26]));
        let name = name.and_then(|name| std::str::from_utf8(name).ok());
        let name = name.filter(|name| !name.is_empty() && !name.contains(char::is_control));
        let Some(name) = name else { return Err("an extent's type has no name".into()) };
        if bytes[27] != 0 || head.variable_bytes < EMPTY_BYTES {
            return Err("the head of an extent makes no sense".into());
        }
        if head.stored.iter().any(|bytes| *bytes > SECTION_BYTES_MAX)
            || head.variable_bytes > SECTION_BYTES_MAX
        {
            return Err("an extent claims sections of more bytes than are read".into());
        }
        Ok(Head { name: name.into(), ..head })
    }

    /// Returns the size of head, name and sections.
    pub fn total_bytes(&self) -> usize {
        self.sections_at() + pad4(self.stored[0]) + pad4(self.stored[1])
    }

    fn sections_at(&self) -> usize {
        pad4(HEAD_BYTES + self.name.len())
    }

    /// Returns the memory that the unpacked records take.
    pub fn unpacked_bytes(&self, of: &Type) -> usize {
        self.records.saturating_mul(of.record_bytes).saturating_add(self.variable_bytes)
    }
}

/// An unpacked extent.
#[derive(Clone, Debug, Default)]
pub struct Extent {
    /// Offset of the extent in the file.
    pub offset: u64,
    /// Number of records.
    pub records: usize,
    fixed: Vec<u8>,
    variable: Vec<u8>,
    order: Order,
}

impl Extent {
    /// Unpacks the stored bytes of a whole extent.
    pub fn unpack(head: &Head, bytes: &[u8], of: &Type, order: Order) -> Result<Extent, Error> {
        let damaged = |what: String| {
            Error::damaged(head.offset, format!("an extent of {}: {what}", head.name))
        };
        let (before, after) = (&bytes[..ADLER_AT], &bytes[ADLER_AT + 4..]);
        if hash::adler(before, &[after]) != head.adler {
            return Err(damaged("its checksum does not match its bytes".into()));
        }
        let fixed_bytes = head.records.saturating_mul(of.record_bytes);
        if fixed_bytes > SECTION_BYTES_MAX {
            return Err(Error::Limit {
                offset: head.offset,
                what: "the size of an extent's records in bytes",
                found: fixed_bytes as u64,
                max: SECTION_BYTES_MAX as u64,
            });
        }
        let at = head.sections_at();
        let next = at + pad4(head.stored[0]);
        let (mut fixed, mut variable) = (Vec::new(), vec![0; EMPTY_BYTES]);
        codec::unpack(head.codes[0], &bytes[at..at + head.stored[0]], fixed_bytes, &mut fixed)
            .map_err(damaged)?;
        if head.stored[1] > 0 || head.variable_bytes > EMPTY_BYTES {
            let packed = &bytes[next..next + head.stored[1]];
            let len = head.variable_bytes - EMPTY_BYTES;
            codec::unpack(head.codes[1], packed, len, &mut variable).map_err(damaged)?;
        }
        let lengths = lengths(&variable, order).map_err(|what| damaged(what.into()))?;
        if hash::body(&fixed, &variable, &lengths) != head.body {
            return Err(damaged("its hash does not match its records".into()));
        }
        if let Some(what) = &of.unreadable {
            return Err(damaged(what.clone()));
        }
        let (offset, records) = (head.offset, head.records);
        let mut extent = Extent { offset, records, fixed, variable, order };
        extent.compute(of);
        Ok(extent)
    }

    /// Returns a record by its number. Panics if there is none.
    pub fn record<'a>(&'a self, of: &'a Type, number: usize) -> Record<'a> {
        let at = number * of.record_bytes;
        Record { of, extent: self, bytes: &self.fixed[at..at + of.record_bytes] }
    }

    /// Returns the memory in use.
    pub fn held_bytes(&self) -> usize {
        self.fixed.capacity() + self.variable.capacity()
    }

    /// Replaces relative and scaled values by the actual values.
    fn compute(&mut self, of: &Type) {
        let steps: Vec<(usize, super::types::Relative)> =
            (0..of.fields.len()).filter_map(|at| Some((at, of.fields[at].relative?))).collect();
        if steps.is_empty() {
            return;
        }
        let mut before = vec![0u64; of.fields.len()];
        for number in 0..self.records {
            let record = number * of.record_bytes;
            for &(at, how) in &steps {
                let field = &of.fields[at];
                let place = record + field.at as usize;
                let other = match how.to {
                    None => 0,
                    Some(to) if to == at => before[at],
                    Some(to) => self.word(record + of.fields[to].at as usize, field.kind),
                };
                let value = computed(field.kind, self.word(place, field.kind), other, how.scale);
                before[at] = value;
                self.put_word(place, field.kind, value);
            }
        }
    }

    fn word(&self, at: usize, kind: FieldType) -> u64 {
        match kind {
            FieldType::Int32 => self.order.u32(&self.fixed, at).into(),
            _ => self.order.u64(&self.fixed, at),
        }
    }

    fn put_word(&mut self, at: usize, kind: FieldType, value: u64) {
        let (mut bytes, size) = match kind {
            FieldType::Int32 => (u64::from(value as u32).to_le_bytes(), 4),
            _ => (value.to_le_bytes(), 8),
        };
        if self.order == Order::Big {
            bytes[..size].reverse();
        }
        self.fixed[at..at + size].copy_from_slice(&bytes[..size]);
    }
}

/// Computes a value from the stored one and the value that it is relative to.
fn computed(kind: FieldType, stored: u64, other: u64, scale: f64) -> u64 {
    if kind != FieldType::Double {
        return stored.wrapping_add(other);
    }
    let value = f64::from_bits(stored) * scale + f64::from_bits(other);
    let value = if scale == 1.0 { value } else { (value / scale).round() * scale };
    value.to_bits()
}

/// Collects the length words of all entries but the first; the entries must cover the section.
fn lengths(variable: &[u8], order: Order) -> Result<Vec<u8>, &'static str> {
    let mut lengths = Vec::new();
    let mut at = EMPTY_BYTES;
    while at < variable.len() {
        let word = variable.get(at..at + 4).ok_or("its values do not fill its variable section")?;
        lengths.extend_from_slice(word);
        let len = order.u32(word, 0) as usize;
        if len == 0 || len > variable.len() {
            return Err("a value's length makes no sense");
        }
        at += 4 + entry_bytes(len);
    }
    if at != variable.len() {
        return Err("its values do not fill its variable section");
    }
    Ok(lengths)
}

/// Size of a value with its padding up to the next length word.
const fn entry_bytes(len: usize) -> usize {
    len + (12 - len % 8) % 8
}

/// The value of a field.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum Value<'a> {
    /// The field is null or missing.
    Null,
    /// A boolean.
    Bool(bool),
    /// An integer.
    Int(i64),
    /// A floating-point number.
    Double(f64),
    /// Bytes.
    Bytes(&'a [u8]),
    /// The record refers to bytes outside the extent.
    Damaged,
}

/// A record.
#[derive(Clone, Copy)]
pub struct Record<'a> {
    /// Type of the record.
    pub of: &'a Type,
    extent: &'a Extent,
    bytes: &'a [u8],
}

impl<'a> Record<'a> {
    fn is_set(&self, bit: Bit) -> bool {
        self.bytes[bit.at as usize] & bit.mask != 0
    }

    /// Returns the value of a field.
    pub fn value(&self, field: &Field) -> Value<'a> {
        if field.null.is_some_and(|bit| self.is_set(bit)) {
            return Value::Null;
        }
        let at = field.at as usize;
        let order = self.extent.order;
        match field.kind {
            FieldType::Bool => Value::Bool(self.is_set(Bit { at: field.at, mask: field.mask })),
            FieldType::Byte => Value::Int(self.bytes[at].into()),
            FieldType::Int32 => Value::Int((order.u32(self.bytes, at) as i32).into()),
            FieldType::Int64 => Value::Int(order.u64(self.bytes, at) as i64),
            FieldType::Double => Value::Double(f64::from_bits(order.u64(self.bytes, at))),
            FieldType::Variable => self.bytes(order.u32(self.bytes, at) as usize),
        }
    }

    fn bytes(&self, at: usize) -> Value<'a> {
        let variable = &self.extent.variable;
        let found = variable.get(at..at + 4).map(|word| self.extent.order.u32(word, 0) as usize);
        let bytes = found.and_then(|len| variable.get(at + 4..(at + 4).checked_add(len)?));
        bytes.map_or(Value::Damaged, Value::Bytes)
    }

    /// Returns the value of a named field; `Null` if there is no such field.
    pub fn named(&self, name: &str) -> Value<'a> {
        self.of.field(name).map_or(Value::Null, |at| self.value(&self.of.fields[at]))
    }

    /// Returns the integer in a named field.
    pub fn int(&self, name: &str) -> Option<i64> {
        match self.named(name) {
            Value::Int(value) => Some(value),
            _ => None,
        }
    }

    /// Returns the bytes in a named field.
    pub fn data(&self, name: &str) -> Option<&'a [u8]> {
        match self.named(name) {
            Value::Bytes(bytes) => Some(bytes),
            _ => None,
        }
    }
}

/// Builds an extent, little-endian.
#[derive(Debug, Default)]
pub struct Builder {
    /// Number of records.
    pub records: usize,
    fixed: Vec<u8>,
    variable: Vec<u8>,
    lengths: Vec<u8>,
    record: usize,
}

impl Builder {
    /// Returns the number of bytes held.
    pub fn held_bytes(&self) -> usize {
        self.fixed.len() + self.variable.len()
    }

    /// Begins a record as a copy of `blank`.
    pub fn begin(&mut self, blank: &[u8]) {
        if self.variable.is_empty() {
            self.variable.extend_from_slice(&[0; EMPTY_BYTES]);
        }
        self.record = self.fixed.len();
        self.fixed.extend_from_slice(blank);
        self.records += 1;
    }

    fn is_there(&mut self, field: &Field) {
        if let Some(bit) = field.null {
            self.fixed[self.record + bit.at as usize] &= !bit.mask;
        }
    }

    /// Sets a nullable field to null.
    pub fn null(&mut self, field: &Field) {
        if let Some(bit) = field.null {
            self.fixed[self.record + bit.at as usize] |= bit.mask;
        }
    }

    /// Sets a boolean.
    pub fn bool(&mut self, field: &Field, value: bool) {
        self.is_there(field);
        let byte = &mut self.fixed[self.record + field.at as usize];
        *byte = *byte & !field.mask | if value { field.mask } else { 0 };
    }

    /// Sets an integer, truncated to the size of the field.
    pub fn int(&mut self, field: &Field, value: i64) {
        self.is_there(field);
        let at = self.record + field.at as usize;
        let bytes = value.to_le_bytes();
        let size = match field.kind {
            FieldType::Byte => 1,
            FieldType::Int32 => 4,
            _ => 8,
        };
        self.fixed[at..at + size].copy_from_slice(&bytes[..size]);
    }

    /// Sets a value from bytes given piece by piece.
    pub fn bytes(&mut self, field: &Field) -> ValueBuilder<'_> {
        self.is_there(field);
        let at = self.record + field.at as usize;
        let from = self.variable.len();
        self.variable.extend_from_slice(&[0; 4]);
        ValueBuilder { to: self, at, from }
    }

    /// Packs the extent. Returns its bytes, the hash of the body and the checksum of the bytes.
    pub fn pack(&self, name: &str, codec: Codec) -> (Vec<u8>, u32, u32) {
        let body = hash::body(&self.fixed, &self.variable, &self.lengths);
        let stored_variable = self.variable.get(EMPTY_BYTES..).unwrap_or_default();
        let (fixed_code, fixed) = codec.pack(&self.fixed);
        let (variable_code, variable) = codec.pack(stored_variable);
        let fixed = fixed.as_deref().unwrap_or(&self.fixed);
        let variable = variable.as_deref().unwrap_or(stored_variable);

        let mut bytes =
            Vec::with_capacity(HEAD_BYTES + name.len() + fixed.len() + variable.len() + 12);
        for word in [fixed.len(), variable.len(), self.records, stored_variable.len() + EMPTY_BYTES]
        {
            bytes.extend_from_slice(&(word as u32).to_le_bytes());
        }
        bytes.extend_from_slice(&[0; 4]);
        bytes.extend_from_slice(&body.to_le_bytes());
        bytes.extend_from_slice(&[fixed_code, variable_code, name.len() as u8, 0]);
        for piece in [name.as_bytes(), fixed, variable] {
            bytes.extend_from_slice(piece);
            bytes.resize(pad4(bytes.len()), 0);
        }
        let adler = hash::adler(&bytes[..ADLER_AT], &[&bytes[ADLER_AT + 4..]]);
        bytes[ADLER_AT..ADLER_AT + 4].copy_from_slice(&adler.to_le_bytes());
        (bytes, body, adler)
    }
}

/// Builds a value of a variable field. The field is set by `finish`.
pub struct ValueBuilder<'a> {
    to: &'a mut Builder,
    at: usize,
    from: usize,
}

impl ValueBuilder<'_> {
    /// Adds bytes.
    pub fn push(&mut self, bytes: &[u8]) {
        self.to.variable.extend_from_slice(bytes);
    }

    /// Ends the value and sets the field.
    pub fn finish(self) {
        let variable = &mut self.to.variable;
        let len = variable.len() - self.from - 4;
        // All empty values share the first entry.
        let mut offset = 0;
        if len == 0 {
            variable.truncate(self.from);
        } else {
            offset = self.from as u32;
            let word = (len as u32).to_le_bytes();
            variable[self.from..self.from + 4].copy_from_slice(&word);
            self.to.lengths.extend_from_slice(&word);
            variable.resize(self.from + 4 + entry_bytes(len), 0);
        }
        self.to.fixed[self.at..self.at + 4].copy_from_slice(&offset.to_le_bytes());
    }
}
