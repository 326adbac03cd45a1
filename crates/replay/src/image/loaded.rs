//! Files whose bytes were noted when the program mapped them (`record --rerunnable`): the image has
//! them, as it has what calls read.

use std::collections::HashMap;
use std::ops::Range;

use model::loaded::{Loaded, PIECES_MAX};
use syscalls::Handler;
use syscalls::record::part;
use trace::event::{Call, Data, Event};

/// The argument of mmap that says which file is mapped.
pub const FD_ARG: u8 = 4;

/// What threads are about to map.
#[derive(Default)]
pub struct AboutToMap(HashMap<u32, Vec<Loaded>>);

impl AboutToMap {
    /// Notes what an event tells, if it does. `is_there`: the thread has begun.
    pub fn note(&mut self, event: &Event, is_there: impl FnOnce(u32) -> bool) {
        let Some(loaded) = Loaded::of_event(event) else { return };
        if loaded.content.is_none() || !is_there(loaded.thread) {
            return;
        }
        let pieces = self.0.entry(loaded.thread).or_default();
        if pieces.len() < PIECES_MAX {
            pieces.push(loaded);
        }
    }

    /// What the file had where a thread now maps it.
    pub fn take(&mut self, thread: u32, call: &Call) -> Vec<(Range<u64>, Data)> {
        let row = syscalls::by_number(call.nr.into());
        if self.0.is_empty() || row.is_none_or(|row| row.handler != Handler::Map) {
            return Vec::new();
        }
        let pieces = self.0.remove(&thread).unwrap_or_default().into_iter();
        let pieces = pieces.filter_map(|piece| {
            let content = piece.content?;
            let true_len = content.len();
            // The kernel supports no larger offsets.
            let end = piece.offset.checked_add(true_len).filter(|end| *end <= i64::MAX as u64)?;
            let (arg, part, index, flags, hash) = (FD_ARG, part::WHOLE, 0, 0, None);
            let data = Data { arg, part, index, flags, true_len, hash, content };
            Some((piece.offset..end, data))
        });
        pieces.collect()
    }
}
