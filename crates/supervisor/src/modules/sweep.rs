//! Where control may enter a text other than from the instruction before.
//!
//! Only the bytes around `syscall` instructions matter, so only there, and somewhat before, so that
//! the decoder is in step, is the text decoded: a branch of one byte reaches no further. What reaches
//! further holds a distance of four bytes, and every four bytes that look like one count.

use std::ops::Range;

use iced_x86::{Decoder, DecoderOptions, Instruction, OpKind};

use super::{JUMP_BYTES, MOVED_MAX, SYSCALL, Segment};

/// How far a branch of one byte reaches, with its own length.
const SHORT_REACH: usize = 130;
/// Bytes after which a decoder that began anywhere is in step.
const STEP_BYTES: usize = 256;
/// Entries of a table of branch targets that are believed.
const TABLE_ENTRIES_MAX: usize = 4096;
/// Entries of all tables, and addresses that may be tables: in a file with more nothing is patched.
const ENTRIES_MAX: usize = 32 << 20;
const TAKEN_MAX: usize = 8 << 20;

/// Work between two looks whether somebody waits for the processor: the program does, when the
/// thread that waits is one of ours. Some ten microseconds.
const INSTRUCTIONS_AT_ONCE: u32 = 512;
const BYTES_AT_ONCE: usize = 16 << 10;
const TABLES_AT_ONCE: usize = 256;

fn give_way(now: bool) {
    if now {
        std::thread::yield_now();
    }
}

/// What was found in the text of a segment. Places are offsets in it, as those of the candidates.
pub struct Sweep {
    base: u64,
    /// The bytes that matter: those around the candidates.
    watched: Bits,
    /// Where control may enter, among them.
    targets: Bits,
    /// Where `mov $imm32, %eax` instructions begin, among them.
    loads: Bits,
    /// Addresses that the code takes of something outside: tables of branch targets, perhaps.
    taken: Vec<u64>,
}

impl Sweep {
    /// Looks at everything that may lead to the bytes around the candidates, which are in order.
    /// `None` where that takes longer than it is worth.
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

    /// Whether a `mov $imm32, %eax` begins there.
    pub fn is_load(&self, at: usize) -> bool {
        self.loads.get(at)
    }

    /// Whether something leads to one of these bytes.
    pub fn enters(&self, range: Range<usize>) -> bool {
        range.into_iter().any(|at| self.targets.get(at))
    }

    /// Short branches, and loads of `%eax`.
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

    /// Distances of four bytes: in branches, and behind a byte that makes an operand relative to the
    /// instruction's end, which a constant may still follow.
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
            // With a prefix, it holds a distance of two bytes.
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

    /// What an operand may be about whose instruction's first bytes are the last of `before`. The
    /// address is right if no constant follows.
    fn operand(&mut self, before: &[u8], address: u64) {
        const LEA: u8 = 0x8d;
        const WIDE: u8 = 0x48;
        let opcode = match before {
            // Of vectors: there, these bytes are opcodes like others.
            [.., 0xc4 | 0x8f, _, _, opcode] | [.., 0x62, _, _, _, opcode] => *opcode,
            // Arithmetic with %rax and a constant, and with %eax after a `syscall`, where both are
            // the rule.
            [.., first, WIDE] if *first != 0x0f => return,
            [.., 0x0f, 0x05] => return,
            [.., opcode] => *opcode,
            [] => return,
        };
        let inside = self.target(address);
        self.target(address.wrapping_add(1));
        // The only ones with longer constants; the first two are of the XOP map.
        if matches!(opcode, 0x10 | 0x12 | 0x69 | 0x81 | 0xc7 | 0xf7) {
            self.target(address.wrapping_add(2));
            self.target(address.wrapping_add(4));
        }
        if opcode == LEA && !inside && self.taken.len() <= TAKEN_MAX {
            self.taken.push(address);
        }
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

    /// Tables of 32-bit distances from their own start: what a `switch` becomes. False when there is
    /// more of that than in any program.
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

    /// Absolute addresses of the text, in data or in the addends of relocations.
    fn collect_pointers(&mut self, file: &[u8]) {
        for (number, word) in file.chunks_exact(8).enumerate() {
            give_way(number.is_multiple_of(BYTES_AT_ONCE));
            self.target(u64::from_le_bytes(word.try_into().expect("eight bytes")));
        }
    }
}

/// What a byte of code may begin.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Looks {
    Nothing,
    /// `call` or `jmp`.
    Branch,
    /// Another byte, and it is a conditional jump.
    Conditional,
    /// Another byte, and it is `xbegin`.
    Transaction,
    /// The operand of an instruction relative to whose end it is.
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

/// The stretches of a text that are decoded.
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
