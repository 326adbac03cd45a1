//! Finds where control may enter a text other than from the instruction before.
//!
//! Only the bytes around `syscall` instructions matter. The text is decoded there, and somewhat
//! before so that the decoder is in step: branches with one-byte distances reach no further. All
//! others hold a distance of four bytes, and every four bytes that look like one count.

use std::ops::Range;

use iced_x86::{Decoder, DecoderOptions, Instruction, OpKind};

use super::segments::Segment;

/// The instruction itself.
pub const SYSCALL: [u8; 2] = [0x0f, 0x05];
/// Bytes of the jump that replaces it.
pub const JUMP_BYTES: usize = 5;
/// Maximum number of bytes that move to a stub.
pub const MOVED_MAX: usize = 15;

/// Reach of a branch with a one-byte distance, its own length included.
const SHORT_REACH: usize = 130;
/// Bytes after which a decoder that began anywhere is in step.
const STEP_BYTES: usize = 256;
/// Maximum number of entries followed in one table of branch targets.
const TABLE_ENTRIES_MAX: usize = 4096;
/// Maximum entries of all tables, and addresses that may be tables: beyond, nothing is patched.
const ENTRIES_MAX: usize = 32 << 20;
const TAKEN_MAX: usize = 8 << 20;

/// Work between two yields, some ten microseconds: if another thread of ours waits for the
/// processor, the program may be waiting for that thread.
const INSTRUCTIONS_AT_ONCE: u32 = 512;
const BYTES_AT_ONCE: usize = 16 << 10;
const TABLES_AT_ONCE: usize = 256;

fn give_way(now: bool) {
    if now {
        std::thread::yield_now();
    }
}

/// What was found in the text of a segment. Places are offsets in the text, as for candidates.
pub struct Sweep {
    base: u64,
    /// The relevant bytes: those around the candidates.
    watched: Bits,
    /// Relevant bytes at which control may enter.
    targets: Bits,
    /// Relevant bytes at which `mov $imm32, %eax` instructions begin.
    loads: Bits,
    /// Addresses outside the text that the code takes: possible tables of branch targets.
    taken: Vec<u64>,
}

impl Sweep {
    /// Looks at everything that may lead to the bytes around the candidates, which are sorted.
    /// `None` if that takes longer than patching would save.
    pub fn over(
        file: &[u8],
        segments: &[Segment],
        segment: &Segment,
        candidates: &[usize],
    ) -> Option<Sweep> {
        let text = segment.bytes(file);
        let empty = || Bits::new(text.len());
        let mut sweep = Sweep {
            base: segment.address,
            watched: empty(),
            targets: empty(),
            loads: empty(),
            taken: Vec::new(),
        };
        for &at in candidates {
            let end = (at + SYSCALL.len() + MOVED_MAX).min(text.len());
            (at.saturating_sub(JUMP_BYTES)..end).for_each(|near| sweep.watched.set(near));
        }
        let mut decoded = 0;
        for stretch in stretches(candidates, text.len()) {
            sweep.decode(text, stretch, &mut decoded);
        }
        sweep.collect_distances(text);
        if sweep.taken.len() > TAKEN_MAX || !sweep.follow_tables(file, segments) {
            return None;
        }
        sweep.collect_pointers(file);
        Some(sweep)
    }

    /// Whether a `mov $imm32, %eax` begins at this offset.
    pub fn is_load(&self, at: usize) -> bool {
        self.loads.get(at)
    }

    /// Whether control may enter at one of these bytes.
    pub fn enters(&self, range: Range<usize>) -> bool {
        range.into_iter().any(|at| self.targets.get(at))
    }

    /// Decodes a stretch for short branches and loads of `%eax`.
    fn decode(&mut self, text: &[u8], stretch: Range<usize>, decoded: &mut u32) {
        let ip = self.base.wrapping_add(stretch.start as u64);
        let mut decoder = Decoder::with_ip(64, &text[stretch], ip, DecoderOptions::NONE);
        let mut instruction = Instruction::default();
        while decoder.can_decode() {
            decoder.decode_out(&mut instruction);
            *decoded += 1;
            give_way(decoded.is_multiple_of(INSTRUCTIONS_AT_ONCE));
            if matches!(
                instruction.op0_kind(),
                OpKind::NearBranch64 | OpKind::NearBranch32 | OpKind::NearBranch16
            ) {
                self.target(instruction.near_branch_target());
            }
            let at = instruction.ip().wrapping_sub(self.base) as usize;
            if text[at] == 0xb8 && instruction.len() == JUMP_BYTES {
                self.loads.set(at);
            }
        }
    }

    /// Collects four-byte distances: in branches, and after a ModRM byte for a %rip-relative
    /// operand. That distance is to the instruction's end, and a constant may follow it.
    fn collect_distances(&mut self, text: &[u8]) {
        let end = text.len().saturating_sub(1);
        for start in (0..end).step_by(BYTES_AT_ONCE) {
            give_way(true);
            for from in start..end.min(start + BYTES_AT_ONCE) {
                let looks = LOOKS_LIKE[usize::from(text[from])];
                if looks != Looks::Nothing {
                    self.distance(text, from, looks);
                }
            }
        }
    }

