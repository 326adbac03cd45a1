//! The memory of a re-executed process.

use std::io;

/// Maximum number of bytes moved at a time.
const PIECE: usize = 1 << 20;

/// The memory of a thread's process.
#[derive(Clone, Copy, Debug)]
pub struct Memory {
    /// A thread of it.
    pub tid: i32,
}

impl Memory {
    /// Reads a range.
    pub fn read(self, at: u64, len: usize) -> io::Result<Vec<u8>> {
        let mut bytes = Vec::new();
        while bytes.len() < len {
            let from = bytes.len();
            bytes.resize(len.min(from + PIECE), 0);
            let piece = &mut bytes[from..];
            let local = libc::iovec { iov_base: piece.as_mut_ptr().cast(), iov_len: piece.len() };
            let remote = remote(at.wrapping_add(from as u64), piece.len());
            // SAFETY: the local range is ours; the other one is checked by the kernel.
            let n = unsafe {
                libc::process_vm_readv(self.tid, &raw const local, 1, &raw const remote, 1, 0)
            };
            check(n, piece.len())?;
        }
        Ok(bytes)
    }

    /// Reads a word.
    pub fn word(self, at: u64) -> io::Result<u64> {
        let bytes = self.read(at, 8)?;
        Ok(u64::from_le_bytes(bytes.try_into().unwrap_or_default()))
    }

    /// Gives the program what a call has stored. Some calls store nothing where they might have, in memory that
    /// cannot be written.
    pub fn give(self, at: u64, bytes: &[u8]) -> io::Result<()> {
        self.write(at, bytes).or_else(|error| match self.read(at, bytes.len()) {
            Ok(there) if there == bytes => Ok(()),
            _ => Err(error),
        })
    }

    /// Writes a range.
    pub fn write(self, at: u64, bytes: &[u8]) -> io::Result<()> {
        for (number, piece) in bytes.chunks(PIECE).enumerate() {
            let base = piece.as_ptr().cast_mut().cast();
            let local = libc::iovec { iov_base: base, iov_len: piece.len() };
            let remote = remote(at.wrapping_add((number * PIECE) as u64), piece.len());
            // SAFETY: the local range is ours and only read; the other one is checked by the kernel.
            let n = unsafe {
                libc::process_vm_writev(self.tid, &raw const local, 1, &raw const remote, 1, 0)
            };
            check(n, piece.len())?;
        }
        Ok(())
    }
}

fn remote(at: u64, len: usize) -> libc::iovec {
    libc::iovec { iov_base: at as *mut libc::c_void, iov_len: len }
}

fn check(n: isize, len: usize) -> io::Result<()> {
    match usize::try_from(n) {
        Err(_) => Err(io::Error::last_os_error()),
        Ok(n) if n == len => Ok(()),
        Ok(_) => Err(io::Error::from_raw_os_error(libc::EFAULT)),
    }
}
