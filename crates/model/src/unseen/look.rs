//! What descriptors of a calling process lead to, and what is in its memory.

use crate::realm;

/// The target of a descriptor.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Opened {
    /// Its path, or its name in /proc.
    pub name: Vec<u8>,
    /// Its kind.
    pub kind: OpenedKind,
}

/// Kind of a descriptor's target.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum OpenedKind {
    /// A file on a disk.
    File,
    /// Shared memory: memfd, SysV segment or /dev/shm.
    Memory,
    /// A pipe, or a socket pair, between recorded processes.
    Pipe,
    /// A socket, a device, a kernel view, or a kernel object without a path.
    Other,
}

impl OpenedKind {
    /// Returns the kind of the target with this path.
    pub fn of_path(path: &[u8]) -> OpenedKind {
        match path {
            _ if realm::is_memory(path) => OpenedKind::Memory,
            [b'/', ..] if realm::is_stored(path) => OpenedKind::File,
            _ => OpenedKind::Other,
        }
    }
}

/// Access to the calling process's descriptors and memory.
pub trait Look {
    /// Returns the target of a descriptor.
    fn opened(&self, fd: i32) -> Option<Opened>;

    /// Returns true if a descriptor can be written to, as far as is known.
    fn is_writable(&self, fd: i32) -> bool;

    /// Returns the path of the process's program, empty if unknown.
    fn program(&self) -> Vec<u8>;

    /// Returns the first bytes of the memory behind an argument.
    fn memory(&mut self, arg: u8, max: usize) -> Option<Vec<u8>>;
}
