//! How two calls overlap that claim the same bytes of a file, its end, or one offset.
//!
//! A call that did not see what another one wrote, or the end that it moved, came before it; a call
//! that saw all of it came after. A call that saw a part of it ran during the write: such a result
//! cannot be reproduced and proves nothing. Kernels serialize writers of the same bytes, and calls
//! that share an offset: in the order in which they returned, unless another call saw otherwise.
//! That is likely but not certain, so reads of bytes written by two calls at once prove nothing
//! either.

use std::borrow::Cow;
use std::cmp::Ordering;
use std::ops::Range;

use super::super::claims::bytes::{Bytes, Does, common};
use super::Overlap;

/// This many equal bytes are no accident.
const TELLING_BYTES: usize = 16;

/// How much of a write a read shows.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Shows {
    All,
    Part,
    Nothing,
    /// The trace does not hold the bytes.
    Unknown,
}

/// How two calls overlap that concern one file. If one looks and the other changes something, `one`
/// must be the one that looks; `shows` tells how much of a written range it saw.
pub fn overlap(
    one: &Bytes,
    other: &Bytes,
    shows: impl FnOnce(Range<u64>) -> Shows,
) -> Option<Overlap> {
    use Does::{Cuts, FindsEnd, Reads, Writes};
    if one.moves.is_some() && one.moves == other.moves {
        return Some(Overlap::OneOffset);
    }
    match (one.does, other.does) {
        (Reads { at: Some(at), asked, got }, Writes { at: Some(place), len }) => {
            sight((at, asked, got), (place, len), shows)
        }
        // The places are unknown. A call that saw the file's end came before it moved, unless it
        // looked behind the new end.
        (Reads { asked: 0, .. }, Writes { .. }) => None,
        (Reads { got: 0, .. }, Writes { .. }) => Some(Overlap::SawNothingBesideAppend),
        (Reads { .. }, Writes { .. }) => Some(Overlap::LookedBesideAppend),
        // An end within the written range was seen while it moved.
        (FindsEnd(end), Writes { at: Some(at), len }) => match at.saturating_add(len).cmp(&end) {
            Ordering::Greater if at >= end => Some(Overlap::SawOldEnd),
            Ordering::Greater => Some(Overlap::SawEndWithin),
            Ordering::Equal if len > 0 => Some(Overlap::SawNewEnd),
            _ => None,
        },
        (FindsEnd(_), Writes { .. }) => Some(Overlap::LookedBesideAppend),
        // Bytes behind the cut may also be new.
        (Reads { at: Some(at), asked, got }, Cuts(to)) => {
            let behind = |len: u64| at.saturating_add(len) > to;
            match got > 0 && behind(got) {
                true => Some(Overlap::SawBehindCut),
                // The cut may have moved the end on.
                false => (behind(asked) || got < asked).then_some(Overlap::SawEndBesideCut),
            }
        }
        (Reads { at: None, .. }, Cuts(_)) => Some(Overlap::SawEndBesideCut),
        (FindsEnd(end), Cuts(to)) if end > to => Some(Overlap::SawBehindCut),
        (FindsEnd(_), Cuts(_)) => Some(Overlap::SawEndBesideCut),
        (Writes { .. } | Cuts(_), Writes { .. } | Cuts(_)) => {
            match one.stretch().zip(other.stretch()) {
                Some((ours, theirs)) => common(ours, theirs).map(|_| Overlap::TwoWrote),
                None => Some(Overlap::TwoAppended),
            }
        }
        _ => None,
    }
}

/// What a read saw of a write. It got `got` of the bytes it asked for.
fn sight(
    (start, asked, got): (u64, u64, u64),
    (at, len): (u64, u64),
    shows: impl FnOnce(Range<u64>) -> Shows,
) -> Option<Overlap> {
    let (short, end) = (got < asked, start.saturating_add(got));
    let written = at..at.saturating_add(len);
    // It saw the old end of the file, which the write moved.
    let lacks = short && written.end > end;
    let Some(both) = common(start..end, written) else {
        let seen = if at < end { Overlap::SawNothingWithin } else { Overlap::SawOldEnd };
        return lacks.then_some(seen);
    };
    Some(match shows(both) {
        Shows::All | Shows::Unknown if lacks => Overlap::SawEndWithin,
        Shows::All => Overlap::SawAll,
        Shows::Part => Overlap::SawPart,
        Shows::Nothing => Overlap::SawNothing,
        Shows::Unknown => Overlap::NotHeld,
    })
}

/// What depends on the order of two calls that move one offset.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct LeftOpen {
    /// The place of the only one that wrote.
    pub written: bool,
    /// Where they leave the offset. A task corrects what a read moved, so the sum is as recorded
    /// where both only move it on.
    pub offset: bool,
}

/// What is not known if the order of two calls that move one offset is not.
pub fn places_left_open(one: &Bytes, other: &Bytes) -> LeftOpen {
    use Does::{FindsEnd, FindsOffset, Seeks, Writes};
    let both = [one.does, other.does];
    let count = |is: fn(&Does) -> bool| both.iter().filter(|does| is(does)).count();
    let writes = count(|does| matches!(does, Writes { .. }));
    let sets = count(|does| matches!(does, Seeks | FindsEnd(_)));
    let looks = count(|does| matches!(does, FindsOffset));
    // It may have been to the end.
    let anywhere = count(|does| matches!(does, Writes { at: None, .. }));
    LeftOpen {
        written: writes == 1 && looks == 0,
        offset: looks == 0 && (sets > 0 || anywhere == 1),
    }
}

