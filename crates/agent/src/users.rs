//! Calls that change the user.
//!
//! An arena is shared by programs of one user. A thread that becomes another user gets another
//! arena. The former one is unmapped once no thread of the process is left in it that could still
//! be the former user: the memory of such a thread is open to that user anyway.
//!
//! Other processes that share the memory may die or exec at any time without notice. So they do not
//! keep an arena mapped, unless they wait for this process as the parents of vfork children do. The
//! arena is replaced by memory that nothing reads, and those processes are no longer recorded.

use core::ffi::c_void;
use core::sync::atomic::Ordering;

use linux_raw_sys::general as raw;
use ring::{Arena, SLOTS, answer, request};
use syscalls::record::{GapWhy, Header, RecordKind, unfollowed};

use crate::arch::head::phase;
use crate::call::{Call, enter, exit};
use crate::context::{Context, Makers, Space, area, mask_all, space};
use crate::helper::{self, Helper};
use crate::needs::{Need, needed};
use crate::signal::real_mask;
use crate::stream::Stream;
use crate::{clock, requests, sys};

const ESRCH: i64 = -3;

/// Id that the kernel shows for users who have none in the program's user namespace.
const OVERFLOW_UID: u32 = 65534;

/// Real, effective and saved user id.
type Ids = [u32; 3];

/// Handles setuid, setreuid and setresuid.
pub fn change(context: &Context, call: &Call) {
    watched(context, true, |context| {
        enter(context, call, 0);
        let ret = call.make();
        exit(context, call, ret);
        ret
    });
}

/// Makes a call that may change the user. If it does, the thread may move to another arena.
pub fn watched(context: &Context, may_change: bool, make: impl FnOnce(&Context) -> i64) {
    if !may_change {
        make(context);
        return;
    }
    let before = ids();
    // No handler may run in between: it might not return.
    sys::set_mask(mask_all(context));
    context.phase.set(phase::IN_CALL);
    let ret = make(context);
    if ret == 0 {
        let after = ids();
        if !is_certainly_the_same(context, before, after) {
            follow(context);
        }
    }
    sys::set_mask(real_mask(context.mask.get()));
}

/// Returns the thread's user ids; `None` if they cannot be queried.
fn ids() -> Option<Ids> {
    if sys::is_quiet() {
        return None;
    }
    let mut ids = Ids::default();
    let [real, effective, saved] = ids.each_mut().map(|id| core::ptr::from_mut(id) as u64);
    (sys::call(Need::Users, [real, effective, saved, 0, 0, 0]) == 0).then_some(ids)
}

/// Returns true if this thread could still become another user.
pub fn may_change() -> bool {
    ids().is_none_or(|ids @ [real, effective, saved]| {
        effective == 0 || real != effective || saved != effective || ids.contains(&OVERFLOW_UID)
    })
}

/// Returns true if the thread certainly belongs to the same arena as before. Its ids are those of
/// its user namespace, whose root may be any user, so they prove little.
fn is_certainly_the_same(context: &Context, before: Option<Ids>, after: Option<Ids>) -> bool {
    let (Some(before), Some(after)) = (before, after) else { return false };
    if before == after && !before.contains(&OVERFLOW_UID) {
        return true;
    }
    // All ids were 0: in an arena of root, a thread that keeps one of them can become root again.
    let of_root = |arena: Arena| arena.control().of_root.load(Ordering::Relaxed) != 0;
    before == [0; 3] && after.contains(&0) && context.arena.get().is_some_and(of_root)
}

fn follow(context: &Context) {
    if context.arena.get().is_none() || context.silent.get() || sys::is_quiet() {
        return leave_as_another(context);
    }
    let tid = u64::from(context.tid.get());
    let found = match requests::ask(context, request::USER_CHANGED, [tid, 0, 0, 0, 0, 0]) {
        answer::STAY => return,
        answer::SEGMENT => attached(context),
        answer::NEEDS_SOCKET => sent(context),
        _ => None,
    };
    match found {
        Some((at, index)) => go_on_in(context, at, index),
        None => leave_as_another(context),
    }
}

/// Maps the arena that the supervisor has named. Returns its address, and the slot to use.
fn attached(context: &Context) -> Option<(u64, usize)> {
    let slot = context.slot.get()?;
    let [id, index] = [0, 1].map(|n| slot.request_args[n].load(Ordering::Relaxed));
    let at = sys::call(Need::AttachSegment, [id, 0, 0, 0, 0, 0]);
    (at > 0).then_some((at as u64, index as usize))
}

