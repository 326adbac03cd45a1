//! Memory for the arguments of one call. Around each pool of it lie pages that nobody can touch: what
//! should go beyond the memory that it was given, the kernel's writing above all, stops there.

use std::io;
use std::ptr::NonNull;
use std::sync::Arc;

use crate::shared::Fill;
use crate::space::Space;

/// Alignment of what may be transferred without the page cache.
const PAGE: usize = 4096;
/// Bytes of a large piece that is kept for use.
const SPARE_MAX: usize = 4 << 20;

/// A stretch of memory that the kernel may be given: where it is, and how long.
#[derive(Clone, Copy, Debug)]
pub struct Span {
    start: NonNull<u8>,
    len: usize,
}

impl Span {
    /// Of nothing.
    pub const EMPTY: Span = Span { start: NonNull::dangling(), len: 0 };

    /// Of memory that the kernel only reads.
    #[inline]
    pub fn reading(bytes: &[u8]) -> Span {
        Span { start: NonNull::from(bytes).cast(), len: bytes.len() }
    }

    /// Where it is.
    #[inline]
    pub fn address(self) -> usize {
        self.start.as_ptr().addr()
    }

    /// Its length.
    #[inline]
    pub fn len(self) -> usize {
        self.len
    }

    /// Its first bytes, as many as there are of those.
    #[inline]
    pub fn first(self, len: usize) -> Span {
        Span { len: self.len.min(len), ..self }
    }

    /// What follows these first bytes.
    #[inline]
    pub fn after(self, bytes: usize) -> Span {
        let bytes = bytes.min(self.len);
        // SAFETY: it ends within the stretch, or right behind it.
        Span { start: unsafe { self.start.add(bytes) }, len: self.len - bytes }
    }

    /// Its bytes.
    ///
    /// # Safety
    /// The memory that it was made of must live on, and nobody may change it meanwhile.
    pub unsafe fn bytes<'a>(self) -> &'a [u8] {
        // SAFETY: a span is as long as it says; the caller promises the rest.
        unsafe { std::slice::from_raw_parts(self.start.as_ptr(), self.len) }
    }

    /// Its bytes, to be changed.
    ///
    /// # Safety
    /// The same, and it must have come from a [`Memory`].
    pub unsafe fn bytes_mut<'a>(self) -> &'a mut [u8] {
        // SAFETY: a span is as long as it says; the caller promises the rest.
        unsafe { std::slice::from_raw_parts_mut(self.start.as_ptr(), self.len) }
    }
}

/// Whole pages between two that nobody can touch.
struct Mapping {
    base: NonNull<u8>,
    /// Bytes between those two.
    len: usize,
    /// Nobody has written to it: it is zeros, and takes no memory.
    fresh: bool,
}

impl Mapping {
    fn new(len: usize) -> io::Result<Mapping> {
        let too_much = || io::Error::from(io::ErrorKind::OutOfMemory);
        let len = len.checked_next_multiple_of(PAGE).ok_or_else(too_much)?;
        let all = len.checked_add(2 * PAGE).ok_or_else(too_much)?;
        let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE;
        // SAFETY: new memory, wherever the kernel puts it.
        let base = unsafe { libc::mmap(std::ptr::null_mut(), all, libc::PROT_NONE, flags, -1, 0) };
        let base = NonNull::new(base.cast::<u8>()).filter(|_| base != libc::MAP_FAILED);
        let mapping = Mapping { base: base.ok_or_else(too_much)?, len, fresh: true };
        let usable = libc::PROT_READ | libc::PROT_WRITE;
        // SAFETY: the pages between the first and the last one, which are ours.
        match unsafe { libc::mprotect(mapping.start().as_ptr().cast(), len, usable) } {
            0 => Ok(mapping),
            _ => Err(io::Error::last_os_error()),
        }
    }

    fn start(&self) -> NonNull<u8> {
        // SAFETY: the first page is followed by others.
        unsafe { self.base.add(PAGE) }
    }
}

