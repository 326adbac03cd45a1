//! Executable files: which of their `syscall` instructions may be replaced by a jump.
//!
//! A jump takes five bytes, a `syscall` has two. Either the instructions after it move to the stub,
//! or a `mov $number, %eax` before it does; both only if nothing leads into the bytes that change.
//! Direct branches, addresses that the code takes, tables of branch targets and pointers in data
//! are collected first; whatever looks like one counts as one.

use std::fs::File;
use std::io::{Read, Seek, SeekFrom};
use std::sync::atomic::Ordering;

use iced_x86::{Decoder, DecoderOptions, FlowControl};
use memchr::memmem;
use ring::{Catalog, MODULES_MAX, SITES_MAX, Site};

use crate::mappings;
use segments::{Segment, relocates_text, segments};
use sweep::{JUMP_BYTES, MOVED_MAX, SYSCALL, Sweep};

mod segments;
mod sweep;
mod untold;

pub use untold::{Untold, untold};

/// Larger files stay unpatched: analysing them takes longer than patching saves.
const FILE_MAX: u64 = 128 << 20;

/// Whether catalogs of equal content lack a file, and have room for it.
pub fn has_room_for(catalogs: &[Catalog], key: mappings::Key) -> bool {
    let Some(first) = catalogs.first() else { return false };
    let table = first.modules();
    let count = table.count.load(Ordering::Acquire) as usize;
    let known = table.modules[..count.min(MODULES_MAX)].iter().any(|module| {
        [
            module.dev.load(Ordering::Relaxed),
            module.ino.load(Ordering::Relaxed),
            module.mtime_ns.load(Ordering::Relaxed) as u64,
            module.size.load(Ordering::Relaxed),
        ] == key
    });
    !known && count < MODULES_MAX
}

/// Analyses the bytes of a file and adds its sites to all catalogs that have room. Must only be
/// called by one thread.
pub fn add(catalogs: &[Catalog], key: mappings::Key, bytes: &[u8]) {
    let sites = analyse(bytes);
    catalogs.iter().for_each(|catalog| append(catalog, key, &sites));
}

/// Reads a file, if it is not too long.
pub fn read(mut file: &File, [.., size]: mappings::Key) -> Option<Vec<u8>> {
    if size > FILE_MAX {
        return None;
    }
    let mut bytes = Vec::new();
    file.seek(SeekFrom::Start(0)).ok()?;
    // The file may grow meanwhile.
    file.take(size).read_to_end(&mut bytes).ok()?;
    Some(bytes)
}

/// Copies the modules of a catalog to an empty one. Must only be called by the thread that adds.
pub fn copy(from: &Catalog, to: &Catalog) {
    let table = from.modules();
    let count = (table.count.load(Ordering::Acquire) as usize).min(MODULES_MAX);
    for module in &table.modules[..count] {
        let key = [
            module.dev.load(Ordering::Relaxed),
            module.ino.load(Ordering::Relaxed),
            module.mtime_ns.load(Ordering::Relaxed) as u64,
            module.size.load(Ordering::Relaxed),
        ];
        let (first, sites) =
            (module.first.load(Ordering::Relaxed), module.count.load(Ordering::Relaxed));
        // SAFETY: the sites of a module in the table are initialised, and only this thread writes.
        let sites =
            unsafe { std::slice::from_raw_parts(from.sites().add(first as usize), sites as usize) };
        append(to, key, sites);
    }
}

fn append(catalog: &Catalog, [dev, ino, mtime_ns, size]: [u64; 4], sites: &[Site]) {
    let table = catalog.modules();
    let count = table.count.load(Ordering::Relaxed) as usize;
    let first = (table.sites.load(Ordering::Relaxed) as usize).min(SITES_MAX);
    let room = SITES_MAX - first;
    let sites = &sites[..sites.len().min(room)];
    // SAFETY: the table has room, and these places are not read until the count is raised.
    unsafe {
        std::ptr::copy_nonoverlapping(sites.as_ptr(), catalog.sites().add(first), sites.len());
    }
    let Some(module) = table.modules.get(count) else { return };
    module.ino.store(ino, Ordering::Relaxed);
    module.dev.store(dev, Ordering::Relaxed);
    module.mtime_ns.store(mtime_ns as i64, Ordering::Relaxed);
    module.size.store(size, Ordering::Relaxed);
    module.first.store(first as u32, Ordering::Relaxed);
    module.count.store(sites.len() as u32, Ordering::Relaxed);
    table.sites.store((first + sites.len()) as u32, Ordering::Relaxed);
    table.count.store(count as u32 + 1, Ordering::Release);
}

