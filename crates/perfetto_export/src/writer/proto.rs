//! The parts of protobuf's encoding that are needed.

/// Wire types.
const VARINT: u64 = 0;
const FIXED_64: u64 = 1;
const BYTES: u64 = 2;

/// A message being written.
#[derive(Default)]
pub struct Message(Vec<u8>);

impl Message {
    /// Adds a varint; negative numbers are in two's complement.
    pub fn uint(&mut self, field: u32, value: u64) {
        self.key(field, VARINT);
        self.varint(value);
    }

    /// Adds a 64-bit number of fixed size.
    pub fn fixed(&mut self, field: u32, value: u64) {
        self.key(field, FIXED_64);
        self.0.extend_from_slice(&value.to_le_bytes());
    }

    /// Adds bytes or text.
    pub fn bytes(&mut self, field: u32, bytes: &[u8]) {
        self.key(field, BYTES);
        self.varint(bytes.len() as u64);
        self.0.extend_from_slice(bytes);
    }

    /// Adds a nested message.
    pub fn message(&mut self, field: u32, fill: impl FnOnce(&mut Message)) {
        self.key(field, BYTES);
        let at = self.0.len();
        // Most messages are short: reserve one byte for the length.
        self.0.push(0);
        fill(self);
        let mut len = self.0.len() - at - 1;
        if len < 0x80 {
            self.0[at] = len as u8;
            return;
        }
        let mut prefix = Vec::with_capacity(10);
        while len >= 0x80 {
            prefix.push(len as u8 | 0x80);
            len >>= 7;
        }
        prefix.push(len as u8);
        self.0.splice(at..at + 1, prefix);
    }

    /// Adds all fields of another message.
    pub fn append(&mut self, other: &Message) {
        self.0.extend_from_slice(&other.0);
    }

    /// Number of bytes so far.
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Returns the bytes so far.
    pub fn bytes_so_far(&self) -> &[u8] {
        &self.0
    }

    /// Clears the message.
    pub fn clear(&mut self) {
        self.0.clear();
    }

    fn key(&mut self, field: u32, wire: u64) {
        self.varint(u64::from(field) << 3 | wire);
    }

    fn varint(&mut self, mut value: u64) {
        while value >= 0x80 {
            self.0.push(value as u8 | 0x80);
            value >>= 7;
        }
        self.0.push(value as u8);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn as_the_format_wants_it() {
        let mut message = Message::default();
        message.uint(1, 150);
        message.bytes(2, b"testing");
        message.message(3, |inner| inner.uint(1, 150));
        message.fixed(4, 1);
        let expected = b"\x08\x96\x01\x12\x07testing\x1a\x03\x08\x96\x01\x21\x01\0\0\0\0\0\0\0";
        assert_eq!(message.bytes_so_far(), expected);
    }

    #[test]
    fn long_messages_have_long_lengths() {
        let mut message = Message::default();
        message.message(1, |inner| inner.bytes(1, &[7; 300]));
        let bytes = message.bytes_so_far();
        // 300 bytes, their key, and their length in two bytes.
        assert_eq!(bytes[..6], [0x0a, 0xaf, 0x02, 0x0a, 0xac, 0x02]);
        assert_eq!(bytes.len(), 306);
    }
}
