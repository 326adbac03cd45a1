//! Writes and reads numbers and strings in payloads.

use crate::format::{unzigzag, zigzag};

/// A payload is malformed, in this way.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Malformed(pub &'static str);

/// Appends a number: 7 bits a byte, the lowest first, the top bit set on all but the last.
pub fn put_number(out: &mut Vec<u8>, mut value: u64) {
    while value >= 0x80 {
        out.push(value as u8 | 0x80);
        value >>= 7;
    }
    out.push(value as u8);
}

/// Appends the length of a string and the string.
pub fn put_bytes(out: &mut Vec<u8>, bytes: &[u8]) {
    put_number(out, bytes.len() as u64);
    out.extend_from_slice(bytes);
}

/// Makes the bytes from `start` on a string: puts their length before them. Returns the length.
pub fn put_length_before(out: &mut Vec<u8>, start: usize) -> usize {
    let end = out.len();
    put_number(out, (end - start) as u64);
    let length_bytes = out.len() - end;
    out[start..].rotate_right(length_bytes);
    end - start
}

/// Collects numbers on the stack: appending each to a vector would cost a check each time.
pub struct Scratch<const N: usize> {
    bytes: [u8; N],
    len: usize,
}

impl<const N: usize> Scratch<N> {
    /// Returns an empty one.
    pub fn new() -> Scratch<N> {
        Scratch { bytes: [0; N], len: 0 }
    }

    /// Adds a byte.
    #[inline(always)]
    pub fn byte(&mut self, value: u8) {
        self.bytes[self.len] = value;
        self.len += 1;
    }

    /// Adds a number.
    #[inline(always)]
    pub fn number(&mut self, mut value: u64) {
        while value >= 0x80 {
            self.byte(value as u8 | 0x80);
            value >>= 7;
        }
        self.byte(value as u8);
    }

    /// Adds the difference between two numbers.
    #[inline(always)]
    pub fn delta(&mut self, from: u64, to: u64) {
        self.number(zigzag(to.wrapping_sub(from) as i64));
    }

    /// Changes a byte that was added.
    #[inline(always)]
    pub fn set(&mut self, at: usize, value: u8) {
        self.bytes[at] = value;
    }

    /// The bytes added so far.
    pub fn bytes(&self) -> &[u8] {
        &self.bytes[..self.len]
    }
}

/// Reads numbers and strings from a payload, never beyond its end.
#[derive(Clone, Copy, Debug)]
pub struct Cursor<'a> {
    bytes: &'a [u8],
    at: usize,
}

impl<'a> Cursor<'a> {
    /// Starts at a position in a payload.
    pub fn new(bytes: &'a [u8], at: usize) -> Cursor<'a> {
        Cursor { bytes, at }
    }

    /// The offset of the next byte.
    pub fn position(&self) -> usize {
        self.at
    }

    /// Returns true if nothing follows.
    pub fn is_at_end(&self) -> bool {
        self.at == self.bytes.len()
    }

    /// Reads a byte.
    #[inline]
    pub fn byte(&mut self) -> Result<u8, Malformed> {
        let byte = *self.bytes.get(self.at).ok_or(Malformed("it ends too early"))?;
        self.at += 1;
        Ok(byte)
    }

    /// Reads a number. Nearly all have one or two bytes.
    #[inline]
    pub fn number(&mut self) -> Result<u64, Malformed> {
        match self.bytes.get(self.at..) {
            Some([low @ 0..0x80, ..]) => {
                self.at += 1;
                Ok(u64::from(*low))
            }
            Some([low, high @ 0..0x80, ..]) => {
                self.at += 2;
                Ok(u64::from(low & 0x7f) | u64::from(*high) << 7)
            }
            _ => self.long_number(),
        }
    }

    #[inline(never)]
    fn long_number(&mut self) -> Result<u64, Malformed> {
        let mut value = 0;
        for shift in (0..70).step_by(7) {
            let byte = self.byte()?;
            if shift == 63 && byte > 1 {
                break;
            }
            value |= u64::from(byte & 0x7f) << shift;
            if byte < 0x80 {
                return Ok(value);
            }
        }
        Err(Malformed("a number has more than 64 bits"))
    }

    /// Reads a number stored as the difference from another.
    #[inline]
    pub fn delta(&mut self, from: u64) -> Result<u64, Malformed> {
        Ok(from.wrapping_add(unzigzag(self.number()?) as u64))
    }

    /// Reads a number that must fit into a smaller type.
    #[inline]
    pub fn small<T: TryFrom<u64>>(&mut self) -> Result<T, Malformed> {
        T::try_from(self.number()?).map_err(|_| Malformed("a number is too large for its place"))
    }

    /// Reads that many bytes.
    pub fn take(&mut self, count: usize) -> Result<&'a [u8], Malformed> {
        let end = self.at.checked_add(count).filter(|end| *end <= self.bytes.len());
        let taken = &self.bytes[self.at..end.ok_or(Malformed("it ends too early"))?];
        self.at += count;
        Ok(taken)
    }