/// Moves the thread to another arena.
fn go_on_in(context: &Context, at: u64, index: usize) {
    let Some(former) = context.arena.get() else { return };
    let mut others_quiet = false;
    // SAFETY: this is an arena of the recording, and all have the same size.
    let arena = unsafe { Arena::at(at as *mut u8, former.pool_chunks()) };
    if index >= SLOTS || arena.control().magic.load(Ordering::Relaxed) != ring::MAGIC {
        sys::call(Need::Unmap, [at, bytes_of(arena), 0, 0, 0, 0]);
        return leave_as_another(context);
    }
    let space = space();
    sys::keep_out_of_cores(arena.base() as u64, bytes_of(arena));
    sys::keep_unlocked(arena.base() as u64, bytes_of(arena));
    space.lock.with(|_| {
        if !remember(arena) {
            context.silent.set(true);
        }
        context.set_arena(Some(arena));
        if let Some(left) = context.slot.get() {
            left.end();
        }
        let slot = arena.slot(index);
        slot.context.store(context.this.get() as u64, Ordering::Relaxed);
        context.slot.set(Some(slot));
        context.slot_index.set(index);
        others_quiet = unmap_unused(space, &Keep::of_process(context));
    });
    Stream::open(context);
    if others_quiet && !context.silent.get() {
        let head = Header::new(RecordKind::Gap, GapWhy::NotFollowed as u8, 0, 0).to_word();
        Stream::record(context, &[head, clock::now(context), unfollowed::SHARED_MEMORY]);
        Stream::publish(context);
    }
}

/// Ends the recording of this thread and releases its arena.
pub fn leave(context: &Context) {
    end_slot(context);
    drop_arena(context, Keep::All);
}

/// Like `leave`, for a thread that has become another user.
fn leave_as_another(context: &Context) {
    end_slot(context);
    drop_arena(context, Keep::of_process(context));
}

fn end_slot(context: &Context) {
    if let Some(slot) = context.slot.take()
        && !context.silent.get()
    {
        slot.end();
    }
}

/// Like `leave`, for a process whose calls are no longer seen: its other threads are not recorded
/// either. The slot stays active, so the end of the process is still recorded.
pub fn give_up(context: &Context) {
    context.slot.set(None);
    drop_arena(context, Keep::OfMakers(context.waiting_makers.get()));
}

fn drop_arena(context: &Context, keep: Keep) {
    context.set_arena(None);
    context.silent.set(true);
    if !sys::denies(needed::UNMAPPING) {
        let space = space();
        space.lock.with(|_| unmap_unused(space, &keep));
    }
}

fn bytes_of(arena: Arena) -> u64 {
    ring::arena_bytes(arena.pool_chunks()) as u64
}

/// Adds a mapped arena to the list. Returns false if the list is full.
pub fn remember(arena: Arena) -> bool {
    let space = space();
    space.arena_bytes.store(bytes_of(arena), Ordering::Relaxed);
    let free = space.arenas.iter().find(|at| at.load(Ordering::Relaxed) == 0);
    free.inspect(|place| place.store(arena.base() as u64, Ordering::Relaxed)).is_some()
}

/// Unmaps arenas that only a thread or process that is gone has used.
pub fn forget_unused() {
    let space = space();
    if space.arenas[1..].iter().any(|at| at.load(Ordering::Relaxed) != 0)
        && !sys::denies(needed::UNMAPPING)
    {
        space.lock.with(|_| unmap_unused(space, &Keep::All));
    }
}

/// Selects the arenas that stay mapped: those used by certain processes.
enum Keep {
    /// All processes that still exist.
    All,
    /// This process, and those that wait for it.
    OfProcess(*mut c_void, Makers),
    /// These waiting processes.
    OfMakers(Makers),
}

impl Keep {
    fn of_process(context: &Context) -> Keep {
        Keep::OfProcess(context.process.get(), context.waiting_makers.get())
    }

    fn includes(&self, other: &Context) -> bool {
        match self {
            Keep::All => !is_gone(other),
            Keep::OfProcess(process, makers) => {
                let own = other.process.get() == *process && other.running.get() == phase::RECORDED;
                own || makers.contains(&other.process.get())
            }
            Keep::OfMakers(makers) => makers.contains(&other.process.get()),
        }
    }
}

/// Unmaps all arenas but those to keep. Returns true if threads that may have used one go quiet.
fn unmap_unused(space: &Space, keep: &Keep) -> bool {
    let mut others_quiet = false;
    for place in &space.arenas {
        let at = place.load(Ordering::Relaxed);
        let (mut kept, mut in_use) = (false, false);
        each_user(space, at, |context| {
            kept |= keep.includes(context);
            in_use |= !is_gone(context);
        });
        if at == 0 || kept || in_use && sys::denies(needed::OTHERS) {
            continue;
        }
        place.store(0, Ordering::Relaxed);
        let len = space.arena_bytes.load(Ordering::Relaxed);
        if !in_use || !replace(at, len) {
            sys::call(Need::Unmap, [at, len, 0, 0, 0, 0]);
        }
        each_user(space, at, |context| {
            // The thread may read the flag meanwhile; either value is fine for it.
            let was_silent = context.silent.get();
            context.silent.set(true);
            // After an announced exec, the thread is recorded as another program.
            others_quiet |=
                in_use && !was_silent && !context.exec_announced.get() && !is_dead(context);
        });
    }
    others_quiet
}

