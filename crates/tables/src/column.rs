//! Columns of unwritten rows in Parquet's representation: values, and levels that encode nulls and
//! lists.

use std::borrow::Cow;
use std::fmt::Write as _;
use std::hash::{BuildHasher, RandomState};

use hashbrown::HashTable;
use hashbrown::hash_table::Entry;

use crate::levels::Levels;
use crate::schema::{Field, Type};

/// A column with its rows.
pub enum Column {
    /// Single values.
    Leaf(Leaf),
    /// A list of values in each row.
    List(Box<List>),
    /// A struct: several named columns.
    Struct(Vec<(String, Column)>),
    /// Nothing: nobody wants its values.
    Unwanted,
}

/// A column of lists.
pub struct List {
    /// Repetition level of the items after the first.
    pub rep: i16,
    /// The items.
    pub element: Column,
}

/// Values with their levels.
pub struct Leaf {
    /// Definition level of a value that is not null.
    pub max_def: i16,
    /// Number of lists around a value.
    pub max_rep: i16,
    /// Definition level of each value or null.
    pub defs: Levels,
    /// Repetition level of each value; empty outside of lists.
    pub reps: Levels,
    /// The values that are not null.
    pub values: Values,
}

/// Values without nulls, by type.
pub enum Values {
    /// 32-bit numbers.
    Int(Vec<i32>),
    /// 64-bit numbers.
    Long(Vec<i64>),
    /// Texts, often repeated.
    Text(Box<Texts>),
    /// Hashes.
    Hash(Vec<u128>),
    /// Bytes.
    Bytes(Packed),
}

/// Levels of a value's parent: how much of its path is defined, and which list it continues.
#[derive(Clone, Copy, Default)]
pub struct Place {
    def: i16,
    rep: i16,
}

impl Place {
    fn inside(self) -> Place {
        Place { def: self.def + 1, ..self }
    }
}

impl Column {
    /// Makes an empty column of a table.
    pub fn new(ty: &Type) -> Column {
        Column::at(ty, 0, 0)
    }

    fn at(ty: &Type, def: i16, rep: i16) -> Column {
        let values = match ty {
            Type::Int => Values::Int(Vec::new()),
            Type::Long | Type::Time => Values::Long(Vec::new()),
            Type::Text => Values::Text(Box::default()),
            Type::Hash => Values::Hash(Vec::new()),
            Type::Bytes => Values::Bytes(Packed::default()),
            Type::List(item) => {
                let element = Column::at(item, def + 2, rep + 1);
                return Column::List(Box::new(List { rep: rep + 1, element }));
            }
            Type::Struct(fields) => {
                let field = |f: &Field| (f.name.clone(), Column::at(&f.ty, def + 1, rep));
                return Column::Struct(fields.iter().map(field).collect());
            }
        };
        let (defs, reps) = (Levels::default(), Levels::default());
        Column::Leaf(Leaf { max_def: def + 1, max_rep: rep, defs, reps, values })
    }

    /// Adds a null.
    pub fn null(&mut self, place: Place) {
        match self {
            Column::Leaf(leaf) => leaf.mark(place),
            Column::List(list) => list.element.null(place),
            Column::Struct(fields) => fields.iter_mut().for_each(|(_, field)| field.null(place)),
            Column::Unwanted => {}
        }
    }

    /// Adds a number, or null if the column has another type.
    pub fn number(&mut self, place: Place, value: i64) {
        match self {
            Column::Leaf(leaf) => match &mut leaf.values {
                // Values wider than the kernel's type are truncated as in the kernel.
                Values::Int(values) => {
                    values.push(value as i32);
                    leaf.mark(place.inside());
                }
                Values::Long(values) => {
                    values.push(value);
                    leaf.mark(place.inside());
                }
                _ => leaf.mark(place),
            },
            _ => self.null(place),
        }
    }

