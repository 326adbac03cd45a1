//! What all recorded programs share but cannot write: the agent's image and the catalog.
//!
//! Programs of all users execute the one, and make code of what is in the other. So both belong to
//! the recorder alone, in two forms: as segments that every program may attach read-only, and,
//! where segments cannot be attached, as a sealed file.

use std::fs::File;
use std::os::unix::fs::{FileExt, MetadataExt};

use kin::Mapped;
use ring::{CATALOG_BYTES, Catalog};

use crate::segment::Segment;
use crate::{Error, Image, memory_file};

/// Image and catalog as segments.
pub struct Published {
    pub image: Segment,
    pub catalog: Segment,
}

impl Published {
    pub fn new(image: &Image) -> Result<Published, Error> {
        let (code, catalog) = (Segment::new(image.shared_len)?, Segment::new(CATALOG_BYTES)?);
        // SAFETY: the segment has room for them, and is new.
        unsafe {
            std::ptr::copy_nonoverlapping(image.bytes.as_ptr(), code.at, image.bytes.len());
        }
        code.admit(None, 0o555)?;
        catalog.admit(None, 0o444)?;
        Ok(Published { image: code, catalog })
    }

    /// The catalog, mapped writable for us.
    pub fn catalog(&self) -> Catalog {
        // SAFETY: attached for the life of this process, zeroed when created.
        unsafe { Catalog::at(self.catalog.at) }
    }
}

/// Image and catalog, one behind the other, in a file that can be sent.
pub struct Sendable {
    pub file: File,
    pub catalog: Catalog,
}

impl Sendable {
    pub fn new(image: &Image) -> std::io::Result<Sendable> {
        let offset = image.shared_len;
        let file = memory_file::create(offset + CATALOG_BYTES)?;
        file.write_all_at(&image.bytes, 0)?;
        let at = memory_file::map(&file, offset, CATALOG_BYTES)?;
        memory_file::seal(&file, memory_file::Seal::LengthAndContent)?;
        // SAFETY: the mapping is zeroed, long enough, and never unmapped.
        Ok(Sendable { file, catalog: unsafe { Catalog::at(at) } })
    }

    /// How the file appears in the memory maps of processes.
    pub fn mapped(&self) -> Option<Mapped> {
        Some(Mapped { name: "/memfd:", inode: self.file.metadata().ok()?.ino() })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_ordinary_user_may_execute_and_read_and_not_write() {
        // SAFETY: geteuid takes no arguments and cannot fail.
        let root = unsafe { libc::geteuid() == 0 };
        let published = Published::new(&Image::for_tests(4096)).unwrap();
        let attach = |id: i32, flags: i32| {
            // SAFETY: attaches at a free address and detaches; the memory is not accessed.
            unsafe {
                let at = libc::shmat(id, std::ptr::null(), flags);
                let done = at as isize != -1;
                if done {
                    libc::shmdt(at);
                }
                done
            }
        };
        // SAFETY: the child makes system calls only.
        unsafe {
            let child = libc::fork();
            if child == 0 {
                let as_other = !root || libc::setresuid(65534, 65534, 65534) == 0;
                let (code, catalog) = (published.image.id, published.catalog.id);
                let fine = as_other
                    && attach(code, libc::SHM_RDONLY | libc::SHM_EXEC)
                    && attach(catalog, libc::SHM_RDONLY)
                    && !attach(code, 0)
                    && !attach(code, libc::SHM_EXEC)
                    && !attach(catalog, 0);
                libc::_exit(i32::from(!fine));
            }
            let mut status = 0;
            assert_eq!(libc::waitpid(child, &raw mut status, 0), child);
            assert_eq!(status, 0);
        }
    }
}
