//! Meaning of a mapping call's arguments (`Act::Map`) for the file behind it.

use crate::abi::memory::{
    MAP_ANONYMOUS, MAP_DENYWRITE, MAP_SHARED, MAP_SHARED_VALIDATE, MAP_TYPE, PROT_EXEC, PROT_WRITE,
};

/// A mapping, as requested by the arguments of the call.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Mapping {
    /// The descriptor of the file; `None` for anonymous memory.
    pub fd: Option<i32>,
    /// Length in bytes.
    pub length: u64,
    /// Stores are visible to other processes, and in the file.
    pub is_shared: bool,
    /// The program may write to it.
    pub is_writable: bool,
    /// The program may execute it.
    pub is_executable: bool,
    /// It is a part of a program or library.
    pub is_of_program: bool,
}

impl Mapping {
    /// Decodes the arguments of a mapping call.
    pub fn of(args: &[u64; 6]) -> Mapping {
        let [_, length, protection, flags, fd, _] = *args;
        let is_shared = matches!(flags & MAP_TYPE, MAP_SHARED | MAP_SHARED_VALIDATE);
        let fd = Some(fd as i32).filter(|fd| flags & MAP_ANONYMOUS == 0 && *fd >= 0);
        Mapping {
            fd,
            length,
            is_shared,
            is_writable: Mapping::allows_stores(protection),
            is_executable: protection & PROT_EXEC != 0,
            is_of_program: flags & MAP_DENYWRITE != 0,
        }
    }

    /// Returns true if memory with this protection may be written to.
    pub fn allows_stores(protection: u64) -> bool {
        protection & PROT_WRITE != 0
    }

    /// Returns true if a file is mapped to be read.
    pub fn is_data(&self) -> bool {
        self.fd.is_some() && !self.is_executable && !self.is_of_program
    }

    /// Returns true if a program or library is mapped.
    pub fn is_code(&self) -> bool {
        self.fd.is_some() && !self.is_data()
    }

    /// Returns true if writing to the mapping would change the file, now or once it is writable.
    pub fn may_change_file(&self) -> bool {
        self.is_shared && self.fd.is_some()
    }

    /// Returns true if writing to the mapping changes the file.
    pub fn changes_file(&self) -> bool {
        self.is_shared && self.is_writable && self.fd.is_some()
    }
}

#[cfg(test)]
mod tests {
    use super::Mapping;

    #[test]
    fn what_is_stored_reaches_the_file() {
        let changes = |protection, flags, fd| {
            Mapping::of(&[0, 4096, protection, flags, fd, 0]).changes_file()
        };
        assert!(changes(3, 1, 4) && changes(2, 3, 0) && changes(3, 0x8001, 4));
        assert!(!changes(1, 1, 4), "not writable");
        assert!(!changes(3, 2, 4), "private");
        assert!(!changes(3, 0x21, 4), "plain memory");
        assert!(!changes(3, 1, u64::MAX), "no file");
    }
}
