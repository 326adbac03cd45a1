//! Memory for the arguments of one call. Each pool lies between inaccessible pages, which stop any
//! access beyond it, above all writes by the kernel.

use std::io;
use std::ptr::NonNull;
use std::sync::Arc;

use crate::options::Fill;
use crate::space::Space;

/// Alignment of memory for O_DIRECT transfers.
const PAGE: usize = 4096;
/// Largest mapping that is kept for reuse.
const SPARE_MAX: usize = 4 << 20;

/// A range of memory that may be passed to the kernel.
#[derive(Clone, Copy, Debug)]
pub struct Span {
    start: NonNull<u8>,
    len: usize,
}

impl Span {
    /// An empty range.
    pub const EMPTY: Span = Span { start: NonNull::dangling(), len: 0 };

    /// A range that the kernel only reads.
    #[inline]
    pub fn reading(bytes: &[u8]) -> Span {
        Span { start: NonNull::from(bytes).cast(), len: bytes.len() }
    }

    /// Its address.
    #[inline]
    pub fn address(self) -> usize {
        self.start.as_ptr().addr()
    }

    /// Its length.
    #[inline]
    pub fn len(self) -> usize {
        self.len
    }

    /// Its first `len` bytes, or all if it is shorter.
    #[inline]
    pub fn first(self, len: usize) -> Span {
        Span { len: self.len.min(len), ..self }
    }

    /// The rest after its first `bytes` bytes.
    #[inline]
    pub fn after(self, bytes: usize) -> Span {
        let bytes = bytes.min(self.len);
        // SAFETY: `bytes` is at most the length, so the result is within the range or at its end.
        Span { start: unsafe { self.start.add(bytes) }, len: self.len - bytes }
    }

    /// Returns its bytes.
    ///
    /// # Safety
    /// The memory must stay valid, and must not be changed meanwhile.
    pub unsafe fn bytes<'a>(self) -> &'a [u8] {
        // SAFETY: a span covers `len` valid bytes; the caller guarantees the rest.
        unsafe { std::slice::from_raw_parts(self.start.as_ptr(), self.len) }
    }

    /// Returns its bytes for writing.
    ///
    /// # Safety
    /// The same as for [`Span::bytes`]; nothing else may access it, and it is from a [`Memory`].
    pub unsafe fn bytes_mut<'a>(self) -> &'a mut [u8] {
        // SAFETY: a span covers `len` valid bytes; the caller guarantees the rest.
        unsafe { std::slice::from_raw_parts_mut(self.start.as_ptr(), self.len) }
    }
}

/// Pages between two inaccessible guard pages.
struct Mapping {
    base: NonNull<u8>,
    /// Bytes between the guard pages.
    len: usize,
    /// Never written: all zeros, and no memory allocated.
    fresh: bool,
}

impl Mapping {
    fn new(len: usize) -> io::Result<Mapping> {
        let too_much = || io::Error::from(io::ErrorKind::OutOfMemory);
        let len = len.checked_next_multiple_of(PAGE).ok_or_else(too_much)?;
        let all = len.checked_add(2 * PAGE).ok_or_else(too_much)?;
        let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE;
        // SAFETY: a new anonymous mapping at an address of the kernel's choice.
        let base = unsafe { libc::mmap(std::ptr::null_mut(), all, libc::PROT_NONE, flags, -1, 0) };
        let base = NonNull::new(base.cast::<u8>()).filter(|_| base != libc::MAP_FAILED);
        let mapping = Mapping { base: base.ok_or_else(too_much)?, len, fresh: true };
        let usable = libc::PROT_READ | libc::PROT_WRITE;
        // SAFETY: these are the pages of our mapping between the first and the last one.
        match unsafe { libc::mprotect(mapping.start().as_ptr().cast(), len, usable) } {
            0 => Ok(mapping),
            _ => Err(io::Error::last_os_error()),
        }
    }

    fn start(&self) -> NonNull<u8> {
        // SAFETY: the mapping is longer than one page.
        unsafe { self.base.add(PAGE) }
    }
}

impl Drop for Mapping {
    fn drop(&mut self) {
        // SAFETY: the mapping was made by `new`, and is not used any more.
        unsafe { libc::munmap(self.base.as_ptr().cast(), self.len + 2 * PAGE) };
    }
}

/// Allocator whose pieces are all freed at once.
pub struct Memory {
    space: Arc<Space>,
    small: Mapping,
    used: usize,
    large: Vec<Mapping>,
    spare: Option<Mapping>,
    short: bool,
    /// Spans handed out since the last `clear`.
    #[cfg(test)]
    pub handed_out: Vec<Span>,
}

impl Memory {
    /// Allocates a pool of `bytes` bytes.
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

    /// Frees all pieces.
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

    /// Whether an allocation has failed since the last `clear`.
    pub fn was_short(&self) -> bool {
        self.short
    }

    /// Returns `len` bytes of arbitrary content, page-aligned if they are many. Empty if there is
    /// not enough memory.
    pub fn take(&mut self, len: usize) -> Span {
        self.take_or_new(len).0
    }

    /// Like `take`; also returns whether the bytes are known to be zero.
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
        // SAFETY: `end` is within the pool.
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

    /// Copies the slices, and fills the rest up to `len`.
    pub fn copy<'a>(
        &mut self,
        stretches: impl Iterator<Item = &'a [u8]>,
        len: usize,
        fill: &Fill,
    ) -> Span {
        let (span, fresh) = self.take_or_new(len);
        // SAFETY: the span was just taken, and nothing else refers to it.
        let room = unsafe { span.bytes_mut() };
        let done = put(room, stretches);
        // Fresh zeros are left untouched, so that they take no memory.
        if !fresh || *fill != Fill::Zeros {
            fill.write(&mut room[done..]);
        }
        span
    }

    /// Copies the first `len` bytes of the slices, and adds a NUL.
    pub fn text<'a>(&mut self, stretches: impl Iterator<Item = &'a [u8]>, len: usize) -> Span {
        let span = self.take(len + 1);
        // SAFETY: the span was just taken, and nothing else refers to it.
        let room = unsafe { span.bytes_mut() };
        let done = put(&mut room[..len.min(span.len)], stretches);
        room[done..].fill(0);
        span
    }
}

/// Copies as much of the slices as fits. Returns the number of bytes.
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
        // SAFETY: the tests keep the memory, and nothing changes it meanwhile.
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
            // SAFETY: the span is in the test's memory, and no other reference is in use.
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

    /// A kernel write beyond a pool must hit inaccessible memory.
    #[test]
    fn around_each_pool_nothing_can_be_touched() {
        let mut memory = memory();
        for len in [POOL, 1 << 20] {
            let span = memory.take(len);
            let zeros = std::fs::File::open("/dev/zero").unwrap();
            let read = |at: usize, len: usize| {
                // SAFETY: the writes hit our memory or, which is tested, inaccessible guard pages.
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
