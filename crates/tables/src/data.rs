//! Data transferred by calls: a hash for each buffer, and each distinct buffer once.

use model::contents::{has, is_out};
use model::decode::shape::Shape;
use syscalls::record::{data_flag, part};
use syscalls::shape::ArgKind;
use trace::Trace;
use trace::event::{BlobId, Call, Content, Data};
use twox_hash::XxHash3_128;

use crate::column::Packed;
use crate::hashes::Hashes;
use crate::row::{Carries, When, data_of, is_twice};

/// Limit for the length of buffers whose content is written.
pub const CONTENT_BYTES_MAX: u64 = 32 << 20;
/// Limit for the remembered buffers; beyond it, a buffer may be written twice.
const KNOWN_MAX: usize = 3 << 20;
/// Limit for the blobs whose hashes are kept, to save decompressing them again.
const BLOBS_MAX: usize = 2 << 20;
/// Number of short buffers looked up together.
const WAITING_MAX: usize = 16;
/// Highest index of a call's messages (`UIO_MAXIOV` of them).
const MESSAGES_MAX: u16 = 1023;

/// Length and hash of a buffer.
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug)]
pub struct Buffer {
    /// Length in the program's memory.
    pub length: u64,
    /// Hash, if the whole buffer was seen.
    pub hash: Option<u128>,
}

/// Selects the captured pieces of a buffer.
struct Source {
    arg: u8,
    part: u8,
    /// Index of the message, `None` for all pieces of a vector.
    index: Option<u16>,
}

/// A buffer transferred by a call.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Carried {
    /// Number of the argument.
    pub arg: u8,
    /// Time at which it was read.
    pub when: When,
    /// Length and hash.
    pub buffer: Buffer,
}

impl Source {
    fn has(&self, data: &Data) -> bool {
        let same = data.arg == self.arg && data.part == self.part;
        same && self.index.is_none_or(|index| data.index == index)
    }

    /// Returns the pieces of the buffer; `when` selects one of two captures.
    fn pieces<'c>(&self, call: &'c Call, when: When) -> impl Iterator<Item = &'c Data> + Clone {
        let pieces = call.data.iter().filter(|data| self.has(data));
        let out = match when {
            When::Before => false,
            When::After => true,
            When::Once => pieces.clone().any(is_out),
        };
        pieces.filter(move |data| is_out(data) == out)
    }
}

/// Computes hashes of buffers, and finds out which buffers are new.
pub struct Known {
    hashes: Hashes,
    hashes_max: usize,
    /// True if new buffers are passed on; else there are hashes alone.
    finds_new: bool,
    waiting: Waiting,
    /// Hash by blob number, 0 if not computed yet.
    blobs: Vec<u128>,
    /// True if a known buffer may have been reported as new, for lack of memory.
    pub overflowed: bool,
}

/// Passes on where the data of a call may be, in order of its arguments.
fn each_source(call: &Call, shape: &Shape, take: &mut dyn FnMut(Source, When)) {
    if call.data.is_empty() {
        return;
    }
    for (argument, arg) in shape.args.iter().zip(0..) {
        let ArgKind::Buf(dir, of, _) = argument.kind else { continue };
        let mut add = |part, index, when| take(Source { arg, part, index }, when);
        match data_of(of) {
            None => {}
            Some(Carries::Messages) => {
                let of_arg = call.data.iter().filter(|data| data.arg == arg);
                let last = of_arg.map(|data| data.index).max().unwrap_or(0);
                for index in 0..=last.min(MESSAGES_MAX) {
                    add(part::CONTENT, Some(index), When::Once);
                }
            }
            Some(carries) => {
                let part = match carries {
                    Carries::Itself => part::WHOLE,
                    _ => part::CONTENT,
                };
                if is_twice(dir, of) {
                    add(part, None, When::Before);
                    add(part, None, When::After);
                } else {
                    add(part, None, When::Once);
                }
            }
        }
    }
}

