//! Matches reads of pipes with the writes whose bytes they get.

use std::collections::{HashMap, VecDeque};

/// Limit for the pipes tracked. Beyond it, the least recently used half is forgotten.
const PIPES_MAX: usize = 4096;
/// Limit for the pending writes of a pipe; only hostile traces exceed it.
const WRITES_MAX: usize = 1 << 16;
/// Limit for the writes matched with one read.
const PER_READ_MAX: usize = 256;

/// Tracks the bytes in pipes.
#[derive(Default)]
pub struct Pipes {
    pipes: HashMap<Vec<u8>, Pipe>,
    uses: u64,
}

#[derive(Default)]
struct Pipe {
    used: u64,
    /// Total number of bytes written and read.
    written: u64,
    read: u64,
    /// End position and flow of each pending write.
    writes: VecDeque<(u64, Option<u64>)>,
}

/// Flows of the writes whose bytes a read got.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Got {
    /// Flows of writes that have more bytes left.
    pub parts: Vec<u64>,
    /// Flows of writes that are now completely read.
    pub ends: Vec<u64>,
}

impl Pipes {
    /// Records a write. Without a flow it only counts bytes.
    pub fn write(&mut self, pipe: &[u8], bytes: u64, flow: Option<u64>) {
        let pipe = self.pipe(pipe);
        pipe.written = pipe.written.saturating_add(bytes);
        pipe.writes.push_back((pipe.written, flow));
        if pipe.writes.len() > WRITES_MAX {
            pipe.writes.pop_front();
        }
    }

    /// Records a read, which gets the oldest bytes.
    pub fn read(&mut self, pipe: &[u8], bytes: u64) -> Got {
        let pipe = self.pipe(pipe);
        let mut got = Got::default();
        // Bytes of unrecorded writers cannot be told apart from others.
        let end = pipe.read.saturating_add(bytes).min(pipe.written);
        while let Some((write_end, flow)) = pipe.writes.front() {
            if pipe.read >= end {
                break;
            }
            let whole = *write_end <= end;
            let flows = if whole { &mut got.ends } else { &mut got.parts };
            if let Some(flow) = flow
                && flows.len() < PER_READ_MAX
            {
                flows.push(*flow);
            }
            pipe.read = end.min(*write_end);
            if !whole {
                break;
            }
            pipe.writes.pop_front();
        }
        pipe.read = end;
        got
    }

    fn pipe(&mut self, name: &[u8]) -> &mut Pipe {
        self.uses += 1;
        if self.pipes.len() >= PIPES_MAX && !self.pipes.contains_key(name) {
            let mut used: Vec<u64> = self.pipes.values().map(|pipe| pipe.used).collect();
            let (_, middle, _) = used.select_nth_unstable(PIPES_MAX / 2);
            let middle = *middle;
            self.pipes.retain(|_, pipe| pipe.used > middle);
        }
        if !self.pipes.contains_key(name) {
            self.pipes.insert(name.to_vec(), Pipe::default());
        }
        let pipe = self.pipes.get_mut(name).expect("it was put there");
        pipe.used = self.uses;
        pipe
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn got(parts: &[u64], ends: &[u64]) -> Got {
        Got { parts: parts.to_vec(), ends: ends.to_vec() }
    }

    #[test]
    fn reads_get_what_was_written_first() {
        let mut pipes = Pipes::default();
        pipes.write(b"a", 10, Some(1));
        pipes.write(b"a", 10, Some(2));
        pipes.write(b"b", 10, Some(3));
        assert_eq!(pipes.read(b"a", 4), got(&[1], &[]));
        assert_eq!(pipes.read(b"a", 6), got(&[], &[1]));
        assert_eq!(pipes.read(b"a", 5), got(&[2], &[]));
        pipes.write(b"a", 1, Some(4));
        pipes.write(b"a", 9, Some(5));
        assert_eq!(pipes.read(b"a", 8), got(&[5], &[2, 4]));
        assert_eq!(pipes.read(b"b", 10), got(&[], &[3]));
    }

    #[test]
    fn writers_that_nobody_saw() {
        let mut pipes = Pipes::default();
        assert_eq!(pipes.read(b"a", 100), Got::default());
        pipes.write(b"a", 5, None);
        pipes.write(b"a", 5, Some(1));
        assert_eq!(pipes.read(b"a", 1000), got(&[], &[1]));
        assert_eq!(pipes.read(b"a", 1000), Got::default());
    }

    #[test]
    fn memory_is_bounded() {
        let mut pipes = Pipes::default();
        for number in 0..3 * PIPES_MAX as u64 {
            pipes.write(&number.to_le_bytes(), 1, Some(number));
        }
        assert!(pipes.pipes.len() <= PIPES_MAX);
        for number in 0..2 * WRITES_MAX as u64 {
            pipes.write(b"a", 1, Some(number));
        }
        assert_eq!(pipes.pipes[&b"a"[..]].writes.len(), WRITES_MAX);
        let got = pipes.read(b"a", u64::MAX);
        assert_eq!(got.ends.len(), PER_READ_MAX);
    }
}
