//! Types of columns.

/// Type of a column. Every value may be null.
///
/// There are no unsigned 64-bit numbers and no nanosecond time stamps: Spark reads neither.
#[derive(Clone, PartialEq, Debug)]
pub enum Type {
    /// A signed 32-bit number.
    Int,
    /// A signed 64-bit number.
    Long,
    /// A point in time, UTC, in microseconds. It has no zone, because not every reader has zone
    /// data.
    Time,
    /// Text in UTF-8.
    Text,
    /// A 128-bit hash, as 32 hexadecimal digits.
    Hash,
    /// Bytes.
    Bytes,
    /// A list of values.
    List(Box<Type>),
    /// A struct.
    Struct(Vec<Field>),
}

/// A column, or a field of a struct.
#[derive(Clone, PartialEq, Debug)]
pub struct Field {
    /// Name of the field.
    pub name: String,
    /// Type of the field.
    pub ty: Type,
}

impl Field {
    /// Makes a field.
    pub fn new(name: impl Into<String>, ty: Type) -> Field {
        Field { name: name.into(), ty }
    }
}