/// Returns the bytes of the first buffer with data of a call, if it is whole and not longer than
/// [`CONTENT_BYTES_MAX`].
pub fn first_content(trace: &Trace, call: &Call, shape: &Shape) -> Option<Vec<u8>> {
    let mut first: Option<Vec<&Data>> = None;
    each_source(call, shape, &mut |source, when| {
        let mut pieces = source.pieces(call, when).peekable();
        if first.is_none() && pieces.peek().is_some() {
            first = Some(pieces.collect());
        }
    });
    let pieces = first?;
    let stored = pieces.iter().fold(0u64, |sum, data| sum.saturating_add(data.content.len()));
    if stored > CONTENT_BYTES_MAX || pieces.iter().any(|data| is_cut(data)) {
        return None;
    }
    let mut bytes = Vec::new();
    for data in pieces {
        each_stretch(trace, &data.content, &mut |stretch| bytes.extend_from_slice(stretch))?;
    }
    Some(bytes)
}

/// Returns true if not all of a piece is stored.
fn is_cut(data: &Data) -> bool {
    has(data, data_flag::CUT) || data.content.len() < data.true_len
}

/// Short buffers not looked up yet.
#[derive(Default)]
struct Waiting {
    hashes: Vec<u128>,
    contents: Packed,
}

/// Callback for a distinct buffer: hash, length, and bytes if all are stored.
pub type Take<'a> = dyn FnMut(u128, u64, Option<&[u8]>) + 'a;

impl Default for Known {
    fn default() -> Known {
        let (hashes, blobs, waiting) = (Hashes::default(), Vec::new(), Waiting::default());
        let (hashes_max, finds_new) = (KNOWN_MAX, true);
        Known { hashes, hashes_max, finds_new, waiting, blobs, overflowed: false }
    }
}

impl Known {
    /// Makes one that passes on no buffers.
    pub fn of_hashes() -> Known {
        Known { finds_new: false, ..Known::default() }
    }

    /// Returns all buffers of a call in order of its arguments. New ones are passed to `take`, some
    /// of them later: see [`Known::settle`].
    pub fn all(
        &mut self,
        trace: &Trace,
        call: &Call,
        shape: &Shape,
        all: &mut Vec<Carried>,
        take: &mut Take<'_>,
    ) {
        all.clear();
        each_source(call, shape, &mut |source, when| {
            let buffer = self.look(trace, call, &source, when, take);
            all.extend(buffer.map(|buffer| Carried { arg: source.arg, when, buffer }));
        });
    }

    /// Returns a buffer of a call, if it was captured.
    fn look(
        &mut self,
        trace: &Trace,
        call: &Call,
        source: &Source,
        when: When,
        take: &mut Take<'_>,
    ) -> Option<Buffer> {
        let mut pieces = source.pieces(call, when);
        let first = pieces.next()?;
        let others = pieces.clone();
        let alone = pieces.next().is_none();
        let all = || std::iter::once(first).chain(others.clone());
        let length = all().fold(0u64, |sum, data| sum.saturating_add(data.true_len));
        let told = first.hash.filter(|_| alone);
        if all().any(is_cut) {
            if let Some(hash) = told
                && self.is_new(hash, take)
            {
                take(hash, length, None);
            }
            return Some(Buffer { length, hash: told });
        }
        let hash = match &first.content {
            Content::Inline(bytes) if alone => Some(self.inline(bytes, take)),
            Content::Blobs { len, ids } if alone && ids.len() == 1 => {
                self.blob(trace, ids[0], *len, take)
            }
            _ => {
                let contents: Vec<&Content> = all().map(|data| &data.content).collect();
                self.several(trace, &contents, length, take)
            }
        };
        Some(Buffer { length, hash })
    }

    /// Looks up the waiting buffers and passes new ones to `take`.
    pub fn settle(&mut self, take: &mut Take<'_>) {
        let mut waiting = std::mem::take(&mut self.waiting);
        self.hashes.fetch(&waiting.hashes);
        let mut begin = 0;
        for (hash, end) in waiting.hashes.drain(..).zip(waiting.contents.ends.drain(..)) {
            if self.add(hash) {
                take(hash, (end - begin) as u64, Some(&waiting.contents.bytes[begin..end]));
            }
            begin = end;
        }
        waiting.contents.bytes.clear();
        self.waiting = waiting;
    }

    /// Adds a hash after the waiting ones. Returns true if it is new.
    fn is_new(&mut self, hash: u128, take: &mut Take<'_>) -> bool {
        if !self.finds_new {
            return false;
        }
        self.settle(take);
        self.add(hash)
    }

