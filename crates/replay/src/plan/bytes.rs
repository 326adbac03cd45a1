//! Orders overlapping calls on the same bytes of a file by what their results show.
//!
//! A call that did not see what another one wrote, or the end that it moved, came before it; a call
//! that saw all of it came after. A call that saw a part of it ran during the write: such a result
//! cannot be reproduced and proves nothing. Kernels serialize writers of the same bytes, and calls
//! that share an offset: in the order in which they returned, unless another call saw otherwise.
//! That is likely but not certain, so reads of bytes written by two calls at once prove nothing
//! either.

use std::borrow::Cow;
use std::ops::Range;

use model::DescriptorTable;
use syscalls::abi::files::O_TRUNC;
use syscalls::shape::{Dir, Kind, Of};
use syscalls::{Act, Operand, Ret, attributes, flags};
use trace::event::Call;

use super::Planner;
use super::line::Line;
use super::transfers::{Moves, hash_of};
use crate::batch::Proof;
use crate::order::Index;
use crate::treatment::{Said, makes_name};

/// This many equal bytes are no accident.
const TELLING_BYTES: usize = 16;

/// A call's access to the bytes of a file.
#[derive(Clone, Copy, Debug)]
pub struct Bytes {
    /// Hash of the file's path. Files with the same hash wait for each other, which is harmless.
    pub file: u64,
    /// The open file whose offset it advances.
    pub moves: Option<usize>,
    /// Kind of access.
    pub does: Does,
}

/// Kind of access to a file.
#[derive(Clone, Copy, Debug)]
pub enum Does {
    /// Reads, at this place if known.
    Reads { at: Option<u64>, asked: u64, got: u64 },
    /// Writes, at this place if known.
    Writes { at: Option<u64>, len: u64 },
    /// Truncates the file at this place.
    Cuts(u64),
    /// Learned that the file ends here.
    FindsEnd(u64),
}

/// A call's access to a file's end.
#[derive(Clone, Copy, Debug)]
pub struct AtEnd {
    /// Hash of the file's path.
    file: u64,
    /// Where it truncates the file; `None` if it reports the end.
    cut: Option<u64>,
}

/// How much of a write a read shows.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Shows {
    All,
    Part,
    Nothing,
    /// The trace does not hold the bytes.
    Unknown,
}

/// Which of two overlapping calls came first.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum First {
    /// The one that looked.
    Look,
    /// The one that wrote.
    Write,
    /// The one that returned first.
    Return,
}

/// Conclusion about two overlapping calls.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Verdict {
    /// Which came first, if that matters and is known.
    order: Option<First>,
    /// Whether the observed result can be reproduced.
    proof: Proof,
}

impl Bytes {
    /// Access of a call on this open file that moved `ret` bytes. `offset` returns its old offset.
    pub fn moved(
        moves: &Moves,
        call: &Call,
        ret: i64,
        (file, opened): (u64, usize),
        offset: impl FnOnce() -> Option<u64>,
    ) -> Bytes {
        let number = |arg: Option<u8>| arg.map(|arg| call.args[usize::from(arg)]);
        let appends = number(moves.flags).is_some_and(|flags| flags & libc::RWF_APPEND as u64 != 0);
        // An explicit offset of -1 means the file's own.
        let place = number(moves.offset).filter(|at| *at != u64::MAX);
        let at = place.or_else(offset).filter(|_| !appends);
        let got = ret.max(0) as u64;
        let does = match moves.writes {
            true => Does::Writes { at, len: got },
            false => Does::Reads { at, asked: number(moves.size).unwrap_or(got), got },
        };
        Bytes { file, moves: place.is_none().then_some(opened), does }
    }

