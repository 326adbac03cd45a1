//! Decoded values: what every renderer consumes.

use std::net::IpAddr;

use events::shape::FlagSet;

/// A decoded value.
#[derive(Clone)]
pub enum Value {
    /// A signed number.
    Int(i64),
    /// An unsigned number.
    Uint(u64),
    /// A number that reads best in hexadecimal.
    Hex(u64),
    /// File type and permissions.
    Mode(u32),
    /// A device number.
    Dev(u64),
    /// A signal number.
    Signal(i32),
    /// A set of signals, bit 0 for signal 1.
    SigSet(u64),
    /// A descriptor and what it refers to.
    Fd {
        /// Its number.
        fd: i32,
        /// What it refers to, when known.
        path: Option<Vec<u8>>,
        /// The directory of an `*at` call, for which -100 is `AT_FDCWD`.
        dir: bool,
    },
    /// A combination of bits.
    Flags {
        /// The bits.
        value: u64,
        /// Their names.
        set: &'static FlagSet,
    },
    /// One value out of a list.
    Enum {
        /// The value.
        value: u64,
        /// The names of all values.
        set: &'static FlagSet,
    },
    /// A number with a name that depends on other values.
    Named {
        /// The number.
        value: i64,
        /// Its name.
        name: &'static str,
    },
    /// An address; 0 is NULL.
    Address(u64),
    /// Text.
    Text {
        /// Without the NUL.
        bytes: Vec<u8>,
        /// There was more.
        cut: bool,
        /// It is a path.
        path: bool,
    },
    /// Plain data in memory.
    Bytes(Bytes),
    /// Several values of one kind.
    Array {
        /// The values that were decoded.
        items: Vec<Value>,
        /// Values left out.
        more: u64,
        /// Where it was in memory, when it is an argument.
        at: u64,
    },
    /// A struct.
    Struct {
        /// Name and value of each field.
        fields: Vec<(&'static str, Value)>,
        /// Not all of it was captured.
        cut: bool,
    },
    /// Descriptors of a set as select has it.
    FdSet(Vec<i32>),
    /// How a process ended or stopped.
    WaitStatus(i32),
    /// A port number.
    Port(u16),
    /// An internet address.
    Ip(IpAddr),
    /// Memory as it was before and after the call.
    Changed(Box<Value>, Box<Value>),
    /// Memory at this address that the program could not read either.
    Fault(u64),
    /// Memory at this address whose bytes the trace cannot give.
    Damaged(u64, String),
}

/// Plain data in memory.
#[derive(Clone, Debug, Default)]
pub struct Bytes {
    /// Where it was.
    pub at: u64,
    /// Its beginning.
    pub head: Vec<u8>,
    /// How much there was in the program.
    pub len: u64,
    /// Its hash, when stored.
    pub hash: Option<u128>,
}

impl Value {
    /// Text that is no path.
    pub fn text(bytes: impl Into<Vec<u8>>) -> Value {
        Value::Text { bytes: bytes.into(), cut: false, path: false }
    }

    /// A struct that was captured whole.
    pub fn fields(fields: Vec<(&'static str, Value)>) -> Value {
        Value::Struct { fields, cut: false }
    }

    /// All items of a list.
    pub fn list(items: Vec<Value>) -> Value {
        Value::Array { items, more: 0, at: 0 }
    }
}
