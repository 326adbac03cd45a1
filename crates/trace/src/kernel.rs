//! Events of the kernel: what the trace says of their layouts, and their values.
//!
//! The kernel describes its events itself. Their layouts stand in the trace, so that names, types
//! and values need nothing else.

use std::collections::HashMap;
use std::sync::Arc;

use crate::format::{unzigzag, zigzag};
use crate::wire::{Cursor, Malformed, put_bytes, put_number};

/// Memory for the layouts that a reader keeps.
const LAYOUTS_BYTES_MAX: usize = 16 << 20;
/// Bits of a layout's number: few enough for four bytes in each event.
const NUMBER_BITS: u32 = 28;

/// An event of the kernel.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct KernelEvent {
    /// Number of its layout.
    pub layout: u32,
    /// Thread id, as the kernel's first namespace has it, of the thread that ran; 0: none did.
    pub task: u32,
    /// The kernel's flags (interrupts off, in an interrupt ...), and 256 times how deeply preemption
    /// was disabled.
    pub flags: u32,
    /// The values of the layout's fields.
    pub values: Vec<u8>,
}

/// An event of the kernel, as the recorder hands it over.
#[derive(Clone, Copy, Debug)]
pub struct KernelRef<'a> {
    /// Number of its layout.
    pub layout: u32,
    /// The thread that ran.
    pub task: u32,
    /// The kernel's flags.
    pub flags: u32,
    /// The values, by [`put_value`].
    pub values: &'a [u8],
}

/// What is in events of one kind.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct KernelLayout {
    /// The number that events name.
    pub number: u32,
    /// The system of the kernel that it belongs to.
    pub system: String,
    /// Its name.
    pub name: String,
    /// Its fields, in their order.
    pub fields: Vec<KernelField>,
    /// What numbers of fields are called.
    pub words: Vec<KernelWords>,
}

/// Fields of a layout that have words, and words that one has.
const WORDS_MAX: u64 = 512;

/// What the numbers of a field are called.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct KernelWords {
    /// Which field: its place among them.
    pub field: u32,
    /// Its bits are, and not its number as a whole; a word for 0 is for no bits.
    pub are_flags: bool,
    /// Numbers and their words.
    pub all: Vec<(u64, String)>,
}

impl KernelWords {
    /// The words for a number, flags joined by `|`; `None` if it has none.
    pub fn of(&self, number: u64) -> Option<String> {
        if !self.are_flags || number == 0 {
            let found = self.all.iter().find(|(one, _)| *one == number);
            return found.map(|(_, word)| word.clone());
        }
        let (mut rest, mut words) = (number, Vec::new());
        for (bits, word) in &self.all {
            if *bits != 0 && rest & bits == *bits {
                rest &= !bits;
                words.push(word.clone());
            }
        }
        if words.is_empty() {
            return None;
        }
        if rest != 0 {
            words.push(format!("{rest:#x}"));
        }
        Some(words.join("|"))
    }
}

/// A field of such events.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct KernelField {
    /// Its name.
    pub name: String,
    /// Its type in C, for people.
    pub c_type: String,
    /// How its value is written.
    pub kind: KernelKind,
    /// Bytes that it had in the kernel's buffer.
    pub size: u32,
}

/// How a value is written. All that later versions add are written as bytes.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum KernelKind {
    /// A number.
    #[default]
    Unsigned = 0,
    /// A signed number.
    Signed = 1,
    /// Characters.
    Text = 2,
    /// Bytes.
    Bytes = 3,
}

/// A value.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum KernelValue<'a> {
    /// A number.
    Unsigned(u64),
    /// A signed number.
    Signed(i64),
    /// Characters, of any encoding.
    Text(&'a [u8]),
    /// Bytes.
    Bytes(&'a [u8]),
}

impl KernelValue<'_> {
    /// The value as a number, if it is one.
    pub fn number(self) -> Option<i64> {
        match self {
            KernelValue::Unsigned(number) => Some(number as i64),
            KernelValue::Signed(number) => Some(number),
            KernelValue::Text(_) | KernelValue::Bytes(_) => None,
        }
    }
}

/// Appends a value to those of an event.
pub fn put_value(out: &mut Vec<u8>, value: KernelValue<'_>) {
    match value {
        KernelValue::Unsigned(number) => put_number(out, number),
        KernelValue::Signed(number) => put_number(out, zigzag(number)),
        KernelValue::Text(bytes) | KernelValue::Bytes(bytes) => put_bytes(out, bytes),
    }
}

impl KernelLayout {
    /// Gives it a number made of what it says, so that one layout has the same number in all traces
    /// and traces can be merged. `taken`: layouts of this trace.
    pub fn number_by_content(&mut self, taken: &[KernelLayout]) {
        let mut content = Vec::new();
        put_bytes(&mut content, self.system.as_bytes());
        put_bytes(&mut content, self.name.as_bytes());
        put_fields(&mut content, &self.fields);
        if !self.words.is_empty() {
            put_words(&mut content, &self.words);
        }
        self.number = crc32fast::hash(&content) & ((1 << NUMBER_BITS) - 1);
        while taken.iter().any(|other| other.number == self.number) {
            self.number = (self.number + 1) & ((1 << NUMBER_BITS) - 1);
        }
    }

