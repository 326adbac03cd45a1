//! Memory for the arguments of one call.

use crate::shared::Fill;

/// Bytes that are there without asking.
const SMALL: usize = 256 << 10;
/// Alignment of what may be transferred without the page cache.
const PAGE: usize = 4096;

/// Memory that is handed out piece by piece and taken back all at once.
pub struct Memory {
    small: Box<[u8]>,
    used: usize,
    large: Vec<Box<[u8]>>,
}

impl Memory {
    /// With nothing handed out.
    pub fn new() -> Memory {
        Memory { small: vec![0; SMALL].into(), used: 0, large: Vec::new() }
    }

    /// Takes everything back.
    pub fn clear(&mut self) {
        self.used = 0;
        self.large.clear();
    }

    /// So many bytes, of any content; on a page's beginning if they are many.
    pub fn take(&mut self, len: usize) -> *mut u8 {
        let align = if len >= 512 { PAGE } else { 16 };
        let base = self.small.as_mut_ptr();
        let at = self.used + base.wrapping_add(self.used).align_offset(align);
        if let Some(end) = at.checked_add(len)
            && end <= self.small.len()
        {
            self.used = end;
            return base.wrapping_add(at);
        }
        let mut large: Box<[u8]> = vec![0; len + PAGE].into();
        let start = large.as_mut_ptr();
        let start = start.wrapping_add(start.align_offset(PAGE));
        self.large.push(large);
        start
    }

    /// A copy of the stretches, and filler up to `len`.
    pub fn copy<'a>(
        &mut self,
        stretches: impl Iterator<Item = &'a [u8]>,
        len: usize,
        fill: &Fill,
    ) -> *mut u8 {
        let start = self.take(len);
        // SAFETY: `take` gave `len` bytes, which nobody else uses.
        let room = unsafe { std::slice::from_raw_parts_mut(start, len) };
        let mut done = 0;
        for stretch in stretches {
            let fits = stretch.len().min(len - done);
            room[done..done + fits].copy_from_slice(&stretch[..fits]);
            done += fits;
        }
        // What is too large for reuse is fresh, and zeros: untouched, it takes no memory.
        if len <= SMALL || *fill != Fill::Zeros {
            fill.write(&mut room[done..]);
        }
        start
    }
}

impl Fill {
    /// Fills memory.
    pub fn write(&self, room: &mut [u8]) {
        match self {
            Fill::Zeros => room.fill(0),
            Fill::Random => {
                let mut state = 0x9e37_79b9_7f4a_7c15u64;
                for chunk in room.chunks_mut(8) {
                    state ^= state << 13;
                    state ^= state >> 7;
                    state ^= state << 17;
                    chunk.copy_from_slice(&state.to_le_bytes()[..chunk.len()]);
                }
            }
            Fill::Pattern(pattern) if pattern.is_empty() => room.fill(0),
            Fill::Pattern(pattern) => {
                room.iter_mut().zip(pattern.iter().cycle()).for_each(|(to, from)| *to = *from);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pieces_do_not_overlap_and_large_ones_are_aligned() {
        let mut memory = Memory::new();
        let mut ranges: Vec<(usize, usize)> = Vec::new();
        for len in [1, 16, 100, 600, 4096, 1 << 20, 3, 200 << 10] {
            let start = memory.take(len) as usize;
            assert!(len < 512 || start.is_multiple_of(PAGE));
            assert!(ranges.iter().all(|(s, l)| start + len <= *s || s + l <= start));
            ranges.push((start, len));
        }
    }

    #[test]
    fn what_is_missing_is_filled() {
        let mut memory = Memory::new();
        let start = memory.copy([&b"ab"[..], b"c"].into_iter(), 6, &Fill::Pattern(vec![1, 2]));
        // SAFETY: six bytes were asked for.
        let bytes = unsafe { std::slice::from_raw_parts(start, 6) };
        assert_eq!(bytes, b"abc\x01\x02\x01");
    }
}
