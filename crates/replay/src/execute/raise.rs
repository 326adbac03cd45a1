//! Limits that were raised further than a task may raise them.

use syscalls::record::part;
use syscalls::shape::{Arg, ArgKind, Dir, of_set};
use syscalls::{flags, layout};

use super::{Maker, find};
use crate::batch::{Batch, Call};
use crate::limits;

impl Maker {
    /// Raises a limit as far as allowed. Returns whether the call is one that sets a limit.
    pub(super) fn raise_less(&self, batch: &Batch, call: &Call) -> bool {
        let is_new = |arg: &Arg| {
            arg.points_to(&layout::RLIMIT) && matches!(arg.kind, ArgKind::Buf(Dir::In, ..))
        };
        let Some(new) = call.args.iter().position(is_new) else { return false };
        let Some(resource) = of_set(call.args, &flags::RLIMIT) else { return false };
        let piece = find(batch, call, new, part::WHOLE, 0, false);
        let words =
            piece.and_then(|piece| batch.one_stretch(piece)?.as_chunks::<8>().0.first_chunk());
        let Some([soft, hard]) = words else { return false };
        limits::take(
            call.values[usize::from(resource)] as limits::Resource,
            u64::from_le_bytes(*soft),
            u64::from_le_bytes(*hard),
        );
        true
    }
}
