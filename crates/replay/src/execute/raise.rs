//! Limits that were raised further than a task may raise them.

use syscalls::record::part;
use syscalls::shape::{Dir, Kind, Of};

use super::{Maker, find};
use crate::batch::{Batch, Call};
use crate::limits;

impl Maker {
    /// Raises a limit as far as allowed. Returns whether the call is one that sets a limit.
    pub(super) fn raise_less(&self, batch: &Batch, call: &Call) -> bool {
        let layout = &raw const syscalls::layout::RLIMIT;
        let is_new = |kind| matches!(kind, Kind::Buf(Dir::In, Of::Struct(of), _) if std::ptr::eq(of, layout));
        let Some(new) = call.args.iter().position(|arg| is_new(arg.kind)) else { return false };
        let Some(resource) = call.args.iter().position(|arg| arg.name == "resource") else {
            return false;
        };
        let piece = find(batch, call, new, part::WHOLE, 0, false);
        let words =
            piece.and_then(|piece| batch.one_stretch(piece)?.as_chunks::<8>().0.first_chunk());
        let Some([soft, hard]) = words else { return false };
        limits::take(
            call.values[resource] as u32,
            u64::from_le_bytes(*soft),
            u64::from_le_bytes(*hard),
        );
        true
    }
}
