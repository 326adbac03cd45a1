//! Parts of the file that one description both writes and reads.

use crate::event::{Preamble, Totals};
use crate::wire::{Fields, Malformed};

/// The payload of PREAMBLE.
pub fn preamble(fields: &mut impl Fields, preamble: &mut Preamble) -> Result<(), Malformed> {
    fields.list(&mut preamble.command, |fields, word| fields.bytes(word))?;
    fields.text(&mut preamble.recorder_version)?;
    fields.text(&mut preamble.host)?;
    fields.text(&mut preamble.kernel)?;
    fields.text(&mut preamble.cpu)?;
    fields.u32(&mut preamble.cpus)?;
    fields.u64(&mut preamble.memory_bytes)?;
    fields.u32(&mut preamble.page_bytes)?;
    fields.list(&mut preamble.mounts, |fields, line| fields.bytes(line))?;
    fields.u64(&mut preamble.trace_dev)?;
    fields.u64(&mut preamble.epoch_ns)?;
    fields.u64(&mut preamble.epoch_tsc)?;
    fields.u64(&mut preamble.tsc_hz)?;
    fields.text(&mut preamble.options)
}

/// The writer's own counts, and the position of the last INDEX.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Counted {
    /// Offset of the last INDEX.
    pub index_offset: u64,
    /// Number of blocks before END, including INDEX blocks.
    pub blocks: u64,
    /// Number of events.
    pub events: u64,
    /// Number of calls.
    pub calls: u64,
    /// Number of blobs.
    pub blobs: u64,
}

/// The payload of END.
pub fn end(
    fields: &mut impl Fields,
    counted: &mut Counted,
    totals: &mut Totals,
) -> Result<(), Malformed> {
    fields.u64(&mut counted.index_offset)?;
    fields.u64(&mut counted.blocks)?;
    fields.u64(&mut counted.events)?;
    fields.u64(&mut counted.calls)?;
    fields.u64(&mut counted.blobs)?;
    fields.u64(&mut totals.calls_made)?;
    fields.u64(&mut totals.calls_read)?;
    fields.u64(&mut totals.calls_written)?;
    fields.u64(&mut totals.slow_path_calls)?;
    fields.u64(&mut totals.ring_bytes_published)?;
    fields.u64(&mut totals.ring_bytes_read)?;
    fields.u64(&mut totals.data_bytes)?;
    fields.u64(&mut totals.stored_bytes)?;
    fields.u32(&mut totals.threads)?;
    fields.u32(&mut totals.processes)?;
    fields.u64(&mut totals.gaps)?;
    fields.u64(&mut totals.stall_ns)?;
    fields.u64(&mut totals.tsc_hz)?;
    fields.u64(&mut totals.end_tsc)
}