    fn distance(&mut self, text: &[u8], from: usize, looks: Looks) {
        let at = match (looks, text[from + 1]) {
            (Looks::Branch | Looks::Relative, _) => from + 1,
            (Looks::Conditional, 0x80..=0x8f) | (Looks::Transaction, 0xf8) => from + 2,
            _ => return,
        };
        let end = |bytes: usize| self.base.wrapping_add((at + bytes) as u64);
        let (after_two, after_four) = (end(2), end(4));
        if looks == Looks::Transaction
            && let Some(&[low, high]) = text.get(at..at + 2)
        {
            // With an operand-size prefix, `xbegin` holds a two-byte distance.
            let distance = i16::from_le_bytes([low, high]);
            self.target(after_two.wrapping_add_signed(distance.into()));
        }
        let Some(distance) = text.get(at..at + 4) else { return };
        let address = after_four.wrapping_add_signed(i64::from(i32_at(distance, 0)));
        if looks == Looks::Relative {
            self.operand(&text[..from], address);
        } else {
            self.target(address);
        }
    }

    /// Handles a possible %rip-relative operand; `before` ends with the instruction's first bytes.
    /// `address` is right if no constant follows the distance.
    fn operand(&mut self, before: &[u8], address: u64) {
        const LEA: u8 = 0x8d;
        const WIDE: u8 = 0x48;
        let opcode = match before {
            // VEX, XOP and EVEX prefixes: the bytes excluded below are ordinary opcodes here.
            [.., 0xc4 | 0x8f, _, _, opcode] | [.., 0x62, _, _, _, opcode] => *opcode,
            // No ModRM byte: arithmetic of %rax with a constant, or of %eax right after a
            // `syscall`; both are common here.
            [.., first, WIDE] if *first != 0x0f => return,
            [.., 0x0f, 0x05] => return,
            [.., opcode] => *opcode,
            [] => return,
        };
        let inside = self.target(address);
        self.target(address.wrapping_add(1));
        // The only opcodes with constants of two or four bytes; the first two are of the XOP map.
        if matches!(opcode, 0x10 | 0x12 | 0x69 | 0x81 | 0xc7 | 0xf7) {
            self.target(address.wrapping_add(2));
            self.target(address.wrapping_add(4));
        }
        if opcode == LEA && !inside && self.taken.len() <= TAKEN_MAX {
            self.taken.push(address);
        }
    }

    /// Notes a target if it is relevant. Returns whether it is in the text.
    fn target(&mut self, address: u64) -> bool {
        let at = usize::try_from(address.wrapping_sub(self.base)).unwrap_or(usize::MAX);
        let inside = at < self.watched.len;
        if inside && self.watched.get(at) {
            self.targets.set(at);
        }
        inside
    }

    /// Follows tables of 32-bit distances from their own start, which compilers make for `switch`.
    /// False if there are more entries than in any real program.
    fn follow_tables(&mut self, file: &[u8], segments: &[Segment]) -> bool {
        let mut tables = std::mem::take(&mut self.taken);
        tables.sort_unstable();
        tables.dedup();
        let mut entries = 0;
        for (number, table) in tables.into_iter().enumerate() {
            give_way(number.is_multiple_of(TABLES_AT_ONCE));
            let within = |segment: &&Segment| {
                table.checked_sub(segment.address).is_some_and(|at| at < segment.len)
            };
            let mut data = segments.iter().filter(|segment| !segment.executable);
            let Some(segment) = data.find(within) else { continue };
            let bytes = &segment.bytes(file)[(table - segment.address) as usize..];
            for entry in bytes.chunks_exact(4).take(TABLE_ENTRIES_MAX) {
                entries += 1;
                if !self.target(table.wrapping_add_signed(i64::from(i32_at(entry, 0)))) {
                    break;
                }
            }
            if entries > ENTRIES_MAX {
                return false;
            }
        }
        true
    }

    /// Collects absolute addresses in the text, from data and from addends of relocations.
    fn collect_pointers(&mut self, file: &[u8]) {
        for (number, word) in file.chunks_exact(8).enumerate() {
            give_way(number.is_multiple_of(BYTES_AT_ONCE));
            self.target(u64::from_le_bytes(word.try_into().expect("eight bytes")));
        }
    }
}

/// What an instruction byte may begin.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Looks {
    Nothing,
    /// `call` or `jmp`.
    Branch,
    /// A conditional jump, depending on the next byte.
    Conditional,
    /// `xbegin`, depending on the next byte.
    Transaction,
    /// The ModRM byte of a %rip-relative operand.
    Relative,
}

static LOOKS_LIKE: [Looks; 256] = {
    let mut looks = [Looks::Nothing; 256];
    looks[0xe8] = Looks::Branch;
    looks[0xe9] = Looks::Branch;
    looks[0x0f] = Looks::Conditional;
    looks[0xc7] = Looks::Transaction;
    let mut register = 0;
    while register < 8 {
        looks[register << 3 | 5] = Looks::Relative;
        register += 1;
    }
    looks
};

/// The stretches of a text that must be decoded.
fn stretches(candidates: &[usize], len: usize) -> Vec<Range<usize>> {
    let mut all: Vec<Range<usize>> = Vec::new();
    for at in candidates {
        let start = at.saturating_sub(JUMP_BYTES + SHORT_REACH + STEP_BYTES);
        let end = (at + SYSCALL.len() + MOVED_MAX + SHORT_REACH).min(len);
        match all.last_mut() {
            Some(last) if start <= last.end => last.end = end,
            _ => all.push(start..end),
        }
    }
    all
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
