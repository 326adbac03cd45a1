//! Passes calls on to `changes`, which follows changed paths.

use syscalls::record::part;
use trace::event::Outcome;

use super::stream::{Item, OpenCall, Stream};
use super::withhold::TOLD_BYTES_MAX;
use crate::changes::{Changes, Memory, Note};
use crate::output::Output;

/// Whether the bytes of an item of a call with this number must be copied for the note.
#[inline]
pub(super) fn is_wanted(nr: u16, item: &Item, out: &Output) -> bool {
    item.stored <= TOLD_BYTES_MAX
        && item.part != part::SNAPSHOT
        && out.changes.as_ref().is_some_and(|changes| changes.wants(nr, item.arg))
}

impl Stream {
    /// Passes on a complete call.
    pub(super) fn note(
        &self,
        thread: u32,
        call: &OpenCall,
        outcome: Outcome,
        changes: &mut Changes,
    ) {
        let mut memory = Memory::default();
        let is_wanted = |item: &Item| item.stored != 0 && item.part == part::WHOLE;
        for (at, item) in self.items.iter().enumerate() {
            if is_wanted(item)
                && changes.wants(call.nr, item.arg)
                && let Some(bytes) = self.bytes_of(at, item)
            {
                memory.push(item.arg, item.flags, bytes);
            }
        }
        let existed = self.identities.last().map(|(_, identity)| (identity.dev, identity.ino));
        // An operation has closed its number before that was given anew.
        let enter = self.submitted_at(call).unwrap_or(call.tsc);
        let (user, watched) = (self.user, self.watched);
        let (nr, args, operations) = (call.nr, call.args, self.operations());
        changes.call(Note {
            thread,
            user,
            enter,
            nr,
            args,
            outcome,
            operations,
            watched,
            memory,
            existed,
        });
    }
}