    /// Its name in filters, as the kernel's own tools write it.
    pub fn full_name(&self) -> String {
        format!("{}:{}", self.system, self.name)
    }

    /// The words for a field's number, if it has some.
    pub fn words(&self, field: &KernelField, number: u64) -> Option<String> {
        let is_of = |words: &&KernelWords| {
            self.fields.get(words.field as usize).is_some_and(|named| std::ptr::eq(named, field))
        };
        self.words.iter().find(is_of)?.of(number)
    }

    /// The fields of an event with their values, as far as these go.
    pub fn values<'a>(
        &'a self,
        values: &'a [u8],
    ) -> impl Iterator<Item = (&'a KernelField, KernelValue<'a>)> {
        let mut from = Cursor::new(values, 0);
        self.fields.iter().map_while(move |field| {
            let value = match field.kind {
                KernelKind::Unsigned => KernelValue::Unsigned(from.number().ok()?),
                KernelKind::Signed => KernelValue::Signed(unzigzag(from.number().ok()?)),
                KernelKind::Text => KernelValue::Text(from.bytes().ok()?),
                KernelKind::Bytes => KernelValue::Bytes(from.bytes().ok()?),
            };
            Some((field, value))
        })
    }
}

/// The layouts that a trace has told so far.
#[derive(Clone, Debug, Default)]
pub struct KernelLayouts {
    all: HashMap<u32, Arc<KernelLayout>>,
    bytes: usize,
}

impl KernelLayouts {
    /// Learns a layout; of two with one number, the first counts.
    pub fn add(&mut self, layout: &KernelLayout) {
        let fields = layout.fields.iter();
        let fields: usize =
            fields.map(|field| size_of_val(field) + field.name.len() + field.c_type.len()).sum();
        let words = layout.words.iter().flat_map(|words| &words.all);
        let words: usize = words.map(|pair| size_of_val(pair) + pair.1.len()).sum();
        let words = words + size_of_val(layout.words.as_slice());
        let bytes = size_of_val(layout) + layout.system.len() + layout.name.len() + fields + words;
        if self.bytes + bytes <= LAYOUTS_BYTES_MAX && !self.all.contains_key(&layout.number) {
            self.bytes += bytes;
            self.all.insert(layout.number, Arc::new(layout.clone()));
        }
    }

    /// The layout with a number.
    pub fn get(&self, number: u32) -> Option<&Arc<KernelLayout>> {
        self.all.get(&number)
    }

    /// All of them.
    pub fn iter(&self) -> impl Iterator<Item = &Arc<KernelLayout>> {
        self.all.values()
    }

    /// Learns those that another one knows.
    pub fn merge(&mut self, other: KernelLayouts) {
        other.all.values().for_each(|layout| self.add(layout));
    }
}

/// Appends the fields of a layout.
pub(crate) fn put_fields(out: &mut Vec<u8>, fields: &[KernelField]) {
    put_number(out, fields.len() as u64);
    for field in fields {
        put_bytes(out, field.name.as_bytes());
        put_bytes(out, field.c_type.as_bytes());
        put_number(out, field.kind as u64);
        put_number(out, field.size.into());
    }
}

/// Reads the fields of a layout.
pub(crate) fn get_fields(bytes: &[u8]) -> Result<Vec<KernelField>, Malformed> {
    let mut from = Cursor::new(bytes, 0);
    let mut fields = Vec::new();
    if bytes.is_empty() {
        return Ok(fields);
    }
    // Ends with the bytes, since the count may be wrong.
    for _ in 0..from.number()? {
        let name = text(from.bytes()?)?;
        let c_type = text(from.bytes()?)?;
        let kind = match from.number()? {
            0 => KernelKind::Unsigned,
            1 => KernelKind::Signed,
            2 => KernelKind::Text,
            _ => KernelKind::Bytes,
        };
        fields.push(KernelField { name, c_type, kind, size: from.small()? });
    }
    Ok(fields)
}

/// Appends the words of a layout.
pub(crate) fn put_words(out: &mut Vec<u8>, words: &[KernelWords]) {
    put_number(out, words.len() as u64);
    for KernelWords { field, are_flags, all } in words {
        put_number(out, (*field).into());
        put_number(out, (*are_flags).into());
        put_number(out, all.len() as u64);
        for (number, word) in all {
            put_number(out, *number);
            put_bytes(out, word.as_bytes());
        }
    }
}

