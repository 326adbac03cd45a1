//! Stubs and jumps as machine code.
//!
//! A stub is 64 bytes near its site:
//!
//! ```text
//! [mov $nr, %eax]            when the jump replaced the instruction before the syscall
//! mov $site, %r11
//! lea back(%rip), %rcx
//! jmp *%gs:ENTRY             into the agent, which returns to `back`
//! syscall                    for calls that bypass the agent, see `native`
//! back: instructions that the jump replaced after the syscall
//! jmp site + their end
//! ```
//!
//! Its last ten bytes say what it is made of.

use core::mem::offset_of;

use ring::Site;

use super::frames::CALL_BYTES;
use super::head::Head;
use super::processor;

pub const STUB_BYTES: u64 = 64;
pub const JUMP_BYTES: u64 = 5;
/// Largest part of the code around a site that a jump replaces, with a margin.
pub const REPLACED_MAX: u64 = 16;
/// Farthest that a jump reaches.
pub const JUMP_REACH: u64 = 1 << 31;

/// mov $site, %r11: the address follows.
const LOAD_SITE: [u8; 2] = [0x49, 0xbb];
/// lea back(%rip), %rcx: the distance is that over the jump and the `syscall`.
const LOAD_BACK: [u8; 7] = [0x48, 0x8d, 0x0d, INTO_AGENT_BYTES as u8 + CALL_BYTES as u8, 0, 0, 0];
/// jmp *%gs:ENTRY
const INTO_AGENT: [u8; INTO_AGENT_BYTES] =
    [0x65, 0xff, 0x24, 0x25, offset_of!(Head, entry) as u8, 0, 0, 0];
const INTO_AGENT_BYTES: usize = 8;
const SYSCALL: [u8; CALL_BYTES as usize] = [0x0f, 0x05];
const JUMP: u8 = 0xe9;
/// A nop as long as the jump into the agent.
const NOTHING: u64 = u64::from_le_bytes([0x0f, 0x1f, 0x84, 0, 0, 0, 0, 0]);

/// Offset of `back` in a stub that does not begin with a replaced instruction.
const BACK_AFTER: u64 =
    (LOAD_SITE.len() + 8 + LOAD_BACK.len() + INTO_AGENT_BYTES) as u64 + CALL_BYTES;
/// Length of the instruction that loads the number, if it was replaced.
const LOAD_NUMBER_BYTES: u64 = 5;

const SITE_AT: usize = 54;
const BACK_AT: usize = 62;
const MOVED_AT: usize = 63;

const _: () = assert!(offset_of!(Head, entry) < 128);

/// The code of a stub.
pub type Code = [u8; STUB_BYTES as usize];

/// Makes the code of the stub at `stub` for this site.
pub fn code(stub: u64, site: u64, known: &Site) -> Code {
    let mut code = [0u8; STUB_BYTES as usize];
    let mut n = 0;
    let mut put = |bytes: &[u8]| {
        code[n..n + bytes.len()].copy_from_slice(bytes);
        n += bytes.len();
        n
    };
    let before = usize::from(known.before);
    put(&known.bytes[..before]);
    put(&LOAD_SITE);
    put(&site.to_le_bytes());
    put(&LOAD_BACK);
    put(&INTO_AGENT);
    let back = put(&SYSCALL);
    let moved = if before == 0 { usize::from(known.after) - SYSCALL.len() } else { 0 };
    put(&known.bytes[before + SYSCALL.len()..before + SYSCALL.len() + moved]);
    let end = put(&[JUMP]) + 4;
    let target = site + CALL_BYTES + moved as u64;
    let distance = (target as i64 - (stub as i64 + end as i64)) as i32;
    put(&distance.to_le_bytes());
    if known.rip_disp != 0 && moved != 0 {
        let at = back + usize::from(known.rip_disp) - 1;
        let old = i32::from_le_bytes([code[at], code[at + 1], code[at + 2], code[at + 3]]);
        let shift = (site + CALL_BYTES) as i64 - (stub as i64 + back as i64);
        let new = (i64::from(old) + shift) as i32;
        code[at..at + 4].copy_from_slice(&new.to_le_bytes());
    }
    code[SITE_AT..SITE_AT + 8].copy_from_slice(&site.to_le_bytes());
    code[BACK_AT] = back as u8;
    code[MOVED_AT] = moved as u8;
    code
}

