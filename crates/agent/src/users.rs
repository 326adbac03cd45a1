//! Calls that change the user.
//!
//! An arena is shared by programs of one user. A thread that becomes another one gets another
//! arena, and the former goes from its memory as soon as no thread is left there that could still
//! be the former user: such a thread's memory is open to it anyway.

use core::sync::atomic::Ordering;

use linux_raw_sys::general as raw;
use ring::{Arena, SLOTS, answer, request, slot_state};

use crate::call::{self, enter, exit};
use crate::context::{Context, Frame, Space, area, mask_all, phase, real_mask, space};
use crate::helper::{self, Helper};
use crate::stream::Stream;
use crate::sys::needed;
use crate::{exec, sys};

/// setuid, setreuid and setresuid by `int 0x80`, with ids of two bytes and of four.
pub const OLD_CALLS: [u64; 6] = [23, 70, 164, 203, 208, 213];

const ESRCH: i64 = -3;

/// Real, effective and saved user.
type Ids = [u32; 3];

/// setuid, setreuid, setresuid.
pub fn call(context: &mut Context, frame: &mut Frame) -> i64 {
    let (nr, args) = (frame.rax, frame.args());
    watched(context, true, |context| {
        let row = enter(context, nr, &args, 0);
        let ret = call::make(context, nr, &args);
        exit(context, row, &args, ret);
        ret
    })
}

/// Makes a call that may change the user.
pub fn watched(
    context: &mut Context,
    may_change: bool,
    make: impl FnOnce(&mut Context) -> i64,
) -> i64 {
    if !may_change || context.arena.is_none() {
        return make(context);
    }
    let before = ids();
    // No handler may run in between: it might not come back.
    sys::set_mask(mask_all(context));
    context.phase = phase::IN_CALL;
    let ret = make(context);
    if ret == 0 {
        let after = ids();
        if before.is_none() || before != after {
            follow(context, before, after);
        }
    }
    sys::set_mask(real_mask(context.mask));
    ret
}

/// `None`: they cannot be asked for.
fn ids() -> Option<Ids> {
    if sys::is_quiet() {
        return None;
    }
    let mut ids = Ids::default();
    let [real, effective, saved] = ids.each_mut().map(|id| core::ptr::from_mut(id) as u64);
    (sys::call(raw::__NR_getresuid, [real, effective, saved, 0, 0, 0]) == 0).then_some(ids)
}

/// Whether this thread could still become another user.
pub fn may_change() -> bool {
    ids().is_none_or(|[real, effective, saved]| {
        effective == 0 || real != effective || saved != effective
    })
}

fn follow(context: &mut Context, before: Option<Ids>, after: Option<Ids>) {
    let can_be_root = |ids: Option<Ids>| ids.is_some_and(|ids| ids.contains(&0));
    let Some(arena) = context.arena else { return };
    let of_root = arena.control().of_root.load(Ordering::Relaxed) != 0;
    if of_root && can_be_root(before) && can_be_root(after) {
        return;
    }
    if context.silent || sys::is_quiet() {
        return leave(context);
    }
    let tid = u64::from(context.tid);
    let found = match exec::ask(context, request::USER_CHANGED, [tid, 0, 0, 0, 0, 0]) {
        answer::STAY => return,
        answer::SEGMENT => attached(context),
        answer::NEEDS_SOCKET => sent(context),
        _ => None,
    };
    match found {
        Some((at, index)) => go_on_in(context, at, index),
        None => leave(context),
    }
}

/// The arena and the slot in it that the supervisor has named.
fn attached(context: &Context) -> Option<(u64, usize)> {
    let slot = context.slot?;
    let [id, index] = [0, 1].map(|n| slot.request_args[n].load(Ordering::Relaxed));
    let at = sys::call(raw::__NR_shmat, [id, 0, 0, 0, 0, 0]);
    (at > 0).then_some((at as u64, index as usize))
}

/// Goes on in another arena.
fn go_on_in(context: &mut Context, at: u64, index: usize) {
    let Some(former) = context.arena else { return };
    // SAFETY: an arena of this recording: all are of the same size.
    let arena = unsafe { Arena::at(at as *mut u8, former.pool_chunks()) };
    if index >= SLOTS || arena.control().magic.load(Ordering::Relaxed) != ring::MAGIC {
        sys::call(raw::__NR_munmap, [at, bytes_of(arena), 0, 0, 0, 0]);
        return leave(context);
    }
    let space = space();
    sys::keep_out_of_cores(arena.base() as u64, bytes_of(arena));
    sys::keep_unlocked(arena.base() as u64, bytes_of(arena));
    space.lock.with(|| {
        if !remember(arena) {
            context.silent = true;
        }
        context.arena = Some(arena);
        let slot = arena.slot(index);
        slot.context.store(context.this as u64, Ordering::Relaxed);
        context.slot = Some(slot);
        context.slot_index = index;
        unmap_unused(space, former.pool_chunks());
    });
    Stream::open(context);
}

