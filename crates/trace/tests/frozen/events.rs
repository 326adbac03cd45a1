//! The events of a block.

use std::fmt::Write;

use super::cursor::Cursor;
use super::{Event, Read};

/// The call before in a slot.
#[derive(Clone, Copy, Default)]
struct Slot {
    nr: u64,
    flags: u8,
    nargs: u8,
    site: u64,
    args: [u64; 6],
    ret: u64,
}

struct Block<'a> {
    from: Cursor<'a>,
    slots: Box<[Slot; 256]>,
    clock: u64,
    site: u64,
    blob: u64,
    parts_skipped: u64,
}

/// Adds the events of a block to those of its thread.
pub fn decode(
    payload: &[u8],
    count: u32,
    first_tsc: u64,
    thread: &mut Vec<Event>,
    read: &mut Read,
) -> Result<(), &'static str> {
    let mut block = Block {
        from: Cursor::new(payload),
        slots: Box::new([Slot::default(); 256]),
        clock: first_tsc,
        site: 0,
        blob: 0,
        parts_skipped: 0,
    };
    for _ in 0..count {
        let tag = block.from.byte()?;
        let event = if tag & 0x80 == 0 { block.call(tag)? } else { block.event(tag)? };
        read.skipped += u64::from(event.1.is_none());
        thread.push(event);
    }
    read.parts_skipped += block.parts_skipped;
    if block.from.is_at_end() { Ok(()) } else { Err("bytes follow the last event") }
}

impl Block<'_> {
    fn call(&mut self, tag: u8) -> Result<Event, &'static str> {
        let from = &mut self.from;
        let slot = &mut self.slots[usize::from(from.byte()?)];
        let tsc = from.delta(self.clock)?;
        if tag & 1 != 0 {
            (slot.nr, slot.flags, slot.nargs) = (from.number()?, from.byte()?, from.byte()?);
            slot.site = from.delta(self.site)?;
            self.site = slot.site;
        }
        if tag & 2 != 0 {
            let mask = from.byte()?;
            for (number, arg) in slot.args.iter_mut().enumerate() {
                if mask >> number & 1 != 0 {
                    *arg = from.delta(*arg)?;
                }
            }
        }
        self.clock = tsc;
        if tag & 8 == 0 {
            self.clock = tsc.wrapping_add(from.number()?);
        }
        if tag & 4 != 0 {
            slot.ret = from.delta(slot.ret)?;
        }
        let args = slot.args.get(..slot.nargs.into()).ok_or("a call has too many arguments")?;
        let mut line =
            format!("call {} flags {} site {:#x} {args:?}", slot.nr, slot.flags, slot.site);
        if tag & 8 == 0 {
            let _ = write!(line, " = {} at {}", slot.ret as i64, self.clock);
        }
        if tag & 16 != 0 {
            items(&mut self.from, &mut self.blob, &mut line)?;
        }
        if tag & 32 != 0 {
            for _ in 0..self.from.number()? {
                let _ = write!(line, " file {}", self.from.byte()?);
                for _ in 0..8 {
                    let _ = write!(line, " {}", self.from.number()?);
                }
                let _ = write!(line, " {}", self.from.signed()?);
            }
        }
        if tag & 64 != 0 {
            self.parts(&mut line)?;
        }
        Ok((tsc, Some(line)))
    }

    fn event(&mut self, tag: u8) -> Result<Event, &'static str> {
        let tsc = self.from.delta(self.clock)?;
        self.clock = tsc;
        let mut line = body(tag & 0x3f, self.from.bytes()?)?;
        if tag & 64 != 0 {
            self.parts(line.as_mut().unwrap_or(&mut String::new()))?;
        }
        Ok((tsc, line))
    }

    fn parts(&mut self, line: &mut String) -> Result<(), &'static str> {
        let mut from = Cursor::new(self.from.bytes()?);
        while !from.is_at_end() {
            let key = from.number()?;
            let value = match key & 1 {
                0 => from.number()?.to_string(),
                _ => format!("{:?}", from.bytes()?),
            };
            match key >> 1 {
                id @ 1..=10 => {
                    let _ = write!(line, " part {id} {value}");
                }
                _ => self.parts_skipped += 1,
            }
        }
        Ok(())
    }
}

