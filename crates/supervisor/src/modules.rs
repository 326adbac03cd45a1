//! Executable files: which of their `syscall` instructions may be replaced by a jump.
//!
//! A jump takes five bytes, a `syscall` has two. Either the instructions after it move to the
//! stub, or a `mov $number, %eax` before it does. Both only where nothing leads into the bytes
//! that change: direct branches, addresses that the code takes, tables of branch targets and
//! pointers in data are collected first, and what only looks like one counts as one.

use std::fs::File;
use std::io::{Read, Seek, SeekFrom};
use std::sync::atomic::Ordering;

use iced_x86::{Decoder, DecoderOptions, FlowControl, Instruction, Mnemonic, OpKind};
use memchr::memmem;
use object::elf::{DF_TEXTREL, DT_FLAGS, DT_TEXTREL, FileHeader64, PF_X, PT_LOAD};
use object::read::elf::{Dyn, FileHeader, ProgramHeader};
use ring::{Arena, MODULES_MAX, SITES_MAX, Site};

use crate::mappings;

const SYSCALL: [u8; 2] = [0x0f, 0x05];
const JUMP_BYTES: usize = 5;
/// Bytes that may move to a stub.
const MOVED_MAX: usize = 15;
/// Larger files stay unpatched: looking at them takes longer than their calls are worth.
const FILE_MAX: u64 = 128 << 20;
/// Entries of a table of branch targets that are believed.
const TABLE_ENTRIES_MAX: usize = 4096;

/// Analyses a file and adds it to the arena's table, if that has room and lacks it. Only one thread
/// may do so.
pub fn add(arena: &Arena, file: &File) {
    let Ok(meta) = file.metadata() else { return };
    let key @ [dev, ino, mtime_ns, size] = mappings::key_of(&meta);
    let table = arena.modules();
    let count = table.count.load(Ordering::Acquire) as usize;
    let known = table.modules[..count.min(MODULES_MAX)].iter().any(|module| {
        [
            module.dev.load(Ordering::Relaxed),
            module.ino.load(Ordering::Relaxed),
            module.mtime_ns.load(Ordering::Relaxed) as u64,
            module.size.load(Ordering::Relaxed),
        ] == key
    });
    if known || count >= MODULES_MAX {
        return;
    }
    let sites = analyse(file, size);
    let first = (table.sites.load(Ordering::Relaxed) as usize).min(SITES_MAX);
    let room = SITES_MAX - first;
    let sites = &sites[..sites.len().min(room)];
    // SAFETY: the table has room, nobody reads these places until the count is raised.
    unsafe {
        std::ptr::copy_nonoverlapping(sites.as_ptr(), arena.sites().add(first), sites.len());
    }
    let module = &table.modules[count];
    module.ino.store(ino, Ordering::Relaxed);
    module.dev.store(dev, Ordering::Relaxed);
    module.mtime_ns.store(mtime_ns as i64, Ordering::Relaxed);
    module.size.store(size, Ordering::Relaxed);
    module.first.store(first as u32, Ordering::Relaxed);
    module.count.store(sites.len() as u32, Ordering::Relaxed);
    table.sites.store((first + sites.len()) as u32, Ordering::Relaxed);
    table.count.store(count as u32 + 1, Ordering::Release);
}

/// The sites of a file that may be patched, by offset. A file that is no 64-bit ELF has none.
fn analyse(file: &File, len: u64) -> Vec<Site> {
    if len > FILE_MAX {
        return Vec::new();
    }
    let mut bytes = Vec::new();
    let mut reader = file;
    if reader.seek(SeekFrom::Start(0)).is_err() || reader.read_to_end(&mut bytes).is_err() {
        return Vec::new();
    }
    if relocates_text(&bytes).unwrap_or(true) {
        return Vec::new();
    }
    let segments = segments(&bytes).unwrap_or_default();
    let mut sites: Vec<Site> = segments
        .iter()
        .filter(|segment| segment.executable)
        .flat_map(|segment| sites_in(&bytes, &segments, segment))
        .collect();
    sites.sort_by_key(|site| site.offset);
    sites
}

/// Whether the dynamic linker changes the text: then it is not what it will be when it is mapped.
fn relocates_text(file: &[u8]) -> Option<bool> {
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

/// A stretch of the file that is loaded.
#[derive(Clone, Copy)]
struct Segment {
    offset: u64,
    len: u64,
    address: u64,
    executable: bool,
}

impl Segment {
    fn bytes<'a>(&self, file: &'a [u8]) -> &'a [u8] {
        &file[self.offset as usize..(self.offset + self.len) as usize]
    }
}