    /// Compares this call with another one on the same file. If one looks and the other writes,
    /// `self` must be the one that looks; `shows` tells how much of a written range it saw.
    fn against(&self, other: &Bytes, shows: impl FnOnce(Range<u64>) -> Shows) -> Verdict {
        use Does::{Cuts, FindsEnd, Reads, Writes};
        let sure = |order| Verdict { order, proof: Proof::Always };
        let by_return = |is: bool| sure(is.then_some(First::Return));
        let look_first = |is: bool, torn: bool| {
            let proof = if torn { Proof::Never } else { Proof::Always };
            Verdict { order: is.then_some(First::Look), proof }
        };
        if self.moves.is_some() && self.moves == other.moves {
            return by_return(true);
        }
        match (self.does, other.does) {
            (Reads { at: Some(at), asked, got }, Writes { at: Some(place), len }) => {
                sight((at, asked, got), (place, len), shows)
            }
            // The places are unknown. A call that saw the file's end came before it moved, unless
            // it looked behind the new end.
            (Reads { asked, got, .. }, Writes { .. }) => {
                let order = (got == 0 && asked > 0).then_some(First::Look);
                let proof = if got < asked { Proof::NotAtOnce } else { Proof::Always };
                Verdict { order, proof }
            }
            // An end within the written range was seen while it moved.
            (FindsEnd(end), Writes { at: Some(at), len }) => {
                let moved = at.saturating_add(len) > end;
                look_first(moved && at >= end, moved && at < end)
            }
            // Bytes behind the cut may also be new.
            (Reads { at: Some(at), asked, got }, Cuts(to)) => {
                let behind = |len: u64| at.saturating_add(len) > to;
                look_first(got > 0 && behind(got), behind(asked))
            }
            (FindsEnd(_), Writes { .. }) => Verdict { order: None, proof: Proof::NotAtOnce },
            (Reads { at: None, .. }, Cuts(_)) => look_first(false, true),
            (FindsEnd(end), Cuts(to)) => look_first(end > to, true),
            (Writes { .. } | Cuts(_), Writes { .. } | Cuts(_)) => {
                let both = self.stretch().zip(other.stretch());
                by_return(both.is_none_or(|(ours, theirs)| common(ours, theirs).is_some()))
            }
            _ => sure(None),
        }
    }

    /// The range that it accesses, if known.
    pub fn stretch(&self) -> Option<Range<u64>> {
        match self.does {
            Does::Reads { at, got: len, .. } | Does::Writes { at, len } => {
                at.map(|at| at..at.saturating_add(len))
            }
            Does::Cuts(at) => Some(at..u64::MAX),
            Does::FindsEnd(_) => None,
        }
    }

    fn forget_place(&mut self) {
        if let Does::Reads { at, .. } | Does::Writes { at, .. } = &mut self.does {
            *at = None;
        }
    }

    fn looks(&self) -> bool {
        matches!(self.does, Does::Reads { .. } | Does::FindsEnd(_))
    }
}

/// Draws a conclusion from what a read saw of a write. It got `got` of the bytes it asked for.
fn sight(
    (start, asked, got): (u64, u64, u64),
    (at, len): (u64, u64),
    shows: impl FnOnce(Range<u64>) -> Shows,
) -> Verdict {
    let (short, end) = (got < asked, start.saturating_add(got));
    let written = at..at.saturating_add(len);
    // It saw the old end of the file, which the write moved.
    let lacks = short && written.end > end;
    let Some(both) = common(start..end, written) else {
        let proof = if lacks && at < end { Proof::Never } else { Proof::Always };
        return Verdict { order: lacks.then_some(First::Look), proof };
    };
    let (order, proof) = match shows(both) {
        Shows::All if lacks => (None, Proof::Never),
        Shows::All => (Some(First::Write), Proof::Always),
        Shows::Part => (Some(First::Look), Proof::Never),
        Shows::Nothing => (Some(First::Look), Proof::Always),
        Shows::Unknown if lacks => (None, Proof::Never),
        Shows::Unknown => (None, Proof::NotAtOnce),
    };
    Verdict { order, proof }
}

/// Intersection of two ranges; `None` if empty.
pub fn common(a: Range<u64>, b: Range<u64>) -> Option<Range<u64>> {
    let both = a.start.max(b.start)..a.end.min(b.end);
    (!both.is_empty()).then_some(both)
}

/// Finds the argument that returns a file's size, and the offset of the size in it.
fn size_of_file(said: &Said) -> Option<(u8, u32)> {
    said.args.iter().zip(0..).find_map(|(arg, number)| match arg.kind {
        Kind::Buf(Dir::Out, Of::Struct(layout), _) => Some((number, attributes::size_at(layout)?)),
        _ => None,
    })
}