/// What a stub is made of.
#[derive(Clone, Copy)]
pub struct Parts {
    site: u64,
    /// Offset in the stub at which the program continues; 0: the stub was never written.
    pub back: u64,
    /// Number of bytes of replaced instructions there.
    moved: u64,
}

impl Parts {
    pub fn of(code: &Code) -> Parts {
        let mut site = [0; 8];
        site.copy_from_slice(&code[SITE_AT..SITE_AT + 8]);
        Parts {
            site: u64::from_le_bytes(site),
            back: u64::from(code[BACK_AT]),
            moved: u64::from(code[MOVED_AT]),
        }
    }

    /// Reads the stub at this address.
    ///
    /// # Safety
    /// There must be a stub, or room for one. Stubs are never unmapped.
    pub unsafe fn at(stub: u64) -> Parts {
        // SAFETY: the caller guarantees it.
        Parts::of(unsafe { &*(stub as *const Code) })
    }

    /// Returns the address at the original site that corresponds to an offset in the stub.
    pub fn original(&self, offset: u64) -> u64 {
        if offset >= self.back {
            return self.site + CALL_BYTES + (offset - self.back).min(self.moved);
        }
        if offset == 0 && self.back > BACK_AFTER {
            // The jump replaced the instruction that loads the number: it has not run yet.
            return self.site - LOAD_NUMBER_BYTES;
        }
        // The call number was loaded before the site, or is loaded again there.
        self.site
    }
}

/// Replaces the jump into the agent by a nop, so that the `syscall` behind it runs.
///
/// # Safety
/// There must be a stub or room for one, writable now.
pub unsafe fn make_call_in(stub: u64) {
    // SAFETY: the caller guarantees it.
    let back = unsafe { Parts::at(stub) }.back;
    if back != 0 {
        let at = stub + back - CALL_BYTES - INTO_AGENT_BYTES as u64;
        // SAFETY: eight bytes in the middle of a stub's cache line, writable now.
        unsafe { (at as *mut u64).write_unaligned(NOTHING) };
    }
}

/// Returns true if a jump at this address lies in one cache line: then a thread sees all of it or
/// nothing.
pub fn can_jump_at(at: u64) -> bool {
    at % 64 <= 64 - JUMP_BYTES
}

/// Returns the eight bytes around a jump, the address of which is the first result, with the jump
/// put in by `now`, which gets the bytes that are there.
fn jump_word(at: u64, to: u64, now: impl FnOnce(u64) -> u64) -> (u64, u64) {
    let distance = (to as i64 - (at + JUMP_BYTES) as i64) as i32;
    let mut jump = [JUMP; JUMP_BYTES as usize];
    jump[1..].copy_from_slice(&distance.to_le_bytes());
    let line_end = (at & !63) + 64;
    let word_at = at.min(line_end - 8);
    let shift = (at - word_at) as usize;
    let mut bytes = now(word_at).to_le_bytes();
    bytes[shift..shift + jump.len()].copy_from_slice(&jump);
    (word_at, u64::from_le_bytes(bytes))
}

