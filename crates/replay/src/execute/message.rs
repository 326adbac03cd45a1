//! Messages through socket pairs: rebuilds header, vector, content and control data.

use syscalls::record::part;
use syscalls::shape::Dir;

use super::buffers::{SLACK, bounded, find, pieces};
use super::value::{Value, put_element, put_word};
use super::{GIVEN_MAX, GoOn, Maker, vector};
use crate::batch::{Batch, Call};
use crate::memory::Span;
use crate::options::Fill;

/// Sizes of `struct msghdr` and `struct mmsghdr`.
const HEADER: usize = 56;
const MANY_HEADER: usize = 64;
/// Room for a message's control data and address.
const CONTROL_ROOM: usize = 4096;
const NAME_ROOM: usize = 128;
/// Most bytes of all messages of one call: more than sockets hold.
const MESSAGES_BYTES_MAX: usize = 64 << 20;
/// Most messages of one call.
const MESSAGES_MAX: usize = 1024;

impl Maker {
    /// Builds one message.
    pub(super) fn message(
        &mut self,
        batch: &Batch,
        call: &Call,
        number: usize,
        dir: Dir,
        fill: &Fill,
    ) -> Value {
        let header = self.pointers.take(HEADER);
        let parts = self.header(header, batch, call, (number, 0), dir, bounded_all(call), fill);
        let Some((vector, control)) = parts else { return Value::Nowhere };
        if call.takes_exactly() && call.reads() {
            self.go_on = GoOn::Message { header, vector, control };
        }
        Value::Memory(header)
    }

    /// Builds several messages: as many as were sent or received.
    pub(super) fn messages(
        &mut self,
        batch: &Batch,
        call: &Call,
        (number, counter): (usize, usize),
        dir: Dir,
        fill: &Fill,
    ) -> Value {
        let count = call.ret.clamp(0, MESSAGES_MAX as i64) as usize;
        let len = count.max(1) * MANY_HEADER;
        let all = self.pointers.copy(std::iter::empty(), len, &Fill::Zeros);
        let most = MESSAGES_BYTES_MAX / count.max(1);
        for index in 0..count {
            let header = all.after(index * MANY_HEADER).first(HEADER);
            let which = (number, index as u16);
            if self.header(header, batch, call, which, dir, most, fill).is_none() {
                return Value::Nowhere;
            }
        }
        if count > 0 {
            self.values.set(counter, Value::Number(count));
        }
        Value::Memory(all)
    }

    /// Returns its vector, and the room for control data.
    #[allow(clippy::too_many_arguments, reason = "a message has that many parts")]
    fn header(
        &mut self,
        to: Span,
        batch: &Batch,
        call: &Call,
        (number, index): (usize, u16),
        dir: Dir,
        most: usize,
        fill: &Fill,
    ) -> Option<(Span, usize)> {
        let out = dir == Dir::Out;
        let part_of = |part| find(batch, call, number, part, index, out);
        let head = part_of(part::WHOLE).and_then(|piece| batch.one_stretch(piece))?;
        let word = |at: usize| {
            head.get(at..at + 8).and_then(|b| b.first_chunk()).map_or(0, |b| u64::from_le_bytes(*b))
        };
        let (has_name, has_control) = (word(0) != 0, word(32) != 0);
        // Drop the destination name: its receiver may be outside.
        let name = (out && has_name).then(|| self.contents.take(NAME_ROOM));
        let control = match part_of(part::CONTROL).filter(|_| !out) {
            Some(piece) => {
                let len = batch.stored_len(piece).min(GIVEN_MAX);
                let control = self.contents.copy(batch.stretches(piece), len, fill);
                // SAFETY: the copy was just made, and nothing else refers to it.
                tell_own_ids(unsafe { control.bytes_mut() });
                Some(control)
            }
            None if out && has_control => {
                let control = self.contents.take(CONTROL_ROOM);
                self.add_region(number, part::CONTROL, index, control);
                Some(control)
            }
            None => None,
        };
        let elements = part_of(part::VECTOR).and_then(|piece| batch.one_stretch(piece));
        let lens = vector::lens(elements.unwrap_or_default());
        let array = self.pointers.take(lens.len() * size_of::<libc::iovec>());
        let total: usize = lens.iter().fold(0usize, |sum, len| sum.saturating_add(*len)).min(most);
        let mut left = if out {
            let content = self.contents.take(total);
            self.add_region(number, part::CONTENT, index, content);
            content
        } else {
            let content = pieces(batch, call, number, part::CONTENT, false);
            let stretches = content.filter(|p| p.index == index).flat_map(|p| batch.stretches(p));
            self.contents.copy(stretches, total, fill)
        };
        for (element, len) in lens.iter().enumerate() {
            put_element(array, element, Value::Memory(left), *len);
            left = left.after(*len);
        }
        // Name, vector and control data, each with its length; then flags.
        let part = |span: Option<Span>| span.map_or([0; 2], |span| [span.address(), span.len()]);
        let vector = [array.address(), array.len() / size_of::<libc::iovec>()];
        let words = [part(name), vector, part(control)];
        for (at, word) in words.into_iter().flatten().chain([0]).enumerate() {
            put_word(to, at * size_of::<usize>(), word);
        }
        Some((array, control.map_or(0, |control| control.len())))
    }
}

/// Replaces credentials in control data by the task's own ids: the kernel rejects others.
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
            // SAFETY: these have no arguments and cannot fail.
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

/// Most bytes of one message: as recorded, with some slack for received ones.
fn bounded_all(call: &Call) -> usize {
    match call.reads() {
        true if call.takes_exactly() => call.ret as usize,
        true => call.ret.max(0) as usize + SLACK,
        false => bounded(usize::MAX, call.ret),
    }
}
