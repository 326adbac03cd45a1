//! Which recorded buffers belong to an argument, and how much of them is passed.

use super::value::put_word;
use crate::batch::{Batch, Call, Piece};
use crate::memory::Span;

/// Extra room in output buffers, to notice when more comes out than was recorded.
pub const SLACK: usize = 64 << 10;
/// Size of an element of a vector.
pub const ELEMENT: usize = size_of::<libc::iovec>();
/// Most input bytes of a call that failed.
const FAILED_MAX: usize = 64 << 10;

/// Input bytes of `want` to pass, given the recorded result.
pub fn bounded(want: usize, ret: i64) -> usize {
    match usize::try_from(ret) {
        Ok(0) => want.min(FAILED_MAX),
        Ok(took) => want.min(took),
        Err(_) => want.min(FAILED_MAX),
    }
}

/// Returns the pieces of an argument's part, in order.
pub fn pieces<'a>(
    batch: &'a Batch,
    call: &Call,
    number: usize,
    part: u8,
    out: bool,
) -> impl Iterator<Item = &'a Piece> {
    batch
        .pieces_of(call)
        .iter()
        .filter(move |p| usize::from(p.arg) == number && p.part == part && p.out == out)
}

/// Returns one piece of an argument.
pub fn find<'a>(
    batch: &'a Batch,
    call: &Call,
    number: usize,
    part: u8,
    index: u16,
    out: bool,
) -> Option<&'a Piece> {
    pieces(batch, call, number, part, out).find(|piece| piece.index == index)
}

/// Says in a message's header again how much room for control data there is: a call says how much came.
pub fn make_room_for_control(header: Span, len: usize) {
    const LEN_AT: usize = 40;
    put_word(header, LEN_AT, len);
}

/// Removes bytes already moved from a vector.
pub fn skip(vector: Span, bytes: usize) {
    let mut bytes = bytes;
    // SAFETY: the vector is our memory, which only its builder accesses.
    let elements = unsafe { vector.bytes_mut() }.chunks_exact_mut(ELEMENT);
    for element in elements {
        let (base, len) = element.split_at_mut(ELEMENT / 2);
        let word = |half: &[u8]| half.first_chunk().map_or(0, |word| usize::from_ne_bytes(*word));
        let part = bytes.min(word(len));
        let (start, left) = (word(base).wrapping_add(part), word(len) - part);
        base.copy_from_slice(&start.to_ne_bytes());
        len.copy_from_slice(&left.to_ne_bytes());
        bytes -= part;
    }
}
