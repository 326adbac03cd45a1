//! Creation and end of threads and processes.

use core::sync::atomic::Ordering;

use linux_raw_sys::general as raw;
use syscalls::Handler;
use syscalls::record::{GapWhy, Header, RecordKind, Start, StartHow, enter_flag, unfollowed};

use crate::arch::frames::Frame;
use crate::arch::head::phase;
use crate::arch::{entry, gs};
use crate::call::{Call, count, enter, exit as record_exit};
use crate::context::{AREAS, Context, MAKERS, Process, ThreadArea, area, mask_all, space};
use crate::needs::{Need, needed};
use crate::signal::{FAULTS, NO_ALTSTACK, real_mask};
use crate::stream::{self, Stream};
use crate::{
    actions, aio, asked, clock, course, cpu_area, deferred, looking, mapped, memory, native,
    ring_tables, rings, serial, signals, sys, threads, users,
};

const ESRCH: i64 = -3;

/// What a clone, fork or vfork is to do.
struct Wish {
    flags: u64,
    /// The child's stack pointer; 0: the same as the parent's.
    stack: u64,
}

/// Handles fork, vfork, clone and clone3.
pub fn clone(context: &Context, frame: &Frame, call: &Call) {
    // Block signals: the child must not get one before its context is set up.
    sys::set_mask(mask_all(context));
    if !sys::denies(needed::MASKS) {
        context.phase.set(phase::IN_CALL);
    }
    let wish = wish(context, call);
    if let Some(arena) = context.arena.get()
        && wish.flags & u64::from(raw::CLONE_FILES | raw::CLONE_FS) != 0
        && wish.flags & u64::from(raw::CLONE_THREAD) == 0
    {
        arena.control().state_shared.store(1, Ordering::Relaxed);
    }
    if wish.flags & u64::from(raw::CLONE_VM) != 0 {
        if sys::is_quiet() && space().can_write_gs.get() {
            share_natively(context, frame, call, &wish);
        } else {
            share(context, frame, call, &wish);
        }
    } else {
        fork(context, frame, call, &wish);
    }
    let is_native = context.next_native.get() != 0;
    sys::set_mask(if is_native { context.mask.get() } else { real_mask(context.mask.get()) });
}

fn wish(context: &Context, call: &Call) -> Wish {
    let as_parent = Wish { flags: 0, stack: 0 };
    let args = call.args;
    match call.row.handler {
        Handler::Vfork => Wish { flags: u64::from(raw::CLONE_VM | raw::CLONE_VFORK), stack: 0 },
        Handler::Clone => Wish { flags: args[0] & u64::from(u32::MAX), stack: args[1] },
        // The kernel refuses arguments that are too short or unreadable.
        Handler::CloneByStruct => {
            memory::read::<[u64; 8]>(context, args[0]).map_or(as_parent, |words| Wish {
                flags: words[0],
                stack: words[5].wrapping_add(words[6]),
            })
        }
        _ => as_parent,
    }
}

/// A slot reserved for a child, and its generation.
#[derive(Clone, Copy)]
struct Reserved {
    index: usize,
    generation: u32,
}

/// Reserves a slot for a child. If that fails and is a gap, the error says why.
fn reserve(
    context: &Context,
    how: StartHow,
    new_process: bool,
) -> Result<Reserved, Option<GapWhy>> {
    let (arena, slot) = context.arena.get().zip(context.slot.get()).ok_or(None)?;
    if context.silent.get() {
        return Err(None);
    }
    if sys::is_quiet() {
        // To set up its recording, the child would need calls that its filter may forbid.
        return Err(Some(GapWhy::NotFollowed));
    }
    let index = arena.reserve_slot().ok_or(Some(GapWhy::TooManyThreads))?;
    let control = arena.control();
    let child = arena.slot(index);
    let thread = control.next_thread.fetch_add(1, Ordering::Relaxed);
    let process = if new_process {
        control.next_process.fetch_add(1, Ordering::Relaxed)
    } else {
        context.process().number.get()
    };
    child.thread.store(thread, Ordering::Relaxed);
    child.process.store(process, Ordering::Relaxed);
    child.parent.store(slot.thread.load(Ordering::Relaxed), Ordering::Relaxed);
    child.how.store(how as u32, Ordering::Relaxed);
    child.pid_seen.store(0, Ordering::Relaxed);
    child.foreign_pid.store(slot.foreign_pid.load(Ordering::Relaxed), Ordering::Relaxed);
    Ok(Reserved { index, generation: child.generation.load(Ordering::Relaxed) })
}