/// The patchable sites of a file, by offset. A file that is not a 64-bit ELF file has none.
fn analyse(bytes: &[u8]) -> Vec<Site> {
    if relocates_text(bytes).unwrap_or(true) {
        return Vec::new();
    }
    let segments = segments(bytes).unwrap_or_default();
    let mut sites: Vec<Site> = segments
        .iter()
        .filter(|segment| segment.executable)
        .flat_map(|segment| sites_in(bytes, &segments, segment))
        .collect();
    sites.sort_by_key(|site| site.offset);
    sites
}

/// The patchable sites of one executable segment.
fn sites_in(file: &[u8], segments: &[Segment], segment: &Segment) -> Vec<Site> {
    let text = segment.bytes(file);
    let candidates: Vec<usize> = memmem::find_iter(text, &SYSCALL).collect();
    if candidates.is_empty() {
        return Vec::new();
    }
    let Some(sweep) = Sweep::over(file, segments, segment, &candidates) else { return Vec::new() };
    candidates
        .into_iter()
        .filter_map(|at| {
            let site = after_form(text, at, &sweep).or_else(|| before_form(text, at, &sweep))?;
            let offset = u32::try_from(segment.offset + at as u64).ok()?;
            Some(Site { offset, ..site })
        })
        .collect()
}

fn known_bytes(text: &[u8], from: usize) -> [u8; 24] {
    let mut bytes = [0; 24];
    let available = text.len().saturating_sub(from).min(24);
    bytes[..available].copy_from_slice(&text[from..from + available]);
    bytes
}

/// The form in which the instructions after the `syscall` move.
fn after_form(text: &[u8], at: usize, sweep: &Sweep) -> Option<Site> {
    let from = at + SYSCALL.len();
    let end = (from + MOVED_MAX).min(text.len());
    let mut decoder = Decoder::with_ip(64, &text[from..end], from as u64, DecoderOptions::NONE);
    let mut moved = 0;
    let (mut rip_disp, mut rip_end) = (0, 0);
    while SYSCALL.len() + moved < JUMP_BYTES {
        let instruction = decoder.decode();
        if instruction.is_invalid()
            || instruction.flow_control() != FlowControl::Next
            || instruction.is_privileged()
        {
            return None;
        }
        if instruction.is_ip_rel_memory_operand() {
            let constants = decoder.get_constant_offsets(&instruction);
            if rip_disp != 0 || constants.displacement_size() != 4 {
                return None;
            }
            rip_disp = (moved + constants.displacement_offset() + 1) as u8;
            rip_end = (moved + instruction.len() + 1) as u8;
        }
        moved += instruction.len();
    }
    let after = SYSCALL.len() + moved;
    if sweep.enters(at + 1..at + after) {
        return None;
    }
    Some(Site {
        offset: 0,
        before: 0,
        after: after as u8,
        rip_disp,
        rip_end,
        bytes: known_bytes(text, at),
    })
}