impl Drop for Mapping {
    fn drop(&mut self) {
        // SAFETY: made by `new`, and nobody uses it any more.
        unsafe { libc::munmap(self.base.as_ptr().cast(), self.len + 2 * PAGE) };
    }
}

/// Memory that is handed out piece by piece and taken back all at once.
pub struct Memory {
    space: Arc<Space>,
    small: Mapping,
    used: usize,
    large: Vec<Mapping>,
    spare: Option<Mapping>,
    short: bool,
    /// What was handed out since all was taken back.
    #[cfg(test)]
    pub handed_out: Vec<Span>,
}

impl Memory {
    /// With so many bytes that are there without asking, and nothing handed out.
    pub fn new(bytes: usize, space: Arc<Space>) -> io::Result<Memory> {
        let small = Mapping::new(bytes)?;
        Ok(Memory {
            space,
            small,
            used: 0,
            large: Vec::new(),
            spare: None,
            short: false,
            #[cfg(test)]
            handed_out: Vec::new(),
        })
    }

    /// Takes everything back.
    pub fn clear(&mut self) {
        self.used = 0;
        self.short = false;
        #[cfg(test)]
        self.handed_out.clear();
        if !self.large.is_empty() {
            self.clear_large();
        }
    }

    fn clear_large(&mut self) {
        for mapping in self.large.drain(..) {
            self.space.give_buffers_back(mapping.len as u64);
            let kept = self.spare.as_ref().map_or(0, |spare| spare.len);
            if (kept + 1..=SPARE_MAX).contains(&mapping.len) {
                self.spare = Some(mapping);
            }
        }
    }

    /// Whether there was too little for what was asked for since all was taken back.
    pub fn was_short(&self) -> bool {
        self.short
    }

    /// So many bytes, of any content; on a page's beginning if they are many. None, where there are
    /// not so many to be had.
    pub fn take(&mut self, len: usize) -> Span {
        self.take_or_new(len).0
    }

    /// The same, and whether they are zeros.
    fn take_or_new(&mut self, len: usize) -> (Span, bool) {
        let taken = self.take_small(len).map(|span| (span, false));
        let taken = taken.unwrap_or_else(|| self.take_large(len));
        #[cfg(test)]
        self.handed_out.push(taken.0);
        taken
    }

    fn take_small(&mut self, len: usize) -> Option<Span> {
        let align = if len >= 512 { PAGE } else { 16 };
        // The pool begins on a page.
        let at = self.used.next_multiple_of(align);
        let end = at.checked_add(len).filter(|end| *end <= self.small.len)?;
        self.used = end;
        // SAFETY: it ends within the pool.
        Some(Span { start: unsafe { self.small.start().add(at) }, len })
    }

    fn take_large(&mut self, len: usize) -> (Span, bool) {
        let mapping = match self.spare.take_if(|spare| spare.len >= len) {
            Some(spare) => Ok(spare),
            None => Mapping::new(len),
        };
        match mapping {
            Ok(mut mapping) if self.space.lend_buffers(mapping.len as u64) => {
                let (start, fresh) = (mapping.start(), mapping.fresh);
                mapping.fresh = false;
                self.large.push(mapping);
                (Span { start, len }, fresh)
            }
            _ => {
                self.short = true;
                (Span::EMPTY, false)
            }
        }
    }

    /// A copy of the stretches, and filler up to `len`.
    pub fn copy<'a>(
        &mut self,
        stretches: impl Iterator<Item = &'a [u8]>,
        len: usize,
        fill: &Fill,
    ) -> Span {
        let (span, fresh) = self.take_or_new(len);
        // SAFETY: it was taken just now, and nobody else uses it.
        let room = unsafe { span.bytes_mut() };
        let done = put(room, stretches);
        // Zeros that are there already stay untouched, and take no memory.
        if !fresh || *fill != Fill::Zeros {
            fill.write(&mut room[done..]);
        }
        span
    }

    /// The first `len` bytes of the stretches, and a NUL behind them.
    pub fn text<'a>(&mut self, stretches: impl Iterator<Item = &'a [u8]>, len: usize) -> Span {
        let span = self.take(len + 1);
        // SAFETY: as above.
        let room = unsafe { span.bytes_mut() };
        let done = put(&mut room[..len.min(span.len)], stretches);
        room[done..].fill(0);
        span
    }
}

