//! Which call of the kernel a type of SNIA's schema is, and where its fields come from. Rows are
//! plain data and serve both ways: export fills records by them, import makes calls of records.

mod bits;
mod rows;

use std::sync::LazyLock;

pub use bits::Bit;
pub use rows::ROWS;

/// One type of the schema.
pub struct Row {
    /// Its name, without what all have in front.
    pub name: &'static str,
    /// The calls that it stands for, by number. The first is the one that is made of a record.
    pub calls: &'static [u16],
    /// How many records a call has.
    pub form: Form,
    /// The fields that are no single bits.
    pub fields: &'static [(&'static str, Source)],
    /// More of them: of a struct that the call fills.
    pub result: &'static [(&'static str, Source)],
    /// Those that are single bits.
    pub bits: &'static [Bits],
}

/// How a call becomes records.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Form {
    /// One call, one record.
    One,
    /// execve: the path, each argument and variable, the result.
    Exec,
    /// readv and writev: the totals, each buffer.
    Vector,
    /// recvmsg and sendmsg: the same of a message.
    Message,
}

/// Where a field comes from. Numbers of arguments count from 0.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Source {
    /// The argument itself.
    Arg(u8),
    /// The string behind it; the field has a NUL at the end.
    Text(u8),
    /// The bytes behind it.
    Data(u8),
    /// How many bytes are behind it.
    Length(u8),
    /// The number in the struct behind it: offset and bytes.
    Word(u8, u16, u8),
    /// Seconds and nanoseconds in the struct behind it: offset.
    Time(u8, u16),
    /// Seconds and microseconds in it.
    Microtime(u8, u16),
    /// Seconds in it.
    Seconds(u8, u16),
    /// The type of file in a mode.
    FileType(u8),
    /// What the whole record is about, by its form: see `fill`.
    Form,
}

/// Bits that come from one number.
pub struct Bits {
    /// The number.
    pub of: Source,
    /// They mean something only if this number has one of these values.
    pub when: Option<(Source, &'static [i64])>,
    /// The fields.
    pub fields: &'static [Bit],
}

/// The row of a call.
pub fn by_number(nr: u16) -> Option<&'static Row> {
    BY_NUMBER.get(usize::from(nr)).copied().flatten()
}

/// The row of a type.
pub fn by_name(name: &str) -> Option<&'static Row> {
    ROWS.iter().find(|row| row.name == name)
}

static BY_NUMBER: LazyLock<Vec<Option<&'static Row>>> = LazyLock::new(|| {
    let mut all = vec![None; events::table::NUMBER_LIMIT];
    for row in ROWS {
        for call in row.calls {
            all[usize::from(*call)] = Some(row);
        }
    }
    all
});