/// Writes a jump with a single store.
///
/// # Safety
/// Text that is writable now, where [`can_jump_at`] holds.
pub unsafe fn write_jump(at: u64, to: u64) {
    // SAFETY: eight bytes of text in one cache line, writable now.
    unsafe {
        let (word_at, word) = jump_word(at, to, |at| (at as *const u64).read_unaligned());
        processor::store_at_once(word_at, word);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SITE: u64 = 0x40_1234;
    const STUB: u64 = 0x41_0000;

    /// A site of which the jump replaces `bytes`, from `before` bytes before the `syscall` on.
    fn site(bytes: &[u8], before: u8, rip_disp: u8) -> Site {
        // SAFETY: a site is made of numbers.
        let mut site: Site = unsafe { core::mem::zeroed() };
        site.bytes[..bytes.len()].copy_from_slice(bytes);
        site.before = before;
        site.after = if before == 0 { bytes.len() as u8 } else { 0 };
        site.rip_disp = rip_disp;
        site
    }

    /// syscall; cmp $-4095, %rax (six bytes)
    const AFTER: [u8; 8] = [0x0f, 0x05, 0x48, 0x3d, 0x01, 0xf0, 0xff, 0xff];
    /// mov $39, %eax; syscall
    const BEFORE: [u8; 7] = [0xb8, 39, 0, 0, 0, 0x0f, 0x05];

    #[test]
    fn addresses_behind_the_call_are_shown_at_the_site() {
        let code = code(STUB, SITE, &site(&AFTER, 0, 0));
        let parts = Parts::of(&code);
        assert_eq!(parts.back, BACK_AFTER);
        for offset in 0..parts.back {
            assert_eq!(parts.original(offset), SITE, "{offset}");
        }
        for offset in 0..=6 {
            assert_eq!(parts.original(parts.back + offset), SITE + 2 + offset);
        }
        assert_eq!(parts.original(parts.back + 10), SITE + 8, "in the jump back");
        assert_eq!(code[parts.back as usize..][..6], AFTER[2..]);
    }

    #[test]
    fn the_number_may_not_be_loaded_yet() {
        let code = code(STUB, SITE, &site(&BEFORE, 5, 0));
        let parts = Parts::of(&code);
        assert_eq!(code[..5], BEFORE[..5]);
        assert_eq!(parts.original(0), SITE - 5);
        assert_eq!(parts.original(5), SITE);
        assert_eq!(parts.original(parts.back), SITE + 2);
        assert_eq!(parts.original(parts.back + 3), SITE + 2);
    }

    #[test]
    fn the_jump_leads_back_behind_what_was_moved() {
        for (bytes, before, target) in [(&AFTER[..], 0, SITE + 8), (&BEFORE[..], 5, SITE + 2)] {
            let code = code(STUB, SITE, &site(bytes, before, 0));
            let parts = Parts::of(&code);
            let jump = (parts.back + parts.moved) as usize;
            assert_eq!(code[jump], JUMP);
            let distance = i32::from_le_bytes(code[jump + 1..jump + 5].try_into().unwrap());
            let end = STUB + jump as u64 + JUMP_BYTES;
            assert_eq!(end.wrapping_add_signed(distance.into()), target);
        }
    }

    #[test]
    fn an_address_relative_to_the_instruction_is_kept() {
        // syscall; mov 0x100(%rip), %eax
        let bytes = [0x0f, 0x05, 0x8b, 0x05, 0, 1, 0, 0];
        let code = code(STUB, SITE, &site(&bytes, 0, 3));
        let back = Parts::of(&code).back;
        let at = back as usize + 2;
        let distance = i32::from_le_bytes(code[at..at + 4].try_into().unwrap());
        let end = STUB + back + 6;
        assert_eq!(end.wrapping_add_signed(distance.into()), SITE + 8 + 0x100);
    }

    #[test]
    fn a_jump_is_one_store_in_one_line() {
        let line = 0x40_1200;
        for at in line..line + 64 - JUMP_BYTES + 1 {
            assert!(can_jump_at(at));
            let (word_at, word) = jump_word(at, STUB, |_| u64::MAX);
            assert!(word_at >= line && word_at + 8 <= line + 64 && word_at <= at);
            let bytes = word.to_le_bytes();
            let from = (at - word_at) as usize;
            assert_eq!(bytes[from], JUMP);
            let distance = i32::from_le_bytes(bytes[from + 1..from + 5].try_into().unwrap());
            assert_eq!((at + JUMP_BYTES).wrapping_add_signed(distance.into()), STUB);
            let kept = bytes.iter().enumerate().filter(|(n, _)| !(from..from + 5).contains(n));
            assert!(kept.into_iter().all(|(_, byte)| *byte == 0xff));
        }
        assert!((line + 60..line + 64).all(|at| !can_jump_at(at)));
    }
}
