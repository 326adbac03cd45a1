//! Messages through socket pairs: header, vector, content and control data built anew.

use events::record::part;
use events::shape::Dir;

use super::{Maker, NOWHERE, Region, SLACK, bounded, find, pieces, put_element, vector_lens};
use crate::batch::{Batch, Call};
use crate::shared::Fill;

/// Bytes of a `struct msghdr` and of a `struct mmsghdr`.
const HEADER: usize = 56;
const MANY_HEADER: usize = 64;
/// Room for a message's control data and address.
const CONTROL_ROOM: usize = 4096;
const NAME_ROOM: usize = 128;
/// Bytes of all messages of one call: more than sockets hold.
const MESSAGES_BYTES_MAX: usize = 64 << 20;
/// Most messages of one call.
const MESSAGES_MAX: usize = 1024;

impl Maker {
    /// One message.
    pub(super) fn message(
        &mut self,
        batch: &Batch,
        call: &Call,
        number: usize,
        dir: Dir,
        fill: &Fill,
    ) -> usize {
        let start = self.memory.take(HEADER);
        match self.header(start, batch, call, (number, 0), dir, bounded_all(call), fill) {
            true => start as usize,
            false => NOWHERE,
        }
    }

    /// Several messages: as many as were sent or received.
    pub(super) fn messages(
        &mut self,
        batch: &Batch,
        call: &Call,
        number: usize,
        dir: Dir,
        fill: &Fill,
    ) -> usize {
        let count = call.ret.clamp(0, MESSAGES_MAX as i64) as usize;
        let start = self.memory.copy(std::iter::empty(), count.max(1) * MANY_HEADER, &Fill::Zeros);
        let most = MESSAGES_BYTES_MAX / count.max(1);
        for index in 0..count {
            let at = start.wrapping_add(index * MANY_HEADER);
            let which = (number, index as u16);
            if !self.header(at, batch, call, which, dir, most, fill) {
                return NOWHERE;
            }
        }
        if count > 0 {
            self.values[number + 1] = count;
        }
        self.at_most(number + 1, count.max(1));
        start as usize
    }

    #[allow(clippy::too_many_arguments, reason = "a message has that many parts")]
    fn header(
        &mut self,
        to: *mut u8,
        batch: &Batch,
        call: &Call,
        (number, index): (usize, u16),
        dir: Dir,
        most: usize,
        fill: &Fill,
    ) -> bool {
        let out = dir == Dir::Out;
        let part_of = |part| find(batch, call, number, part, index, out);
        let Some(head) = part_of(part::WHOLE).and_then(|piece| batch.one_stretch(piece)) else {
            return false;
        };
        let word = |at: usize| {
            head.get(at..at + 8).and_then(|b| b.first_chunk()).map_or(0, |b| u64::from_le_bytes(*b))
        };
        let (has_name, has_control) = (word(0) != 0, word(32) != 0);
        let (name, name_len) = match part_of(part::NAME).filter(|_| !out) {
            Some(piece) => {
                let len = batch.stored_len(piece);
                (self.memory.copy(batch.stretches(piece), len, fill) as usize, len)
            }
            None if out && has_name => (self.memory.take(NAME_ROOM) as usize, NAME_ROOM),
            None => (0, 0),
        };
        let (control, control_len) = match part_of(part::CONTROL).filter(|_| !out) {
            Some(piece) => {
                let len = batch.stored_len(piece);
                let start = self.memory.copy(batch.stretches(piece), len, fill);
                // SAFETY: the copy is as long as that, and nobody else's.
                tell_own_ids(unsafe { std::slice::from_raw_parts_mut(start, len) });
                (start as usize, len)
            }
            None if out && has_control => {
                let start = self.memory.take(CONTROL_ROOM);
                let (arg, part) = (number as u8, part::CONTROL);
                self.regions.push(Region { arg, part, index, start, len: CONTROL_ROOM });
                (start as usize, CONTROL_ROOM)
            }
            None => (0, 0),
        };
        let vector = part_of(part::VECTOR).and_then(|piece| batch.one_stretch(piece));
        let lens = vector_lens(vector.unwrap_or_default());
        let array = self.memory.take(lens.len() * 16);
        let total: usize = lens.iter().fold(0usize, |sum, len| sum.saturating_add(*len)).min(most);
        let start = if out {
            let start = self.memory.take(total);
            let (arg, part) = (number as u8, part::CONTENT);
            self.regions.push(Region { arg, part, index, start, len: total });
            start
        } else {
            let content = pieces(batch, call, number, part::CONTENT, false);
            let stretches = content.filter(|p| p.index == index).flat_map(|p| batch.stretches(p));
            self.memory.copy(stretches, total, fill)
        };
        let mut done = 0;
        for (element, len) in lens.iter().enumerate() {
            let len = (*len).min(total - done);
            put_element(array, element, start as usize + done, len);
            done += len;
        }
        let words = [
            name as u64,
            name_len as u64,
            array as u64,
            lens.len() as u64,
            control as u64,
            control_len as u64,
            0,
        ];
        for (at, word) in words.into_iter().enumerate() {
            // SAFETY: the header has room for its seven words.
            unsafe { to.cast::<u64>().add(at).write_unaligned(word) };
        }
        true
    }
}

/// Credentials that a process tells of itself must be its own; here it has other ids.
fn tell_own_ids(control: &mut [u8]) {
    const HEAD: usize = size_of::<libc::cmsghdr>();
    let mut rest = control;
    while let Some((head, _)) = rest.split_first_chunk::<HEAD>() {
        let word =
            |at: usize| i32::from_le_bytes([head[at], head[at + 1], head[at + 2], head[at + 3]]);
        let (len, level, kind) = (word(0) as usize, word(8), word(12));
        if len < HEAD || len > rest.len() {
            return;
        }
        if (level, kind) == (libc::SOL_SOCKET, libc::SCM_CREDENTIALS) {
            // SAFETY: these take nothing and cannot fail.
            let (pid, uid, gid) =
                unsafe { (libc::getpid() as u32, libc::getuid(), libc::getgid()) };
            let own = [pid, uid, gid].map(u32::to_le_bytes);
            let ids = rest[HEAD..len].chunks_exact_mut(4).zip(own);
            ids.for_each(|(id, own)| id.copy_from_slice(&own));
        }
        let next = len.next_multiple_of(8).min(rest.len());
        rest = &mut std::mem::take(&mut rest)[next..];
    }
}

/// Bytes of one message: what passed, and a little more where more could come.
fn bounded_all(call: &Call) -> usize {
    match call.reads() {
        true => call.ret.max(0) as usize + SLACK,
        false => bounded(usize::MAX, call.ret),
    }
}
