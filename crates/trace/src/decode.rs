//! Decodes events; encode.rs is the counterpart, docs/format.md the specification.

use syscalls::record::{IMAGE_ARG, SIGINFO_BYTES};

use crate::described;
use crate::event::{
    BlobId, Call, Content, Data, Event, EventKind, GapWhy, INLINE_BYTES_MAX, Identity, Outcome,
    ProcessState, StartHow,
};
use crate::format::{EVENT_BYTES_MAX, call_tag, data_tag, event_tag, unzigzag};
use crate::slots::Slots;
use crate::wire::{Cursor, Get, Malformed};

/// Decodes the events of an EVENTS payload.
pub struct Decoder {
    bytes: Vec<u8>,
    at: usize,
    thread: u32,
    left: u32,
    slots: Slots,
    clock: u64,
    site: u64,
    blob: u64,
}

impl Decoder {
    /// Decodes a payload of `count` events of a thread, the first at `first_tsc`.
    pub fn new(bytes: Vec<u8>, thread: u32, count: u32, first_tsc: u64) -> Decoder {
        let slots = Slots::default();
        Decoder { bytes, at: 0, thread, left: count, slots, clock: first_tsc, site: 0, blob: 0 }
    }

    /// Bytes of memory that it holds.
    pub fn held_bytes(&self) -> usize {
        self.bytes.capacity() + self.slots.held_bytes() + size_of::<Decoder>()
    }

    /// Time stamp of the next event.
    pub fn next_tsc(&self) -> Result<Option<u64>, Malformed> {
        if self.left == 0 {
            return self.check_end().map(|()| None);
        }
        let mut from = Cursor::new(&self.bytes, self.at);
        if from.byte()? & 0x80 == 0 {
            from.byte()?;
        }
        from.delta(self.clock).map(Some)
    }

    fn check_end(&self) -> Result<(), Malformed> {
        match self.at == self.bytes.len() {
            true => Ok(()),
            false => Err(Malformed("bytes follow its last event")),
        }
    }

    /// Decodes the next event into `event`, reusing its memory. Returns false if there are no more,
    /// as is the case after an error.
    pub fn next_event(&mut self, event: &mut Event) -> Result<bool, Malformed> {
        if self.left == 0 {
            let end = self.check_end().map(|()| false);
            self.at = self.bytes.len();
            return end;
        }
        self.left -= 1;
        let bytes = std::mem::take(&mut self.bytes);
        let end = bytes.len().min(self.at + EVENT_BYTES_MAX);
        let mut cursor = Cursor::new(&bytes[..end], self.at);
        let taken = self.event(&mut cursor, event);
        self.at = cursor.position();
        if taken.is_err() {
            (self.left, self.at) = (0, bytes.len());
        }
        self.bytes = bytes;
        taken.map(|()| true)
    }

    fn event(&mut self, from: &mut Cursor<'_>, event: &mut Event) -> Result<(), Malformed> {
        event.thread = self.thread;
        let tag = from.byte()?;
        if tag & 0x80 == 0 {
            return self.call(tag, from, event);
        }
        let tsc = from.delta(self.clock)?;
        self.clock = tsc;
        event.tsc = tsc;
        event.kind = match tag {
            event_tag::SIGNAL => EventKind::Signal {
                signal: from.byte()?,
                handler: from.number()?,
                info: from.array::<SIGINFO_BYTES>()?,
            },
            event_tag::START => EventKind::Start {
                how: StartHow::from_wire(from.byte()?)
                    .ok_or(Malformed("a thread began in an unknown way"))?,
                process: from.small()?,
                parent: from.small()?,
                pid: from.small()?,
                tid: from.small()?,
            },
            event_tag::IMAGE => {
                let (tid, mut data) = (from.small()?, Vec::new());
                self.items(from, &mut data)?;
                EventKind::Image { tid, data }
            }
            event_tag::END => EventKind::End { calls: from.number()? },
            event_tag::STALL => EventKind::Stall { ns: from.number()? },
            event_tag::GAP => EventKind::Gap {
                why: GapWhy::from_wire(from.byte()?)
                    .ok_or(Malformed("a gap has an unknown reason"))?,
                detail: from.number()?,
                text: String::from_utf8(from.bytes()?.to_vec())
                    .map_err(|_| Malformed("a gap's text is not UTF-8"))?,
            },
            event_tag::STATE | event_tag::STATE_CUT => {
                let mut state = Box::<ProcessState>::default();
                described::state(&mut Get(from), &mut state)?;
                if tag == event_tag::STATE_CUT {
                    state.fds_left_out = from.number()?;
                }
                EventKind::State(state)
            }
            event_tag::EXIT => EventKind::Exit {
                process: from.small()?,
                status: match from.byte()? {
                    0 => None,
                    1 => Some(
                        i32::try_from(unzigzag(from.number()?))
                            .map_err(|_| Malformed("a wait status has more than 32 bits"))?,
                    ),
                    _ => return Err(Malformed("a wait status is neither there nor missing")),
                },
            },
            _ => return Err(Malformed("an event is of an unknown kind")),
        };
        Ok(())
    }