    /// Adds text, or null if the column has another type. Invalid UTF-8 is written as `\xNN`.
    pub fn text(&mut self, place: Place, value: &[u8]) {
        match self {
            Column::Leaf(leaf) => match &mut leaf.values {
                Values::Text(texts) => {
                    texts.push(value);
                    leaf.mark(place.inside());
                }
                _ => leaf.mark(place),
            },
            _ => self.null(place),
        }
    }

    /// Adds a hash, or null if the column has another type.
    pub fn hash(&mut self, place: Place, value: u128) {
        match self {
            Column::Leaf(Leaf { values: Values::Hash(values), .. }) => values.push(value),
            _ => return self.null(place),
        }
        if let Column::Leaf(leaf) = self {
            leaf.mark(place.inside());
        }
    }

    /// Adds bytes, or null if the column has another type.
    pub fn bytes(&mut self, place: Place, value: &[u8]) {
        match self {
            Column::Leaf(Leaf { values: Values::Bytes(packed), .. }) => packed.push(value),
            _ => return self.null(place),
        }
        if let Column::Leaf(leaf) = self {
            leaf.mark(place.inside());
        }
    }

    /// Adds a list with items added by `put`, or null if the column has another type.
    pub fn list<T>(
        &mut self,
        place: Place,
        items: impl Iterator<Item = T>,
        mut put: impl FnMut(&mut Column, Place, T),
    ) {
        let Column::List(list) = self else { return self.null(place) };
        let mut here = Place { def: place.def + 2, rep: place.rep };
        let mut any = false;
        for item in items {
            put(&mut list.element, here, item);
            here.rep = list.rep;
            any = true;
        }
        if !any {
            list.element.null(place.inside());
        }
    }

    /// Adds a struct with fields added by `put`, or null if the column has another type.
    pub fn fields(&mut self, place: Place, mut put: impl FnMut(&str, &mut Column, Place)) {
        match self {
            Column::Struct(fields) => {
                for (name, field) in fields {
                    put(name, field, place.inside());
                }
            }
            _ => self.null(place),
        }
    }

    /// Approximate memory in use.
    pub fn held_bytes(&self) -> usize {
        match self {
            Column::Leaf(leaf) => leaf.held_bytes(),
            Column::List(list) => list.element.held_bytes(),
            Column::Struct(fields) => fields.iter().map(|(_, field)| field.held_bytes()).sum(),
            Column::Unwanted => 0,
        }
    }

    /// Bytes of all text and all bytes, where each value has its own.
    pub fn text_bytes(&self) -> usize {
        match self {
            Column::Leaf(leaf) => match &leaf.values {
                Values::Text(texts) => texts.row_bytes,
                Values::Bytes(packed) => packed.bytes.len(),
                Values::Int(_) | Values::Long(_) | Values::Hash(_) => 0,
            },
            Column::List(list) => list.element.text_bytes(),
            Column::Struct(fields) => fields.iter().map(|(_, field)| field.text_bytes()).sum(),
            Column::Unwanted => 0,
        }
    }

    /// Collects the leaves in Parquet's order.
    pub fn leaves<'a>(&'a mut self, all: &mut Vec<&'a mut Leaf>) {
        match self {
            Column::Leaf(leaf) => all.push(leaf),
            Column::List(list) => list.element.leaves(all),
            Column::Struct(fields) => {
                fields.iter_mut().for_each(|(_, field)| field.leaves(all));
            }
            Column::Unwanted => {}
        }
    }
}

impl Leaf {
    fn mark(&mut self, place: Place) {
        self.defs.push(place.def);
        if self.max_rep > 0 {
            self.reps.push(place.rep);
        }
    }

    fn held_bytes(&self) -> usize {
        let values = match &self.values {
            Values::Int(values) => 4 * values.len(),
            Values::Long(values) => 8 * values.len(),
            Values::Text(texts) => 4 * texts.codes.len() + texts.bytes,
            Values::Hash(values) => 16 * values.len(),
            Values::Bytes(packed) => packed.bytes.len() + 8 * packed.ends.len(),
        };
        values + self.defs.held_bytes() + self.reps.held_bytes()
    }
}

