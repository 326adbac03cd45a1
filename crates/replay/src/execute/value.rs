//! Arguments as the kernel gets them. What points is of another type than what counts: only a span of
//! our memory has bytes that can be looked at.

use std::ffi::CStr;

use crate::memory::Span;

/// An address where there is nothing: whoever goes there gets EFAULT.
const NOWHERE: usize = 8;

/// One argument.
#[derive(Clone, Copy)]
pub enum Value {
    /// A number; no pointer but null.
    Number(usize),
    /// A pointer to nothing.
    Nowhere,
    /// A pointer to memory of ours.
    Memory(Span),
}

impl Value {
    /// What is in the register.
    pub fn register(self) -> usize {
        match self {
            Value::Number(number) => number,
            Value::Nowhere => NOWHERE,
            Value::Memory(span) => span.address(),
        }
    }

    /// The number, if it is one.
    pub fn number(self) -> usize {
        match self {
            Value::Number(number) => number,
            Value::Nowhere | Value::Memory(_) => 0,
        }
    }

    /// The memory, if it points to some.
    pub fn memory(self) -> Option<Span> {
        match self {
            Value::Memory(span) => Some(span),
            Value::Number(_) | Value::Nowhere => None,
        }
    }

    /// The text, if it points to one.
    ///
    /// # Safety
    /// As [`Span::bytes`].
    pub unsafe fn text<'a>(self) -> Option<&'a CStr> {
        // SAFETY: the caller promises it.
        let bytes = unsafe { self.memory()?.bytes() };
        CStr::from_bytes_until_nul(bytes).ok()
    }
}

/// Puts an element into an array of `struct iovec`, if there is room for it.
pub fn put_element(array: Span, index: usize, at: Value, len: usize) {
    const ELEMENT: usize = size_of::<libc::iovec>();
    // Where memory is, no more than that; where nothing is, no length leads anywhere.
    let len = at.memory().map_or(len, |span| span.len().min(len));
    let [start, len] = [at.register(), len].map(usize::to_ne_bytes);
    // SAFETY: arrays are memory of ours, which only their builder uses.
    let room = unsafe { array.after(index * ELEMENT).first(ELEMENT).bytes_mut() };
    if let Some(element) = room.first_chunk_mut::<ELEMENT>() {
        let (base, count) = element.split_at_mut(ELEMENT / 2);
        base.copy_from_slice(&start);
        count.copy_from_slice(&len);
    }
}

/// Puts a word into a struct, if that is so long.
pub fn put_word(of: Span, at: usize, word: usize) {
    // SAFETY: as above.
    let room = unsafe { of.after(at).first(size_of::<usize>()).bytes_mut() };
    if room.len() == size_of::<usize>() {
        room.copy_from_slice(&word.to_ne_bytes());
    }
}

/// Makes a length in memory no larger than `most`: a little-endian number of so many bytes.
pub fn lower(of: Span, at: usize, bytes: usize, most: u64) {
    let mut word = [0; 8];
    let len = bytes.min(word.len());
    // SAFETY: as above.
    let field = unsafe { of.after(at).first(len).bytes_mut() };
    if field.len() == len {
        word[..len].copy_from_slice(field);
        let lower = u64::from_le_bytes(word).min(most);
        field.copy_from_slice(&lower.to_le_bytes()[..len]);
    }
}
