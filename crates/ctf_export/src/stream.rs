//! A stream: packets of the events of one CPU.

use std::io::{self, Write};

use crate::metadata::MAGIC;

/// Bytes of events after which a packet ends.
const PACKET_BYTES: usize = 256 << 10;
/// Bytes of a packet's header and context.
const HEAD_BYTES: usize = 4 + 16 + 4 + 6 * 8 + 4;

/// Writes the events of a CPU.
pub struct Stream<W> {
    out: W,
    cpu: u32,
    uuid: [u8; 16],
    events: Vec<u8>,
    begin: Option<u64>,
    last: u64,
    sequence: u64,
    discarded: u64,
}

impl<W: Write> Stream<W> {
    /// Begins a stream.
    pub fn new(out: W, cpu: u32, uuid: [u8; 16]) -> Stream<W> {
        let (events, begin) = (Vec::new(), None);
        Stream { out, cpu, uuid, events, begin, last: 0, sequence: 0, discarded: 0 }
    }

    /// Begins an event; what it holds is appended to what is returned. Times do not go back.
    pub fn event(&mut self, id: u16, time: u64) -> io::Result<&mut Vec<u8>> {
        if self.events.len() >= PACKET_BYTES {
            self.end_packet()?;
        }
        let time = time.max(self.last);
        self.begin.get_or_insert(time);
        self.last = time;
        self.events.extend_from_slice(&id.to_le_bytes());
        self.events.extend_from_slice(&time.to_le_bytes());
        Ok(&mut self.events)
    }

    /// Events are missing, up to a time.
    pub fn lost(&mut self, count: u64, time: u64) -> io::Result<()> {
        self.end_packet()?;
        self.discarded = self.discarded.saturating_add(count);
        // A packet without events tells it, if none follows.
        self.begin = Some(self.last);
        self.last = self.last.max(time);
        self.end_packet()
    }

    fn end_packet(&mut self) -> io::Result<()> {
        let Some(begin) = self.begin.take() else { return Ok(()) };
        let bits = 8 * (HEAD_BYTES + self.events.len()) as u64;
        let mut head = Vec::with_capacity(HEAD_BYTES);
        head.extend_from_slice(&MAGIC.to_le_bytes());
        head.extend_from_slice(&self.uuid);
        head.extend_from_slice(&0u32.to_le_bytes());
        for number in [begin, self.last, bits, bits, self.sequence, self.discarded] {
            head.extend_from_slice(&number.to_le_bytes());
        }
        head.extend_from_slice(&self.cpu.to_le_bytes());
        self.out.write_all(&head)?;
        self.out.write_all(&self.events)?;
        self.events.clear();
        self.sequence += 1;
        Ok(())
    }

    /// Writes what is left.
    pub fn finish(mut self) -> io::Result<()> {
        self.end_packet()?;
        self.out.flush()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn packets_say_how_long_they_are() {
        let mut bytes = Vec::new();
        let mut stream = Stream::new(&mut bytes, 3, [7; 16]);
        stream.event(1, 100).unwrap().push(9);
        stream.event(1, 90).unwrap().push(9);
        stream.lost(5, 200).unwrap();
        stream.finish().unwrap();
        let number = |at: usize| u64::from_le_bytes(bytes[at..at + 8].try_into().unwrap());
        let first = HEAD_BYTES + 2 * 11;
        assert_eq!(bytes.len(), first + HEAD_BYTES);
        // Begin, end, sizes in bits, number, events discarded.
        let head = |from: usize| [0, 1, 2, 3, 4, 5].map(|at| number(from + 24 + 8 * at));
        let bits = 8 * first as u64;
        assert_eq!(head(0), [100, 100, bits, bits, 0, 0]);
        let bits = 8 * HEAD_BYTES as u64;
        assert_eq!(head(first), [100, 200, bits, bits, 1, 5]);
    }
}