/// Returns how a successful call concerns a file's end.
pub fn at_end(
    said: &Said,
    call: &Call,
    table: &DescriptorTable,
    paths: &[(u8, Vec<u8>)],
) -> Option<AtEnd> {
    let seeks = said.ret == Ret::Offset && call.args[1..3] == [0, libc::SEEK_END as u64];
    let cut = cut(said, call);
    if !seeks && cut.is_none() && size_of_file(said).is_none() {
        return None;
    }
    let file = match paths.last() {
        Some((_, path)) => hash_of(path),
        None => hash_of(&table.get(call.args[0] as i32)?.description.path),
    };
    Some(AtEnd { file, cut })
}

/// Returns where a call truncates a file.
fn cut(said: &Said, call: &Call) -> Option<u64> {
    match said.act {
        Act::Truncate => said.value(call, Operand::Length),
        Act::Open => match said.of_set(call, &flags::OPEN) {
            Some(flags) => (flags & O_TRUNC != 0).then_some(0),
            // creat has no flags.
            None => makes_name(said.act, said.args).then_some(0),
        },
        _ => None,
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

impl Planner<'_> {
    /// Orders open calls where the bytes they read or wrote show their order.
    pub(super) fn order_by_bytes(&mut self, index: Index, bytes: Option<Bytes>) {
        let Some(mut bytes) = bytes else { return };
        match bytes.does {
            Does::Writes { .. } | Does::Cuts(_) => self.doubts.settle(&bytes),
            _ if self.doubts.concern(&bytes) => self.lines[index].prove_only(Proof::Never),
            _ => {}
        }
        let same_file = |line: &Line| line.told.bytes.is_some_and(|told| told.file == bytes.file);
        let mut others = self.others_open_that(index, same_file);
        self.nearest_first(index, &mut others);
        let mut forgets = false;
        for &other in &others {
            let Some(theirs) = self.lines[other].told.bytes else { continue };
            let ((looks, seen), (writes, written)) = match bytes.looks() {
                true => ((index, bytes), (other, theirs)),
                false => ((other, theirs), (index, bytes)),
            };
            let verdict = seen.against(&written, |range| {
                let len = (range.end - range.start) as usize;
                let of = |line: Index, bytes: &Bytes| {
                    let from = range.start.checked_sub(bytes.stretch()?.start)? as usize;
                    let found = stretch(&self.lines[line].content()?, from, len);
                    (found.len() == len).then_some(found)
                };
                match (of(looks, &seen), of(writes, &written)) {
                    (Some(read), Some(written)) => compare(&read, &written),
                    _ => Shows::Unknown,
                }
            });
            if verdict.proof != Proof::Always {
                self.lines[looks].prove_only(verdict.proof);
            }
            if bytes.moves.is_some() && bytes.moves == theirs.moves {
                // The positions depend on which call was first.
                forgets = true;
                bytes.forget_place();
                if let Some(theirs) = &mut self.lines[other].told.bytes {
                    theirs.forget_place();
                }
            }
            let agrees = match verdict.order {
                Some(First::Look) => self.follow(writes, looks),
                Some(First::Write) => self.follow(looks, writes),
                Some(First::Return) => {
                    if self.follow_by_return(index, other) {
                        self.doubts.add(&bytes, &theirs);
                    }
                    true
                }
                None => true,
            };
            if !agrees {
                // Perhaps another call wrote in between.
                self.lines[looks].prove_only(Proof::Never);
            }
        }
        self.lines[index].told.bytes = Some(bytes);
        if forgets {
            // The verdicts of calls that look assumed positions that are unknown now.
            let looks = |line: &Line| line.told.bytes.is_some_and(|bytes| bytes.looks());
            for line in others.into_iter().chain([index]) {
                if looks(&self.lines[line]) {
                    self.lines[line].prove_only(Proof::NotAtOnce);
                }
            }
        }
    }

    /// Orders a call that truncated a file or learned its end.
    pub(super) fn order_by_end(&mut self, index: Index, said: &Said, ret: i64, end: Option<AtEnd>) {
        let Some(AtEnd { file, cut }) = end else { return };
        let found = || match said.ret {
            Ret::Offset => u64::try_from(ret).ok(),
            _ => size_of_file(said).and_then(|(arg, offset)| {
                let bytes = self.lines[index].came_out(arg)?.get(offset as usize..)?;
                bytes.first_chunk().map(|size| u64::from_le_bytes(*size))
            }),
        };
        let does = cut.map(Does::Cuts).or_else(|| found().map(Does::FindsEnd));
        self.order_by_bytes(index, does.map(|does| Bytes { file, moves: None, does }));
    }
}
