//! Encodes events; decode.rs is the counterpart, docs/format.md the specification.

use syscalls::record::{IMAGE_ARG, SIGINFO_BYTES};

use crate::borrowed::{CallRef, ContentRef, DataRef};
use crate::error::WriteError;
use crate::event::{
    BlobId, Content, Data, Event, EventKind, INLINE_BYTES_MAX, Identity, OpenFd, Outcome,
    ProcessState,
};
use crate::event_fields::FieldVisitor;
use crate::event_table::Field;
use crate::format::{EVENT_BYTES_MAX, call_tag, data_tag, event_number, event_tag, zigzag};
use crate::kernel::KernelRef;
use crate::parts::{PARTS_BYTES_MAX, Part, put_parts};
use crate::slots::Slots;
use crate::wire::{Malformed, Scratch, put_bytes, put_length_before, put_number};

/// Maximum number of identities of a call.
const IDENTITIES_MAX: usize = 255;
/// Maximum length of the fixed part of a call: tag, slot, shape, arguments, times, result.
const CALL_BYTES_MAX: usize = 128;
/// Maximum length of a state's descriptors; the rest of it is well below that.
const FDS_BYTES_MAX: usize = EVENT_BYTES_MAX / 2;
/// Maximum length of a descriptor without its target.
const FD_BYTES_MAX: usize = 32;
/// Maximum length of the fixed part of an item of memory.
const DATA_BYTES_MAX: usize = 96;

/// The bytes of shorter buffers take hardly more room than a reference.
const SHORT_BYTES_MIN: usize = 32;

/// Stores long buffers.
pub trait Store {
    /// Stores at most `BLOB_BYTES_MAX` bytes.
    fn blob(&mut self, bytes: &[u8]) -> BlobId;

    /// Stores a buffer that would fit into its event, if that is worth it.
    fn short_blob(&mut self, bytes: &[u8]) -> Option<BlobId>;
}

/// Fields of an EVENTS block's head.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Summary {
    /// Number of events.
    pub count: u32,
    /// Number of calls among them.
    pub calls: u32,
    /// Time stamp of the first event.
    pub first_tsc: u64,
    /// Latest time stamp.
    pub last_tsc: u64,
    /// Highest blob number in use, plus one.
    pub blobs_end: u64,
}

/// An EVENTS block under construction.
pub struct Encoder {
    bytes: Vec<u8>,
    slots: Slots,
    clock: u64,
    site: u64,
    blob: u64,
    summary: Summary,
    /// The predictor holds an event that was taken back, so no more can be added.
    ahead: bool,
}

/// State before an event, to take it back.
struct Mark {
    bytes: usize,
    summary: Summary,
}

impl Encoder {
    /// Begins a block that reuses `bytes`.
    pub fn new(mut bytes: Vec<u8>) -> Encoder {
        bytes.clear();
        let summary = Summary::default();
        Encoder {
            bytes,
            slots: Slots::default(),
            clock: 0,
            site: 0,
            blob: 0,
            summary,
            ahead: false,
        }
    }

    /// Length so far.
    pub fn len(&self) -> usize {
        self.bytes.len()
    }

    /// Whether the block must be closed before the next event, given its target length.
    pub fn is_full(&self, target: usize) -> bool {
        self.bytes.len() >= target || self.ahead
    }

    /// Returns the payload and the fields of its head.
    pub fn close(self) -> (Vec<u8>, Summary) {
        (self.bytes, self.summary)
    }

