//! Arguments of a system call. Pointers and numbers have different types: only a span of our memory
//! can be dereferenced.

use std::ffi::CStr;

use crate::memory::Span;

/// An unmapped address: accesses fail with EFAULT.
const NOWHERE: usize = 8;

/// One argument.
#[derive(Clone, Copy)]
pub enum Value {
    /// A number, or a null pointer.
    Number(usize),
    /// A pointer to unmapped memory.
    Nowhere,
    /// A pointer to our memory.
    Memory(Span),
}

/// The arguments of a call as register values. Which of them are pointers is kept separately, so
/// that no number is ever taken for memory.
pub struct Arguments {
    registers: [usize; COUNT],
    memory: [Option<Span>; COUNT],
    nowhere: [bool; COUNT],
}

/// Number of arguments of a call.
pub const COUNT: usize = 6;

impl Arguments {
    /// All zeros.
    pub const NONE: Arguments =
        Arguments { registers: [0; COUNT], memory: [None; COUNT], nowhere: [false; COUNT] };

    /// Returns the register values.
    #[inline]
    pub fn registers(&self) -> [usize; COUNT] {
        self.registers
    }

    /// Returns the argument at `at`; zero beyond the last one.
    #[inline]
    pub fn get(&self, at: usize) -> Value {
        match self.memory(at) {
            Some(span) => Value::Memory(span),
            None if self.nowhere.get(at) == Some(&true) => Value::Nowhere,
            None => Value::Number(self.number(at)),
        }
    }

    /// Returns the number at `at`, or 0 if it is a pointer.
    #[inline]
    pub fn number(&self, at: usize) -> usize {
        if self.is_number(at) { self.registers[at] } else { 0 }
    }

    #[inline]
    fn is_number(&self, at: usize) -> bool {
        at < COUNT && self.memory[at].is_none() && !self.nowhere[at]
    }

    /// Returns the memory that the argument at `at` points to.
    #[inline]
    pub fn memory(&self, at: usize) -> Option<Span> {
        *self.memory.get(at)?
    }

    /// Sets an argument.
    #[inline]
    pub fn set(&mut self, at: usize, value: Value) {
        if at < COUNT {
            self.registers[at] = value.register();
            self.memory[at] = value.memory();
            self.nowhere[at] = matches!(value, Value::Nowhere);
        }
    }

    /// Lowers a number to `most`. Returns whether the argument is a number.
    #[inline]
    pub fn lower(&mut self, at: usize, most: usize) -> bool {
        if self.is_number(at) {
            self.registers[at] = self.registers[at].min(most);
        }
        self.is_number(at)
    }
}

impl Value {
    /// Returns the register value.
    #[inline]
    pub fn register(self) -> usize {
        match self {
            Value::Number(number) => number,
            Value::Nowhere => NOWHERE,
            Value::Memory(span) => span.address(),
        }
    }

    /// Returns the number, or 0 if it is a pointer.
    #[inline]
    pub fn number(self) -> usize {
        match self {
            Value::Number(number) => number,
            Value::Nowhere | Value::Memory(_) => 0,
        }
    }

    /// Returns the memory that it points to.
    #[inline]
    pub fn memory(self) -> Option<Span> {
        match self {
            Value::Memory(span) => Some(span),
            Value::Number(_) | Value::Nowhere => None,
        }
    }

    /// Returns the text that it points to.
    ///
    /// # Safety
    /// The same as for [`Span::bytes`].
    pub unsafe fn text<'a>(self) -> Option<&'a CStr> {
        // SAFETY: the caller guarantees what `Span::bytes` requires.
        let bytes = unsafe { self.memory()?.bytes() };
        CStr::from_bytes_until_nul(bytes).ok()
    }
}

/// Writes an element into an array of `struct iovec`, if it is within the array.
pub fn put_element(array: Span, index: usize, at: Value, len: usize) {
    const ELEMENT: usize = size_of::<libc::iovec>();
    // Never longer than the memory; without memory, any length is harmless.
    let len = at.memory().map_or(len, |span| span.len().min(len));
    let [start, len] = [at.register(), len].map(usize::to_ne_bytes);
    // SAFETY: the array is our memory, which only its builder accesses.
    let room = unsafe { array.after(index * ELEMENT).first(ELEMENT).bytes_mut() };
    if let Some(element) = room.first_chunk_mut::<ELEMENT>() {
        let (base, count) = element.split_at_mut(ELEMENT / 2);
        base.copy_from_slice(&start);
        count.copy_from_slice(&len);
    }
}

/// Writes a word into a struct, if it is within the struct.
pub fn put_word(of: Span, at: usize, word: usize) {
    // SAFETY: the struct is our memory, which only its builder accesses.
    let room = unsafe { of.after(at).first(size_of::<usize>()).bytes_mut() };
    if room.len() == size_of::<usize>() {
        room.copy_from_slice(&word.to_ne_bytes());
    }
}

/// Limits a little-endian length of `bytes` bytes in memory to `most`.
pub fn lower(of: Span, at: usize, bytes: usize, most: u64) {
    let mut word = [0; 8];
    let len = bytes.min(word.len());
    // SAFETY: the span is our memory, which only its builder accesses.
    let field = unsafe { of.after(at).first(len).bytes_mut() };
    if field.len() == len {
        word[..len].copy_from_slice(field);
        let lower = u64::from_le_bytes(word).min(most);
        field.copy_from_slice(&lower.to_le_bytes()[..len]);
    }
}
