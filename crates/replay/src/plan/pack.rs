//! A recorded call, packed for the task that makes it again.

use events::Ret;
use events::record::{data_flag, part};
use events::shape::{Dir, Kind, Of};
use model::contents::has;
use trace::event::{self, Content, Data};
use trace::{ReadError, Trace};

use super::line::Line;
use crate::batch::{Call, Piece, Stored};
use crate::treatment::Said;

impl Line {
    /// Packs a call; its memory goes into the open batch. `verify` tells whether what came out is
    /// needed; `links` are paths to be taken instead of links that the replay does not have.
    pub fn pack(
        &mut self,
        trace: &Trace,
        call: &event::Call,
        said: &Said,
        ret: i64,
        verify: bool,
        links: &[(u8, Vec<u8>)],
    ) -> Result<Call, ReadError> {
        let open = &mut self.open;
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
            let mut inline = |bytes: &[u8]| {
                let start = open.bytes.len() as u32;
                open.bytes.extend_from_slice(bytes);
                Stored::Bytes(start..open.bytes.len() as u32)
            };
            let stored = match (&data.content, other) {
                (_, Some((_, path))) => inline(path),
                (Content::Inline(bytes), None) => inline(bytes),
                (Content::Blobs { ids, .. }, None) => {
                    let start = open.blobs.len() as u32;
                    for id in ids {
                        let blob = trace.blob(*id)?;
                        open.blob_bytes += blob.len();
                        open.blobs.push(blob);
                    }
                    Stored::Blobs(start..open.blobs.len() as u32)
                }
            };
            open.pieces.push(piece(data, out, stored));
        }
        Ok(Call {
            nr: call.nr,
            name: said.row.name,
            args: said.args,
            ret_kind: said.ret,
            values: call.args,
            ret,
            pieces: 0..open.pieces.len() as u32,
            stream: false,
            opens_pipe: opens_pipe(call, said),
            scan: 0,
            shared_table: false,
            vague: false,
            owners: true,
            attempt: false,
        })
    }
}

fn piece(data: &Data, out: bool, stored: Stored) -> Piece {
    Piece {
        arg: data.arg,
        part: data.part,
        index: data.index,
        out,
        fault: has(data, data_flag::FAULT),
        true_len: data.true_len,
        hash: data.hash,
        stored,
    }
}

/// Whether the recorder found a named pipe behind what was opened.
fn opens_pipe(call: &event::Call, said: &Said) -> bool {
    let is_pipe = |mode: u32| mode & libc::S_IFMT == libc::S_IFIFO;
    said.ret == Ret::Fd && call.identities.iter().any(|(_, identity)| is_pipe(identity.mode))
}

/// What came out is needed to make the call, or to go on: vectors, messages, descriptors.
fn leads_on(kind: Kind) -> bool {
    matches!(kind, Kind::Buf(_, Of::Iovec | Of::Msghdr | Of::Mmsghdr | Of::Fds | Of::Holder(_), _))
}

/// Whether an argument is where a link's target goes.
pub fn is_text_out(kind: Kind) -> bool {
    matches!(kind, Kind::Buf(Dir::Out, Of::Text, _))
}

/// Whether an argument is where directory entries go.
pub fn is_directory_entries(kind: Kind) -> bool {
    matches!(kind, Kind::Buf(Dir::Out, Of::Dirents | Of::Dirents64, _))
}
