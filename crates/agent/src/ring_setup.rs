//! io_uring_setup. A ring that lies in memory of the program (IORING_SETUP_NO_MMAP) is made once more,
//! with queues of the kernel's, and takes the place of the first: the program's memory is its shadow then.

use core::sync::atomic::Ordering;

use syscalls::abi::errno::ENOSYS;
use syscalls::abi::files::O_CLOEXEC;
use syscalls::abi::rings::{
    Params, REGISTER_RING_FDS, REGISTERED_MAX, SETUP_NO_MMAP, SETUP_REGISTERED_ONLY,
    UNREGISTER_RING_FDS,
};
use syscalls::record::watched;

use crate::call::{Call, enter, exit, exit_saying};
use crate::context::{Context, space};
use crate::needs::{Need, needed};
use crate::ring_tables::set_registered;
use crate::rings::{FIRST_NAME, forget_names, is_left_alone, rings_of};
use crate::shadow::Ring;
use crate::{memory, sys};

/// io_uring_setup.
pub fn set_up(context: &Context, call: &Call) {
    enter(context, call, 0);
    if are_refused(context) {
        return exit(context, call, -i64::from(ENOSYS));
    }
    let ret = call.make();
    let Ok(number) = u32::try_from(ret) else { return exit(context, call, ret) };
    let word = match memory::read::<Params>(context, call.args[1]) {
        _ if sys::denies(needed::ALL | needed::RINGS) => watched::FILTERED,
        _ if is_left_alone(context) => watched::UNASKED,
        None => watched::REFUSED,
        Some(params) if !params.can_be_shadowed() => watched::NOT_THIS,
        Some(params) if params.flags & SETUP_NO_MMAP != 0 => {
            if is_made_again(context, number, call.args[0], &params) {
                watched::YES
            } else {
                watched::REFUSED
            }
        }
        Some(params) => {
            // A ring that had this number was closed without our seeing it.
            forget_names(number.into(), number.into());
            match follow(context, number.into(), &params, [0; 2]) {
                Some(ring) => {
                    ring.add_name(number.into());
                    watched::YES
                }
                None => watched::REFUSED,
            }
        }
    };
    exit_saying(context, call, ret, word);
}

fn are_refused(context: &Context) -> bool {
    let arena = context.arena.get();
    arena.is_some_and(|arena| rings_of(arena) == ring::Rings::Refused as u32)
}

/// Begins to capture a new ring, which has no name yet. `lent` is where the program's memory is, if it
/// maps nothing: that of the queues, and that of the entries.
fn follow(context: &Context, fd: u64, params: &Params, lent: [u64; 2]) -> Option<&'static Ring> {
    let space = space();
    space.flights.with(|flights| flights.prepare());
    for (ring, id) in space.rings.all.iter().zip(FIRST_NAME..) {
        let taken = ring.queues.with(|queues| match queues.is_open() {
            true => None,
            false => Some(queues.open(fd, id, params, lent)),
        });
        let Some(is_open) = taken else { continue };
        if !is_open {
            return None;
        }
        ring.buffers.with(|buffers| buffers.clear());
        ring.registered.store(0, Ordering::Relaxed);
        ring.messages.store(0, Ordering::Relaxed);
        ring.process.store(context.process().number.get(), Ordering::Relaxed);
        space.has_rings.set(true);
        return Some(ring);
    }
    None
}

/// Puts a ring with queues of the kernel's in the place of one that the kernel has just made in memory
/// of the program, under the same number. Returns false if the program keeps the first.
fn is_made_again(context: &Context, number: u32, entries: u64, made: &Params) -> bool {
    let mut ours = made.mapped();
    let is_registered = made.flags & SETUP_REGISTERED_ONLY != 0;
    let fd = sys::call(Need::MakeRing, [entries, &raw mut ours as u64, 0, 0, 0, 0]);
    let Ok(fd) = u64::try_from(fd) else { return false };
    let lent = made.lent();
    let ring = match ours.is_laid_out_as(made) && lent.iter().all(|at| *at != 0) {
        true => follow(context, fd, &ours, lent),
        false => None,
    };
    let is_placed = ring.is_some_and(|ring| {
        let is_placed = match is_registered {
            true => is_registered_at(fd, number),
            false => {
                let args = [fd, number.into(), O_CLOEXEC, 0, 0, 0];
                sys::call(Need::PlaceRing, args) == i64::from(number)
            }
        };
        if !is_placed {
            ring.queues.with(|queues| queues.close());
        } else if is_registered {
            set_registered(context, number as usize, Some(ring));
        } else {
            forget_names(number.into(), number.into());
            ring.add_name(number.into());
        }
        is_placed
    });
    sys::call(Need::Close, [fd, 0, 0, 0, 0, 0]);
    is_placed
}

/// Gives a ring a number in the thread's table, in the place of one that has it.
fn is_registered_at(fd: u64, number: u32) -> bool {
    if number as usize >= REGISTERED_MAX {
        return false;
    }
    let change = |what, new: u64| {
        let update = [u64::from(number), new];
        let args = [fd, what, update.as_ptr() as u64, 1, 0, 0];
        sys::call(Need::NumberRing, args) == 1
    };
    change(UNREGISTER_RING_FDS, 0) && change(REGISTER_RING_FDS, fd)
}
