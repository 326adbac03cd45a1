//! What a row says.

use super::bits::Bit;

/// A type of the schema.
pub struct Row {
    /// Name without the common prefix.
    pub name: &'static str,
    /// Numbers of the calls that it stands for. Import makes the first one, unless the record is one
    /// of a process's end.
    pub calls: [Option<u16>; 2],
    /// Mapping of a call to records.
    pub form: Form,
    /// Fields other than single bits.
    pub fields: &'static [(&'static str, Source)],
    /// More such fields, from a struct that the call fills.
    pub result: &'static [(&'static str, Source)],
    /// Fields that are single bits.
    pub bits: &'static [Bits],
}

/// Mapping of a call to records.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Form {
    /// One call, one record.
    One,
    /// execve: the path, each argument and variable, the result.
    Exec,
    /// readv and writev: the totals, then each buffer.
    Vector,
    /// recvmsg and sendmsg: the totals, then each buffer of the message.
    Message,
}

/// Source of a field. Arguments are counted from 0.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Source {
    /// The value of the argument.
    Arg(u8),
    /// The string that it points to; the field ends with a NUL.
    Text(u8),
    /// The bytes that it points to.
    Data(u8),
    /// The number of bytes that it points to.
    Length(u8),
    /// A number in the struct that it points to: offset and size.
    Word(u8, u16, u8),
    /// Seconds and nanoseconds in that struct, at this offset.
    Time(u8, u16),
    /// Seconds and microseconds in that struct, at this offset.
    Microtime(u8, u16),
    /// Seconds in that struct, at this offset.
    Seconds(u8, u16),
    /// The file type of a mode.
    FileType(u8),
    /// Filled by the form of the record: see `fill`.
    Form,
}

/// Fields that are bits of one number.
pub struct Bits {
    /// The number.
    pub of: Source,
    /// The bits are set only if this number has one of these values.
    pub when: Option<(Source, &'static [i64])>,
    /// The fields.
    pub fields: &'static [Bit],
}