    fn add(&mut self, hash: u128) -> bool {
        if self.hashes.len() < self.hashes_max {
            return self.hashes.insert(hash);
        }
        let is_new = !self.hashes.contains(hash);
        self.overflowed |= is_new;
        is_new
    }

    fn inline(&mut self, bytes: &[u8], take: &mut Take<'_>) -> u128 {
        let hash = XxHash3_128::oneshot(bytes);
        if !self.finds_new {
            return hash;
        }
        self.waiting.hashes.push(hash);
        self.waiting.contents.push(bytes);
        if self.waiting.hashes.len() == WAITING_MAX {
            self.settle(take);
        }
        hash
    }

    fn blob(&mut self, trace: &Trace, id: BlobId, len: u64, take: &mut Take<'_>) -> Option<u128> {
        let place = usize::try_from(id.0).ok().filter(|place| *place < BLOBS_MAX);
        if let Some(&hash) = place.and_then(|place| self.blobs.get(place))
            && hash != 0
        {
            return Some(hash);
        }
        let blob = trace.blob(id).ok().filter(|blob| blob.len() as u64 == len)?;
        let hash = blob.hash();
        if let Some(place) = place {
            if self.blobs.len() <= place {
                self.blobs.resize(place + 1, 0);
            }
            self.blobs[place] = hash;
        }
        if self.is_new(hash, take) {
            take(hash, len, Some(&blob));
        }
        Some(hash)
    }

    /// Returns the hash of a buffer stored in several pieces.
    fn several(
        &mut self,
        trace: &Trace,
        contents: &[&Content],
        length: u64,
        take: &mut Take<'_>,
    ) -> Option<u128> {
        let stored = contents.iter().fold(0u64, |sum, content| sum.saturating_add(content.len()));
        let keep = self.finds_new && stored <= CONTENT_BYTES_MAX;
        let mut bytes = Vec::new();
        let mut hasher = XxHash3_128::new();
        for content in contents {
            each_stretch(trace, content, &mut |stretch| {
                hasher.write(stretch);
                if keep {
                    bytes.extend_from_slice(stretch);
                }
            })?;
        }
        let hash = hasher.finish_128();
        if self.is_new(hash, take) {
            take(hash, length, keep.then_some(&bytes));
        }
        Some(hash)
    }
}

/// Passes the stored pieces of a content to `take`. Returns `None` if it is damaged.
fn each_stretch(trace: &Trace, content: &Content, take: &mut dyn FnMut(&[u8])) -> Option<()> {
    let (len, ids) = match content {
        Content::Inline(bytes) => {
            take(bytes);
            return Some(());
        }
        Content::Blobs { len, ids } => (*len, ids),
    };
    let mut found = 0;
    for id in ids {
        let blob = trace.blob(*id).ok()?;
        found += blob.len() as u64;
        if found > len {
            return None;
        }
        take(&blob);
    }
    (found == len).then_some(())
}

#[cfg(test)]
mod tests {
    use std::io::{self, Write};
    use std::sync::{Arc, Mutex};

    use model::decode::shape::shape_of;
    use trace::event::{Event, EventKind, Outcome, Preamble};
    use trace::{Writer, WriterOptions};

    use super::*;

    #[derive(Clone, Default)]
    struct Kept(Arc<Mutex<Vec<u8>>>);

    impl Write for Kept {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.0.lock().unwrap().extend_from_slice(bytes);
            Ok(bytes.len())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    fn piece(part: u8, flags: u8, len: usize, bytes: &[u8]) -> Data {
        let content = Content::Inline(bytes.to_vec());
        Data { arg: 1, part, flags, true_len: len as u64, content, ..Data::default() }
    }

    /// The buffers of each call, and the distinct buffers: hash, length, number of stored bytes.
    type Found = (Vec<Vec<Buffer>>, Vec<(u128, u64, Option<usize>)>);

    fn look(calls: Vec<(&str, Vec<Data>)>) -> Found {
        look_with(&mut Known::default(), calls)
    }