/// Completes a reservation in the parent, after the clone has succeeded or failed.
fn settle(
    context: &Context,
    reserved: Result<Reserved, Option<GapWhy>>,
    ret: i64,
    new_process: bool,
) {
    if let Err(Some(why)) = reserved
        && ret > 0
    {
        let head = Header::new(RecordKind::Gap, why as u8, 0, 0).to_word();
        let detail = if why == GapWhy::NotFollowed { unfollowed::FILTER } else { 0 };
        Stream::record(context, &[head, clock::now(context), detail]);
    }
    let (Some(arena), Ok(Reserved { index, generation })) = (context.arena.get(), reserved) else {
        return;
    };
    let child = arena.slot(index);
    if ret < 0 {
        child.give_back();
    } else if new_process && child.generation.load(Ordering::Acquire) == generation {
        // Otherwise the child is gone already and another thread has its slot.
        child.pid_seen.store(ret as u32, Ordering::Release);
    }
}

/// Creates a child with its own memory.
fn fork(context: &Context, frame: &Frame, call: &Call, wish: &Wish) {
    mapped::settle(context);
    let reserved = reserve(context, StartHow::Fork, true);
    enter(context, call, 0);
    rings::fork();
    context.phase.set(phase::IN_CALL);
    let mask = mask_for_child(context);
    // SAFETY: the program asked for this call, and signals are masked.
    let ret = unsafe { entry::reenact_fork(call.number, call.args) };
    if ret == 0 {
        forget_other_threads(context);
        context.cpu_time.forget();
        context.tgid.set(0);
        users::forget_unused();
        if wish.flags & raw::CLONE_CLEAR_SIGHAND != 0 {
            actions::clear_handlers(context);
        }
        begin(context, reserved.ok().map(|slot| slot.index), true);
        mapped::inherit(context);
        frame.set_result(0);
        if wish.stack != 0 {
            frame.set_stack(wish.stack);
        }
        context.phase.set(context.running.get());
        if sys::is_quiet() && space().can_write_gs.get() {
            native::become_one(context);
        }
        return;
    }
    sys::set_mask(mask);
    settle(context, reserved, ret, true);
    record_exit(context, call, ret);
}

/// Blocks all signals but a filter's SIGSYS until a child has a context of its own, also those by which
/// faults come: somebody may send it one. Returns the former mask.
fn mask_for_child(context: &Context) -> u64 {
    sys::set_mask(mask_all(context) | FAULTS)
}

/// Resets shared state in a forked child, which has only the calling thread.
fn forget_other_threads(context: &Context) {
    let space = space();
    space.lock.reset();
    space.baton.reset();
    aio::forget();
    rings::forget();
    // The kernel does not pass memory locks on to a child.
    sys::LOCKS_FUTURE.store(false, Ordering::Relaxed);
    context.process().lock.reset();
    let this = context.area();
    for other in space.areas().filter(|area| !core::ptr::eq(*area, this)) {
        // Their threads do not exist here.
        other.context.area_state.store(area::FREE, Ordering::Relaxed);
        other.process.users.store(0, Ordering::Relaxed);
    }
    // The process's shared state may be in another thread's area, which is free now.
    let (former, own) = (context.process(), &this.process);
    if !core::ptr::eq(former, own) {
        own.number.set(former.number.get());
        own.pid.set(former.pid.get());
        inherit(own, former);
        context.process.set(core::ptr::from_ref(own).cast_mut().cast());
    }
    own.users.store(1, Ordering::Relaxed);
}

/// Gives a process what another one has made of its signals and filters.
fn inherit(to: &Process, from: &Process) {
    // Who had this memory before may have been killed with the lock held.
    to.lock.reset();
    to.filtered.set(from.filtered.get());
    to.denied.bits.store(from.denied.bits.load(Ordering::Relaxed), Ordering::Relaxed);
    native::forget(to);
    to.actions.copy_from(&from.actions);
}