    fn call(&mut self, tag: u8, from: &mut Cursor<'_>, event: &mut Event) -> Result<(), Malformed> {
        if tag & !call_tag::ALL != 0 {
            return Err(Malformed("a call's first byte has an unknown bit"));
        }
        if !matches!(event.kind, EventKind::Call(_)) {
            event.kind = EventKind::Call(Call::default());
        }
        let EventKind::Call(call) = &mut event.kind else { return Ok(()) };
        let slot = self.slots.at(from.byte()?);
        let tsc = from.delta(self.clock)?;
        event.tsc = tsc;
        if tag & call_tag::SHAPE != 0 {
            slot.nr = from.small()?;
            slot.flags = from.byte()?;
            slot.nargs = from.byte()?;
            slot.site = from.delta(self.site)?;
            self.site = slot.site;
            if slot.nargs > 6 {
                return Err(Malformed("a call has more than 6 arguments"));
            }
        }
        call.nr = slot.nr;
        call.flags = slot.flags;
        call.site = slot.site;
        call.nargs = slot.nargs;
        // Copied before they change: reading words that were just written would stall.
        call.args = slot.args;
        if tag & call_tag::ARGS != 0 {
            let mask = from.byte()?;
            if mask & 0xc0 != 0 {
                return Err(Malformed("a call has more than 6 arguments"));
            }
            for number in 0..call.args.len() {
                if mask & 1 << number != 0 {
                    let value = from.delta(slot.args[number])?;
                    (slot.args[number], call.args[number]) = (value, value);
                }
            }
        }
        call.outcome = if tag & call_tag::UNFINISHED != 0 {
            if tag & call_tag::RET != 0 {
                return Err(Malformed("a call without an end has a result"));
            }
            self.clock = tsc;
            Outcome::Unfinished
        } else {
            let exit_tsc = tsc.wrapping_add(from.number()?);
            if tag & call_tag::RET != 0 {
                slot.ret = from.delta(slot.ret as u64)? as i64;
            }
            self.clock = exit_tsc;
            Outcome::Returned { exit_tsc, ret: slot.ret }
        };
        call.identities.clear();
        match tag & call_tag::DATA {
            0 => call.data.clear(),
            _ => self.items(from, &mut call.data)?,
        }
        if tag & call_tag::IDENTITIES != 0 {
            for _ in 0..from.number()? {
                call.identities.push((from.byte()?, identity(from)?));
            }
        }
        Ok(())
    }

    /// Decodes items into a vector, reusing those in it.
    fn items(&mut self, from: &mut Cursor<'_>, items: &mut Vec<Data>) -> Result<(), Malformed> {
        let mut there = 0;
        // Grows with the items that are really there, since the count may be wrong.
        for _ in 0..from.number()? {
            if there == items.len() {
                items.push(Data::default());
            }
            self.item(from, &mut items[there])?;
            there += 1;
        }
        items.truncate(there);
        Ok(())
    }

    fn item(&mut self, from: &mut Cursor<'_>, item: &mut Data) -> Result<(), Malformed> {
        let (first, second) = (from.byte()?, from.byte()?);
        let arg = match first & data_tag::ARG {
            data_tag::ARG_BYTE => from.byte()?,
            data_tag::ARG_IMAGE => IMAGE_ARG,
            arg => arg,
        };
        let part = match first >> data_tag::PART_SHIFT & 7 {
            data_tag::PART_BYTE => from.byte()?,
            part => part,
        };
        let flags = match second & data_tag::FLAGS_BYTE {
            0 => second & data_tag::FLAGS,
            _ => from.byte()?,
        };
        let index = if second & data_tag::INDEX != 0 { from.small()? } else { 0 };
        let true_len = from.number()?;
        let len = if second & data_tag::STORED_LEN != 0 { from.number()? } else { true_len };
        let hash = match second & data_tag::HASH {
            0 => None,
            _ => Some(u128::from_le_bytes(from.array()?)),
        };
        (item.arg, item.part, item.index, item.flags) = (arg, part, index, flags);
        (item.true_len, item.hash) = (true_len, hash);
        // Reuse the memory of the former content.
        match first >> data_tag::CONTENT_SHIFT {
            data_tag::NOTHING => inline(&mut item.content).clear(),
            data_tag::INLINE if len <= INLINE_BYTES_MAX as u64 => {
                let bytes = inline(&mut item.content);
                bytes.clear();
                bytes.extend_from_slice(from.take(len as usize)?);
            }
            data_tag::INLINE => return Err(Malformed("bytes within an event are too many")),
            several => {
                let count = if several == data_tag::BLOB { 1 } else { from.number()? };
                let ids = blobs(&mut item.content, len);
                ids.clear();
                for _ in 0..count {
                    self.blob = from.delta(self.blob)?;
                    ids.push(BlobId(self.blob));
                }
            }
        }
        Ok(())
    }
}

/// Makes the content inline, and returns its buffer.
fn inline(content: &mut Content) -> &mut Vec<u8> {
    if !matches!(content, Content::Inline(_)) {
        *content = Content::Inline(Vec::new());
    }
    let Content::Inline(bytes) = content else { unreachable!("it was made so") };
    bytes
}

/// Makes the content blobs of `bytes` bytes in all, and returns the list of their numbers.
fn blobs(content: &mut Content, bytes: u64) -> &mut Vec<BlobId> {
    if !matches!(content, Content::Blobs { .. }) {
        *content = Content::Blobs { len: bytes, ids: Vec::new() };
    }
    let Content::Blobs { len, ids } = content else { unreachable!("it was made so") };
    *len = bytes;
    ids
}

fn identity(from: &mut Cursor<'_>) -> Result<Identity, Malformed> {
    Ok(Identity {
        dev: from.number()?,
        ino: from.number()?,
        mode: from.small()?,
        nlink: from.small()?,
        uid: from.small()?,
        gid: from.small()?,
        size: from.number()?,
        rdev: from.number()?,
        mtime_ns: unzigzag(from.number()?),
    })
}