    fn look_with(known: &mut Known, calls: Vec<(&str, Vec<Data>)>) -> Found {
        let kept = Kept::default();
        let options = WriterOptions { workers: 0, ..WriterOptions::default() };
        let mut writer =
            Writer::new(Box::new(kept.clone()), &Preamble::default(), options).unwrap();
        for ((name, data), tsc) in calls.into_iter().zip(1..) {
            let nr = syscalls::by_name(name).expect("a call").nr;
            let outcome = Outcome::Returned { exit_tsc: tsc, ret: 1 };
            let args = [1, 1, 1, 1, 0, 0];
            let call = Call { nr, nargs: 4, args, outcome, data, ..Call::default() };
            writer.event(&Event::new(1, tsc, EventKind::Call(call))).unwrap();
        }
        writer.flush().unwrap();
        drop(writer);
        let bytes = kept.0.lock().unwrap().clone();
        let trace = Trace::from_stream(io::Cursor::new(bytes)).unwrap();
        let (mut found, mut taken) = (Vec::new(), Vec::new());
        for next in trace.events() {
            let EventKind::Call(call) = next.unwrap().event.kind else { continue };
            let mut carried = Vec::new();
            let mut take = |hash, length, bytes: Option<&[u8]>| {
                if let Some(bytes) = bytes {
                    assert_eq!(XxHash3_128::oneshot(bytes), hash);
                }
                taken.push((hash, length, bytes.map(<[u8]>::len)));
            };
            known.all(&trace, &call, &shape_of(&call), &mut carried, &mut take);
            found.push(carried.iter().map(|carried| carried.buffer).collect());
        }
        known.settle(&mut |hash, length, bytes| {
            taken.push((hash, length, bytes.map(<[u8]>::len)));
        });
        (found, taken)
    }

    #[test]
    fn a_buffer_is_taken_once_however_it_is_stored() {
        // Inline, in one blob, in several blobs, and in a vector of such pieces.
        let bytes: Vec<u8> = (0..200_000u32).map(|n| (n % 251) as u8).collect();
        for len in [0, 1, 64, 65, 4096, 65_536, 65_537, 200_000] {
            let bytes = &bytes[..len];
            let whole = || ("pwrite64", vec![piece(part::WHOLE, 0, len, bytes)]);
            let (a, b) = bytes.split_at(len / 3);
            let parts =
                vec![piece(part::CONTENT, 0, a.len(), a), piece(part::CONTENT, 0, b.len(), b)];
            let (found, taken) = look(vec![whole(), ("pwritev", parts), whole()]);
            let hash = XxHash3_128::oneshot(bytes);
            let buffer = Buffer { length: len as u64, hash: Some(hash) };
            assert_eq!(found, vec![vec![buffer]; 3], "{len}");
            assert_eq!(taken, [(hash, len as u64, Some(len))], "{len}");
        }
    }

    #[test]
    fn what_is_not_whole_has_no_content_and_no_hash_unless_it_was_told() {
        let cut = || piece(part::WHOLE, data_flag::CUT, 5000, &[1; 100]);
        let mut told = cut();
        (told.hash, told.flags) = (Some(9), data_flag::CUT | data_flag::HASH);
        let again = told.clone();
        let (found, taken) =
            look(vec![("write", vec![cut()]), ("write", vec![told]), ("write", vec![again])]);
        let hashes: Vec<Option<u128>> = found.iter().map(|buffers| buffers[0].hash).collect();
        assert_eq!(hashes, [None, Some(9), Some(9)]);
        assert_eq!(taken, [(9, 5000, None)]);
    }

    #[test]
    fn what_is_not_remembered_is_taken_again_and_told() {
        let mut known = Known { hashes_max: 2, ..Known::default() };
        let write = |byte: u8| ("write", vec![piece(part::WHOLE, 0, 9, &[byte; 9])]);
        let (_, taken) = look_with(&mut known, [1, 2, 1, 2].map(write).into());
        assert_eq!((taken.len(), known.overflowed), (2, false));
        let (_, taken) = look_with(&mut known, [3, 1, 3].map(write).into());
        assert_eq!((taken.len(), known.overflowed), (2, true));
    }

    #[test]
    fn what_a_call_did_not_fill_is_no_buffer() {
        let (found, taken) = look(vec![("read", vec![]), ("getpid", vec![])]);
        assert_eq!(found, [vec![], vec![]]);
        assert!(taken.is_empty());
    }
}
