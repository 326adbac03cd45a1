//! Finds the instruction that sets `%gs` in code.

use core::arch::x86_64::{
    __m128i, _mm_and_si128, _mm_cmpeq_epi8, _mm_loadu_si128, _mm_movemask_epi8, _mm_set1_epi8,
};

/// Length of `wrgsbase` with a 64-bit register: f3, 48 or 49, 0f ae, d8 to df.
pub const INSTRUCTION_BYTES: usize = 5;
/// Bytes behind the end of the code that must be readable.
pub const STEP: usize = size_of::<__m128i>();

/// Returns true if an instruction ends in the first `len` bytes. The block has `STEP` bytes more.
pub fn sets_gs(block: &[u8], len: usize) -> bool {
    // SAFETY: every x86_64 processor has SSE2.
    let [first, second] = unsafe { [_mm_set1_epi8(0x0f), _mm_set1_epi8(0xae_u8.cast_signed())] };
    for from in (0..len).step_by(STEP) {
        let Some(part) = block.get(from..=from + STEP) else { break };
        // SAFETY: `part` has 17 bytes: its first 16 and its last 16 are loaded.
        let mut pairs = unsafe {
            let one = _mm_loadu_si128(part.as_ptr().cast());
            let next = _mm_loadu_si128(part.as_ptr().add(1).cast());
            let both = _mm_and_si128(_mm_cmpeq_epi8(one, first), _mm_cmpeq_epi8(next, second));
            _mm_movemask_epi8(both).cast_unsigned()
        };
        while pairs != 0 {
            let at = from + pairs.trailing_zeros() as usize;
            pairs &= pairs - 1;
            let around = at.checked_sub(2).and_then(|at| block.get(at..at + INSTRUCTION_BYTES));
            if let Some([0xf3, 0x48 | 0x49, _, _, 0xd8..=0xdf]) = around {
                return true;
            }
        }
    }
    false
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_instruction_is_found_wherever_it_lies() {
        const LEN: usize = 100;
        for (prefix, register) in [(0x48, 0xd8), (0x49, 0xdf)] {
            let instruction = [0xf3, prefix, 0x0f, 0xae, register];
            for at in 0..=LEN - INSTRUCTION_BYTES {
                let mut block = [0x90; LEN + STEP];
                block[at..at + INSTRUCTION_BYTES].copy_from_slice(&instruction);
                assert!(sets_gs(&block, LEN), "{at}");
            }
        }
    }

    #[test]
    fn others_are_not() {
        // rdgsbase, wrfsbase, the 32-bit form, fxsave.
        for other in [
            [0xf3, 0x48, 0x0f, 0xae, 0xc8],
            [0xf3, 0x48, 0x0f, 0xae, 0xd0],
            [0xf3, 0x40, 0x0f, 0xae, 0xd8],
            [0x66, 0x48, 0x0f, 0xae, 0xd8],
        ] {
            let mut block = [0x90; 64 + STEP];
            block[20..25].copy_from_slice(&other);
            assert!(!sets_gs(&block, 64), "{other:x?}");
        }
        assert!(!sets_gs(&[0x0f; 3 + STEP], 3));
    }
}