/// Creates a thread, or a process that shares memory.
fn share(context: &Context, frame: &Frame, call: &Call, wish: &Wish) {
    let thread = wish.flags & u64::from(raw::CLONE_THREAD) != 0;
    let vfork = wish.flags & u64::from(raw::CLONE_VFORK) != 0;
    let Some(child) = new_area() else {
        enter(context, call, 0);
        record_exit(context, call, -12);
        return;
    };
    let how = if thread { StartHow::Thread } else { StartHow::Vfork };
    let reserved = reserve(context, how, !thread);
    let index = reserved.ok().map(|slot| slot.index);
    child.init();
    let new = &child.context;
    new.set_arena(context.arena.get());
    new.slot.set(context.arena.get().zip(index).map(|(arena, index)| arena.slot(index)));
    new.slot_index.set(index.unwrap_or(0));
    new.silent.set(index.is_none());
    new.mask.set(context.mask.get());
    new.fault_unsafe.set(context.fault_unsafe.get());
    new.set_clockless(context.clockless.get());
    new.resume.set(context.resume.get());
    new.slow_site.store(context.slow_site.load(Ordering::Relaxed), Ordering::Relaxed);
    new.altstack.set(if vfork { context.altstack.get() } else { NO_ALTSTACK });
    new.clear_handlers.set(wish.flags & raw::CLONE_CLEAR_SIGHAND != 0);
    new.new_process.set(!thread);
    new.waiting_makers.set(match (vfork, thread) {
        (true, _) => {
            let [first, second, third, _] = context.waiting_makers.get();
            [context.process.get(), first, second, third]
        }
        (false, true) => context.waiting_makers.get(),
        (false, false) => [core::ptr::null_mut(); MAKERS],
    });
    new.tgid.set(0);
    if wish.flags & u64::from(raw::CLONE_SIGHAND) != 0 && thread {
        new.process.set(context.process.get());
        child.process.users.store(0, Ordering::Relaxed);
        context.process().users.fetch_add(1, Ordering::AcqRel);
    } else {
        let ours = context.process();
        child
            .process
            .number
            .set(new.slot.get().map_or(0, |slot| slot.process.load(Ordering::Relaxed)));
        ours.lock.with(|()| inherit(&child.process, ours));
    }
    child.set_frame(frame);
    child.frame().set_result(0);
    if wish.stack != 0 {
        child.frame().set_stack(wish.stack);
    }
    enter(context, call, 0);
    context.phase.set(phase::IN_CALL);
    new.phase.set(phase::IN_CALL);
    let mask = mask_for_child(context);
    // SAFETY: the program asked for this call; the child has a context and a frame.
    let ret =
        unsafe { entry::reenact_clone(call.number, call.args, child.context.this.get() as u64) };
    sys::set_mask(mask);
    settle(context, reserved, ret, !thread);
    if ret < 0 || vfork {
        // A vfork child has left this memory; after a failure there is no child.
        child.context.process().users.fetch_sub(1, Ordering::AcqRel);
        child.context.area_state.store(area::FREE, Ordering::Release);
        users::forget_unused();
    }
    record_exit(context, call, ret);
}

/// Like `share`, under a filter: the child is not recorded and runs without the agent.
fn share_natively(context: &Context, frame: &Frame, call: &Call, wish: &Wish) {
    let thread = wish.flags & u64::from(raw::CLONE_THREAD) != 0;
    let reserved = reserve(context, StartHow::Thread, !thread);
    enter(context, call, 0);
    let which = if thread { native::BESIDE_US } else { native::ALONE };
    let ret = native::make(context, frame, wish.stack, which);
    settle(context, reserved, ret, !thread);
    record_exit(context, call, ret);
}

/// First agent code of a child that shares memory: on its own stack, with signals masked.
#[unsafe(export_name = "reenact_handle_child")]
pub extern "C" fn on_child(context: &Context) {
    gs::point_to(context);
    if context.clear_handlers.get() {
        actions::clear_handlers(context);
    }
    // Even under a filter: otherwise the agent's handlers would run on the program's stack.
    threads::install_altstack(context);
    let reserved = (!context.silent.get()).then_some(context.slot_index.get());
    let new_process = context.new_process.get();
    begin(context, reserved, new_process);
    context.phase.set(context.running.get());
    if context.held_frame.get() != 0 {
        signals::deliver_held(context);
    }
    sys::set_mask(real_mask(context.mask.get()));
}

/// Sets a child up as a recorded thread. From here on it can be sent signals by which faults come.
fn begin(context: &Context, reserved: Option<usize>, new_process: bool) {
    context.calls.set(0);
    context.slow_calls.set(0);
    context.slow.set(0);
    context.held_frame.set(0);
    context.trapped.set(None);
    context.waiting.clear();
    context.busy.set(false);
    context.exec_announced.set(false);
    context.take_sigsys();
    context.dispatch.set(None);
    deferred::forget(context);
    context.looking.forget();
    sys::set_mask(mask_all(context));
    if sys::is_quiet() {
        context.slot.set(None);
        users::leave(context);
        return;
    }
    context.tid.set(sys::gettid());
    if new_process {
        context.process().pid.set(sys::getpid());
    }
    context.tgid.set(context.process().pid.get());
    if !take_slot(context, reserved, new_process) {
        context.slot.set(None);
        users::leave(context);
    }
    cpu_area::begin(context);
    threads::arm_dispatch(context);
    if course::is_answered() {
        asked::begin(context);
    }
    serial::take(context);
}

