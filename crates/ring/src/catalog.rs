//! What is known about executable files: written by the supervisor, read by every agent.
//!
//! ```text
//! | modules | sites | profiles |
//! ```
//!
//! Programs have it mapped without the right to write, and cannot get that right: agents make code
//! of what stands here, whoever their program's user is.

use core::sync::atomic::{AtomicI64, AtomicU32, AtomicU64};

/// Where a site may be patched.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(C)]
pub struct Site {
    /// Offset of the `syscall` instruction in its file.
    pub offset: u32,
    /// Bytes before the `syscall` that the jump replaces: 0, or 5 for a `mov $imm32, %eax`.
    pub before: u8,
    /// Bytes from the `syscall` on that are replaced (at least 2), those that move to the stub
    /// included.
    pub after: u8,
    /// Position in the moved bytes of a 32-bit displacement relative to the instruction pointer,
    /// and where its instruction ends, each + 1; 0: none.
    pub rip_disp: u8,
    /// See `rip_disp`.
    pub rip_end: u8,
    /// The bytes at `offset - before`, to be sure that nothing has changed.
    pub bytes: [u8; 24],
}

/// What is known about one executable file: the head of a list of [`Site`]s, sorted by offset.
#[repr(C)]
pub struct Module {
    /// Device of the file.
    pub dev: AtomicU64,
    /// Inode of the file.
    pub ino: AtomicU64,
    /// Modification time, nanoseconds.
    pub mtime_ns: AtomicI64,
    /// Size in bytes.
    pub size: AtomicU64,
    /// Index of the first of its sites.
    pub first: AtomicU32,
    /// Number of its sites.
    pub count: AtomicU32,
}

/// Most modules in the table.
pub const MODULES_MAX: usize = 8192;

/// The table of modules; append-only.
#[repr(C)]
pub struct Modules {
    /// Modules in use; raised after a module is complete.
    pub count: AtomicU32,
    /// Sites in use.
    pub sites: AtomicU32,
    /// The modules.
    pub modules: [Module; MODULES_MAX],
}

/// Bytes of modules and sites.
const FILE_BYTES: usize = 16 << 20;

/// Most sites in the table.
pub const SITES_MAX: usize = (FILE_BYTES - size_of::<Modules>()) / size_of::<Site>();

/// Sites that one program's images met: the next one patches them before it starts.
#[repr(C)]
pub struct Profile {
    /// A [`program_id`]; 0: free.
    pub program: AtomicU64,
    /// Places in the table of sites, plus one; 0: free.
    pub sites: [AtomicU32; PROFILE_SITES],
}

/// Programs that have a profile.
pub const PROFILES: usize = 512;
/// Most sites in a profile.
pub const PROFILE_SITES: usize = 62;
const _: () = assert!(size_of::<Profile>() == 256);

const SITE_BITS: u32 = 20;
const _: () = assert!(SITES_MAX + 1 < 1 << SITE_BITS);

/// What profiles know a program by, given a hash of its file. Never 0.
pub const fn program_id(hash: u64) -> u64 {
    (hash >> SITE_BITS) | 1
}

/// "This program met this site", in one word that is never 0.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Note {
    /// A [`program_id`].
    pub program: u64,
    /// A place in the table of sites.
    pub site: usize,
}

impl Note {
    /// As agents leave it in their arena.
    pub const fn to_word(self) -> u64 {
        self.program << SITE_BITS | (self.site as u64 + 1)
    }

    /// `None`: no agent wrote that.
    pub const fn from_word(word: u64) -> Option<Note> {
        let (program, place) = (word >> SITE_BITS, word & ((1 << SITE_BITS) - 1));
        if program == 0 || place == 0 {
            return None;
        }
        Some(Note { program, site: place as usize - 1 })
    }
}

/// Bytes of a catalog: whole pages.
pub const CATALOG_BYTES: usize = FILE_BYTES + PROFILES * size_of::<Profile>();
const _: () = assert!(CATALOG_BYTES.is_multiple_of(4096));

/// A catalog that is mapped, for agents without the right to write.
#[derive(Clone, Copy)]
pub struct Catalog {
    base: *mut u8,
}

// SAFETY: all shared state behind the pointer is atomic, or handed over through atomics.
unsafe impl Send for Catalog {}
// SAFETY: as above.
unsafe impl Sync for Catalog {}

impl Catalog {
    /// # Safety
    /// `base` must point to a mapping of [`CATALOG_BYTES`] bytes, zeroed when created, that outlives
    /// every use of the catalog.
    pub const unsafe fn at(base: *mut u8) -> Catalog {
        Catalog { base }
    }

    /// The module table.
    pub fn modules(&self) -> &'static Modules {
        // SAFETY: the mapping holds the table.
        unsafe { &*self.base.cast::<Modules>() }
    }

    /// The first site; those below `modules().sites` are initialised.
    pub fn sites(&self) -> *mut Site {
        // SAFETY: the mapping holds the table.
        unsafe { self.base.add(size_of::<Modules>()).cast() }
    }

    /// The profiles of programs.
    pub fn profiles(&self) -> &'static [Profile; PROFILES] {
        // SAFETY: the mapping holds them.
        unsafe { &*self.base.add(FILE_BYTES).cast::<[Profile; PROFILES]>() }
    }

    /// Where a program's profile may stand.
    pub fn places_for(&self, program: u64) -> impl Iterator<Item = &'static Profile> + use<> {
        const PROBES: u64 = 8;
        let profiles = self.profiles();
        (program..program + PROBES).map(|at| &profiles[at as usize % PROFILES])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn notes_come_out_as_they_went_in() {
        for (hash, site) in [(1, 0), (u64::MAX, SITES_MAX - 1), (0x1234_5678_9abc_def1, 77)] {
            let note = Note { program: program_id(hash), site };
            assert_eq!(Note::from_word(note.to_word()), Some(note));
        }
        for word in [0, 5, 1 << 20] {
            assert_eq!(Note::from_word(word), None);
        }
    }
}