impl Values {
    /// Returns true if a dictionary pays because most values repeat, by an estimate for numbers.
    pub fn repeat(&self) -> bool {
        let (distinct, all) = match self {
            Values::Int(values) => (distinct(values, |n| *n as u64), values.len()),
            Values::Long(values) => (distinct(values, |n| *n as u64), values.len()),
            Values::Hash(values) => (distinct(values, |hash| *hash as u64), values.len()),
            Values::Text(texts) => (texts.all.ends.len(), texts.codes.len()),
            Values::Bytes(_) => return false,
        };
        distinct <= all / 2
    }
}

/// Binary logarithm of the number of marks in [`distinct`].
const MARKS_BITS: u32 = 20;

/// Estimates the number of distinct values; too low above a million.
fn distinct<T>(values: &[T], number: impl Fn(&T) -> u64) -> usize {
    let mut marks = vec![0u64; 1 << (MARKS_BITS - 6)];
    let mut count = 0;
    for value in values {
        let mixed = number(value).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> (64 - MARKS_BITS);
        let (word, bit) = (&mut marks[(mixed >> 6) as usize], 1 << (mixed & 63));
        count += usize::from(*word & bit == 0);
        *word |= bit;
    }
    count
}

/// Memory overhead of a distinct text: an entry of the table, and where the text ends.
const TEXT_BYTES: usize = 40;

/// Texts, each distinct one stored once.
#[derive(Default)]
pub struct Texts {
    /// Hash and index of each distinct text.
    known: HashTable<(u64, u32)>,
    hashes: RandomState,
    /// The distinct texts in UTF-8.
    pub all: Packed,
    /// Index of each row's text.
    pub codes: Vec<u32>,
    last: Vec<u8>,
    bytes: usize,
    /// Bytes of the texts of all rows.
    row_bytes: usize,
}

impl Texts {
    fn push(&mut self, text: &[u8]) {
        if let Some(&code) = self.codes.last()
            && self.last == text
        {
            return self.repeat(code);
        }
        self.last.clear();
        self.last.extend_from_slice(text);
        let text = match std::str::from_utf8(text) {
            Ok(text) => Cow::Borrowed(text),
            Err(_) => Cow::Owned(escaped(text)),
        };
        let (text, all) = (text.as_bytes(), &mut self.all);
        let hash = self.hashes.hash_one(text);
        let is_it =
            |&(of, code): &(u64, u32)| of == hash && all.bytes[all.range(code as usize)] == *text;
        let code = match self.known.entry(hash, is_it, |&(of, _)| of) {
            Entry::Occupied(entry) => entry.get().1,
            Entry::Vacant(entry) => {
                let code = all.ends.len() as u32;
                entry.insert((hash, code));
                all.push(text);
                self.bytes += text.len() + TEXT_BYTES;
                code
            }
        };
        self.repeat(code);
    }

    /// Adds a row with a text that is known.
    fn repeat(&mut self, code: u32) {
        self.row_bytes += self.all.range(code as usize).len();
        self.codes.push(code);
    }
}

/// Replaces invalid UTF-8 by `\xNN`.
pub fn escaped(text: &[u8]) -> String {
    let mut out = String::with_capacity(text.len() + 16);
    for chunk in text.utf8_chunks() {
        out.push_str(chunk.valid());
        for byte in chunk.invalid() {
            let _ = write!(out, "\\x{byte:02x}");
        }
    }
    out
}

/// Number of hexadecimal digits of a hash.
pub const DIGITS: usize = 32;

/// Returns the digits of all hashes, concatenated.
pub fn digits(hashes: &[u128]) -> Vec<u8> {
    let digit = |nibble: u8| b"0123456789abcdef"[usize::from(nibble & 15)];
    let pairs: [[u8; 2]; 256] = std::array::from_fn(|b| [digit(b as u8 >> 4), digit(b as u8)]);
    let mut text = vec![0; DIGITS * hashes.len()];
    for (text, hash) in text.chunks_exact_mut(DIGITS).zip(hashes) {
        for (text, byte) in text.chunks_exact_mut(2).zip(hash.to_be_bytes()) {
            text.copy_from_slice(&pairs[usize::from(byte)]);
        }
    }
    text
}

