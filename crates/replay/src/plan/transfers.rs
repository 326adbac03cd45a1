//! Fast path for most of a recording: calls that only move bytes through one descriptor. Their
//! treatment depends only on the open file, and is cached.

use std::rc::Rc;

use model::{Offset, Origin};

use super::Planner;
use super::known_files::{File, KNOWN_MAX, Remembered};
use crate::order::Index;
use crate::resource::{hash_of, queue_of};
use crate::treatment::is_stream;

impl Planner<'_> {
    /// Returns the properties of the file behind a thread's descriptor.
    pub(super) fn file(&mut self, index: Index, thread: u32, fd: i32) -> Option<File> {
        let table = self.world.descriptors(thread)?;
        let description = &table.get(fd)?.description;
        let learnt = self.judge.learnt();
        let slot = &mut self.lines[index].known[fd as usize % KNOWN_MAX];
        if let Some(known) = slot
            && Rc::ptr_eq(&known.description, description)
            && known.learnt == learnt
        {
            return Some(known.file);
        }
        let stream = is_stream(description);
        let is_told = stream
            || description.identity.is_some()
            || self.judge.types.is_no_fifo(&description.path);
        let file = File {
            here: self.judge.is_here(description),
            taken: description.origin == Origin::Taken,
            stream,
            unknown: description.origin == Origin::Path && !is_told,
            certainty: self.judge.certainty_of(description),
            hash: hash_of(&description.path),
            queues: (queue_of(description, false), queue_of(description, true)),
            opened: Rc::as_ptr(description) as usize,
        };
        *slot = Some(Remembered { description: Rc::clone(description), learnt, file });
        Some(file)
    }

    /// Whether the file that this lane last used under a number was opened for appending: then even
    /// a write to a place goes to the end.
    pub(super) fn appends(&self, index: Index, fd: i32) -> bool {
        let known = self.lines[index].known[fd as usize % KNOWN_MAX].as_ref();
        known.is_some_and(|Remembered { description, .. }| {
            description.origin == Origin::Path && description.offset.get() == Offset::Unknown
        })
    }

    /// Returns the offset at which a transfer starts that uses the file's own offset, if known, and
    /// advances it. The file is the one that this lane last used under that number.
    pub(super) fn advance(&self, index: Index, fd: i32, moved: i64) -> Option<u64> {
        let known = self.lines[index].known[fd as usize % KNOWN_MAX].as_ref()?;
        let offset = &known.description.offset;
        let Offset::At(from) = offset.get() else { return None };
        offset.set(Offset::At(from.saturating_add(moved.max(0) as u64)));
        Some(from)
    }
}