/// The bytes that a call moved, as slices, if the trace holds them all.
type Content<'a> = Option<Vec<&'a [u8]>>;

/// Compares the bytes that a read got in a range with those that a write put there.
pub fn shown(
    read: (&Bytes, Content<'_>),
    write: (&Bytes, Content<'_>),
    range: Range<u64>,
) -> Shows {
    let len = (range.end - range.start) as usize;
    let there = |bytes: &Bytes| Some(range.start.checked_sub(bytes.stretch()?.start)? as usize);
    let (Some(from), Some(to)) = (there(read.0), there(write.0)) else { return Shows::Unknown };
    let (Some(read), Some(written)) = (read.1, write.1) else { return Shows::Unknown };
    let (read, written) = (stretch(&read, from, len), stretch(&written, to, len));
    match read.len() == len && written.len() == len {
        true => compare(&read, &written),
        false => Shows::Unknown,
    }
}

/// Compares bytes read with bytes written at the same place. Processors copy a page in no reliable
/// order, so a part may be anywhere.
fn compare(read: &[u8], written: &[u8]) -> Shows {
    if read == written {
        return Shows::All;
    }
    let mut same = 0;
    let tells = read.iter().zip(written).any(|(a, b)| {
        same = if a == b { same + 1 } else { 0 };
        same >= TELLING_BYTES
    });
    if tells { Shows::Part } else { Shows::Nothing }
}

/// Returns a range of consecutive slices.
fn stretch<'a>(pieces: &[&'a [u8]], mut from: usize, len: usize) -> Cow<'a, [u8]> {
    let mut found = Cow::Borrowed(&[][..]);
    for piece in pieces {
        let start = from.min(piece.len());
        let more = &piece[start..(start + len - found.len()).min(piece.len())];
        from -= start;
        if found.is_empty() {
            found = Cow::Borrowed(more);
        } else if !more.is_empty() {
            found.to_mut().extend_from_slice(more);
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    fn call(does: Does) -> Bytes {
        Bytes { file: 1, moves: None, does }
    }

    fn reads(at: u64, asked: u64, got: u64) -> Bytes {
        call(Does::Reads { at: Some(at), asked, got })
    }

    fn writes(at: Option<u64>, len: u64) -> Bytes {
        call(Does::Writes { at, len })
    }

    fn found(one: &Bytes, other: &Bytes) -> Option<Overlap> {
        overlap(one, other, |_| Shows::Nothing)
    }

    #[test]
    fn an_end_shows_the_write_that_moved_it() {
        let ends = |end| found(&call(Does::FindsEnd(end)), &writes(Some(10), 10));
        assert_eq!(ends(9), Some(Overlap::SawOldEnd));
        assert_eq!(ends(15), Some(Overlap::SawEndWithin));
        assert_eq!(ends(20), Some(Overlap::SawNewEnd));
        assert_eq!(ends(21), None);
    }

    #[test]
    fn what_was_read_beside_an_append_may_be_of_it() {
        let read = |asked, got| found(&reads(5, asked, got), &writes(None, 10));
        assert_eq!(read(10, 10), Some(Overlap::LookedBesideAppend));
        assert_eq!(read(10, 3), Some(Overlap::LookedBesideAppend));
        assert_eq!(read(10, 0), Some(Overlap::SawNothingBesideAppend));
        assert_eq!(read(0, 0), None);
    }

    #[test]
    fn a_cut_may_move_the_end_on() {
        let cut = call(Does::Cuts(100));
        assert_eq!(found(&reads(0, 20, 0), &cut), Some(Overlap::SawEndBesideCut));
        assert_eq!(found(&reads(0, 20, 20), &cut), None);
        assert_eq!(found(&reads(90, 20, 20), &cut), Some(Overlap::SawBehindCut));
    }

    #[test]
    fn who_sets_an_offset_leaves_it_open() {
        let moves = |does| Bytes { moves: Some(7), ..call(does) };
        let [read, write] = [reads(0, 10, 10), writes(Some(0), 10)].map(|bytes| moves(bytes.does));
        let seek = moves(Does::Seeks);
        assert_eq!(found(&read, &seek), Some(Overlap::OneOffset));
        assert_eq!(found(&reads(0, 10, 10), &seek), None, "it has a place of its own");
        let open = |one, other| {
            let LeftOpen { written, offset } = places_left_open(one, other);
            (written, offset)
        };
        assert_eq!(open(&read, &read), (false, false));
        assert_eq!(open(&read, &write), (true, false));
        assert_eq!(open(&write, &write), (false, false));
        assert_eq!(open(&read, &seek), (false, true));
        assert_eq!(open(&write, &seek), (true, true));
        let append = moves(Does::Writes { at: None, len: 10 });
        assert_eq!(open(&read, &append), (true, true), "that goes to the end");
        assert_eq!(open(&moves(Does::FindsOffset), &seek), (false, false));
    }
}
