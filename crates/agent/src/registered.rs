//! What programs register with a ring: files, and buffers of which the kernel chooses.

use syscalls::abi::rings::{
    BufferRing, REGISTER_BUFFER_RING, REGISTER_FILES, REGISTER_FILES_UPDATE,
    REGISTER_FILES_UPDATE2, REGISTER_FILES2, UNREGISTER_BUFFER_RING, UNREGISTER_FILES,
};

use crate::context::Context;
use crate::memory;
use crate::shadow::{FILES_FOLLOWED, Ring};

/// The kernel has taken what was registered: `count` of something at this address.
pub fn change(context: &Context, ring: &Ring, what: u64, (at, count): (u64, u64)) {
    match what {
        REGISTER_BUFFER_RING | UNREGISTER_BUFFER_RING => buffers_change(context, ring, what, at),
        _ => files_change(context, ring, what, at, count),
    }
}

/// The buffers of a ring were changed.
fn buffers_change(context: &Context, ring: &Ring, what: u64, at: u64) {
    let Some(list) = memory::read::<BufferRing>(context, at) else { return };
    ring.buffers.with(|buffers| match what {
        REGISTER_BUFFER_RING => buffers.list(list),
        _ => buffers.unlist(list.group),
    });
}

/// The table of files of a ring was changed.
fn files_change(context: &Context, ring: &Ring, what: u64, at: u64, count: u64) {
    const UNCHANGED: u32 = -2i32 as u32;
    let (first, from, count) = match what {
        REGISTER_FILES => (0, at, count),
        UNREGISTER_FILES => (0, 0, u64::MAX),
        REGISTER_FILES_UPDATE => {
            let Some([first, fds]) = memory::read::<[u64; 2]>(context, at) else { return };
            (first as u32, fds, count)
        }
        REGISTER_FILES2 => {
            let Some([number, _, fds]) = memory::read::<[u64; 3]>(context, at) else { return };
            (0, fds, number & 0xffff_ffff)
        }
        REGISTER_FILES_UPDATE2 => {
            let words = memory::read::<[u64; 5]>(context, at);
            let Some([first, fds, _, number, _]) = words else { return };
            (first as u32, fds, number & 0xffff_ffff)
        }
        _ => return,
    };
    for number in 0..count.min(FILES_FOLLOWED as u64) {
        let fd = match from {
            0 => None,
            from => memory::read::<u32>(context, from.wrapping_add(4 * number)),
        };
        if fd != Some(UNCHANGED) {
            let place = first.saturating_add(number as u32);
            ring.queues.with(|queues| queues.set_files(place, core::iter::once(fd)));
        }
    }
}