/// Takes the slot that was reserved for the child. Returns false if there is none.
fn take_slot(context: &Context, reserved: Option<usize>, new_process: bool) -> bool {
    let (Some(arena), Some(index)) = (context.arena.get(), reserved) else { return false };
    let slot = arena.slot(index);
    let disowned = || {
        arena.control().disowned.fetch_add(1, Ordering::Relaxed);
        false
    };
    if !slot.is_reserved() {
        return disowned();
    }
    context.slot_index.set(index);
    context.slot.set(Some(slot));
    if new_process {
        context.process().number.set(slot.process.load(Ordering::Relaxed));
    }
    slot.pid.store(context.process().pid.get(), Ordering::Relaxed);
    slot.tid.store(context.tid.get(), Ordering::Relaxed);
    slot.context.store(context.this.get() as u64, Ordering::Relaxed);
    // The first process of a pid namespace has no parent in it.
    if new_process && sys::call(Need::ParentPid, [0; 6]) == 0 {
        slot.foreign_pid.store(1, Ordering::Relaxed);
    }
    Stream::open(context);
    record_start(context);
    if !slot.activate() {
        return disowned();
    }
    if new_process {
        stream::wake_recorder(context);
    }
    true
}

/// Writes the START record, with which every stream begins.
pub fn record_start(context: &Context) {
    let Some(slot) = context.slot.get() else { return };
    let how = slot.how.load(Ordering::Relaxed) as u8;
    let start = Start {
        tsc: clock::now(context),
        thread: slot.thread.load(Ordering::Relaxed),
        process: slot.process.load(Ordering::Relaxed),
        parent: slot.parent.load(Ordering::Relaxed),
        pid: context.process().pid.get(),
        tid: context.tid.get(),
    };
    let [a, b, c, d] = start.to_words();
    let head = Header::new(RecordKind::Start, how, 0, 0).to_word();
    Stream::record(context, &[head, a, b, c, d]);
    Stream::publish(context);
}

/// Returns memory for a thread, reused or new. Called with signals masked.
fn new_area() -> Option<&'static ThreadArea> {
    let space = space();
    space.lock.with(|_| {
        let used = space.areas_used.load(Ordering::Relaxed) as usize;
        for candidate in space.areas() {
            let context = &candidate.context;
            // A system call, made only if nothing else tells: for exiting threads, and for
            // processes that share memory and may have been killed.
            let is_gone = || {
                let (tgid, tid) = (u64::from(context.tgid.get()), u64::from(context.tid.get()));
                !sys::is_quiet() && sys::call(Need::SendSignal, [tgid, tid, 0, 0, 0, 0]) == ESRCH
            };
            let state = context.area_state.load(Ordering::Acquire);
            let (gone, shared) = match state {
                area::FREE => (true, candidate.process.users.load(Ordering::Acquire) != 0),
                area::LEAVING => {
                    let users = candidate.process.users.load(Ordering::Acquire);
                    (users == 0 && is_gone(), false)
                }
                _ => (context.new_process.get() && context.tgid.get() != 0 && is_gone(), false),
            };
            if gone && !shared {
                claim(context);
                return Some(candidate);
            }
        }
        if used >= AREAS {
            return None;
        }
        let at = sys::map_memory(size_of::<ThreadArea>())?;
        // SAFETY: fresh zeroed memory of that size.
        let fresh = unsafe { &*at.cast::<ThreadArea>() };
        claim(&fresh.context);
        space.areas[used].store(at as u64, Ordering::Release);
        space.areas_used.store(used as u32 + 1, Ordering::Release);
        Some(fresh)
    })
}

/// Claims an area before another thread looks at it. What its last user left is cleared, or the
/// area might pass for that of a dead process.
fn claim(context: &Context) {
    context.set_arena(None);
    context.new_process.set(false);
    context.tgid.set(0);
    context.area_state.store(area::USED, Ordering::Release);
}

/// exit and exit_group: everything is recorded before the call is made.
pub fn exit(context: &Context, call: &Call) {
    let is_alone = context.process().users.load(Ordering::Relaxed) <= 1;
    if is_alone || call.row.handler == Handler::ExitProcess {
        mapped::settle_last(context);
    }
    if call.row.handler == Handler::ExitProcess {
        aio::end(context);
        rings::end(context);
    } else {
        ring_tables::thread_ends(context);
        looking::end(context);
    }
    enter(context, call, enter_flag::NO_RETURN);
    sys::set_mask(mask_all(context));
    context.phase.set(phase::IN_CALL);
    if !context.silent.get() {
        count(context);
        let head = Header::new(RecordKind::End, 0, 0, 0).to_word();
        let calls = context.calls.get();
        Stream::record(context, &[head, clock::now(context), calls]);
        Stream::publish(context);
        if let Some(slot) = context.slot.get() {
            slot.end();
        }
    }
    if call.row.handler == Handler::ExitThread {
        context.process().users.fetch_sub(1, Ordering::AcqRel);
        context.set_arena(None);
        context.slot.set(None);
        context.silent.set(true);
        context.area_state.store(area::LEAVING, Ordering::Release);
        users::forget_unused();
        serial::leave_for_ever(context);
    }
    call.make();
}
