//! Decodes events; encode.rs is the counterpart, docs/format.md the specification.

use syscalls::record::{IMAGE_ARG, SIGINFO_BYTES};

use crate::block_bytes::BlockBytes;
use crate::event::{
    BlobId, Call, Content, Data, Event, EventKind, Extras, INLINE_BYTES_MAX, Identity, OpenFd,
    Outcome, RECORDER, RECORDER_STREAM, UnknownEvent,
};
use crate::event_fields::{FieldVisitor, UNKNOWN_CODE};
use crate::event_table::{self, Field, ROWS};
use crate::format::{EVENT_BYTES_MAX, Head, call_tag, data_tag, event_number, event_tag, unzigzag};
use crate::kernel::KernelEvent;
use crate::parts::get_parts;
use crate::slots::Slots;
use crate::wire::{Cursor, Malformed};

/// Decodes the events of an EVENTS payload.
pub struct Decoder {
    version: u32,
    bytes: BlockBytes,
    at: usize,
    thread: u32,
    left: u32,
    slots: Slots,
    clock: u64,
    site: u64,
    blob: u64,
    /// Number of events so far that this version does not know.
    unknown: u64,
}

impl Decoder {
    /// Decodes the payload of a block in a file of that version of the format.
    pub fn new(version: u32, head: &Head, payload: BlockBytes) -> Decoder {
        Decoder {
            version,
            bytes: payload,
            at: 0,
            thread: match head.thread & RECORDER_STREAM {
                RECORDER_STREAM => RECORDER,
                _ => head.thread,
            },
            left: head.count,
            slots: Slots::default(),
            clock: head.first_tsc,
            site: 0,
            blob: 0,
            unknown: 0,
        }
    }

    /// Number of events so far that this version does not know.
    pub fn unknown(&self) -> u64 {
        self.unknown
    }

    /// Bytes of memory that it holds.
    pub fn held_bytes(&self) -> usize {
        self.bytes.held_bytes() + self.slots.held_bytes() + size_of::<Decoder>()
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
        event.extras = None;
        let tag = from.byte()?;
        if tag & event_tag::EVENT == 0 {
            return self.call(tag, from, event);
        }
        let tsc = from.delta(self.clock)?;
        self.clock = tsc;
        event.tsc = tsc;
        if self.version == 1 {
            event.kind = self.body_of_version_1(tag, from)?;
            return Ok(());
        }
        let body = from.bytes()?;
        let number = tag & event_tag::NUMBER;
        let (kind, later_fields) = body_of(number, body, std::mem::take(&mut event.kind))?;
        event.kind = kind;
        self.unknown += u64::from(matches!(event.kind, EventKind::Unknown(_)));
        let parts = if tag & event_tag::PARTS != 0 { get_parts(from)? } else { Vec::new() };
        if !parts.is_empty() || !later_fields.is_empty() {
            event.extras = Some(Box::new(Extras { parts, later_fields: later_fields.to_vec() }));
        }
        Ok(())
    }

    /// In version 1, bodies have no length, and their numbers of buffers go on from those before.
    fn body_of_version_1(
        &mut self,
        tag: u8,
        from: &mut Cursor<'_>,
    ) -> Result<EventKind, Malformed> {
        let (number, since) = match tag {
            event_tag::V1_STATE_CUT => (event_number::STATE, 2),
            _ => (tag & !event_tag::EVENT, 1),
        };
        let row = ROWS.iter().find(|row| row.number == number);
        let row = row.ok_or(Malformed("an event is of an unknown kind"))?;
        let mut kind = EventKind::blank(row);
        kind.visit(&mut GetFields { from, blob: &mut self.blob, is_framed: false, since })?;
        Ok(kind)
    }

    fn call(&mut self, tag: u8, from: &mut Cursor<'_>, event: &mut Event) -> Result<(), Malformed> {
        if tag & call_tag::PARTS != 0 && self.version == 1 {
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
            _ => items(from, &mut self.blob, &mut call.data)?,
        }
        if tag & call_tag::IDENTITIES != 0 {
            for _ in 0..from.number()? {
                call.identities.push((from.byte()?, identity(from)?));
            }
        }
        if tag & call_tag::PARTS != 0 {
            let (parts, later_fields) = (get_parts(from)?, Vec::new());
            event.extras = Some(Box::new(Extras { parts, later_fields }));
        }
        Ok(())
    }
}

/// The event of a kind, and the bytes of fields that its row does not have. May reuse the memory of
/// another event.
fn body_of(number: u8, body: &[u8], spare: EventKind) -> Result<(EventKind, &[u8]), Malformed> {
    let unknown =
        || Ok((EventKind::Unknown(UnknownEvent { number, body: body.to_vec() }), &[][..]));
    let Some(row) = event_table::row_of(number) else { return unknown() };
    let mut kind = match spare {
        // There may be very many.
        EventKind::Kernel(event) if number == event_number::KERNEL => {
            let mut values = event.values;
            values.clear();
            EventKind::Kernel(KernelEvent { values, ..KernelEvent::default() })
        }
        _ => EventKind::blank(row),
    };
    let mut from = Cursor::new(body, 0);
    let mut get = GetFields { from: &mut from, blob: &mut 0, is_framed: true, since: u32::MAX };
    match kind.visit(&mut get) {
        Err(UNKNOWN_CODE) => unknown(),
        Err(malformed) => Err(malformed),
        Ok(()) => Ok((kind, &body[from.position()..])),
    }
}