    /// Adds a call.
    pub fn call(
        &mut self,
        tsc: u64,
        call: &CallRef<'_>,
        store: &mut impl Store,
    ) -> Result<(), WriteError> {
        if call.nargs > 6 {
            return Err(limit("its count of arguments", usize::from(call.nargs), 6));
        }
        if call.identities.len() > IDENTITIES_MAX {
            return Err(limit("its count of identities", call.identities.len(), IDENTITIES_MAX));
        }
        let before = self.begin(tsc);
        let index = slot_of(call.site, call.nr);
        let slot = self.slots.at(index);
        let mut out = Scratch::<CALL_BYTES_MAX>::new();
        let mut tag = 0;
        out.byte(0);
        out.byte(index);
        out.delta(self.clock, tsc);
        if (slot.nr, slot.flags, slot.nargs, slot.site)
            != (call.nr, call.flags, call.nargs, call.site)
        {
            tag |= call_tag::SHAPE;
            out.number(call.nr.into());
            out.byte(call.flags);
            out.byte(call.nargs);
            out.delta(self.site, call.site);
            self.site = call.site;
            (slot.nr, slot.flags, slot.nargs, slot.site) =
                (call.nr, call.flags, call.nargs, call.site);
        }
        if slot.args != call.args {
            tag |= call_tag::ARGS;
            let mask_at = out.bytes().len();
            let mut mask = 0;
            out.byte(0);
            for (i, (old, new)) in slot.args.iter().zip(call.args).enumerate() {
                if *old != new {
                    mask |= 1 << i;
                    out.delta(*old, new);
                }
            }
            out.set(mask_at, mask);
            slot.args = call.args;
        }
        match call.outcome {
            Outcome::Returned { exit_tsc, ret } => {
                out.number(exit_tsc.wrapping_sub(tsc));
                if slot.ret != ret {
                    tag |= call_tag::RET;
                    out.delta(slot.ret as u64, ret as u64);
                    slot.ret = ret;
                }
                self.clock = exit_tsc;
                self.summary.last_tsc = self.summary.last_tsc.max(exit_tsc);
            }
            Outcome::Unfinished => {
                tag |= call_tag::UNFINISHED;
                self.clock = tsc;
            }
        }
        if !call.data.is_empty() {
            tag |= call_tag::DATA;
        }
        if !call.identities.is_empty() {
            tag |= call_tag::IDENTITIES;
        }
        out.set(0, tag);
        self.bytes.extend_from_slice(out.bytes());
        if !call.data.is_empty() {
            put_number(&mut self.bytes, call.data.len() as u64);
            for item in call.data {
                self.data(item, store);
            }
        }
        if !call.identities.is_empty() {
            put_number(&mut self.bytes, call.identities.len() as u64);
            for (arg, identity) in call.identities {
                self.bytes.push(*arg);
                put_identity(&mut self.bytes, identity);
            }
        }
        self.summary.calls += 1;
        if !call.parts.is_empty() {
            return self.end_with_parts(before, call.parts);
        }
        self.end(before)
    }

    /// Adds an event.
    pub fn event(&mut self, event: &Event, store: &mut impl Store) -> Result<(), WriteError> {
        let tsc = event.tsc;
        let number = match &event.kind {
            EventKind::Call(call) => return self.owned_call(tsc, call, event.parts(), store),
            EventKind::Unknown(unknown) => unknown.number,
            known => known.row().map_or(0, |row| row.number),
        };
        let before = self.begin(tsc);
        self.bytes.push(event_tag::EVENT | number & event_tag::NUMBER);
        put_number(&mut self.bytes, zigzag(tsc.wrapping_sub(self.clock) as i64));
        self.clock = tsc;
        let body = self.bytes.len();
        if let EventKind::Unknown(unknown) = &event.kind {
            self.bytes.extend_from_slice(&unknown.body);
        } else {
            let mut kind = event.kind.clone();
            if let EventKind::State(state) = &mut kind {
                leave_out_fds(state);
            }
            // Its numbers of buffers do not count from those before: a reader may skip it.
            let blob = std::mem::take(&mut self.blob);
            let written = kind.visit(&mut PutFields { encoder: self, store });
            debug_assert!(written.is_ok(), "what is in memory fits where it came from");
            self.blob = blob;
        }
        if let Some(extras) = &event.extras {
            self.bytes.extend_from_slice(&extras.later_fields);
        }
        put_length_before(&mut self.bytes, body);
        if !event.parts().is_empty() {
            return self.end_with_parts(before, event.parts());
        }
        self.end(before)
    }

