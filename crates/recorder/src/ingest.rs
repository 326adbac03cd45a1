//! Turns the bytes of one thread's ring into events: a parser that can stop after any 8 bytes.
//!
//! The traced program can overwrite these bytes at any time. So every word is read once and
//! checked, and nothing grows without a bound.

mod callers;
pub(crate) mod in_flight;
mod note;
mod operations;
mod stream;
mod unfollowed;
mod withhold;

use syscalls::operations::OPERATIONS_FIRST;
use syscalls::record::{
    GapWhy, HEADER_BYTES, Header, IDENTITY_WORDS, IMAGE_ARG, Identity, RecordKind, SIGINFO_BYTES,
    STACK_ARG, START_WORDS, Start, StartHow, data_flag, enter_flag, own_gs, part, signal_place,
    unwatched, watched,
};
use trace::event::{
    BLOB_BYTES_MAX, Content, Event, EventKind, FieldValue, INLINE_BYTES_MAX, OtherEvent, Outcome,
};
use trace::event_table::row_of;
use trace::format::event_number;
use trace::parts::{Part, PartValue, part_id};
use trace::{CallRef, ContentRef, DataRef};

use self::note::is_wanted;
use self::stream::{Arriving, FIXED_WORDS_MAX, Fate, Item, OpenCall, Withheld, owned};
use crate::output::Output;

pub(crate) use self::stream::Stream;

/// Maximum stored bytes of one buffer. The kernel moves at most 2 GiB - 4 KiB in a call.
const STORED_BYTES_MAX: u64 = 4 << 30;
/// Maximum DATA records of a call: an exec's path, 65,536 arguments, and as many strings of its environment.
const ITEMS_MAX: usize = 1 + 2 * (64 << 10);
/// Maximum blobs of a call.
const IDS_MAX: usize = 96 << 10;
/// Maximum IDENTITY records of a call.
const IDENTITIES_MAX: usize = 64;
/// Number of items up to which their borrowed form is built on the stack.
const FEW: usize = 8;

/// The part of a call that says whether the stores to the file that it has mapped are collected.
static WATCHED: [Part; 7] = [
    watched_as(watched::YES),
    watched_as(watched::REFUSED),
    watched_as(watched::FILTERED),
    watched_as(watched::NOT_THIS),
    watched_as(watched::LATER),
    watched_as(watched::READS),
    watched_as(watched::SHADOWED),
];

const fn watched_as(word: u8) -> Part {
    Part { id: part_id::WATCHED, value: PartValue::Number(word as u64) }
}

fn watched_part(word: u8) -> &'static [Part] {
    let at = usize::from(word.wrapping_sub(watched::YES));
    WATCHED.get(at..=at).unwrap_or_default()
}

/// Why a ring cannot be read any further.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Malformed {
    /// Description of the error.
    pub what: &'static str,
    /// The first word of the record.
    pub word: u64,
}

impl Stream {
    /// Makes `feed` stop before the first record later than `tsc`.
    pub fn read_until(&mut self, tsc: u64) {
        self.until = Some(tsc);
    }

    /// Time stamp of the record at which the last `feed` stopped.
    pub fn next_tsc(&self) -> Option<u64> {
        self.next
    }

    /// Parses the next bytes of the stream. Returns how many were consumed: all, unless
    /// [`Stream::read_until`] set a limit.
    pub fn feed(&mut self, bytes: &[u8], out: &mut Output) -> Result<usize, Malformed> {
        let all = bytes.len();
        let mut bytes = bytes;
        self.next = None;
        if !bytes.len().is_multiple_of(8) {
            return Err(Malformed { what: "a record that is not made of words", word: 0 });
        }
        while !bytes.is_empty() {
            bytes = if self.arriving.is_some() {
                self.feed_content(bytes, out)?
            } else if self.fixed_len == 0 {
                self.feed_whole_records(bytes, out)?
            } else {
                self.feed_fixed(bytes, out)?
            };
            if self.next.is_some() {
                break;
            }
        }
        Ok(all - bytes.len())
    }

    /// Whether a record with this first word and this time stamp must be left for later.
    #[inline]
    fn must_wait(&mut self, word: u64, tsc: u64) -> bool {
        let Some(until) = self.until else { return false };
        // Records without a time stamp belong to the open call.
        let timed = !matches!(
            RecordKind::from_wire(word as u8),
            Some(
                RecordKind::Data
                    | RecordKind::Abandon
                    | RecordKind::Identity
                    | RecordKind::Submit
                    | RecordKind::Submitted
            )
        );
        if timed && tsc > until {
            self.next = Some(tsc);
        }
        self.next.is_some()
    }