    /// Reads a fixed number of bytes.
    pub fn array<const N: usize>(&mut self) -> Result<[u8; N], Malformed> {
        let mut out = [0; N];
        out.copy_from_slice(self.take(N)?);
        Ok(out)
    }

    /// Reads a string with its length before it.
    pub fn bytes(&mut self) -> Result<&'a [u8], Malformed> {
        let len = self.small::<usize>()?;
        self.take(len)
    }
}

/// One direction of a description that serves for both: [`Put`] writes the values, [`Get`] replaces
/// them by those that it reads.
pub trait Fields {
    /// Writes or reads a number.
    fn u64(&mut self, value: &mut u64) -> Result<(), Malformed>;
    /// Writes or reads a string of bytes.
    fn bytes(&mut self, value: &mut Vec<u8>) -> Result<(), Malformed>;
    /// Writes or reads a list, calling `element` for each element.
    fn list<T: Default>(
        &mut self,
        list: &mut Vec<T>,
        element: impl FnMut(&mut Self, &mut T) -> Result<(), Malformed>,
    ) -> Result<(), Malformed>;

    /// Writes or reads a number of 32 bits.
    fn u32(&mut self, value: &mut u32) -> Result<(), Malformed> {
        let mut wide = u64::from(*value);
        self.u64(&mut wide)?;
        *value = u32::try_from(wide).map_err(|_| Malformed("a number has more than 32 bits"))?;
        Ok(())
    }

    /// Writes or reads a string of text.
    fn text(&mut self, value: &mut String) -> Result<(), Malformed> {
        let mut bytes = std::mem::take(value).into_bytes();
        self.bytes(&mut bytes)?;
        *value = String::from_utf8(bytes).map_err(|_| Malformed("text is not UTF-8"))?;
        Ok(())
    }
}

/// Writes values to a buffer.
pub struct Put<'a>(pub &'a mut Vec<u8>);

impl Fields for Put<'_> {
    fn u64(&mut self, value: &mut u64) -> Result<(), Malformed> {
        put_number(self.0, *value);
        Ok(())
    }

    fn bytes(&mut self, value: &mut Vec<u8>) -> Result<(), Malformed> {
        put_bytes(self.0, value);
        Ok(())
    }

    fn list<T: Default>(
        &mut self,
        list: &mut Vec<T>,
        mut element: impl FnMut(&mut Self, &mut T) -> Result<(), Malformed>,
    ) -> Result<(), Malformed> {
        put_number(self.0, list.len() as u64);
        list.iter_mut().try_for_each(|item| element(self, item))
    }
}

/// Appends the described values.
pub fn put(out: &mut Vec<u8>, description: impl FnOnce(&mut Put<'_>) -> Result<(), Malformed>) {
    let written = description(&mut Put(out));
    debug_assert!(written.is_ok(), "what is in memory fits where it came from");
}

/// Reads values from a payload.
pub struct Get<'a, 'b>(pub &'a mut Cursor<'b>);

impl Fields for Get<'_, '_> {
    fn u64(&mut self, value: &mut u64) -> Result<(), Malformed> {
        *value = self.0.number()?;
        Ok(())
    }

    fn bytes(&mut self, value: &mut Vec<u8>) -> Result<(), Malformed> {
        *value = self.0.bytes()?.to_vec();
        Ok(())
    }

    fn list<T: Default>(
        &mut self,
        list: &mut Vec<T>,
        mut element: impl FnMut(&mut Self, &mut T) -> Result<(), Malformed>,
    ) -> Result<(), Malformed> {
        list.clear();
        // Grows with the elements that are really there, since the count may be wrong.
        for _ in 0..self.0.number()? {
            let mut item = T::default();
            element(self, &mut item)?;
            list.push(item);
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_read_as_written() {
        let mut value = 1_u64;
        for _ in 0..200 {
            value = value.wrapping_mul(6364136223846793005).wrapping_add(value >> 3);
            for shift in 0..64 {
                let number = value >> shift;
                let mut bytes = Vec::new();
                put_number(&mut bytes, number);
                let mut scratch = Scratch::<10>::new();
                scratch.number(number);
                assert_eq!(scratch.bytes(), bytes);
                let mut cursor = Cursor::new(&bytes, 0);
                assert_eq!(cursor.number(), Ok(number));
                assert_eq!(cursor.position(), bytes.len());
            }
        }
    }

    #[test]
    fn endless_and_short_numbers_are_refused() {
        assert!(Cursor::new(&[0xff; 20], 0).number().is_err());
        assert!(Cursor::new(&[0x80], 0).number().is_err());
        let too_large = [0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 2];
        assert!(Cursor::new(&too_large, 0).number().is_err());
    }

    #[test]
    fn a_string_longer_than_the_payload_is_refused() {
        assert!(Cursor::new(&[5, 1, 2], 0).bytes().is_err());
        let mut huge = Vec::new();
        put_number(&mut huge, u64::MAX);
        assert!(Cursor::new(&huge, 0).bytes().is_err());
    }
}