    /// Adds an event of the kernel, as [`Encoder::event`] would.
    pub fn kernel(&mut self, tsc: u64, event: &KernelRef<'_>) -> Result<(), WriteError> {
        let before = self.begin(tsc);
        self.bytes.push(event_tag::EVENT | event_number::KERNEL);
        put_number(&mut self.bytes, zigzag(tsc.wrapping_sub(self.clock) as i64));
        self.clock = tsc;
        let body = self.bytes.len();
        for number in [event.layout, event.task, event.flags] {
            put_number(&mut self.bytes, number.into());
        }
        put_bytes(&mut self.bytes, event.values);
        put_length_before(&mut self.bytes, body);
        self.end(before)
    }

    /// Adds the parts of an event, which are the last of it. Apart from the rest, so that events
    /// without any lose no time.
    #[inline(never)]
    fn end_with_parts(&mut self, before: Mark, parts: &[Part]) -> Result<(), WriteError> {
        self.bytes[before.bytes] |= event_tag::PARTS;
        for id in parts.iter().flat_map(Part::named_buffers).flatten() {
            self.summary.blobs_end = self.summary.blobs_end.max(id.0.saturating_add(1));
        }
        let bytes = put_parts(&mut self.bytes, parts);
        if bytes > PARTS_BYTES_MAX {
            self.take_back(&before);
            return Err(limit("the size of its parts in bytes", bytes, PARTS_BYTES_MAX));
        }
        self.end(before)
    }

    fn owned_call(
        &mut self,
        tsc: u64,
        call: &crate::event::Call,
        parts: &[Part],
        store: &mut impl Store,
    ) -> Result<(), WriteError> {
        let data: Vec<DataRef<'_>> = call.data.iter().map(borrow).collect();
        let call = CallRef {
            nr: call.nr,
            flags: call.flags,
            site: call.site,
            nargs: call.nargs,
            args: call.args,
            outcome: call.outcome,
            data: &data,
            identities: &call.identities,
            parts,
        };
        self.call(tsc, &call, store)
    }

    fn begin(&mut self, tsc: u64) -> Mark {
        let mark = Mark { bytes: self.bytes.len(), summary: self.summary };
        if self.summary.count == 0 {
            self.summary.first_tsc = tsc;
            self.clock = tsc;
        }
        self.summary.last_tsc = self.summary.last_tsc.max(tsc);
        mark
    }

    fn end(&mut self, before: Mark) -> Result<(), WriteError> {
        self.summary.count += 1;
        let bytes = self.bytes.len() - before.bytes;
        if bytes > EVENT_BYTES_MAX {
            self.take_back(&before);
            return Err(limit("its size in bytes", bytes, EVENT_BYTES_MAX));
        }
        Ok(())
    }

    #[cold]
    fn take_back(&mut self, before: &Mark) {
        self.bytes.truncate(before.bytes);
        self.summary = before.summary;
        self.ahead = true;
    }

