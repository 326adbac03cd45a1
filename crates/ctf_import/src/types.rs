//! Types of CTF: how values lie in a stream.

use std::rc::Rc;

/// How deep types may be nested.
pub const DEPTH_MAX: usize = 16;
/// Elements of an array.
pub const ELEMENTS_MAX: u64 = 1 << 20;

/// A whole number.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Int {
    /// Bits, 1 to 64.
    pub bits: u32,
    /// Alignment in bits.
    pub align: u32,
    /// It may be negative.
    pub is_signed: bool,
    /// The highest bits come first.
    pub is_big_endian: bool,
    /// It is a character.
    pub is_text: bool,
    /// The clock of which it is the time.
    pub clock: Option<String>,
}

/// Names for ranges of a number.
pub type Labels = Vec<(String, i128, i128)>;
/// Named types.
pub type Fields = Vec<(String, Rc<Typed>)>;

/// A type.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Type {
    /// A whole number.
    Int(Int),
    /// A number with a fraction, of 32 or 64 bits.
    Float(Int),
    /// A whole number that has names.
    Enum(Int, Labels),
    /// Characters and a NUL.
    Text,
    /// Fields, one after the other, and an alignment.
    Struct(Fields, u32),
    /// So many of a type.
    Array(Rc<Typed>, u64),
    /// As many of a type as a number before says.
    Sequence(Rc<Typed>, String),
    /// One of several, as a number before says.
    Variant(String, Fields),
}

/// A type with what follows from it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Typed {
    /// The type.
    pub of: Type,
    /// Its alignment in bits.
    pub align: u32,
    /// How deep it is nested.
    pub depth: usize,
    /// How many values it has; a sequence counts as one element.
    pub values: u64,
}

impl Type {
    /// Makes a type of it, if it is not too large.
    pub fn made(self) -> Result<Rc<Typed>, &'static str> {
        let (align, inner, values) = match &self {
            Type::Int(int) | Type::Float(int) | Type::Enum(int, _) => (int.align.max(1), 0, 1),
            Type::Text => (8, 0, 1),
            Type::Struct(fields, align) => {
                let of_fields = fields.iter().map(|(_, of)| of.align).max().unwrap_or(1);
                let depth = fields.iter().map(|(_, of)| of.depth).max().unwrap_or(0);
                let values = fields.iter().map(|(_, of)| of.values);
                (of_fields.max(*align), depth, values.fold(1, u64::saturating_add))
            }
            Type::Array(of, count) => (of.align, of.depth, of.values.saturating_mul(*count).max(1)),
            Type::Sequence(of, _) => (of.align, of.depth, of.values),
            Type::Variant(_, fields) => {
                let depth = fields.iter().map(|(_, of)| of.depth).max().unwrap_or(0);
                (1, depth, fields.iter().map(|(_, of)| of.values).max().unwrap_or(1))
            }
        };
        if inner >= DEPTH_MAX {
            return Err("types are nested too deeply");
        }
        if values > ELEMENTS_MAX {
            return Err("a type has too many values");
        }
        Ok(Rc::new(Typed { of: self, align, depth: inner + 1, values }))
    }
}

impl Typed {
    /// Returns, of bytes, whether they are characters.
    pub fn is_byte(&self) -> Option<bool> {
        match &self.of {
            Type::Int(int) if int.bits == 8 && int.align <= 8 => Some(int.is_text),
            _ => None,
        }
    }
}