/// Reads the fields of events.
struct GetFields<'a, 'b> {
    from: &'a mut Cursor<'b>,
    /// The last buffer referred to.
    blob: &'a mut u64,
    /// The fields have an end of their own. Those behind it keep their values: whoever wrote the
    /// event did not know them.
    is_framed: bool,
    /// Fields that came after this version are not there.
    since: u32,
}

impl GetFields<'_, '_> {
    fn is_missing(&self, field: &Field) -> bool {
        field.since > self.since || self.is_framed && self.from.is_at_end()
    }
}

impl FieldVisitor for GetFields<'_, '_> {
    fn u8(&mut self, field: &'static Field, value: &mut u8) -> Result<(), Malformed> {
        if !self.is_missing(field) {
            *value = self.from.byte()?;
        }
        Ok(())
    }

    fn u64(&mut self, field: &'static Field, value: &mut u64) -> Result<(), Malformed> {
        if !self.is_missing(field) {
            *value = self.from.number()?;
        }
        Ok(())
    }

    fn i64(&mut self, field: &'static Field, value: &mut i64) -> Result<(), Malformed> {
        if !self.is_missing(field) {
            *value = unzigzag(self.from.number()?);
        }
        Ok(())
    }

    fn optional_i32(
        &mut self,
        field: &'static Field,
        value: &mut Option<i32>,
    ) -> Result<(), Malformed> {
        if !self.is_missing(field) {
            *value = match self.from.byte()? {
                0 => None,
                1 => Some(
                    i32::try_from(unzigzag(self.from.number()?))
                        .map_err(|_| Malformed("a number has more than 32 bits"))?,
                ),
                _ => return Err(Malformed("a number is neither there nor missing")),
            };
        }
        Ok(())
    }

    fn bytes(&mut self, field: &'static Field, value: &mut Vec<u8>) -> Result<(), Malformed> {
        if !self.is_missing(field) {
            value.clear();
            value.extend_from_slice(self.from.bytes()?);
        }
        Ok(())
    }

    fn siginfo(
        &mut self,
        field: &'static Field,
        value: &mut [u8; SIGINFO_BYTES],
    ) -> Result<(), Malformed> {
        if !self.is_missing(field) {
            *value = self.from.array()?;
        }
        Ok(())
    }

    fn four_u32(&mut self, field: &'static Field, value: &mut [u32; 4]) -> Result<(), Malformed> {
        if !self.is_missing(field) {
            *value =
                [self.from.small()?, self.from.small()?, self.from.small()?, self.from.small()?];
        }
        Ok(())
    }

    // Lists grow with the elements that are really there, since the count may be wrong.

    fn list_u32(&mut self, field: &'static Field, value: &mut Vec<u32>) -> Result<(), Malformed> {
        if !self.is_missing(field) {
            for _ in 0..self.from.number()? {
                value.push(self.from.small()?);
            }
        }
        Ok(())
    }

    fn pairs(
        &mut self,
        field: &'static Field,
        value: &mut Vec<(u64, u64)>,
    ) -> Result<(), Malformed> {
        if !self.is_missing(field) {
            for _ in 0..self.from.number()? {
                value.push((self.from.number()?, self.from.number()?));
            }
        }
        Ok(())
    }

    fn descriptors(
        &mut self,
        field: &'static Field,
        value: &mut Vec<OpenFd>,
    ) -> Result<(), Malformed> {
        if !self.is_missing(field) {
            for _ in 0..self.from.number()? {
                value.push(OpenFd {
                    fd: i32::try_from(unzigzag(self.from.number()?))
                        .map_err(|_| Malformed("a number has more than 32 bits"))?,
                    target: self.from.bytes()?.to_vec(),
                    offset: self.from.number()?,
                    flags: self.from.small()?,
                });
            }
        }
        Ok(())
    }

    fn memory(&mut self, field: &'static Field, value: &mut Vec<Data>) -> Result<(), Malformed> {
        if self.is_missing(field) {
            return Ok(());
        }
        items(self.from, self.blob, value)
    }
}

/// Decodes items into a vector, reusing those in it.
fn items(from: &mut Cursor<'_>, blob: &mut u64, items: &mut Vec<Data>) -> Result<(), Malformed> {
    let mut there = 0;
    // Grows with the items that are really there, since the count may be wrong.
    for _ in 0..from.number()? {
        if there == items.len() {
            items.push(Data::default());
        }
        item(from, blob, &mut items[there])?;
        there += 1;
    }
    items.truncate(there);
    Ok(())
}

fn item(from: &mut Cursor<'_>, blob: &mut u64, item: &mut Data) -> Result<(), Malformed> {
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
                *blob = from.delta(*blob)?;
                ids.push(BlobId(*blob));
            }
        }
    }
    Ok(())
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