/// Ends the recording of this thread, and lets go of its arena.
pub fn leave(context: &mut Context) {
    let Some(arena) = context.arena.take() else { return };
    if let Some(slot) = context.slot.take()
        && !context.silent
    {
        slot.state.store(slot_state::ENDED, Ordering::Release);
    }
    context.silent = true;
    if !sys::denies(needed::UNMAPPING) {
        let space = space();
        space.lock.with(|| unmap_unused(space, arena.pool_chunks()));
    }
}

fn bytes_of(arena: Arena) -> u64 {
    ring::arena_bytes(arena.pool_chunks()) as u64
}

/// An arena was mapped. False: there is no place left to note it.
pub fn remember(arena: Arena) -> bool {
    let free = space().arenas.iter().find(|at| at.load(Ordering::Relaxed) == 0);
    free.inspect(|place| place.store(arena.base() as u64, Ordering::Relaxed)).is_some()
}

/// In a process of which a part is gone: lets go of what only that has used.
pub fn forget_unused(context: &Context) {
    let (space, Some(arena)) = (space(), context.arena) else { return };
    if space.arenas[1..].iter().any(|at| at.load(Ordering::Relaxed) != 0) {
        space.lock.with(|| unmap_unused(space, arena.pool_chunks()));
    }
}

/// Unmaps the arenas that no thread uses.
fn unmap_unused(space: &Space, pool_chunks: usize) {
    for place in &space.arenas {
        let at = place.load(Ordering::Relaxed);
        if at != 0 && !is_used(space, at) {
            place.store(0, Ordering::Relaxed);
            let len = ring::arena_bytes(pool_chunks) as u64;
            sys::call(raw::__NR_munmap, [at, len, 0, 0, 0, 0]);
        }
    }
}

fn is_used(space: &Space, at: u64) -> bool {
    let mut used = false;
    space.each_area(|area| {
        let context = &area.context;
        if context.area_state.load(Ordering::Acquire) == area::USED
            && context.arena.is_some_and(|arena| arena.base() as u64 == at)
        {
            used |= !is_gone(context);
        }
    });
    used
}

/// Processes that share our memory may have been killed.
fn is_gone(context: &Context) -> bool {
    let (tgid, tid) = (u64::from(context.tgid), u64::from(context.tid));
    context.new_process
        && tgid != 0
        && !sys::is_quiet()
        && sys::call(raw::__NR_tgkill, [tgid, tid, 0, 0, 0, 0]) == ESRCH
}

/// What the helper needs, and what it brings.
struct Meeting<'a> {
    context: &'a mut Context,
    found: Option<(u64, usize)>,
}

/// Has the supervisor send the arena: through a socket of a helper that has descriptors of its own.
fn sent(context: &mut Context) -> Option<(u64, usize)> {
    let helper = Helper::new(0)?;
    let mut meeting = Meeting { context, found: None };
    let argument = &raw mut meeting as u64;
    let process = meeting.context.tgid;
    helper.run(process, argument, meet);
    meeting.found
}

/// In the helper, whose descriptors close with it.
extern "C" fn meet(meeting: u64) {
    /// AF_UNIX; SOCK_DGRAM | SOCK_CLOEXEC; MSG_CMSG_CLOEXEC | MSG_DONTWAIT.
    const UNIX: u64 = 1;
    const DATAGRAMS: u64 = 0x80002;
    const NOW: u64 = 0x4000_0040;
    /// A header and two descriptors.
    const CONTROL_BYTES: u64 = 24;
    // SAFETY: the maker sleeps, and has lent us this.
    let meeting = unsafe { &mut *(meeting as *mut Meeting<'_>) };
    if !helper::leave_descriptors(0) {
        return;
    }
    let mut pair = [0u32; 2];
    let at = &raw mut pair as u64;
    if sys::call(raw::__NR_socketpair, [UNIX, DATAGRAMS, 0, at, 0, 0]) != 0 {
        return;
    }
    let ours = u64::from(sys::gettid());
    let tid = u64::from(meeting.context.tid);
    let words = [tid, u64::from(pair[1]), ours, 0, 0, 0];
    if exec::ask(meeting.context, request::USER_CHANGED, words) != answer::DONE {
        return;
    }
    let (mut slot, mut control) = (0u64, [0u64; 3]);
    let mut vector = [&raw mut slot as u64, 8];
    let mut message = [0, 0, &raw mut vector as u64, 1, &raw mut control as u64, CONTROL_BYTES, 0];
    let message_at = &raw mut message as u64;
    let got = sys::call(raw::__NR_recvmsg, [u64::from(pair[0]), message_at, NOW, 0, 0, 0]);
    let (Some(former), true) = (meeting.context.arena, got == 8 && control[0] == CONTROL_BYTES)
    else {
        return;
    };
    let arena = control[2] & u64::from(u32::MAX);
    let prot = u64::from(raw::PROT_READ | raw::PROT_WRITE);
    let flags = u64::from(raw::MAP_SHARED | raw::MAP_NORESERVE);
    let at = sys::call(raw::__NR_mmap, [0, bytes_of(former), prot, flags, arena, 0]);
    if at > 0 {
        meeting.found = Some((at as u64, slot as usize));
    }
    core::hint::black_box((&slot, &control, &vector));
}