fn segments(file: &[u8]) -> Option<Vec<Segment>> {
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

/// The patchable sites of one executable segment.
fn sites_in(file: &[u8], segments: &[Segment], segment: &Segment) -> Vec<Site> {
    let text = segment.bytes(file);
    let candidates: Vec<usize> = memmem::find_iter(text, &SYSCALL).collect();
    if candidates.is_empty() {
        return Vec::new();
    }
    let mut sweep = Sweep::over(text, segment.address, &candidates);
    sweep.follow_tables(file, segments);
    sweep.collect_pointers(file);
    candidates
        .into_iter()
        .filter_map(|at| {
            let site = after_form(text, at, &sweep).or_else(|| before_form(text, at, &sweep))?;
            let offset = u32::try_from(segment.offset + at as u64).ok()?;
            Some(Site { offset, ..site })
        })
        .collect()
}

/// Work between two looks whether somebody waits for the processor: the program does, when the
/// thread that waits is one of ours. Some ten microseconds.
const INSTRUCTIONS_AT_ONCE: u32 = 512;
const BYTES_AT_ONCE: usize = 16 << 10;

fn give_way(now: bool) {
    if now {
        std::thread::yield_now();
    }
}

/// Where control may enter the text other than from the instruction before. Addresses are offsets
/// in the segment, as those of the candidates.
struct Sweep {
    base: u64,
    /// The bytes that matter: those around the candidates.
    watched: Bits,
    /// Where branches may lead, among them.
    targets: Bits,
    /// Where `mov $imm32, %eax` instructions begin, among them.
    loads: Bits,
    /// Addresses that the code takes of something outside: tables of branch targets, perhaps.
    taken: Vec<u64>,
}

impl Sweep {
    fn over(text: &[u8], base: u64, candidates: &[usize]) -> Sweep {
        let empty = || Bits::new(text.len());
        let mut sweep =
            Sweep { base, watched: empty(), targets: empty(), loads: empty(), taken: Vec::new() };
        for &at in candidates {
            let end = (at + SYSCALL.len() + MOVED_MAX).min(text.len());
            (at.saturating_sub(JUMP_BYTES)..end).for_each(|near| sweep.watched.set(near));
        }
        let mut decoder = Decoder::with_ip(64, text, base, DecoderOptions::NONE);
        let mut instruction = Instruction::default();
        let mut decoded = 0u32;
        while decoder.can_decode() {
            decoder.decode_out(&mut instruction);
            decoded += 1;
            give_way(decoded.is_multiple_of(INSTRUCTIONS_AT_ONCE));
            if matches!(
                instruction.op0_kind(),
                OpKind::NearBranch64 | OpKind::NearBranch32 | OpKind::NearBranch16
            ) {
                sweep.target(instruction.near_branch_target());
            }
            if instruction.is_ip_rel_memory_operand() {
                let address = instruction.ip_rel_memory_address();
                if !sweep.target(address) && instruction.mnemonic() == Mnemonic::Lea {
                    sweep.taken.push(address);
                }
            }
            let at = (instruction.ip() - base) as usize;
            if text[at] == 0xb8 && instruction.len() == JUMP_BYTES {
                sweep.loads.set(at);
            }
        }
        // Code that the decode saw out of step: any 32-bit branch, wherever it may begin.
        for (at, window) in text.windows(6).enumerate() {
            give_way(at % BYTES_AT_ONCE == 0);
            let (near, conditional) =
                (matches!(window[0], 0xe8 | 0xe9), window[0] == 0x0f && window[1] & 0xf0 == 0x80);
            let from = if near { 1 } else { 2 };
            if near || conditional {
                let end = base + (at + from) as u64 + 4;
                sweep.target(end.wrapping_add_signed(i64::from(i32_at(window, from))));
            }
        }
        sweep
    }

    /// Notes a target, if it is in the text.
    fn target(&mut self, address: u64) -> bool {
        let at = usize::try_from(address.wrapping_sub(self.base)).unwrap_or(usize::MAX);
        let inside = at < self.watched.len;
        if inside && self.watched.get(at) {
            self.targets.set(at);
        }
        inside
    }

    /// Tables of 32-bit distances from their own start: what a `switch` becomes.
    fn follow_tables(&mut self, file: &[u8], segments: &[Segment]) {
        for table in std::mem::take(&mut self.taken) {
            let Some(segment) = segments
                .iter()
                .find(|s| !s.executable && (s.address..s.address + s.len).contains(&table))
            else {
                continue;
            };
            let bytes = &segment.bytes(file)[(table - segment.address) as usize..];
            for entry in bytes.chunks_exact(4).take(TABLE_ENTRIES_MAX) {
                if !self.target(table.wrapping_add_signed(i64::from(i32_at(entry, 0)))) {
                    break;
                }
            }
        }
    }

    /// Absolute addresses of the text, in data or in the addends of relocations.
    fn collect_pointers(&mut self, file: &[u8]) {
        for word in file.chunks_exact(8) {
            self.target(u64::from_le_bytes(word.try_into().expect("eight bytes")));
        }
    }

    /// Whether something leads to one of these bytes.
    fn enters(&self, range: std::ops::Range<usize>) -> bool {
        range.into_iter().any(|at| self.targets.get(at))
    }
}

/// One bit for each byte of a text.
struct Bits {
    words: Vec<u64>,
    len: usize,
}

impl Bits {
    fn new(len: usize) -> Bits {
        Bits { words: vec![0; len.div_ceil(64)], len }
    }

    fn set(&mut self, at: usize) {
        self.words[at / 64] |= 1 << (at % 64);
    }

    fn get(&self, at: usize) -> bool {
        at < self.len && self.words[at / 64] & 1 << (at % 64) != 0
    }
}

fn i32_at(bytes: &[u8], at: usize) -> i32 {
    i32::from_le_bytes(bytes[at..at + 4].try_into().expect("four bytes"))
}

fn known_bytes(text: &[u8], from: usize) -> [u8; 24] {
    let mut bytes = [0; 24];
    let available = text.len().saturating_sub(from).min(24);
    bytes[..available].copy_from_slice(&text[from..from + available]);
    bytes
}

/// The instructions after the `syscall` move.
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

/// The `mov $number, %eax` before the `syscall` moves.
fn before_form(text: &[u8], at: usize, sweep: &Sweep) -> Option<Site> {
    let from = at.checked_sub(JUMP_BYTES)?;
    if !sweep.loads.get(from) || sweep.enters(from + 1..at) {
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
}
