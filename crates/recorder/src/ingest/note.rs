//! Passes calls on to `changes`, which follows changed paths.

use syscalls::record::part;
use trace::event::Outcome;

use super::stream::{Item, OpenCall, Stream};
use super::withhold::TOLD_BYTES_MAX;
use crate::changes::{Changes, Note};
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
        let Outcome::Returned { exit_tsc, ret } = outcome else { return };
        let mut texts = [None, None];
        let wanted = self
            .items
            .iter()
            .enumerate()
            .filter(|(_, item)| item.stored != 0 && item.part != part::SNAPSHOT)
            .filter(|(_, item)| changes.wants(call.nr, item.arg));
        for (to, (at, item)) in texts.iter_mut().zip(wanted) {
            let bytes = if item.is_inline() {
                let start = item.at as usize;
                &self.inline[start..start + item.stored as usize]
            } else {
                let told = self.withheld.told.iter().find(|(number, _)| *number == at);
                told.map_or(&[][..], |(_, bytes)| bytes)
            };
            *to = Some((item.arg, bytes.into()));
        }
        changes.call(Note {
            thread,
            user: self.user,
            enter: call.tsc,
            exit: exit_tsc,
            nr: call.nr,
            args: call.args,
            ret,
            operations: self.operations(),
            texts,
            existed: self.identities.last().map(|(_, identity)| (identity.dev, identity.ino)),
        });
    }
}
