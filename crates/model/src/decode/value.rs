//! Decoded values, the input of every renderer.

use std::net::IpAddr;

use syscalls::shape::FlagSet;

/// A decoded value.
#[derive(Clone)]
pub enum Value {
    /// A signed number.
    Int(i64),
    /// An unsigned number.
    Uint(u64),
    /// A number to be printed in hexadecimal.
    Hex(u64),
    /// File type and permissions.
    Mode(u32),
    /// A device number.
    Dev(u64),
    /// A signal number.
    Signal(i32),
    /// A set of signals, bit 0 for signal 1.
    SigSet(u64),
    /// A descriptor with its target.
    Fd {
        /// Its number.
        fd: i32,
        /// Path or label of its target, if known.
        path: Option<Vec<u8>>,
        /// True for the directory argument of an `*at` call, where -100 is `AT_FDCWD`.
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
        /// The set that names the values.
        set: &'static FlagSet,
    },
    /// A number whose name depends on other values.
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
        /// The bytes without the terminating NUL.
        bytes: Vec<u8>,
        /// True if the captured text is incomplete.
        cut: bool,
        /// True if the text is a path.
        path: bool,
    },
    /// Plain data in memory.
    Bytes(Bytes),
    /// Several values of one kind.
    Array {
        /// The values that were decoded.
        items: Vec<Value>,
        /// Number of values left out.
        more: u64,
        /// Address of the array in the program, 0 if it is not an argument.
        at: u64,
    },
    /// A struct.
    Struct {
        /// Name and value of each field.
        fields: Vec<(&'static str, Value)>,
        /// True if it was not captured completely.
        cut: bool,
    },
    /// Descriptors of an `fd_set`.
    FdSet(Vec<i32>),
    /// Status word of `wait`: exit, signal or stop.
    WaitStatus(i32),
    /// A port number.
    Port(u16),
    /// An internet address.
    Ip(IpAddr),
    /// The value before and after the call.
    Changed(Box<Value>, Box<Value>),
    /// Memory at this address that was not readable.
    Fault(u64),
    /// Memory at this address whose bytes are missing from the trace, with the reason.
    Damaged(u64, String),
}

/// Plain data in memory.
#[derive(Clone, Debug, Default)]
pub struct Bytes {
    /// Address in the program.
    pub at: u64,
    /// The first bytes.
    pub head: Vec<u8>,
    /// Length in the program.
    pub len: u64,
    /// Hash of the bytes, if stored.
    pub hash: Option<u128>,
}

impl Value {
    /// Makes a text that is not a path.
    pub fn text(bytes: impl Into<Vec<u8>>) -> Value {
        Value::Text { bytes: bytes.into(), cut: false, path: false }
    }

    /// Makes a struct that was captured completely.
    pub fn fields(fields: Vec<(&'static str, Value)>) -> Value {
        Value::Struct { fields, cut: false }
    }

    /// Makes an array without omitted items.
    pub fn list(items: Vec<Value>) -> Value {
        Value::Array { items, more: 0, at: 0 }
    }
}
