//! Layouts of the kernel's structs on x86_64, so that they can be printed field by field.

mod device;
mod file;
mod holders;
mod ipc;
mod process;
mod system;
mod time;

pub use device::*;
pub use file::*;
pub use holders::*;
pub use ipc::*;
pub use process::*;
pub use system::*;
pub use time::*;

use crate::flag_set::FlagSet;
use crate::text;

/// A struct of the kernel's interface.
pub struct Layout {
    /// Its C name, without `struct`.
    pub name: &'static str,
    /// Its size in bytes.
    pub size: u32,
    /// Its fields in order; padding is left out.
    pub fields: &'static [Field],
    /// Layout that follows in the same memory, repeated as long as there is room.
    pub tail: Option<&'static Layout>,
}

/// One field of a struct.
pub struct Field {
    /// Its name.
    pub name: &'static str,
    /// Offset from the start of the struct.
    pub offset: u32,
    /// Type of its value.
    pub kind: FieldKind,
    /// Whether two machines may give it other values for the same files.
    pub varies: Varies,
    /// True if the kernel alone gives it a meaning: what a program leaves there is not read.
    pub is_given: bool,
}

/// What may make a field's value another one on another machine.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Varies {
    /// Nothing: the value follows from the calls.
    Never,
    /// The machine, its file system, or the time.
    ByMachine,
    /// Of a directory, the file system.
    OfDirectories,
    /// The users that can be had.
    ByUser,
}

impl Field {
    const fn varying(self, varies: Varies) -> Field {
        Field { varies, ..self }
    }

    const fn given(self) -> Field {
        Field { is_given: true, ..self }
    }
}

impl Layout {
    /// Returns the field of a name. For tables that are made when the code is compiled.
    pub const fn field(&self, name: &str) -> &'static Field {
        let mut number = 0;
        while number < self.fields.len() {
            if text::are_equal(self.fields[number].name, name) {
                return &self.fields[number];
            }
            number += 1;
        }
        panic!("the struct has no field of this name")
    }
}

/// Type of a field's value.
#[derive(Clone, Copy)]
pub enum FieldKind {
    /// Signed number of that many bytes.
    Signed(u8),
    /// Unsigned number of that many bytes.
    Unsigned(u8),
    /// Number of that many bytes, shown in hexadecimal.
    Hex(u8),
    /// File mode of that many bytes.
    Mode(u8),
    /// Device number of that many bytes.
    Dev(u8),
    /// Flags in that many bytes.
    Flags(u8, &'static FlagSet),
    /// One value of a list, in that many bytes.
    Enum(u8, &'static FlagSet),
    /// A signed number of that many bytes, some of whose values have names.
    Named(u8, &'static FlagSet),
    /// A 32-bit signal number.
    Signal,
    /// A 32-bit descriptor.
    Fd,
    /// A 64-bit set of signals.
    SigSet,
    /// Text of at most that many bytes, ending at the first NUL.
    Text(u16),
    /// Raw bytes.
    Bytes(u16),
    /// A nested struct.
    Struct(&'static Layout),
    /// That many adjacent fields of one kind.
    Array(u16, &'static FieldKind),
}

/// Creates a layout of `size` bytes.
const fn layout(name: &'static str, size: u32, fields: &'static [Field]) -> Layout {
    Layout { name, size, fields, tail: None }
}

/// Creates a layout that is followed by others.
const fn head(
    name: &'static str,
    size: u32,
    tail: &'static Layout,
    fields: &'static [Field],
) -> Layout {
    Layout { name, size, fields, tail: Some(tail) }
}

/// Creates a field at an offset.
const fn field(offset: u32, name: &'static str, kind: FieldKind) -> Field {
    Field { name, offset, kind, varies: Varies::Never, is_given: false }
}