/// The form in which the `mov $number, %eax` before the `syscall` moves.
fn before_form(text: &[u8], at: usize, sweep: &Sweep) -> Option<Site> {
    let from = at.checked_sub(JUMP_BYTES)?;
    if !sweep.is_load(from) || sweep.enters(from + 1..at) {
        return None;
    }
    Some(Site {
        offset: 0,
        before: JUMP_BYTES as u8,
        after: SYSCALL.len() as u8,
        rip_disp: 0,
        rip_end: 0,
        bytes: known_bytes(text, from),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn one(text: &[u8]) -> Option<Site> {
        let mut file = vec![0xcc; 0x1000];
        file.extend(text);
        let len = text.len() as u64;
        let segment = Segment { offset: 0x1000, len, address: 0x40_1000, executable: true };
        let sites = sites_in(&file, &[segment], &segment);
        assert!(sites.len() <= 1);
        sites.first().copied()
    }

    #[test]
    fn the_instruction_after_moves() {
        // syscall; cmp $-4095, %rax; ret
        let site = one(&[0x0f, 0x05, 0x48, 0x3d, 0x01, 0xf0, 0xff, 0xff, 0xc3]).unwrap();
        assert_eq!((site.offset, site.before, site.after), (0x1000, 0, 8));
    }

    #[test]
    fn several_short_instructions_move() {
        // syscall; push %rax; pop %rbx; push %rcx; ret
        let site = one(&[0x0f, 0x05, 0x50, 0x5b, 0x51, 0xc3]).unwrap();
        assert_eq!((site.before, site.after), (0, 5));
    }

    #[test]
    fn a_branch_into_the_bytes_forbids_it() {
        // jmp to the cmp; syscall; cmp; ret
        let text = [0xeb, 0x02, 0x0f, 0x05, 0x48, 0x3d, 0x01, 0xf0, 0xff, 0xff, 0xc3];
        assert_eq!(one(&text), None);
    }

    #[test]
    fn an_address_taken_of_the_bytes_forbids_it() {
        // lea of the cmp; syscall; cmp; ret
        let lea = [0x48, 0x8d, 0x05, 2, 0, 0, 0];
        let rest = [0x0f, 0x05, 0x48, 0x3d, 0x01, 0xf0, 0xff, 0xff, 0xc3];
        assert_eq!(one(&[&lea[..], &rest[..]].concat()), None);
    }

    #[test]
    fn the_load_before_moves_when_nothing_after_can() {
        // mov $39, %eax; syscall; ret
        let site = one(&[0xb8, 39, 0, 0, 0, 0x0f, 0x05, 0xc3, 0x90, 0x90]).unwrap();
        assert_eq!((site.offset, site.before, site.after), (0x1005, 5, 2));
    }

    #[test]
    fn a_load_of_another_register_does_not_count() {
        // mov $39, %r8d; syscall; ret
        assert_eq!(one(&[0x41, 0xb8, 39, 0, 0, 0, 0x0f, 0x05, 0xc3, 0x90]), None);
    }

    #[test]
    fn addresses_relative_to_the_instruction_are_told() {
        // syscall; mov %eax, 16(%rip); ret
        let site = one(&[0x0f, 0x05, 0x89, 0x05, 0x10, 0, 0, 0, 0xc3]).unwrap();
        assert_eq!((site.rip_disp, site.rip_end, site.after), (3, 7, 8));
    }

    #[test]
    fn a_constant_behind_an_address_is_counted_in() {
        // cmpl $imm32, of the cmp; syscall; cmp; ret
        let rest = [0x0f, 0x05, 0x48, 0x3d, 0x01, 0xf0, 0xff, 0xff, 0xc3];
        let compare = [0x81, 0x3d, 2, 0, 0, 0, 1, 2, 3, 4];
        assert_eq!(one(&[&compare[..], &rest[..]].concat()), None);
        // movb $imm8, of the cmp
        let store = [0xc6, 0x05, 2, 0, 0, 0, 1];
        assert_eq!(one(&[&store[..], &rest[..]].concat()), None);
    }

    #[test]
    fn a_distant_branch_into_the_bytes_forbids_it_wherever_it_stands() {
        let rest = [0x0f, 0x05, 0x48, 0x3d, 0x01, 0xf0, 0xff, 0xff, 0xc3];
        let distance = 0x1000_u32;
        for branch in [&[0xe8][..], &[0xe9], &[0x0f, 0x84], &[0xc7, 0xf8]] {
            let behind = [0xcc].repeat(distance as usize - branch.len() - 4);
            let text =
                [branch, &(distance - branch.len() as u32 - 2).to_le_bytes(), &behind, &rest];
            assert_eq!(one(&text.concat()), None, "{branch:x?}");
            let beyond = [branch, &(distance + 32).to_le_bytes(), &behind, &rest].concat();
            assert!(one(&beyond).is_some(), "{branch:x?}");
        }
    }

    #[test]
    fn constants_that_are_compared_lead_nowhere() {
        // syscall; cmp; 4 KiB of int3; syscall; cmp: the second constant leads to the first cmp.
        let rest = [0x0f, 0x05, 0x48, 0x3d, 0x01, 0xf0, 0xff, 0xff, 0xc3];
        let between = [0xcc].repeat(0x1000 - 9 - 6);
        let text = [&rest[..], &between, &rest].concat();
        let mut file = vec![0xcc; 0x1000];
        file.extend(&text);
        let segment = Segment {
            offset: 0x1000,
            len: text.len() as u64,
            address: 0x40_1000,
            executable: true,
        };
        assert_eq!(sites_in(&file, &[segment], &segment).len(), 2);
    }

    #[test]
    fn a_distance_of_two_bytes_counts() {
        // xbegin of the cmp, 4 KiB before: syscall; cmp; ret
        let rest = [0x0f, 0x05, 0x48, 0x3d, 0x01, 0xf0, 0xff, 0xff, 0xc3];
        let behind = [0xcc].repeat(0x1000 - 5);
        assert_eq!(one(&[&[0x66, 0xc7, 0xf8, 0xfd, 0x0f], &behind[..], &rest].concat()), None);
        assert!(one(&[&[0x66, 0xc7, 0xf8, 0x20, 0x10], &behind[..], &rest].concat()).is_some());
    }

    #[test]
    fn a_text_made_of_addresses_is_given_up() {
        let text = [
            &[0x0f, 0x05, 0x48, 0x3d, 0x01, 0xf0, 0xff, 0xff, 0xc3][..],
            &[0x8d, 5].repeat(9 << 20),
        ]
        .concat();
        assert_eq!(one(&text), None);
    }
}