/// Concatenated byte strings.
#[derive(Default)]
pub struct Packed {
    /// The bytes of all strings.
    pub bytes: Vec<u8>,
    /// End of each string.
    pub ends: Vec<usize>,
}

impl Packed {
    /// Returns where the bytes of a string are.
    pub fn range(&self, at: usize) -> std::ops::Range<usize> {
        at.checked_sub(1).map_or(0, |before| self.ends[before])..self.ends[at]
    }

    /// Appends a string.
    pub fn push(&mut self, value: &[u8]) {
        self.bytes.extend_from_slice(value);
        self.ends.push(self.bytes.len());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ROW: Place = Place { def: 0, rep: 0 };

    fn levels(column: &mut Column) -> Vec<(Vec<i16>, Vec<i16>)> {
        let mut leaves = Vec::new();
        column.leaves(&mut leaves);
        leaves.iter().map(|leaf| (leaf.defs.all(), leaf.reps.all())).collect()
    }

    #[test]
    fn levels_of_lists() {
        let mut column = Column::new(&Type::List(Box::new(Type::Int)));
        let put = |column: &mut Column, place: Place, value: Option<i64>| match value {
            Some(value) => column.number(place, value),
            None => column.null(place),
        };
        column.list(ROW, [Some(1), None, Some(2)].into_iter(), put);
        column.list(ROW, [].into_iter(), put);
        column.null(ROW);
        column.list(ROW, [Some(3)].into_iter(), put);
        assert_eq!(levels(&mut column), [(vec![3, 2, 3, 1, 0, 3], vec![0, 1, 1, 0, 0, 0])]);
    }

    #[test]
    fn levels_of_structs_in_lists() {
        let fields = vec![Field::new("a", Type::Long), Field::new("b", Type::Text)];
        let mut column = Column::new(&Type::List(Box::new(Type::Struct(fields))));
        column.list(ROW, 0..2, |column, place, n| {
            column.fields(place, |name, column, place| match name {
                "a" => column.number(place, n),
                _ => column.null(place),
            });
        });
        column.null(ROW);
        let reps = vec![0, 1, 0];
        assert_eq!(levels(&mut column), [(vec![4, 4, 0], reps.clone()), (vec![3, 3, 0], reps)]);
    }

    #[test]
    fn values_of_another_type_are_nulls() {
        let mut column = Column::new(&Type::Int);
        column.text(ROW, b"x");
        column.hash(ROW, 1);
        column.bytes(ROW, b"x");
        column.fields(ROW, |_, _, _| {});
        column.list(ROW, 0..2, |column, place, n| column.number(place, n));
        column.number(ROW, 7);
        assert_eq!(levels(&mut column), [(vec![0, 0, 0, 0, 0, 1], vec![])]);
    }

    #[test]
    fn texts_are_kept_once_and_are_utf8() {
        let mut column = Column::new(&Type::Text);
        for text in [&b"a"[..], b"b", b"a", b"a", b"\xff\\", "\u{e9}".as_bytes()] {
            column.text(ROW, text);
        }
        let Column::Leaf(Leaf { values: Values::Text(texts), .. }) = &column else { panic!() };
        assert_eq!(texts.codes, [0, 1, 0, 0, 2, 3]);
        assert_eq!(texts.all.bytes, "ab\\xff\\\u{e9}".as_bytes());
    }

    #[test]
    fn digits_of_hashes() {
        for hash in [0, 1, u128::MAX, 0x0123_4567_89ab_cdef << 60] {
            assert_eq!(digits(&[hash]), format!("{hash:032x}").into_bytes());
        }
    }
}