/// The fields of an event; `None` if its kind, or a code in it, is not known. What follows the known
/// fields is skipped.
fn body(number: u8, bytes: &[u8]) -> Result<Option<String>, &'static str> {
    let from = &mut Cursor::new(bytes);
    let mut line = match number {
        1 => {
            let (signal, handler) = (from.byte()?, from.number()?);
            format!("signal {signal} handler {handler:#x} info {:?}", from.take(48)?)
        }
        2 => match from.byte()? {
            how @ 1..=4 => format!("start {how}") + &numbers(from, 4)?,
            _ => return Ok(None),
        },
        3 => {
            let mut line = format!("image {}", from.number()?);
            items(from, &mut 0, &mut line)?;
            line
        }
        4 => format!("end {}", from.number()?),
        5 => format!("stall {}", from.number()?),
        6 => match from.byte()? {
            why @ (1..=7 | 9..=14) => {
                let detail = from.number()?;
                format!("gap {why} {detail} {:?}", String::from_utf8_lossy(from.bytes()?))
            }
            _ => return Ok(None),
        },
        7 => state(from)?,
        8 => format!("exit {}", from.number()?),
        _ => return Ok(None),
    };
    if number == 8 && from.byte()? != 0 {
        let _ = write!(line, " status {}", from.signed()?);
    }
    Ok(Some(line))
}

fn numbers(from: &mut Cursor<'_>, count: u64) -> Result<String, &'static str> {
    let mut line = String::new();
    for _ in 0..count {
        let _ = write!(line, " {}", from.number()?);
    }
    Ok(line)
}

fn state(from: &mut Cursor<'_>) -> Result<String, &'static str> {
    let mut line = String::from("state") + &numbers(from, 3)?;
    for _ in 0..3 {
        let _ = write!(line, " {:?}", from.bytes()?);
    }
    line += &numbers(from, 8)?;
    let groups = from.number()?;
    line += &numbers(from, groups)?;
    line += &numbers(from, 3)?;
    for _ in 0..from.number()? {
        line += &numbers(from, 2)?;
    }
    for _ in 0..from.number()? {
        let _ = write!(line, " fd {} {:?}", from.signed()?, from.bytes()?);
        line += &numbers(from, 2)?;
    }
    // It was added at the end by version 2.
    let left_out = if from.is_at_end() { 0 } else { from.number()? };
    let _ = write!(line, " left out {left_out}");
    Ok(line)
}

fn items(from: &mut Cursor<'_>, blob: &mut u64, line: &mut String) -> Result<(), &'static str> {
    for _ in 0..from.number()? {
        let (first, second) = (from.byte()?, from.byte()?);
        let arg = if first & 7 == 7 { from.byte()? } else { first & 7 };
        let part = if first >> 3 & 7 == 7 { from.byte()? } else { first >> 3 & 7 };
        let flags = if second & 0x10 != 0 { from.byte()? } else { second & 15 };
        let index = if second & 0x20 != 0 { from.number()? } else { 0 };
        let true_len = from.number()?;
        let stored = if second & 0x40 != 0 { from.number()? } else { true_len };
        let hash = if second & 0x80 != 0 { from.take(16)? } else { &[] };
        let _ = write!(line, " data {arg} {part} {flags} {index} {true_len} {hash:?}");
        match first >> 6 {
            0 => {}
            1 => {
                let _ = write!(line, " {:?}", from.take(stored)?);
            }
            several => {
                let count = if several == 2 { 1 } else { from.number()? };
                for _ in 0..count {
                    *blob = from.delta(*blob)?;
                    let _ = write!(line, " buffer {blob}");
                }
            }
        }
    }
    Ok(())
}
