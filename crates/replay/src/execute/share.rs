//! Copies content where the file system cannot share it between files (FICLONE), so that later
//! calls find the same bytes.

use std::fs::File;
use std::io;
use std::mem::ManuallyDrop;
use std::os::fd::{AsRawFd, FromRawFd};
use std::os::unix::fs::FileExt;

use syscalls::record::part;
use syscalls::shape::operand;
use syscalls::{Act, Operand, layout};

use super::buffers::find;
use crate::batch::{Batch, Call};
use crate::space::Space;

/// Bytes copied at a time.
const PORTION: usize = 256 << 10;

/// A range to share: source descriptor, offset, length (0: up to the end), and destination offset.
struct Wanted {
    from: i32,
    from_at: u64,
    len: u64,
    to_at: u64,
}

/// Copies what a call was to share, if it is such a call. Returns whether it succeeded.
pub fn copy_instead(batch: &Batch, call: &Call, space: &Space) -> bool {
    let Some(wanted) = wanted(batch, call) else { return false };
    copy(&wanted, call.values[0] as i32, space).is_ok()
}

fn wanted(batch: &Batch, call: &Call) -> Option<Wanted> {
    if call.act == Act::CloneFile {
        let from = call.values[usize::from(operand(call.args, Operand::Source)?)] as i32;
        return Some(Wanted { from, from_at: 0, len: 0, to_at: 0 });
    }
    let number = call.args.iter().position(|arg| arg.points_to(&layout::FILE_CLONE_RANGE))?;
    let piece = find(batch, call, number, part::WHOLE, 0, false)?;
    let (words, _) = batch.one_stretch(piece)?.as_chunks::<8>();
    let [from, from_at, len, to_at] = words.first_chunk()?.map(u64::from_le_bytes);
    Some(Wanted { from: from as i32, from_at, len, to_at })
}

fn copy(wanted: &Wanted, to: i32, space: &Space) -> io::Result<()> {
    // SAFETY: the descriptors are the replayed program's; `ManuallyDrop` prevents their close.
    let [from, to] =
        [wanted.from, to].map(|fd| ManuallyDrop::new(unsafe { File::from_raw_fd(fd) }));
    let size = from.metadata()?.len();
    let left = size.saturating_sub(wanted.from_at);
    let left = if wanted.len == 0 { left } else { left.min(wanted.len) };
    let end = wanted.to_at.saturating_add(left);
    let mut room = vec![0; PORTION];
    let mut done = 0;
    while done < left {
        let most = room.len().min((left - done) as usize);
        let got = from.read_at(&mut room[..most], wanted.from_at + done)?;
        if got == 0 {
            break;
        }
        if !space.take(got as u64, space.place_of(to.as_raw_fd())) {
            return Err(io::ErrorKind::StorageFull.into());
        }
        to.write_all_at(&room[..got], wanted.to_at + done)?;
        done += got as u64;
    }
    if to.metadata()?.len() < end { to.set_len(end) } else { Ok(()) }
}
