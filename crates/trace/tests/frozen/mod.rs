//! A reader as it was when version 2 of the format began. It shares no code with today's reader and
//! is never changed: what it cannot read of a trace of version 2, an older reenact cannot read
//! either. It reads traces that are not compressed.

mod cursor;
mod events;

use std::collections::BTreeMap;

/// What it read of a trace.
#[derive(Debug, Default)]
pub struct Read {
    /// Events in their order, each as a line of text.
    pub lines: Vec<String>,
    /// Number of calls.
    pub calls: u64,
    /// Number of events that it does not know.
    pub skipped: u64,
    /// Number of parts that it does not know.
    pub parts_skipped: u64,
}

/// An event: its time stamp, and a line of text unless it was skipped.
type Event = (u64, Option<String>);

const HEAD_BYTES: usize = 80;
const EVENTS: u8 = 2;
const END: u8 = 5;

/// Reads a trace.
pub fn read(bytes: &[u8]) -> Result<Read, &'static str> {
    if bytes.get(..8) != Some(b"\x89RNT\r\n\x1a\n") {
        return Err("this is no trace");
    }
    if word(bytes, 8)? != 2 {
        return Err("this is no trace of version 2");
    }
    let mut read = Read::default();
    let mut threads: BTreeMap<u32, Vec<Event>> = BTreeMap::new();
    let mut at = 16;
    loop {
        let head = bytes.get(at..at + HEAD_BYTES).ok_or("the trace was not ended")?;
        if head[..4] != *b"\xb1RNB" || word(head, 16)? as usize != at {
            return Err("no block begins here");
        }
        if crc(&head[..76]) != word(head, 76)? {
            return Err("the checksum of a head is wrong");
        }
        let payload = at + HEAD_BYTES..at + HEAD_BYTES + word(head, 12)? as usize;
        at = payload.end;
        let payload = bytes.get(payload).ok_or("a block is cut off")?;
        if crc(payload) != word(head, 24)? {
            return Err("the checksum of a payload is wrong");
        }
        match head[4] {
            EVENTS if head[5] != 0 => return Err("this reader unpacks nothing"),
            EVENTS => {
                let first_tsc = u64::from(word(head, 56)?) | u64::from(word(head, 60)?) << 32;
                let thread = threads.entry(word(head, 28)?).or_default();
                let (count, calls) = (word(head, 48)?, word(head, 52)?);
                read.calls += u64::from(calls);
                events::decode(payload, count, first_tsc, thread, &mut read)?;
            }
            END => break,
            _ => {}
        }
    }
    // The next event is the earliest one; among equals, that of the thread with the lowest number.
    let mut streams: Vec<_> = threads
        .into_iter()
        .map(|(thread, events)| (thread, events.into_iter().peekable()))
        .collect();
    loop {
        let next = streams
            .iter_mut()
            .filter_map(|(thread, events)| Some((events.peek()?.0, *thread, events)))
            .min_by_key(|(tsc, thread, _)| (*tsc, *thread));
        let Some((tsc, thread, events)) = next else { return Ok(read) };
        if let Some((_, Some(line))) = events.next() {
            read.lines.push(format!("{tsc} thread {thread}: {line}"));
        }
    }
}

fn word(bytes: &[u8], at: usize) -> Result<u32, &'static str> {
    let word = bytes.get(at..at + 4).and_then(|word| word.try_into().ok());
    word.map(u32::from_le_bytes).ok_or("it ends too early")
}

/// CRC-32 of zlib.
fn crc(bytes: &[u8]) -> u32 {
    let mut crc = !0_u32;
    for byte in bytes {
        crc ^= u32::from(*byte);
        for _ in 0..8 {
            crc = crc >> 1 ^ if crc & 1 == 1 { 0xedb8_8320 } else { 0 };
        }
    }
    !crc
}