/// Puts as much of the stretches as there is room for; how many bytes that is.
fn put<'a>(room: &mut [u8], stretches: impl Iterator<Item = &'a [u8]>) -> usize {
    let mut done = 0;
    for stretch in stretches {
        let fits = stretch.len().min(room.len() - done);
        room[done..done + fits].copy_from_slice(&stretch[..fits]);
        done += fits;
        if done == room.len() {
            break;
        }
    }
    done
}

impl Drop for Memory {
    fn drop(&mut self) {
        self.clear_large();
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

    const POOL: usize = 256 << 10;

    fn memory() -> Memory {
        Memory::new(POOL, Arc::new(Space::new(Vec::new(), None).unwrap())).unwrap()
    }

    fn bytes(span: Span) -> &'static [u8] {
        // SAFETY: the tests keep the memory, and nothing changes it.
        unsafe { span.bytes() }
    }

    #[test]
    fn pieces_do_not_overlap_and_large_ones_are_aligned() {
        let mut memory = memory();
        let mut ranges: Vec<(usize, usize)> = Vec::new();
        for len in [1, 16, 100, 600, 4096, 1 << 20, 3, 200 << 10] {
            let start = memory.take(len).address();
            assert!(len < 512 || start.is_multiple_of(PAGE));
            assert!(ranges.iter().all(|(s, l)| start + len <= *s || s + l <= start));
            ranges.push((start, len));
        }
    }

    #[test]
    fn what_is_missing_is_filled() {
        let mut memory = memory();
        let span = memory.copy([&b"ab"[..], b"c"].into_iter(), 6, &Fill::Pattern(vec![1, 2]));
        assert_eq!(bytes(span), b"abc\x01\x02\x01");
    }

    #[test]
    fn large_memory_that_is_used_again_shows_nothing_of_before() {
        let mut memory = memory();
        for _ in 0..3 {
            let span = memory.copy(std::iter::once(&b"ab"[..]), 1 << 20, &Fill::Zeros);
            assert!(bytes(span).starts_with(b"ab\0") && bytes(span)[2..].iter().all(|b| *b == 0));
            // SAFETY: as above.
            unsafe { span.bytes_mut() }.fill(7);
            memory.clear();
        }
    }

    #[test]
    fn texts_end_with_a_nul_however_long_they_are() {
        let mut memory = memory();
        let text = |memory: &mut Memory, most| {
            bytes(memory.text([&b""[..], b"ab", b"cd"].into_iter(), most))
        };
        assert_eq!(text(&mut memory, 4), b"abcd\0");
        assert_eq!(text(&mut memory, 3), b"abc\0");
        assert_eq!(text(&mut memory, 0), b"\0");
    }

    /// The kernel, told to write more than there is, must hit something that it cannot write to.
    #[test]
    fn around_each_pool_nothing_can_be_touched() {
        let mut memory = memory();
        for len in [POOL, 1 << 20] {
            let span = memory.take(len);
            let zeros = std::fs::File::open("/dev/zero").unwrap();
            let read = |at: usize, len: usize| {
                // SAFETY: what lies beside the memory is not there to be written to, which is tested;
                // what lies in it is ours.
                unsafe { libc::read(std::os::fd::AsRawFd::as_raw_fd(&zeros), at as *mut _, len) }
            };
            let (start, end) = (span.address(), span.address() + span.len());
            assert_eq!(read(start, len), len as isize);
            assert_eq!(read(end, 1), -1);
            assert_eq!(read(start - 1, 1), -1);
            assert_eq!(read(end - 1, PAGE), 1);
        }
    }

    #[test]
    fn what_is_not_to_be_had_is_told() {
        let mut memory = memory();
        assert_eq!(memory.take(usize::MAX / 2).len(), 0);
        assert!(memory.was_short());
        memory.clear();
        assert!(!memory.was_short());
    }
}
