//! Packs a recorded call for the task that replays it.

use model::contents::has;
use syscalls::Act;
use syscalls::record::{data_flag, part};
use syscalls::shape::{ArgKind, Of, operand};
use syscalls::{Arg, Classes, Operand, Ret};
use trace::event::{self, Content};
use trace::{ReadError, Trace};

use super::line::Line;
use crate::batch::Call;
use crate::execute::FREE_SLACK;
use crate::treatment::Said;

impl Line {
    /// Packs a call; its memory goes into the batch. `verify`: outputs are needed; `links`: paths
    /// that replace links which the replay lacks.
    pub fn pack(
        &mut self,
        trace: &Trace,
        call: &event::Call,
        said: &Said,
        ret: i64,
        verify: bool,
        links: &[(u8, Vec<u8>)],
    ) -> Result<&mut Call, ReadError> {
        let batch = &mut self.batch;
        let first = batch.pieces.len() as u32;
        for data in &call.data {
            let Some(arg) = said.args.get(usize::from(data.arg)) else { continue };
            if data.part == part::SNAPSHOT {
                continue;
            }
            let out = has(data, data_flag::OUT);
            if out && !verify && !leads_on(arg.kind) {
                continue;
            }
            let other = links.iter().find(|(arg, _)| *arg == data.arg && !out);
            let stored = match (&data.content, other) {
                (_, Some((_, path))) => batch.add_bytes(path),
                (Content::Inline(bytes), None) => batch.add_bytes(bytes),
                (Content::Blobs { ids, .. }, None) => batch.add_blobs(trace, ids, out)?,
            };
            let hash = data.hash.map(|hash| {
                batch.hashes.push(hash);
                batch.hashes.len() as u32 - 1
            });
            let piece = batch.add_piece();
            piece.arg = data.arg;
            piece.part = data.part;
            piece.index = data.index;
            piece.out = out;
            piece.fault = has(data, data_flag::FAULT);
            piece.true_len = data.true_len;
            piece.hash = hash;
            piece.stored = stored;
        }
        let pieces = first..batch.pieces.len() as u32;
        let packed = batch.add_call();
        packed.nr = call.nr;
        packed.name = said.row.name;
        packed.act = said.act;
        packed.args = said.args;
        packed.ret_kind = said.ret;
        packed.values = call.args;
        packed.ret = ret;
        packed.pieces = pieces;
        packed.takes = takes(call, said, ret);
        packed.free = free_length(said);
        if let Some(free) = packed.free {
            // More bytes may come out than were recorded.
            let more = call.args[usize::from(free)].saturating_sub(packed.takes);
            packed.takes = packed.takes.saturating_add(more.min(FREE_SLACK as u64));
        }
        packed.makes_pair =
            said.args.iter().any(|arg| matches!(arg.kind, ArgKind::Buf(_, Of::Fds, _)));
        Ok(packed)
    }
}

/// Least disk space of a file or name.
const FILE_BYTES: u64 = 4096;
/// Disk space that a call may use which failed in the recording.
const FAILED_BYTES: u64 = 64 << 10;
/// Modes of fallocate that punch holes or shift data: an unlimited range needs no space.
const TAKES_AWAY: u64 = (libc::FALLOC_FL_PUNCH_HOLE
    | libc::FALLOC_FL_COLLAPSE_RANGE
    | libc::FALLOC_FL_INSERT_RANGE) as u64;

/// Disk space that a call may use.
fn takes(call: &event::Call, said: &Said, ret: i64) -> u64 {
    if let Act::Allocate = said.act {
        let takes_away = call.args[1] & TAKES_AWAY != 0;
        return if takes_away { 0 } else { call.args[3] };
    }
    let classes = said.row.classes;
    let given = || call.data.iter().map(|data| data.true_len).fold(0, u64::saturating_add);
    match said.ret {
        Ret::Size if classes.intersects(Classes::WRITE) => {
            u64::try_from(ret).unwrap_or(FAILED_BYTES)
        }
        Ret::Fd if said.args.iter().any(|arg| matches!(arg.kind, ArgKind::Mode)) => FILE_BYTES,
        _ if classes.intersects(Classes::CHANGE) => {
            FILE_BYTES.saturating_add(given().min(FAILED_BYTES))
        }
        _ => 0,
    }
}

/// Returns the argument that is the only limit of the bytes moved between two descriptors.
fn free_length(said: &Said) -> Option<u8> {
    let has_memory = |arg: &Arg| matches!(arg.kind, ArgKind::Buf(_, Of::Bytes | Of::Iovec, _));
    if said.ret != Ret::Size
        || !said.row.classes.intersects(Classes::WRITE)
        || said.args.iter().any(has_memory)
    {
        return None;
    }
    operand(said.args, Operand::Count)
}

/// Whether the output is needed to make the call, or later: vectors, messages, descriptors.
fn leads_on(kind: ArgKind) -> bool {
    matches!(
        kind,
        ArgKind::Buf(_, Of::Iovec | Of::Msghdr | Of::Mmsghdr | Of::Fds | Of::Holder(_), _)
    )
}
