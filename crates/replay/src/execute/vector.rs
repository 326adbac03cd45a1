//! Vectors of buffers.

use syscalls::record::part;
use syscalls::shape::Dir;

use super::Maker;
use super::buffers::{ELEMENT, SLACK, bounded, find, pieces};
use super::value::{Value, put_element};
use crate::batch::{Batch, Call};
use crate::certainty::Reason;
use crate::memory::Span;
use crate::options::Fill;
use crate::treatment::TRANSFER_MAX;

/// Most elements that the kernel accepts in one vector.
const ELEMENTS_MAX: usize = 1024;
/// Most room for output of a call that failed.
const ROOM_MAX: usize = 64 << 10;
impl Maker {
    /// Builds a vector of buffers whose length is another argument.
    pub(super) fn vector(
        &mut self,
        batch: &Batch,
        call: &Call,
        (number, counter): (usize, usize),
        dir: Dir,
        fill: &Fill,
    ) -> Value {
        // The kernel uses 32 bits of the count. Too large counts stay too large.
        let asked = self.number(counter) as u32 as usize;
        self.values.set(counter, Value::Number(asked.min(ELEMENTS_MAX + 1)));
        if asked > ELEMENTS_MAX {
            let len = (ELEMENTS_MAX + 1) * ELEMENT;
            return Value::Memory(self.pointers.copy(std::iter::empty(), len, &Fill::Zeros));
        }
        let given = find(batch, call, number, part::WHOLE, 0, false)
            .or_else(|| find(batch, call, number, part::WHOLE, 0, true));
        let given = given.filter(|piece| !(piece.fault && call.ret < 0));
        let Some(bytes) = given.and_then(|piece| batch.one_stretch(piece)) else {
            // A call that failed before its vector was read still needs one.
            return match call.ret < 0 && call.ret != -i64::from(libc::EFAULT) {
                true => Value::Memory(self.any_vector(asked)),
                false => Value::Nowhere,
            };
        };
        let lens: Vec<usize> = lens(bytes);
        let goes_in =
            dir == Dir::In || pieces(batch, call, number, part::CONTENT, false).next().is_some();
        let vector = self.pointers.take(lens.len() * ELEMENT);
        if call.ret < 0 {
            self.vector_as_it_was(batch, call, number, vector, &lens);
            return Value::Memory(vector);
        }
        let mut left = match (goes_in, call.takes_exactly() || call.ret > 0 && call.does_not_wait())
        {
            (true, _) => {
                let sum = lens.iter().fold(0usize, |sum, len| sum.saturating_add(*len));
                if call.certainty.has(Reason::NotReturned) {
                    sum.min(TRANSFER_MAX as usize)
                } else {
                    bounded(sum, call.ret)
                }
            }
            (false, true) => call.ret as usize,
            (false, false) => call.ret.max(0) as usize + SLACK,
        };
        let bounded = |len: &usize| {
            let len = (*len).min(left);
            left -= len;
            len
        };
        let lens: Vec<usize> = lens.iter().map(bounded).collect();
        let room = if goes_in { Vec::new() } else { self.room_for(bytes, &lens) };
        for (at, len) in lens.into_iter().enumerate() {
            let index = at as u16;
            let piece = find(batch, call, number, part::CONTENT, index, false);
            let span = match (goes_in, piece) {
                (true, Some(piece)) => self.bytes_in(batch, piece, len, fill),
                (true, None) => self.contents.copy(std::iter::empty(), len, fill),
                (false, _) => {
                    let span = room[at];
                    self.add_region(number, part::CONTENT, index, span);
                    span
                }
            };
            put_element(vector, at, Value::Memory(span), len);
        }
        self.go_on = super::GoOn::Vector { pointer: number };
        Value::Memory(vector)
    }

    /// Allocates output buffers. Elements that overlapped in the program overlap here as well, as
    /// the last write to a byte decides its final value.
    fn room_for(&mut self, elements: &[u8], lens: &[usize]) -> Vec<Span> {
        let base = |element: &[u8]| element.first_chunk().map_or(0, |b| u64::from_le_bytes(*b));
        let bases = elements.chunks_exact(ELEMENT).map(base);
        let mut sorted: Vec<(u64, usize)> = bases.zip(0..).collect();
        sorted.sort_unstable();
        let mut room = vec![Span::EMPTY; lens.len()];
        let mut rest = &sorted[..];
        while let Some(&(begin, first)) = rest.first() {
            let mut end = begin.saturating_add(lens[first] as u64);
            let mut size = 1;
            while let Some(&(base, number)) = rest.get(size).filter(|(base, _)| *base < end) {
                end = end.max(base.saturating_add(lens[number] as u64));
                size += 1;
            }
            let (together, others) = rest.split_at(size);
            let all = self.contents.take((end - begin) as usize);
            for &(base, number) in together {
                room[number] = all.after((base - begin) as usize).first(lens[number]);
            }
            rest = others;
        }
        room
    }

    /// Builds a vector of `count` one-byte elements.
    fn any_vector(&mut self, count: usize) -> Span {
        let vector = self.pointers.take(count * ELEMENT);
        for at in 0..count {
            let byte = self.contents.take(1);
            put_element(vector, at, Value::Memory(byte), byte.len());
        }
        vector
    }

    /// Builds the vector of a failed call with its original lengths, which may be the reason. It
    /// points to the stored data, and to some room for reads unless the memory was the reason.
    fn vector_as_it_was(
        &mut self,
        batch: &Batch,
        call: &Call,
        number: usize,
        vector: Span,
        lens: &[usize],
    ) {
        let sum = lens.iter().fold(0usize, |sum, len| sum.saturating_add(*len));
        let has_room = sum <= ROOM_MAX && call.ret != -i64::from(libc::EFAULT);
        for (index, &len) in lens.iter().enumerate() {
            let piece = find(batch, call, number, part::CONTENT, index as u16, false);
            let stored = piece.filter(|piece| batch.stored_len(piece) >= len);
            let at = match stored {
                Some(piece) => Value::Memory(self.bytes_in(batch, piece, len, &Fill::Zeros)),
                None if len == 0 => Value::Memory(self.contents.take(1)),
                None if has_room => Value::Memory(self.contents.take(len)),
                None => Value::Nowhere,
            };
            put_element(vector, index, at, len);
        }
    }

    /// Builds a vector of one buffer.
    pub(super) fn vector_of(&mut self, bytes: Span) -> Span {
        let vector = self.pointers.take(ELEMENT);
        put_element(vector, 0, Value::Memory(bytes), bytes.len());
        vector
    }
}

/// Returns the lengths in an array of `struct iovec`.
pub fn lens(bytes: &[u8]) -> Vec<usize> {
    let len = |element: &[u8]| element[8..].first_chunk().map_or(0, |b| u64::from_le_bytes(*b));
    bytes.chunks_exact(ELEMENT).map(|element| len(element) as usize).collect()
}