/// Calls `found` with the contexts of the threads that use this arena.
fn each_user(space: &Space, at: u64, mut found: impl FnMut(&Context)) {
    for context in space.areas().map(|area| &area.context) {
        if context.area_state.load(Ordering::Acquire) == area::USED
            && context.arena_at.get() == at
            && at != 0
        {
            found(context);
        }
    }
}

/// Replaces an arena by private memory in one step: what is written there from now on is lost.
fn replace(at: u64, len: u64) -> bool {
    let prot = u64::from(raw::PROT_READ | raw::PROT_WRITE);
    let flags = raw::MAP_PRIVATE | raw::MAP_ANONYMOUS | raw::MAP_NORESERVE | raw::MAP_FIXED;
    let replaced =
        sys::call(Need::MapMemoryOver, [at, len, prot, u64::from(flags), u64::MAX, 0]) as u64 == at;
    if replaced {
        sys::keep_unlocked(at, len);
        // SAFETY: an arena begins with its control block, and all zeros is a valid one.
        let control = unsafe { &*(at as *const ring::Control) };
        control.stopped.store(GapWhy::NotFollowed as u32, Ordering::SeqCst);
    }
    replaced
}

/// Returns true if a process that shares the memory is gone. It may have been killed.
fn is_gone(context: &Context) -> bool {
    let (tgid, tid) = (u64::from(context.tgid.get()), u64::from(context.tid.get()));
    context.new_process.get()
        && tgid != 0
        && !sys::is_quiet()
        && sys::call(Need::SendSignal, [tgid, tid, 0, 0, 0, 0]) == ESRCH
}

/// Returns true if the process is a child of ours that is dead but not waited for.
fn is_dead(context: &Context) -> bool {
    let kinds = raw::WEXITED | raw::WNOWAIT | raw::WNOHANG | raw::__WALL;
    let mut info = [0u32; 32];
    let (pid, at) = (u64::from(context.tgid.get()), info.as_mut_ptr() as u64);
    let args = [u64::from(raw::P_PID), pid, at, u64::from(kinds), 0, 0];
    let may_look = !sys::denies(needed::ALL | needed::HELPERS);
    may_look && sys::call(Need::LookForEnd, args) == 0 && info[0] != 0
}

/// Argument and result of the helper.
struct Meeting<'a> {
    context: &'a Context,
    found: Option<(u64, usize)>,
}

/// Has the supervisor send the arena, through a socket of a helper with its own descriptors.
fn sent(context: &Context) -> Option<(u64, usize)> {
    let helper = Helper::new(0)?;
    let mut meeting = Meeting { context, found: None };
    let argument = &raw mut meeting as u64;
    let process = meeting.context.tgid.get();
    helper.run(process, argument, meet);
    meeting.found
}

/// Runs in the helper. Its descriptors are closed when it ends.
extern "C" fn meet(meeting: u64) {
    /// AF_UNIX; SOCK_DGRAM | SOCK_CLOEXEC; MSG_CMSG_CLOEXEC | MSG_DONTWAIT.
    const UNIX: u64 = 1;
    const DATAGRAMS: u64 = 0x80002;
    const NOW: u64 = 0x4000_0040;
    /// A header and two descriptors.
    const CONTROL_BYTES: u64 = 24;
    // SAFETY: the creator sleeps while the helper uses this.
    let meeting = unsafe { &mut *(meeting as *mut Meeting<'_>) };
    if !helper::leave_descriptors(0) {
        return;
    }
    let mut pair = [0u32; 2];
    let at = &raw mut pair as u64;
    if sys::call(Need::SocketPair, [UNIX, DATAGRAMS, 0, at, 0, 0]) != 0 {
        return;
    }
    let ours = u64::from(sys::gettid());
    let tid = u64::from(meeting.context.tid.get());
    let words = [tid, u64::from(pair[1]), ours, 0, 0, 0];
    if requests::ask(meeting.context, request::USER_CHANGED, words) != answer::DONE {
        return;
    }
    let (mut slot, mut control) = (0u64, [0u64; 3]);
    let mut vector = [&raw mut slot as u64, 8];
    let mut message = [0, 0, &raw mut vector as u64, 1, &raw mut control as u64, CONTROL_BYTES, 0];
    let message_at = &raw mut message as u64;
    let got = sys::call(Need::ReceiveMessage, [u64::from(pair[0]), message_at, NOW, 0, 0, 0]);
    let (Some(former), true) =
        (meeting.context.arena.get(), got == 8 && control[0] == CONTROL_BYTES)
    else {
        return;
    };
    let arena = control[2] & u64::from(u32::MAX);
    let prot = u64::from(raw::PROT_READ | raw::PROT_WRITE);
    let flags = u64::from(raw::MAP_SHARED | raw::MAP_NORESERVE);
    let at = sys::call(Need::MapArena, [0, bytes_of(former), prot, flags, arena, 0]);
    if at > 0 {
        meeting.found = Some((at as u64, slot as usize));
    }
    core::hint::black_box((&slot, &control, &vector));
}
