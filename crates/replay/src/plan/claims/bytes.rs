//! Bytes of a file, its end, or the offset of an open file, that a call read or changed.

use std::ops::Range;
use std::rc::Rc;

use model::DescriptorTable;
use syscalls::abi::files::O_TRUNC;
use syscalls::shape::{ArgKind, Dir, Of};
use syscalls::{Act, Operand, Ret, attributes, flags};
use trace::event::Call;

use crate::moves::Moves;
use crate::resource::hash_of;
use crate::treatment::{Said, is_stream, makes_name};

/// A call's access to the bytes of a file.
#[derive(Clone, Copy, Debug)]
pub struct Bytes {
    /// Hash of the file's path. Files with the same hash wait for each other, which is harmless.
    pub file: u64,
    /// The open file whose offset it moves.
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
    /// Set the offset, wherever it was.
    Seeks,
    /// Learned what the offset is.
    FindsOffset,
}

/// A call's access to a file's end, or to an offset.
#[derive(Clone, Copy, Debug)]
pub struct AtEnd {
    /// Hash of the file's path.
    file: u64,
    /// The open file whose offset it moves.
    moves: Option<usize>,
    /// What it does; `None` if it reports the end.
    does: Option<Does>,
    /// Hash of the path of the file that it copies to.
    pub copies_to: Option<u64>,
}

impl AtEnd {
    /// The claim of a call that returned `ret`; `came_out` gives the output of an argument.
    pub fn claim<'a>(
        self,
        said: &Said,
        ret: i64,
        came_out: impl FnOnce(u8) -> Option<&'a [u8]>,
    ) -> Option<Bytes> {
        let found = || match said.ret {
            Ret::Offset => u64::try_from(ret).ok(),
            _ => size_of_file(said).and_then(|(arg, offset)| {
                let bytes = came_out(arg)?.get(offset as usize..)?;
                bytes.first_chunk().map(|size| u64::from_le_bytes(*size))
            }),
        };
        let does = self.does.or_else(|| found().map(Does::FindsEnd))?;
        Some(Bytes { file: self.file, moves: self.moves, does })
    }
}

impl Bytes {
    /// Access of a call on this open file that moved `ret` bytes. `offset` returns its old offset;
    /// `appends`: whatever is written goes to the file's end.
    pub fn moved(
        moves: &Moves,
        call: &Call,
        ret: i64,
        (file, opened, appends): (u64, usize, bool),
        offset: impl FnOnce() -> Option<u64>,
    ) -> Bytes {
        let number = |arg: Option<u8>| arg.map(|arg| call.args[usize::from(arg)]);
        let flags = || number(moves.flags).unwrap_or_default();
        let appends = moves.writes && (appends || flags() & libc::RWF_APPEND as u64 != 0);
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

    /// The range that it accesses, if known.
    pub fn stretch(&self) -> Option<Range<u64>> {
        match self.does {
            Does::Reads { at, got: len, .. } | Does::Writes { at, len } => {
                at.map(|at| at..at.saturating_add(len))
            }
            Does::Cuts(at) => Some(at..u64::MAX),
            Does::FindsEnd(_) | Does::Seeks | Does::FindsOffset => None,
        }
    }

    /// Its place depends on which of two calls was first.
    pub fn forget_place(&mut self) {
        if let Does::Reads { at, .. } | Does::Writes { at, .. } = &mut self.does {
            *at = None;
        }
    }

    /// Whether it writes to the end, or where nobody knows.
    pub fn appends(&self) -> bool {
        matches!(self.does, Does::Writes { at: None, .. })
    }

    /// Whether it changes nothing.
    pub fn looks(&self) -> bool {
        matches!(self.does, Does::Reads { .. } | Does::FindsEnd(_) | Does::FindsOffset)
    }
}

/// Intersection of two ranges; `None` if empty.
pub fn common(a: Range<u64>, b: Range<u64>) -> Option<Range<u64>> {
    let both = a.start.max(b.start)..a.end.min(b.end);
    (!both.is_empty()).then_some(both)
}

/// Finds the argument that returns a file's size, and the offset of the size in it.
fn size_of_file(said: &Said) -> Option<(u8, u32)> {
    said.args.iter().zip(0..).find_map(|(arg, number)| match arg.kind {
        ArgKind::Buf(Dir::Out, Of::Struct(layout), _) => {
            Some((number, attributes::size_at(layout)?))
        }
        _ => None,
    })
}

/// Returns how a successful call concerns a file's end or an offset.
pub fn at_end(
    said: &Said,
    call: &Call,
    table: &DescriptorTable,
    paths: &[(u8, Vec<u8>)],
) -> Option<AtEnd> {
    if said.ret == Ret::Offset {
        let description = table.get(call.args[0] as i32)?.description;
        let by_nothing = call.args[1] == 0;
        let does = match call.args[2] as i32 {
            libc::SEEK_END if by_nothing => None,
            libc::SEEK_CUR if by_nothing => Some(Does::FindsOffset),
            _ => Some(Does::Seeks),
        };
        let (file, opened) = (hash_of(&description.path), Rc::as_ptr(description) as usize);
        return Some(AtEnd { file, moves: Some(opened), does, copies_to: None });
    }
    if said.act == Act::Copy {
        // Where it read is not looked at: it may be where another one writes.
        let source = table.get(said.value(call, Operand::Source)? as i32)?.description;
        let asked = said.value(call, Operand::Count)?;
        let does = Does::Reads { at: None, asked, got: u64::try_from(call.ret()?).ok()? };
        let file = hash_of(&source.path);
        let target = said.value(call, Operand::Target).and_then(|fd| table.get(fd as i32));
        let copies_to = target.map(|target| hash_of(&target.description.path));
        let end = AtEnd { file, moves: None, does: Some(does), copies_to };
        return (!is_stream(source)).then_some(end);
    }
    let does = cut(said, call).map(Does::Cuts);
    if does.is_none() && size_of_file(said).is_none() {
        return None;
    }
    let file = match paths.last() {
        Some((_, path)) => hash_of(path),
        None => hash_of(&table.get(call.args[0] as i32)?.description.path),
    };
    Some(AtEnd { file, moves: None, does, copies_to: None })
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

#[cfg(test)]
mod tests {
    use trace::event::EventKind;

    use super::*;
    use crate::image::tests::recording::Recording;
    use crate::moves;

    #[test]
    fn who_appends_writes_at_the_end_whatever_place_it_names() {
        let mut recording = Recording::new("/");
        recording.call("pwrite64", &[5, 1, 3, 100], &[(1, b"abc")], 3);
        let Some(EventKind::Call(call)) = recording.events().last().map(|event| event.kind) else {
            panic!("a call was made");
        };
        let moves = moves::of_call(call.nr).expect("it moves bytes");
        let place = |appends| Bytes::moved(moves, &call, 3, (1, 2, appends), || None).stretch();
        assert_eq!((place(false), place(true)), (Some(100..103), None));
    }
}