/// Reads the words of a layout.
pub(crate) fn get_words(bytes: &[u8]) -> Result<Vec<KernelWords>, Malformed> {
    let mut from = Cursor::new(bytes, 0);
    let mut words = Vec::new();
    if bytes.is_empty() {
        return Ok(words);
    }
    // All of them are looked at for each number that is shown.
    let some = |count: u64| match count <= WORDS_MAX {
        true => Ok(count),
        false => Err(Malformed("a layout has too many words")),
    };
    for _ in 0..some(from.number()?)? {
        let (field, are_flags) = (from.small()?, from.number()? != 0);
        let mut all = Vec::new();
        for _ in 0..some(from.number()?)? {
            all.push((from.number()?, text(from.bytes()?)?));
        }
        words.push(KernelWords { field, are_flags, all });
    }
    Ok(words)
}

fn text(bytes: &[u8]) -> Result<String, Malformed> {
    String::from_utf8(bytes.to_vec()).map_err(|_| Malformed("text is not UTF-8"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn layout() -> KernelLayout {
        let field = |name: &str, kind| KernelField {
            name: name.into(),
            c_type: "int".into(),
            kind,
            size: 4,
        };
        let fields = vec![
            field("a", KernelKind::Unsigned),
            field("b", KernelKind::Signed),
            field("c", KernelKind::Text),
            field("d", KernelKind::Bytes),
        ];
        let pairs = |all: &[(u64, &str)]| {
            all.iter().map(|(number, word)| (*number, word.to_string())).collect::<Vec<_>>()
        };
        let words = vec![
            KernelWords { field: 0, are_flags: false, all: pairs(&[(0, "none"), (2, "two")]) },
            KernelWords {
                field: 1,
                are_flags: true,
                all: pairs(&[(1, "S"), (2, "D"), (12, "TX"), (0, "R")]),
            },
        ];
        KernelLayout { number: 0, system: "sched".into(), name: "x".into(), fields, words }
    }

    #[test]
    fn numbers_have_words() {
        let layout = layout();
        let words = |field: usize, number| layout.words(&layout.fields[field], number);
        assert_eq!(words(0, 2).as_deref(), Some("two"));
        assert_eq!(words(0, 1), None);
        assert_eq!(words(1, 3).as_deref(), Some("S|D"));
        assert_eq!(words(1, 0x100d).as_deref(), Some("S|TX|0x1000"));
        assert_eq!(words(1, 0).as_deref(), Some("R"));
        assert_eq!([words(1, 8), words(2, 2)], [None, None]);
        let mut bytes = Vec::new();
        put_words(&mut bytes, &layout.words);
        assert_eq!(get_words(&bytes).unwrap(), layout.words);
        for len in 1..bytes.len() {
            assert!(get_words(&bytes[..len]).is_err());
        }
        let many = vec![(1, String::new()); WORDS_MAX as usize + 1];
        let (mut bytes, many) = (Vec::new(), KernelWords { all: many, ..KernelWords::default() });
        put_words(&mut bytes, &[many]);
        assert!(get_words(&bytes).is_err());
    }

    #[test]
    fn values_come_back_as_far_as_they_go() {
        let layout = layout();
        let wanted = [
            KernelValue::Unsigned(u64::MAX),
            KernelValue::Signed(-7),
            KernelValue::Text(b"cat"),
            KernelValue::Bytes(&[0, 255]),
        ];
        let mut values = Vec::new();
        wanted.iter().for_each(|value| put_value(&mut values, *value));
        let found: Vec<KernelValue<'_>> = layout.values(&values).map(|(_, value)| value).collect();
        assert_eq!(found, wanted);
        for len in 0..values.len() {
            assert!(layout.values(&values[..len]).count() < wanted.len());
        }
    }

    #[test]
    fn fields_are_read_as_written_and_nonsense_is_refused() {
        let mut bytes = Vec::new();
        put_fields(&mut bytes, &layout().fields);
        assert_eq!(get_fields(&bytes), Ok(layout().fields));
        assert_eq!(get_fields(&[]), Ok(Vec::new()));
        for len in 1..bytes.len() {
            assert!(get_fields(&bytes[..len]).is_err(), "{len}");
        }
    }

    #[test]
    fn numbers_follow_from_content() {
        let (mut one, mut same, mut other) = (layout(), layout(), layout());
        other.name = "y".into();
        one.number_by_content(&[]);
        same.number_by_content(&[]);
        other.number_by_content(&[]);
        assert_eq!(one.number, same.number);
        assert!(one.number != other.number && one.number < 1 << NUMBER_BITS);
        same.number_by_content(std::slice::from_ref(&one));
        assert_ne!(one.number, same.number);
    }

    #[test]
    fn the_first_layout_of_a_number_counts() {
        let mut layouts = KernelLayouts::default();
        layouts.add(&layout());
        layouts.add(&KernelLayout { name: "y".into(), ..layout() });
        assert_eq!(layouts.get(0).unwrap().full_name(), "sched:x");
        assert!(layouts.get(1).is_none() && layouts.iter().count() == 1);
    }
}
