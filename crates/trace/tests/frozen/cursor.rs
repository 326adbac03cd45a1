//! Numbers and strings of a payload.

/// A position in bytes.
pub struct Cursor<'a> {
    bytes: &'a [u8],
}

impl<'a> Cursor<'a> {
    pub fn new(bytes: &'a [u8]) -> Cursor<'a> {
        Cursor { bytes }
    }

    pub fn is_at_end(&self) -> bool {
        self.bytes.is_empty()
    }

    pub fn take(&mut self, count: u64) -> Result<&'a [u8], &'static str> {
        let count = usize::try_from(count).map_err(|_| "it ends too early")?;
        let (taken, rest) = self.bytes.split_at_checked(count).ok_or("it ends too early")?;
        self.bytes = rest;
        Ok(taken)
    }

    pub fn byte(&mut self) -> Result<u8, &'static str> {
        Ok(self.take(1)?[0])
    }

    pub fn number(&mut self) -> Result<u64, &'static str> {
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
        Err("a number has more than 64 bits")
    }

    pub fn signed(&mut self) -> Result<i64, &'static str> {
        let value = self.number()?;
        Ok((value >> 1) as i64 ^ -((value & 1) as i64))
    }

    pub fn delta(&mut self, from: u64) -> Result<u64, &'static str> {
        Ok(from.wrapping_add(self.signed()? as u64))
    }

    pub fn bytes(&mut self) -> Result<&'a [u8], &'static str> {
        let len = self.number()?;
        self.take(len)
    }
}
