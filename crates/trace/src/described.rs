//! Parts of the file that one description both writes and reads.

use crate::event::{OpenFd, Preamble, ProcessState, Totals};
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

/// The body of a STATE event.
pub fn state(fields: &mut impl Fields, state: &mut ProcessState) -> Result<(), Malformed> {
    fields.u32(&mut state.process)?;
    fields.u32(&mut state.pid)?;
    fields.u32(&mut state.ppid)?;
    fields.bytes(&mut state.exe)?;
    fields.bytes(&mut state.cwd)?;
    fields.bytes(&mut state.root)?;
    state.uids.iter_mut().try_for_each(|id| fields.u32(id))?;
    state.gids.iter_mut().try_for_each(|id| fields.u32(id))?;
    fields.list(&mut state.groups, |fields, id| fields.u32(id))?;
    fields.u32(&mut state.umask)?;
    fields.u64(&mut state.sig_blocked)?;
    fields.u64(&mut state.sig_ignored)?;
    fields.list(&mut state.limits, |fields, (soft, hard)| {
        fields.u64(soft)?;
        fields.u64(hard)
    })?;
    fields.list(&mut state.fds, |fields, open: &mut OpenFd| {
        fields.i32(&mut open.fd)?;
        fields.bytes(&mut open.target)?;
        fields.u64(&mut open.offset)?;
        fields.u32(&mut open.flags)
    })
}
