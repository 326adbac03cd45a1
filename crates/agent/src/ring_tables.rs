//! io_uring_register: files, buffers and numbers of rings, and what is cancelled by it.

use core::sync::atomic::Ordering;

use syscalls::abi::errno::{EINVAL, EOVERFLOW, is_error};
use syscalls::abi::rings::{
    BufferRing, CANCEL_ALL, CANCEL_OTHERWISE, Cancel, Params, REGISTER_BUFFER_RING, REGISTER_FILES,
    REGISTER_FILES_UPDATE, REGISTER_FILES_UPDATE2, REGISTER_FILES2, REGISTER_RESIZE_RINGS,
    REGISTER_RING_FDS, REGISTER_SEND_MESSAGE, REGISTER_SYNC_CANCEL, REGISTER_USE_REGISTERED_RING,
    REGISTERED_MAX, UNREGISTER_BUFFER_RING, UNREGISTER_FILES, UNREGISTER_RING_FDS,
};
use syscalls::requests::Entry;

use crate::call::{Call, enter, exit, exit_with};
use crate::context::{Context, space};
use crate::memory;
use crate::rings::{cancel_others, complete, find, give_up, post, registered};
use crate::shadow::{FILES_FOLLOWED, Ring};
use crate::stream::Stream;

/// io_uring_register.
pub fn register(context: &Context, call: &Call) {
    let [fd, what, at, count, ..] = *call.args;
    let by_number = what & REGISTER_USE_REGISTERED_RING != 0;
    let what = what & 0xffff_ffff & !REGISTER_USE_REGISTERED_RING;
    let ring = match space().has_rings.get() {
        false => None,
        true if by_number => registered(context, fd),
        true => Stream::while_busy(context, || find(context, fd)),
    };
    enter(context, call, 0);
    if space().has_rings.get() {
        // Some of them wait.
        context.looking.pause();
    }
    let Some(ring) = ring else {
        let ret = match what {
            REGISTER_SEND_MESSAGE if space().has_rings.get() => send(context, call, at),
            _ => call.make(),
        };
        return exit(context, call, ret);
    };
    if what == REGISTER_RESIZE_RINGS {
        let ret = Stream::while_busy(context, || resize(context, call, ring, at));
        return exit(context, call, ret);
    }
    let cancel = match what {
        REGISTER_SYNC_CANCEL if !by_number => memory::read::<Cancel>(context, at),
        _ => None,
    };
    let ret = match cancel.filter(|cancel| cancel.flags & CANCEL_OTHERWISE == 0) {
        Some(asked) => cancel_by_call(context, call, ring, &asked),
        None => call.make(),
    };
    if ret > 0 && matches!(what, REGISTER_RING_FDS | UNREGISTER_RING_FDS) {
        for number in 0..count.min(ret as u64).min(REGISTERED_MAX as u64) {
            let update = memory::read::<[u32; 4]>(context, at + 16 * number);
            let Some([place, _, fd, _]) = update else { continue };
            let new = match what {
                REGISTER_RING_FDS => find(context, fd.into()),
                _ => None,
            };
            set_registered(context, place as usize, new);
        }
    }
    if !is_error(ret) {
        files_change(context, ring, what, at, count);
        if matches!(what, REGISTER_BUFFER_RING | UNREGISTER_BUFFER_RING) {
            buffers_change(context, ring, what, at);
        }
    }
    exit_with(context, call, ret, || {
        ring.queues.with(|queues| complete(context, queues));
    });
}

/// A message to a ring, which has no entry for it.
fn send(context: &Context, call: &Call, at: u64) -> i64 {
    let to = memory::read::<Entry>(context, at).and_then(|entry| entry.posts_to());
    if let Some(fd) = to {
        post(context, fd.into(), true);
    }
    let ret = call.make();
    if let (Some(fd), true) = (to, is_error(ret)) {
        post(context, fd.into(), false);
    }
    ret
}

/// The queues of a ring get other lengths, and the program maps them again: the shadow as well.
fn resize(context: &Context, call: &Call, ring: &Ring, at: u64) -> i64 {
    let Some(asked) = memory::read::<Params>(context, at) else { return call.make() };
    // Without a descriptor nobody could map them.
    let Some(fd) = ring.some_name() else { return -i64::from(EINVAL) };
    let refused = ring.queues.with(|queues| {
        complete(context, queues);
        match queues.has_own_places() {
            true => Some(EINVAL),
            // The kernel does not know of those that were not submitted yet.
            false => (queues.pending() > asked.sq_entries.next_power_of_two()).then_some(EOVERFLOW),
        }
    });
    if let Some(error) = refused {
        return -i64::from(error);
    }
    let ret = call.make();
    if !is_error(ret)
        && let Some(made) = memory::read::<Params>(context, at)
        && !ring.queues.with(|queues| queues.resize(fd, &made))
    {
        give_up(context, ring);
    }
    ret
}

/// io_uring_register cancels operations by their data.
fn cancel_by_call(context: &Context, call: &Call, ring: &Ring, asked: &Cancel) -> i64 {
    let (id, fd) = (ring.queues.with(|queues| queues.id), call.args[0]);
    let all = asked.flags & CANCEL_ALL != 0;
    let has =
        Stream::while_busy(context, || space().flights.with(|flights| flights.has(id, asked.data)));
    let others = match all || !has {
        true => Stream::while_busy(context, || {
            cancel_others(fd, (id, asked.data), asked.flags & CANCEL_ALL)
        }),
        false => 0,
    };
    match call.make() {
        ret if others == 0 => ret,
        ret => others * i64::from(all) + ret.max(0),
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

/// A thread has given a number to a ring, or taken it back.
pub fn set_registered(context: &Context, place: usize, new: Option<&'static Ring>) {
    let all = &space().rings.all;
    let mut rings = context.rings.get();
    let Some(known) = rings.get_mut(place) else { return };
    let former = all.get(usize::from(*known).wrapping_sub(1));
    let number = new.and_then(|new| all.iter().position(|ring| core::ptr::eq(ring, new)));
    *known = number.map_or(0, |number| number as u8 + 1);
    context.rings.set(rings);
    if let Some(new) = new {
        new.registered.fetch_add(1, Ordering::AcqRel);
    }
    if let Some(former) = former {
        former.registered.fetch_sub(1, Ordering::AcqRel);
        if !former.is_known() {
            give_up(context, former);
        }
    }
}

/// A thread ends: the numbers that it has given to rings go.
pub fn thread_ends(context: &Context) {
    if context.rings.get() != [0; REGISTERED_MAX] {
        for place in 0..REGISTERED_MAX {
            set_registered(context, place, None);
        }
    }
}
