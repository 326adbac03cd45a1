//! Parts of an ELF file that are loaded.

use object::elf::{DF_TEXTREL, DT_FLAGS, DT_TEXTREL, FileHeader64, PF_X, PT_LOAD};
use object::read::elf::{Dyn, FileHeader, ProgramHeader};

/// Whether the dynamic linker changes the text, which then differs from the file when mapped.
pub fn relocates_text(file: &[u8]) -> Option<bool> {
    let header = FileHeader64::<object::Endianness>::parse(file).ok()?;
    let endian = header.endian().ok()?;
    for segment in header.program_headers(endian, file).ok()? {
        let Some(entries) = segment.dynamic(endian, file).ok()? else { continue };
        let told = entries.iter().any(|entry| {
            let value = entry.val32(endian).unwrap_or(0);
            match entry.tag32(endian) {
                Some(DT_TEXTREL) => true,
                Some(DT_FLAGS) => value & DF_TEXTREL != 0,
                _ => false,
            }
        });
        return Some(told);
    }
    Some(false)
}

/// A part of the file that is loaded.
#[derive(Clone, Copy)]
pub struct Segment {
    /// Where it begins in the file.
    pub offset: u64,
    /// Its bytes in the file.
    pub len: u64,
    /// Where it is loaded.
    pub address: u64,
    /// Whether it may be executed.
    pub executable: bool,
}

impl Segment {
    /// Its bytes.
    pub fn bytes<'a>(&self, file: &'a [u8]) -> &'a [u8] {
        &file[self.offset as usize..(self.offset + self.len) as usize]
    }
}

/// The segments of a file that are loaded.
pub fn segments(file: &[u8]) -> Option<Vec<Segment>> {
    let header = FileHeader64::<object::Endianness>::parse(file).ok()?;
    let endian = header.endian().ok()?;
    let segments = header
        .program_headers(endian, file)
        .ok()?
        .iter()
        .filter(|segment| segment.p_type(endian) == PT_LOAD)
        .map(|segment| Segment {
            offset: segment.p_offset(endian),
            len: segment.p_filesz(endian),
            address: segment.p_vaddr(endian),
            executable: segment.p_flags(endian) & PF_X != 0,
        })
        .filter(|s| s.offset.checked_add(s.len).is_some_and(|end| end <= file.len() as u64))
        .collect();
    Some(segments)
}