    fn data(&mut self, item: &DataRef<'_>, store: &mut impl Store) {
        let mut out = Scratch::<DATA_BYTES_MAX>::new();
        let arg = match item.arg {
            IMAGE_ARG => data_tag::ARG_IMAGE,
            arg @ 0..=5 => arg,
            _ => data_tag::ARG_BYTE,
        };
        let part = item.part.min(data_tag::PART_BYTE);
        let short = match item.content {
            ContentRef::Bytes(bytes)
                if (SHORT_BYTES_MIN..=INLINE_BYTES_MAX).contains(&bytes.len()) =>
            {
                store.short_blob(bytes).map(|id| ([id], bytes.len() as u64))
            }
            _ => None,
        };
        let held = match &short {
            Some((ids, len)) => ContentRef::Blobs { len: *len, ids },
            None => item.content,
        };
        let (content, stored) = match held {
            ContentRef::Bytes([]) | ContentRef::Blobs { len: 0, .. } => (data_tag::NOTHING, 0),
            ContentRef::Bytes(bytes) if bytes.len() <= INLINE_BYTES_MAX => {
                (data_tag::INLINE, bytes.len() as u64)
            }
            ContentRef::Bytes(bytes) if bytes.len() <= crate::event::BLOB_BYTES_MAX => {
                (data_tag::BLOB, bytes.len() as u64)
            }
            ContentRef::Bytes(bytes) => (data_tag::BLOBS, bytes.len() as u64),
            ContentRef::Blobs { len, ids: [_] } => (data_tag::BLOB, len),
            ContentRef::Blobs { len, .. } => (data_tag::BLOBS, len),
        };
        out.byte(arg | part << data_tag::PART_SHIFT | content << data_tag::CONTENT_SHIFT);
        let flags_fit = item.flags & !data_tag::FLAGS == 0;
        let stored_differs = content != data_tag::NOTHING && stored != item.true_len;
        let bit = |set: bool, bit: u8| if set { bit } else { 0 };
        out.byte(
            item.flags & data_tag::FLAGS
                | bit(!flags_fit, data_tag::FLAGS_BYTE)
                | bit(item.index != 0, data_tag::INDEX)
                | bit(stored_differs, data_tag::STORED_LEN)
                | bit(item.hash.is_some(), data_tag::HASH),
        );
        if arg == data_tag::ARG_BYTE {
            out.byte(item.arg);
        }
        if part == data_tag::PART_BYTE {
            out.byte(item.part);
        }
        if !flags_fit {
            out.byte(item.flags);
        }
        if item.index != 0 {
            out.number(item.index.into());
        }
        out.number(item.true_len);
        if stored_differs {
            out.number(stored);
        }
        if let Some(hash) = item.hash {
            hash.to_le_bytes().iter().for_each(|byte| out.byte(*byte));
        }
        self.bytes.extend_from_slice(out.bytes());
        match held {
            _ if content == data_tag::NOTHING => {}
            ContentRef::Bytes(bytes) if content == data_tag::INLINE => {
                self.bytes.extend_from_slice(bytes);
            }
            ContentRef::Bytes(bytes) => {
                let chunks = bytes.chunks(crate::event::BLOB_BYTES_MAX);
                if content == data_tag::BLOBS {
                    put_number(&mut self.bytes, chunks.len() as u64);
                }
                chunks.for_each(|chunk| {
                    let id = store.blob(chunk);
                    self.blob_id(id);
                });
            }
            ContentRef::Blobs { ids, .. } => {
                if content == data_tag::BLOBS {
                    put_number(&mut self.bytes, ids.len() as u64);
                }
                ids.iter().for_each(|id| self.blob_id(*id));
            }
        }
    }

    fn blob_id(&mut self, id: BlobId) {
        put_number(&mut self.bytes, zigzag(id.0.wrapping_sub(self.blob) as i64));
        self.blob = id.0;
        self.summary.blobs_end = self.summary.blobs_end.max(id.0.saturating_add(1));
    }
}

/// Writes the fields of events.
struct PutFields<'a, S> {
    encoder: &'a mut Encoder,
    store: &'a mut S,
}

