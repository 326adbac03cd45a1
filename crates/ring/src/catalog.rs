//! What the supervisor knows about executable files: written by the supervisor, read by all agents.
//!
//! ```text
//! | modules | sites | profiles |
//! ```
//!
//! Programs map it read-only and cannot make it writable: agents generate code from its contents,
//! in programs of any user.

use core::sync::atomic::{AtomicI64, AtomicU32, AtomicU64};

/// A call site that may be patched.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(C)]
pub struct Site {
    /// Offset of the `syscall` instruction in its file.
    pub offset: u32,
    /// Bytes before the `syscall` that the jump replaces: 0, or 5 for a `mov $imm32, %eax`.
    pub before: u8,
    /// Bytes from the `syscall` on that are replaced, including those moved to the stub (at least
    /// 2).
    pub after: u8,
    /// Offset + 1 in the moved bytes of a displacement relative to `%rip`; 0: there is none.
    pub rip_disp: u8,
    /// Offset + 1 in the moved bytes of the end of that instruction; 0: there is none.
    pub rip_end: u8,
    /// Original bytes at `offset - before`, compared before patching.
    pub bytes: [u8; 24],
}

/// An analysed executable file. Its [`Site`]s are sorted by offset.
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
    /// Index of its first site.
    pub first: AtomicU32,
    /// Number of its sites.
    pub count: AtomicU32,
}

/// Maximum number of modules in the table.
pub const MODULES_MAX: usize = 8192;

/// The table of modules; append-only.
#[repr(C)]
pub struct Modules {
    /// Number of modules in use; incremented after a module is complete.
    pub count: AtomicU32,
    /// Number of sites in use.
    pub sites: AtomicU32,
    /// The modules.
    pub modules: [Module; MODULES_MAX],
}

/// Size of modules and sites together.
const FILE_BYTES: usize = 16 << 20;

/// Maximum number of sites in the table.
pub const SITES_MAX: usize = (FILE_BYTES - size_of::<Modules>()) / size_of::<Site>();

/// Sites that processes of one program have used: new processes patch them before they start.
#[repr(C)]
pub struct Profile {
    /// A [`program_id`]; 0: free.
    pub program: AtomicU64,
    /// Indexes in the table of sites, plus one; 0: free.
    pub sites: [AtomicU32; PROFILE_SITES],
}

/// Number of profiles.
pub const PROFILES: usize = 512;
/// Maximum number of sites in a profile.
pub const PROFILE_SITES: usize = 62;
const _: () = assert!(size_of::<Profile>() == 256);

const SITE_BITS: u32 = 20;
const _: () = assert!(SITES_MAX + 1 < 1 << SITE_BITS);

/// Returns the id of a program in profiles, from a hash of its file. Never 0.
pub const fn program_id(hash: u64) -> u64 {
    (hash >> SITE_BITS) | 1
}

/// "This program used this site": fits in one word, which is never 0.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Note {
    /// A [`program_id`].
    pub program: u64,
    /// Index in the table of sites.
    pub site: usize,
}

impl Note {
    /// Encodes the note for the table in an arena.
    pub const fn to_word(self) -> u64 {
        self.program << SITE_BITS | (self.site as u64 + 1)
    }

    /// Decodes a note; `None` if an agent cannot have written the word.
    pub const fn from_word(word: u64) -> Option<Note> {
        let (program, place) = (word >> SITE_BITS, word & ((1 << SITE_BITS) - 1));
        if program == 0 || place == 0 {
            return None;
        }
        Some(Note { program, site: place as usize - 1 })
    }
}

/// Size of a catalog: a multiple of the page size.
pub const CATALOG_BYTES: usize = FILE_BYTES + PROFILES * size_of::<Profile>();
const _: () = assert!(CATALOG_BYTES.is_multiple_of(4096));

/// A mapped catalog. Agents map it read-only.
#[derive(Clone, Copy)]
pub struct Catalog {
    base: *mut u8,
}

// SAFETY: all shared state behind the pointer is atomic, or handed over through atomics.
unsafe impl Send for Catalog {}
// SAFETY: shared references reach only atomics, or memory handed over through atomics.
unsafe impl Sync for Catalog {}

impl Catalog {
    /// # Safety
    /// `base` must point to a mapping of [`CATALOG_BYTES`] bytes, zeroed when created, that
    /// outlives every use of the catalog.
    pub const unsafe fn at(base: *mut u8) -> Catalog {
        Catalog { base }
    }

    /// The module table.
    pub fn modules(&self) -> &'static Modules {
        // SAFETY: the mapping starts with the table of modules.
        unsafe { &*self.base.cast::<Modules>() }
    }

    /// Address of the first site; the sites below `modules().sites` are initialised.
    pub fn sites(&self) -> *mut Site {
        // SAFETY: the mapping holds the sites behind the modules.
        unsafe { self.base.add(size_of::<Modules>()).cast() }
    }

    /// The profiles of programs.
    pub fn profiles(&self) -> &'static [Profile; PROFILES] {
        // SAFETY: the mapping holds the profiles at this offset; they consist of atomics.
        unsafe { &*self.base.add(FILE_BYTES).cast::<[Profile; PROFILES]>() }
    }

    /// The entries in which the profile of a program may be stored.
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
