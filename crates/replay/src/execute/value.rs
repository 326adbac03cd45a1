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

/// The arguments of a call. What is in the registers lies ready; what of that is memory, or nowhere, is
/// kept beside it, so that no number is ever taken for memory.
pub struct Arguments {
    registers: [usize; COUNT],
    memory: [Option<Span>; COUNT],
    nowhere: [bool; COUNT],
}

/// Arguments of a call.
pub const COUNT: usize = 6;

impl Arguments {
    /// All zeros.
    pub const NONE: Arguments =
        Arguments { registers: [0; COUNT], memory: [None; COUNT], nowhere: [false; COUNT] };

    /// What is in the registers.
    #[inline]
    pub fn registers(&self) -> [usize; COUNT] {
        self.registers
    }

    /// The argument at a place; beyond the last one there are zeros.
    #[inline]
    pub fn get(&self, at: usize) -> Value {
        match self.memory(at) {
            Some(span) => Value::Memory(span),
            None if self.nowhere.get(at) == Some(&true) => Value::Nowhere,
            None => Value::Number(self.number(at)),
        }
    }

    /// The number at a place, if there is one.
    #[inline]
    pub fn number(&self, at: usize) -> usize {
        if self.is_number(at) { self.registers[at] } else { 0 }
    }

    #[inline]
    fn is_number(&self, at: usize) -> bool {
        at < COUNT && self.memory[at].is_none() && !self.nowhere[at]
    }

    /// The memory that the argument at a place points to, if it does.
    #[inline]
    pub fn memory(&self, at: usize) -> Option<Span> {
        *self.memory.get(at)?
    }

    /// Puts an argument at a place.
    #[inline]
    pub fn set(&mut self, at: usize, value: Value) {
        if at < COUNT {
            self.registers[at] = value.register();
            self.memory[at] = value.memory();
            self.nowhere[at] = matches!(value, Value::Nowhere);
        }
    }

    /// Lowers a number to `most`. Whether there is one.
    #[inline]
    pub fn lower(&mut self, at: usize, most: usize) -> bool {
        if self.is_number(at) {
            self.registers[at] = self.registers[at].min(most);
        }
        self.is_number(at)
    }
}

impl Value {
    /// What is in the register.
    #[inline]
    pub fn register(self) -> usize {
        match self {
            Value::Number(number) => number,
            Value::Nowhere => NOWHERE,
            Value::Memory(span) => span.address(),
        }
    }

    /// The number, if it is one.
    #[inline]
    pub fn number(self) -> usize {
        match self {
            Value::Number(number) => number,
            Value::Nowhere | Value::Memory(_) => 0,
        }
    }

    /// The memory, if it points to some.
    #[inline]
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