impl<S: Store> FieldVisitor for PutFields<'_, S> {
    fn u8(&mut self, _: &'static Field, value: &mut u8) -> Result<(), Malformed> {
        self.encoder.bytes.push(*value);
        Ok(())
    }

    fn u64(&mut self, _: &'static Field, value: &mut u64) -> Result<(), Malformed> {
        put_number(&mut self.encoder.bytes, *value);
        Ok(())
    }

    fn i64(&mut self, _: &'static Field, value: &mut i64) -> Result<(), Malformed> {
        put_number(&mut self.encoder.bytes, zigzag(*value));
        Ok(())
    }

    fn optional_i32(
        &mut self,
        field: &'static Field,
        value: &mut Option<i32>,
    ) -> Result<(), Malformed> {
        self.encoder.bytes.push(value.is_some().into());
        value.map_or(Ok(()), |value| self.i64(field, &mut value.into()))
    }

    fn bytes(&mut self, _: &'static Field, value: &mut Vec<u8>) -> Result<(), Malformed> {
        put_bytes(&mut self.encoder.bytes, value);
        Ok(())
    }

    fn siginfo(
        &mut self,
        _: &'static Field,
        value: &mut [u8; SIGINFO_BYTES],
    ) -> Result<(), Malformed> {
        self.encoder.bytes.extend_from_slice(value);
        Ok(())
    }

    fn four_u32(&mut self, field: &'static Field, value: &mut [u32; 4]) -> Result<(), Malformed> {
        value.iter_mut().try_for_each(|number| self.u32(field, number))
    }

    fn list_u32(&mut self, field: &'static Field, value: &mut Vec<u32>) -> Result<(), Malformed> {
        put_number(&mut self.encoder.bytes, value.len() as u64);
        value.iter_mut().try_for_each(|number| self.u32(field, number))
    }

    fn pairs(&mut self, _: &'static Field, value: &mut Vec<(u64, u64)>) -> Result<(), Malformed> {
        put_number(&mut self.encoder.bytes, value.len() as u64);
        for (first, second) in value {
            put_number(&mut self.encoder.bytes, *first);
            put_number(&mut self.encoder.bytes, *second);
        }
        Ok(())
    }

    fn descriptors(&mut self, _: &'static Field, value: &mut Vec<OpenFd>) -> Result<(), Malformed> {
        put_number(&mut self.encoder.bytes, value.len() as u64);
        for open in value {
            put_number(&mut self.encoder.bytes, zigzag(open.fd.into()));
            put_bytes(&mut self.encoder.bytes, &open.target);
            put_number(&mut self.encoder.bytes, open.offset);
            put_number(&mut self.encoder.bytes, open.flags.into());
        }
        Ok(())
    }

    fn memory(&mut self, _: &'static Field, value: &mut Vec<Data>) -> Result<(), Malformed> {
        put_number(&mut self.encoder.bytes, value.len() as u64);
        for item in value {
            self.encoder.data(&borrow(item), self.store);
        }
        Ok(())
    }
}

/// The slot that predicts this call. Readers accept any choice; this one separates sites.
fn slot_of(site: u64, nr: u16) -> u8 {
    ((site ^ u64::from(nr) << 48).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 56) as u8
}

fn borrow(item: &Data) -> DataRef<'_> {
    DataRef {
        arg: item.arg,
        part: item.part,
        index: item.index,
        flags: item.flags,
        true_len: item.true_len,
        hash: item.hash,
        content: match &item.content {
            Content::Inline(bytes) => ContentRef::Bytes(bytes),
            Content::Blobs { len, ids } => ContentRef::Blobs { len: *len, ids },
        },
    }
}

fn put_identity(out: &mut Vec<u8>, identity: &Identity) {
    let Identity { dev, ino, mode, nlink, uid, gid, size, rdev, mtime_ns } = *identity;
    let (mode, nlink, uid, gid) = (mode.into(), nlink.into(), uid.into(), gid.into());
    for number in [dev, ino, mode, nlink, uid, gid, size, rdev, zigzag(mtime_ns)] {
        put_number(out, number);
    }
}

/// Leaves out the descriptors for which an event has no room.
fn leave_out_fds(state: &mut ProcessState) {
    let fit = fds_that_fit(state);
    state.fds_left_out += (state.fds.len() - fit) as u64;
    state.fds.truncate(fit);
}

/// Number of a state's descriptors that fit into an event.
fn fds_that_fit(state: &ProcessState) -> usize {
    let mut bytes = 0;
    let fits = |open: &&OpenFd| {
        bytes += open.target.len() + FD_BYTES_MAX;
        bytes <= FDS_BYTES_MAX
    };
    state.fds.iter().take_while(fits).count()
}

fn limit(what: &'static str, found: usize, max: usize) -> WriteError {
    WriteError::Limit { what, found: found as u64, max: max as u64 }
}