    /// The fast path: records whose fixed part is complete. Returns the remaining bytes.
    fn feed_whole_records<'a>(
        &mut self,
        mut bytes: &'a [u8],
        out: &mut Output,
    ) -> Result<&'a [u8], Malformed> {
        while let Some(&first) = bytes.first_chunk::<HEADER_BYTES>() {
            let word = u64::from_le_bytes(first);
            if word == 0 && self.call.is_some() {
                // Filler: the rest of a record that was given up half published.
                bytes = &bytes[HEADER_BYTES..];
                continue;
            }
            let size = fixed_bytes(word)?;
            if bytes.len() < size {
                return self.feed_fixed(bytes, out);
            }
            let (record, rest) = bytes.split_at(size);
            if self.until.is_some() && size > HEADER_BYTES {
                let tsc = word_of(&record[HEADER_BYTES..], 0);
                if self.must_wait(word, tsc) {
                    break;
                }
            }
            if self.patient && is_completion(word) {
                let body = &record[HEADER_BYTES..];
                if self.must_wait_for(word_of(body, 1), out) {
                    self.next = Some(word_of(body, 0));
                    break;
                }
            }
            bytes = rest;
            self.record(word, &record[HEADER_BYTES..], out)?;
            if self.arriving.is_some() {
                break;
            }
        }
        Ok(bytes)
    }

    /// The slow path: collects the fixed part of a record that arrives in pieces.
    fn feed_fixed<'a>(
        &mut self,
        mut bytes: &'a [u8],
        out: &mut Output,
    ) -> Result<&'a [u8], Malformed> {
        while let Some((word, rest)) = bytes.split_first_chunk::<8>() {
            if self.until.is_some()
                && self.fixed_len != 0
                && (self.fixed_len + 1) * 8 == fixed_bytes(self.fixed[0])?
            {
                // The last word of the fixed part: not consuming it leaves the record for later.
                let last = u64::from_le_bytes(*word);
                let tsc = if self.fixed_len == 1 { last } else { self.fixed[1] };
                if self.must_wait(self.fixed[0], tsc) {
                    break;
                }
            }
            let waits = self.patient && self.fixed_len == 2 && is_completion(self.fixed[0]);
            if waits && self.must_wait_for(u64::from_le_bytes(*word), out) {
                self.next = Some(self.fixed[1]);
                break;
            }
            bytes = rest;
            self.fixed[self.fixed_len] = u64::from_le_bytes(*word);
            self.fixed_len += 1;
            let size = fixed_bytes(self.fixed[0])?;
            if self.fixed_len * 8 == size {
                let mut record = [0; FIXED_WORDS_MAX * 8];
                for (to, word) in record.chunks_exact_mut(8).zip(&self.fixed) {
                    to.copy_from_slice(&word.to_le_bytes());
                }
                self.fixed_len = 0;
                self.record(self.fixed[0], &record[HEADER_BYTES..size], out)?;
                break;
            }
        }
        Ok(bytes)
    }

    /// Takes stored bytes of a DATA record.
    fn feed_content<'a>(
        &mut self,
        bytes: &'a [u8],
        out: &mut Output,
    ) -> Result<&'a [u8], Malformed> {
        let Some(mut arriving) = self.arriving.take() else { return Ok(bytes) };
        let padded = arriving.left.next_multiple_of(8);
        let (mine, rest) = bytes.split_at(padded.min(bytes.len() as u64) as usize);
        let mut content = &mine[..arriving.left.min(mine.len() as u64) as usize];
        arriving.left -= content.len() as u64;
        match &mut arriving.fate {
            Fate::Stored => {}
            Fate::Told(told) => told.extend_from_slice(content),
            Fate::Hashed(hasher) => {
                hasher.update(content);
                content = &[];
            }
            Fate::Forgotten => content = &[],
            Fate::Stack => {
                self.stack.extend_from_slice(content);
                content = &[];
            }
        }
        if arriving.item.is_inline() {
            self.inline.extend_from_slice(content);
        } else {
            while !content.is_empty() {
                let to_come = arriving.piece.len() as u64 + content.len() as u64 + arriving.left;
                let whole = to_come.min(BLOB_BYTES_MAX as u64) as usize;
                let (part, after) =
                    content.split_at(content.len().min(whole - arriving.piece.len()));
                content = after;
                if part.len() == whole {
                    self.ids.push(out.blob(part));
                    continue;
                }
                if arriving.piece.is_empty() {
                    arriving.piece = out.take_buffer();
                }
                arriving.piece.extend_from_slice(part);
                if arriving.piece.len() == whole {
                    self.ids.push(out.blob(&arriving.piece));
                    out.give_buffer(std::mem::take(&mut arriving.piece));
                }
            }
            if self.ids.len() > IDS_MAX {
                return Err(Malformed { what: "a call with too much data", word: 0 });
            }
        }
        if arriving.left == 0 {
            self.arrived(arriving, out);
        } else {
            self.arriving = Some(arriving);
        }
        Ok(rest)
    }

    /// Handles a record whose fixed part is complete; `body` is that part without the header.
    #[inline]
    fn record(&mut self, word: u64, body: &[u8], out: &mut Output) -> Result<(), Malformed> {
        let header = Header::from_word(word);
        let bad = |what| Err(Malformed { what, word });
        let Some(kind) = RecordKind::from_wire(header.kind) else { return bad("no record") };
        if self.ended {
            return bad("a record after END");
        }
        let Some((_, me)) = self.start else {
            return if kind == RecordKind::Start {
                self.begin(header, body, out).or_else(bad)
            } else {
                bad("a stream that does not begin with START")
            };
        };
        match kind {
            RecordKind::Enter => {
                if !self.close_gone_call(me.thread, out) {
                    return bad("a call within a call");
                }
                let mut args = [0; 6];
                for (to, at) in args.iter_mut().zip(2..2 + header.c as usize) {
                    *to = word_of(body, at);
                }
                self.calls += 1;
                let mut call = OpenCall {
                    tsc: word_of(body, 0),
                    nr: header.b,
                    flags: header.a & !enter_flag::OF_OPERATIONS,
                    nargs: header.c as u8,
                    site: word_of(body, 1),
                    args,
                };
                if header.a & enter_flag::OPERATION != 0 {
                    self.join(&mut call, word_of(body, 1), header.a & enter_flag::LATE != 0, out);
                } else if let Some(ns) = self.user_time.take() {
                    self.parts.push(Part::number(part_id::USER_CPU, ns));
                }
                self.call = Some(call);
                if let Some(policy) = &mut out.policy {
                    let of_descriptors = policy.entered(me.thread, call.tsc, &call.bare());
                    self.withheld = Withheld { of_descriptors, ..Withheld::default() };
                }
            }
            RecordKind::Exit => {
                let call = self.call.take_if(|_| self.outer.is_none());
                let Some(call) = call else { return bad("EXIT without a call") };
                self.unfollowed = None;
                let (exit_tsc, ret) = (word_of(body, 0), word_of(body, 1) as i64);
                self.settle_submissions(ret, out);
                if call.nr >= OPERATIONS_FIRST && self.was_late() {
                    out.changes.iter_mut().for_each(|changes| changes.late(call.nr, ret));
                }
                if call.nr >= OPERATIONS_FIRST && self.was_unsubmitted() {
                    out.changes.iter_mut().for_each(|changes| changes.unsubmitted());
                }
                self.watched = header.a;
                self.parts.extend_from_slice(watched_part(self.watched));
                if header.c != 0 {
                    self.parts.push(Part::number(part_id::RECORDING, header.c.into()));
                }
                self.emit_call(me.thread, &call, Outcome::Returned { exit_tsc, ret }, out);
                self.watched = watched::UNASKED;
            }
            RecordKind::Data => {
                let of_image = header.a == IMAGE_ARG;
                let open = if of_image {
                    self.call.is_none() && self.image.is_some()
                } else {
                    self.call.is_some()
                };
                if !open {
                    return bad("DATA that belongs to nothing");
                }
                self.begin_data(header, body, out).or_else(bad)?;
            }
            RecordKind::Submit => {
                let mut args = [0; 6];
                for (to, at) in args.iter_mut().zip(2..2 + (header.c & 0xff) as usize) {
                    *to = word_of(body, at);
                }
                let (tsc, id) = (word_of(body, 0), word_of(body, 1));
                self.begin_submission(header, (tsc, id), args, out).or_else(bad)?;
            }
            RecordKind::Submitted => self.end_submission(out).or_else(bad)?,
            RecordKind::Copied => {
                let Some(call) = &mut self.call else { return bad("COPIED without a call") };
                // The last one counts.
                let before = self.parts.iter().position(|part| part.id == part_id::COPYING);
                if let Some(PartValue::Number(ticks)) = before.map(|at| self.parts.remove(at).value)
                {
                    call.tsc = call.tsc.saturating_sub(ticks);
                }
                call.tsc = call.tsc.saturating_add(header.c.into());
                self.parts.push(Part::number(part_id::COPYING, header.c.into()));
            }
            RecordKind::Abandon => {
                self.resume();
                self.settle_submissions(0, out);
                if self.call.take().is_none() {
                    return bad("ABANDON without a call");
                }
                self.unfollowed = None;
                self.calls -= 1;
                if let Some(policy) = &mut out.policy {
                    policy.abandoned(me.thread);
                }
                self.clear();
            }
            RecordKind::Identity => {
                if self.call.is_none() || self.identities.len() >= IDENTITIES_MAX {
                    return bad("IDENTITY without a call");
                }
                let words: [u64; IDENTITY_WORDS] = std::array::from_fn(|i| word_of(body, i));
                self.identities.push((header.a, Identity::from_words(words)));
            }
            RecordKind::Image => {
                // The exec succeeded, though it does not return.
                let (tsc, stopped) = (word_of(body, 0), word_of(body, 1));
                if let Some(call) = self.call.take() {
                    // Since then the agent was placed and begun.
                    let is_known = call.tsc < stopped && stopped < tsc;
                    let exit_tsc = if is_known { stopped } else { tsc };
                    if exit_tsc < tsc {
                        self.parts.push(Part::number(part_id::RECORDING, tsc - exit_tsc));
                    }
                    let outcome = Outcome::Returned { exit_tsc, ret: 0 };
                    self.emit_call(me.thread, &call, outcome, out);
                    self.tell_unfollowed(out);
                }
                self.emit_image(out);
                self.give_up_operations(tsc, out);
                self.image = Some((tsc, header.c));
                self.last_image = Some(tsc);
            }
            RecordKind::Signal => {
                if !self.close_gone_call(me.thread, out) {
                    return bad("a handler within a call");
                }
                let mut info = [0; SIGINFO_BYTES];
                info.copy_from_slice(&body[16..16 + SIGINFO_BYTES]);
                let handler = word_of(body, 1);
                let kind = EventKind::Signal { signal: header.a, handler, info };
                let mut event = Event::new(me.thread, word_of(body, 0), kind);
                if header.b != signal_place::AFTER_A_CALL {
                    let place = Part::number(part_id::SIGNAL_PLACE, header.b.into());
                    event.extras.get_or_insert_default().parts.push(place);
                }
                out.whole_event(event);
            }
            RecordKind::Stall => {
                // A thread may wait for room in the middle of a call, which then stays open.
                self.close_gone_call(me.thread, out);
                let kind = EventKind::Stall { ns: word_of(body, 1) };
                out.event(me.thread, word_of(body, 0), kind);
            }
            RecordKind::UserTime => {
                self.close_gone_call(me.thread, out);
                self.user_time = Some(word_of(body, 1));
            }
            RecordKind::TimeSlice => {
                self.close_gone_call(me.thread, out);
                let row = row_of(event_number::TIME_SLICE).expect("the table has it");
                let values = vec![FieldValue::Unsigned(word_of(body, 1))];
                let kind = EventKind::Other(OtherEvent { row, values });
                out.event(me.thread, word_of(body, 0), kind);
            }
            RecordKind::Gap => {
                let Some(why) = GapWhy::from_wire(header.a) else {
                    return bad("a gap for no known reason");
                };
                let (tsc, detail) = (word_of(body, 0), word_of(body, 1));
                let executes = self.call.is_some_and(|c| c.flags & enter_flag::NO_RETURN != 0);
                if executes && why == GapWhy::NotFollowed {
                    self.unfollowed = Some((tsc, detail));
                    return Ok(());
                }
                self.close_gone_call(me.thread, out);
                self.gaps = true;
                let goes_on = why == GapWhy::OwnGs && header.b == own_gs::GOES_ON;
                if matches!(why, GapWhy::Traced | GapWhy::OwnGs) && !goes_on {
                    out.note_left_alone(detail);
                }
                if why == GapWhy::Unwatched && detail & 0xff == unwatched::INHERITED {
                    out.note_unwatched((detail >> unwatched::PARENT_SHIFT) as u32, tsc);
                }
                let text = match why {
                    GapWhy::NotFollowed => unfollowed::text(detail),
                    GapWhy::OwnGs => unfollowed::with_own_gs(header.b).to_owned(),
                    _ => String::new(),
                };
                out.event(me.thread, tsc, EventKind::Gap { why, detail, text });
            }
            RecordKind::End => {
                self.close_any_call(out);
                self.emit_image(out);
                let calls = word_of(body, 1).saturating_add(self.given_up);
                let calls = calls.saturating_sub(self.left_out);
                self.ended = true;
                out.event(me.thread, word_of(body, 0), EventKind::End { calls });
            }
            RecordKind::Start => return bad("a second START"),
        }
        Ok(())
    }

    fn begin(&mut self, header: Header, body: &[u8], out: &mut Output) -> Result<(), &'static str> {
        let words: [u64; START_WORDS] = std::array::from_fn(|i| word_of(body, i));
        let start = Start::from_words(words);
        let how = StartHow::from_wire(header.a).ok_or("START of no known kind")?;
        if start.thread == trace::event::RECORDER {
            return Err("START with the recorder's number");
        }
        if self.numbers.as_ref().is_some_and(|numbers| !numbers.allow(&start)) {
            return Err("START with numbers of another arena");
        }
        self.start = Some((how, start));
        let Start { process, parent, pid, tid, .. } = start;
        out.event(start.thread, start.tsc, EventKind::Start { how, process, parent, pid, tid });
        Ok(())
    }

    fn begin_data(
        &mut self,
        header: Header,
        body: &[u8],
        out: &mut Output,
    ) -> Result<(), &'static str> {
        let (true_len, stored) = (word_of(body, 0), word_of(body, 1));
        let flags = (header.c >> 8) as u8;
        if stored > STORED_BYTES_MAX {
            return Err("a buffer longer than any");
        }
        if self.items.len() >= ITEMS_MAX {
            return Err("a call with too many buffers");
        }
        if header.a == STACK_ARG {
            return self.begin_stack(header, stored, out);
        }
        let hash = (flags & data_flag::HASH != 0)
            .then(|| u128::from(word_of(body, 2)) | u128::from(word_of(body, 3)) << 64);
        let inline = stored <= INLINE_BYTES_MAX as u64;
        let at = if inline { self.inline.len() } else { self.ids.len() } as u32;
        let part = header.c as u8;
        self.not_whole |= part == part::SNAPSHOT && flags & data_flag::FAULT != 0;
        let mut item =
            Item { arg: header.a, part, index: header.b, flags, true_len, hash, stored, at };
        let fate = match self.call {
            Some(call) if out.policy.is_some() => self.withhold(&call, &mut item, out),
            // Blobs are handed on as they arrive, so the bytes are copied until the call ends.
            Some(call) if !inline && is_wanted(call.nr, &item, out) => Fate::Told(Vec::new()),
            _ => Fate::Stored,
        };
        if stored == 0 {
            self.items.push(item);
        } else {
            self.arriving = Some(Arriving { item, left: stored, piece: Vec::new(), fate });
        }
        Ok(())
    }

    /// Called before a record that stands between calls: an open call that never returns is
    /// complete. False if an open call should have returned.
    #[inline]
    fn close_gone_call(&mut self, thread: u32, out: &mut Output) -> bool {
        if let Some(call) = self.call {
            if call.flags & enter_flag::NO_RETURN == 0 {
                return false;
            }
            self.call = None;
            self.emit_call(thread, &call, Outcome::Unfinished, out);
            self.tell_unfollowed(out);
        }
        if self.image.is_some() {
            self.emit_image(out);
        }
        true
    }

    fn close_any_call(&mut self, out: &mut Output) {
        self.resume();
        if let Some(call) = self.call.take() {
            self.emit_call(self.thread(), &call, Outcome::Unfinished, out);
            self.tell_unfollowed(out);
        }
    }

    /// Adds the gap of an exec that was not followed and has not failed.
    fn tell_unfollowed(&mut self, out: &mut Output) {
        let Some((tsc, errno)) = self.unfollowed.take() else { return };
        self.gaps = true;
        let Some((_, start)) = self.start else { return };
        let text = unfollowed::text(errno);
        let kind = EventKind::Gap { why: GapWhy::NotFollowed, detail: errno, text };
        out.event(start.thread, tsc, kind);
    }

    /// Ends the stream, for whatever reason: hands over the open call and image, without a record
    /// that was cut off.
    pub fn close(&mut self, out: &mut Output) {
        self.next = None;
        self.fixed_len = 0;
        self.arriving = None;
        self.close_any_call(out);
        self.emit_image(out);
    }

    fn emit_call(&mut self, thread: u32, call: &OpenCall, outcome: Outcome, out: &mut Output) {
        let &OpenCall { tsc, nr, flags, nargs, site, args } = call;
        if self.not_whole && matches!(outcome, Outcome::Returned { ret: 0.., .. }) {
            out.files_not_whole += 1;
        }
        let mut is_kept = true;
        if let Some(policy) = &mut out.policy {
            let whole = || call.whole(outcome, self.told());
            is_kept = policy.keeps(thread, tsc, whole);
            policy.returned(thread, tsc, &call.bare(), whole);
        }
        if let Some(changes) = &mut out.changes
            && changes.follows(nr, &args)
        {
            self.note(thread, call, outcome, changes);
        }
        if !is_kept {
            self.stack.clear();
        }
        if out.stacks.is_some() {
            self.find_callers(call, outcome, out);
        }
        if !is_kept {
            self.left_out += 1;
            self.clear();
            return;
        }
        let bare = CallRef {
            nr,
            flags,
            site,
            nargs,
            args,
            outcome,
            data: &[],
            identities: &self.identities,
            parts: &self.parts,
        };
        if self.items.is_empty() {
            out.call(thread, tsc, &bare);
            self.identities.clear();
            self.parts.clear();
            return;
        }
        if let (Some(first), true) = (self.items.first(), self.items.len() <= FEW) {
            let mut few = [self.borrow(first); FEW];
            for (to, item) in few.iter_mut().zip(&self.items).skip(1) {
                *to = self.borrow(item);
            }
            out.call(thread, tsc, &CallRef { data: &few[..self.items.len()], ..bare });
        } else {
            let many: Vec<DataRef<'_>> = self.items.iter().map(|item| self.borrow(item)).collect();
            out.call(thread, tsc, &CallRef { data: &many, ..bare });
        }
        self.clear();
    }

    fn borrow(&self, item: &Item) -> DataRef<'_> {
        let &Item { arg, part, index, flags, true_len, hash, stored, at } = item;
        let at = at as usize;
        let content = if item.is_inline() {
            ContentRef::Bytes(&self.inline[at..at + stored as usize])
        } else {
            let count = stored.div_ceil(BLOB_BYTES_MAX as u64) as usize;
            ContentRef::Blobs { len: stored, ids: &self.ids[at..at + count] }
        };
        DataRef { arg, part, index, flags, true_len, hash, content }
    }

    /// Hands over the IMAGE whose data is complete, if any.
    fn emit_image(&mut self, out: &mut Output) {
        let Some((tsc, tid)) = self.image.take() else { return };
        let with_content = |item: &Item| {
            let content = match self.borrow(item).content {
                ContentRef::Bytes(bytes) => Content::Inline(bytes.to_vec()),
                ContentRef::Blobs { len, ids } => Content::Blobs { len, ids: ids.to_vec() },
            };
            owned(item, content)
        };
        let data = self.items.iter().map(with_content).collect();
        out.event(self.thread(), tsc, EventKind::Image { tid, data });
        self.clear();
    }

    fn clear(&mut self) {
        self.stack.clear();
        self.not_whole = false;
        self.withheld.told.clear();
        self.withheld.told_bytes = 0;
        self.parts.clear();
        self.items.clear();
        self.inline.clear();
        self.ids.clear();
        self.identities.clear();
    }
}

/// Bytes of a record's header and fixed body, including the hash of DATA.
#[inline]
fn fixed_bytes(word: u64) -> Result<usize, Malformed> {
    let header = Header::from_word(word);
    let Some(words) = header.body_words() else {
        return Err(Malformed { what: "no record", word });
    };
    let hashed =
        header.kind == RecordKind::Data as u8 && (header.c >> 8) as u8 & data_flag::HASH != 0;
    Ok(HEADER_BYTES + 8 * words + if hashed { 16 } else { 0 })
}

/// Whether a record with this first word tells that an operation was completed.
#[inline]
fn is_completion(word: u64) -> bool {
    let header = Header::from_word(word);
    header.kind == RecordKind::Enter as u8 && header.a & enter_flag::OPERATION != 0
}

#[inline]
fn word_of(body: &[u8], at: usize) -> u64 {
    let bytes: [u8; 8] = body[at * 8..at * 8 + 8].try_into().expect("eight bytes");
    u64::from_le_bytes(bytes)
}

#[cfg(test)]
pub(crate) mod tests;
