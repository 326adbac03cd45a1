//! Files in memory, which are sent to programs that cannot attach System V segments.

use std::fs::File;
use std::io;
use std::os::fd::{AsRawFd, FromRawFd};

/// Creates a file of zeros.
pub fn create(len: usize) -> io::Result<File> {
    if len as u64 > file_size_limit() {
        return Err(io::Error::from_raw_os_error(libc::EFBIG)); // otherwise SIGXFSZ
    }
    let create = |flags| {
        // SAFETY: the name ends with NUL, and nothing else owns the new descriptor.
        unsafe {
            let fd = libc::memfd_create(c"reenact".as_ptr(), flags);
            if fd < 0 { Err(io::Error::last_os_error()) } else { Ok(File::from_raw_fd(fd)) }
        }
    };
    let flags = libc::MFD_CLOEXEC | libc::MFD_ALLOW_SEALING;
    // It may be mapped for execution, whatever the system's default is. Kernels before 6.3 do not have
    // that flag, and do not need it.
    let file = create(flags | libc::MFD_EXEC).or_else(|_| create(flags))?;
    file.set_len(len as u64)?;
    Ok(file)
}

/// Maps a part of a file for reading and writing, for the life of this process.
pub fn map(file: &File, offset: usize, len: usize) -> io::Result<*mut u8> {
    // SAFETY: a new mapping at an address that the kernel chooses overwrites nothing.
    let at = unsafe {
        let prot = libc::PROT_READ | libc::PROT_WRITE;
        let flags = libc::MAP_SHARED | libc::MAP_NORESERVE;
        libc::mmap(std::ptr::null_mut(), len, prot, flags, file.as_raw_fd(), offset as i64)
    };
    if at == libc::MAP_FAILED { Err(io::Error::last_os_error()) } else { Ok(at.cast()) }
}

/// What a seal forbids.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Seal {
    /// Changing the length: a mapping then never loses pages.
    Length,
    /// Also writing, except through existing mappings.
    LengthAndContent,
}

/// Seals a file for good.
pub fn seal(file: &File, seal: Seal) -> io::Result<()> {
    let length = libc::F_SEAL_SHRINK | libc::F_SEAL_GROW | libc::F_SEAL_SEAL;
    let content = if seal == Seal::Length { 0 } else { libc::F_SEAL_FUTURE_WRITE };
    // SAFETY: takes numbers only, and the descriptor is open.
    let done = unsafe { libc::fcntl(file.as_raw_fd(), libc::F_ADD_SEALS, length | content) };
    if done == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

fn file_size_limit() -> u64 {
    // SAFETY: the kernel fills a local struct of two numbers.
    unsafe {
        let mut limit: libc::rlimit = std::mem::zeroed();
        libc::getrlimit(libc::RLIMIT_FSIZE, &raw mut limit);
        limit.rlim_cur
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::FileExt;

    use super::*;

    #[test]
    fn sealed_it_can_be_written_by_who_has_mapped_it_and_nobody_else() {
        let file = create(8192).unwrap();
        file.write_all_at(b"code", 0).unwrap();
        let ours = map(&file, 4096, 4096).unwrap();
        seal(&file, Seal::LengthAndContent).unwrap();
        assert!(file.write_all_at(b"evil", 0).is_err());
        assert!(file.set_len(4096).is_err() && file.set_len(16384).is_err());
        assert!(map(&file, 0, 8192).is_err());
        // SAFETY: `ours` is a writable mapping of 4096 bytes.
        unsafe { ours.write(7) };
        let mut seen = [0];
        file.read_exact_at(&mut seen, 4096).unwrap();
        assert_eq!(seen, [7]);
    }

    #[test]
    fn what_is_mapped_to_be_read_cannot_be_made_writable() {
        let file = create(4096).unwrap();
        seal(&file, Seal::LengthAndContent).unwrap();
        // SAFETY: nothing else uses this mapping.
        unsafe {
            let (shared, fd) = (libc::MAP_SHARED, file.as_raw_fd());
            let at = libc::mmap(std::ptr::null_mut(), 4096, libc::PROT_READ, shared, fd, 0);
            assert_ne!(at, libc::MAP_FAILED);
            let both = libc::PROT_READ | libc::PROT_WRITE;
            assert_eq!(libc::mprotect(at, 4096, both), -1);
            // With an old size of 0, mremap copies a shared mapping.
            let copy = libc::mremap(at, 0, 4096, libc::MREMAP_MAYMOVE);
            assert!(copy == libc::MAP_FAILED || libc::mprotect(copy, 4096, both) == -1);
        }
    }
}
