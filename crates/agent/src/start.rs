//! Starts the agent in a new image.

use core::sync::atomic::Ordering;

use linux_raw_sys::auxvec;
use linux_raw_sys::general as raw;
use ring::{Arena, Catalog, SLOTS, exec_state, slot_state};
use syscalls::abi::memory::SHM_RDONLY;
use syscalls::record::{Header, IMAGE_ARG, RecordKind, StartHow, part};

use crate::arch::bootstrap::{Parameters, SAVED_MAX};
use crate::arch::{entry, gs, own_gs, processor};
use crate::capture::{self, Which};
use crate::context::{Context, space};
use crate::course::Region;
use crate::needs::{Need, needed};
use crate::signal::signal_bit;
use crate::stream::Stream;
use crate::{
    actions, asked, clock, course, cpu_area, memory, profile, serial, sys, tasks, text, threads,
    users,
};

/// The kernel's limit for one argument of exec.
const ARGUMENT_MAX: u64 = 128 << 10;

/// Entered from the assembly on the first thread's stack; returns the program's entry point.
#[unsafe(export_name = "reenact_handle_start")]
pub extern "C" fn on_start(parameters: &Parameters, program_stack: u64) -> u64 {
    // Half of the code and of the constants are used before the program's first instruction. Where
    // they are one large page, they are there already.
    let image = entry::image_start();
    sys::map_pages(image, (entry::constants_end() - image).next_multiple_of(4096));
    let space = space();
    let features = auxiliary(program_stack, u64::from(auxvec::AT_HWCAP2)).unwrap_or(0);
    space.can_write_gs.set(processor::can_set_gs(features));
    space.first.init();
    let context = &space.first.context;
    gs::point_to(context);
    context.tid.set(sys::gettid());
    context.process().pid.set(sys::getpid());
    context.tgid.set(context.process().pid.get());
    // Whatever fails later, the program starts with its original entry point.
    restore_entry(parameters);
    let program_entry = parameters.entry;
    let attached = |mapped: u64, id: u64, region, flags: u32| match mapped {
        0 => {
            let at = course::place(parameters.hint, region);
            sys::call(Need::AttachSegment, [id, at, u64::from(flags), 0, 0, 0])
        }
        mapped => mapped as i64,
    };
    let arena_at = match below(image, parameters) {
        Some(at) if at > 0 => at,
        _ => attached(parameters.arena_at, parameters.arena_shm, Region::Arena, 0),
    };
    let catalog_at =
        attached(parameters.catalog_at, parameters.catalog_shm, Region::Catalog, SHM_RDONLY);
    if arena_at < 0 || catalog_at < 0 || parameters.slot as usize >= SLOTS {
        return program_entry;
    }
    // SAFETY: this is the arena of the recording; the supervisor has passed its size.
    let arena = unsafe { Arena::at(arena_at as *mut u8, parameters.pool_chunks as usize) };
    if arena.control().magic.load(Ordering::Relaxed) != ring::MAGIC || arena.recorder_lost() {
        return program_entry;
    }
    course::begin(arena.control(), parameters.hint);
    sys::keep_out_of_cores(arena_at as u64, ring::arena_bytes(arena.pool_chunks()) as u64);
    sys::keep_out_of_cores(catalog_at as u64, ring::CATALOG_BYTES as u64);
    // SAFETY: the catalog is mapped for as long as the image runs.
    space.catalog.set(Some(unsafe { Catalog::at(catalog_at as *mut u8) }));
    users::remember(arena);
    let slot = arena.slot(parameters.slot as usize);
    context.set_arena(Some(arena));
    context.slot.set(Some(slot));
    context.slot_index.set(parameters.slot as usize);
    context.process().number.set(slot.process.load(Ordering::Relaxed));
    let sigsys = slot.exec_blocked.load(Ordering::Relaxed) & signal_bit(raw::SIGSYS);
    context.mask.set(current_mask() | sigsys);
    context.update_fault_safety();
    let state = slot.exec_state.load(Ordering::Relaxed);
    context.process().filtered.set(state & exec_state::FILTERED != 0);
    // A quiet agent would not be here.
    let denied = (state >> exec_state::DENIED_AT) as u32 & !needed::ALL;
    context.process().denied.bits.store(denied, Ordering::Relaxed);
    context.set_clockless(state & exec_state::CLOCKLESS != 0);
    let told = parameters.maps;
    let in_use = told.iter().filter(|map| map.end != 0);
    space.lock.with(|shared| in_use.clone().for_each(|map| shared.maps.add(*map)));
    let page = core::ptr::from_ref(parameters) as u64 & !4095;
    sys::call(Need::Unmap, [page, 4096, 0, 0, 0, 0]);
    threads::install_altstack(context);
    actions::start_image(context);
    slot.pid.store(context.process().pid.get(), Ordering::Relaxed);
    slot.tid.store(context.tid.get(), Ordering::Relaxed);
    slot.context.store(context.this.get() as u64, Ordering::Relaxed);
    Stream::open(context);
    context.calls.set(slot.calls.load(Ordering::Relaxed));
    context.slow_calls.set(slot.slow_calls.load(Ordering::Relaxed));
    if slot.state.load(Ordering::Relaxed) == slot_state::RESERVED {
        slot.how.store(StartHow::Launch as u32, Ordering::Relaxed);
        tasks::record_start(context);
        slot.state.store(slot_state::ACTIVE, Ordering::Release);
    }
    if course::is_repeatable() {
        // Its calls are real ones from now on, which are recorded and answered.
        hide_fast_calls(program_stack);
    }
    cpu_area::begin(context);
    if course::is_answered() {
        serial::take(context);
        asked::image(context, program_stack);
        threads::arm_dispatch(context);
        return program_entry;
    }
    let sets_gs = in_use.clone().any(|map| own_gs::is_set_by(context, map));
    let is_left = sets_gs && own_gs::prepare(context);
    let program = auxiliary(program_stack, u64::from(auxvec::AT_ENTRY)).and_then(text::at);
    if let Some(program) = program.filter(|_| !is_left) {
        profile::begin(&program);
        in_use.for_each(profile::patch);
    }
    // Last, since the program's own time begins with it.
    record_image(context, program_stack);
    serial::take(context);
    if sets_gs {
        own_gs::tell(context, is_left);
    }
    if is_left {
        own_gs::leave_at_start(context);
        return program_entry;
    }
    threads::arm_dispatch(context);
    program_entry
}

/// Attaches the arena below the image, where its large pages can be used. `None`: it has another place.
fn below(image: u64, parameters: &Parameters) -> Option<i64> {
    let has_place = parameters.hint != 0 || parameters.arena_at != 0;
    if has_place || !image.is_multiple_of(ring::LARGE_PAGE as u64) {
        return None;
    }
    let len = ring::arena_bytes(parameters.pool_chunks as usize) as u64;
    let at = image.checked_sub(len)? & !(ring::LARGE_PAGE as u64 - 1);
    Some(sys::call(Need::AttachSegment, [parameters.arena_shm, at, 0, 0, 0, 0]))
}

/// Returns a value of the auxiliary vector.
fn auxiliary(stack: u64, kind: u64) -> Option<u64> {
    // SAFETY: the entry is one that the kernel has laid out.
    auxiliary_entry(stack, kind).map(|at| unsafe { at.add(1).read() })
}

/// Hides the vDSO from the program.
fn hide_fast_calls(stack: u64) {
    if let Some(at) = auxiliary_entry(stack, u64::from(auxvec::AT_SYSINFO_EHDR)) {
        // SAFETY: the entry is one that the kernel has laid out, and the program does not run yet.
        unsafe { at.write(u64::from(auxvec::AT_IGNORE)) };
    }
}

/// Returns an entry of the auxiliary vector, which the kernel has put on the program's stack.
fn auxiliary_entry(stack: u64, kind: u64) -> Option<*mut u64> {
    // SAFETY: the kernel has laid out argc, argv, NULL, envp, NULL and auxv at `stack`.
    unsafe {
        let words = stack as *mut u64;
        let mut at = words.add(words.read() as usize + 2);
        while at.read() != 0 {
            at = at.add(1);
        }
        at = at.add(1);
        while at.read() != 0 {
            if at.read() == kind {
                return Some(at);
            }
            at = at.add(2);
        }
    }
    None
}

fn current_mask() -> u64 {
    let mut mask = 0u64;
    sys::call(Need::SetMask, [0, 0, &raw mut mask as u64, 8, 0, 0]);
    mask
}

fn restore_entry(parameters: &Parameters) {
    let len = (parameters.stage1_len as usize).min(SAVED_MAX);
    sys::make_writable(parameters.page, parameters.page_len);
    // SAFETY: the pages were just made writable; stage 1 does not run again.
    unsafe {
        core::ptr::copy_nonoverlapping(parameters.saved.as_ptr(), parameters.entry as *mut u8, len);
    }
    if parameters.page_prot & u64::from(raw::PROT_WRITE) == 0 {
        sys::make_text(parameters.page, parameters.page_len);
    }
}

/// Writes the IMAGE record with arguments, environment and auxiliary vector.
fn record_image(context: &Context, stack: u64) {
    let tid = context.tid.get();
    let head = Header::new(RecordKind::Image, 0, 0, tid).to_word();
    let stopped = context.slot.get().map_or(0, |slot| slot.exec_stopped.load(Ordering::Relaxed));
    Stream::record(context, &[head, clock::now(context), stopped]);
    let argc = memory::read::<u64>(context, stack).unwrap_or(0);
    let argv = stack + 8;
    let envp = argv + 8 * (argc + 1);
    record_strings(context, argv, part::ARGV);
    record_strings(context, envp, part::ENVP);
    let mut at = envp;
    while memory::read::<u64>(context, at).is_some_and(|pointer| pointer != 0) {
        at += 8;
    }
    let auxv = at + 8;
    let mut end = auxv;
    while memory::read::<u64>(context, end).is_some_and(|kind| kind != 0) {
        end += 16;
    }
    let which = Which { arg: IMAGE_ARG, index: 0, part: part::AUXV, flags: 0, bulk: false };
    capture::copy_bytes(context, which, auxv, end + 16 - auxv);
    if course::is_repeatable() {
        let end = stack_end(context, end + 16);
        let which = Which { part: part::STACK, ..which };
        capture::copy_bytes(context, which, stack, end - stack);
    }
    Stream::publish(context);
}

/// Returns where the stack ends on which the kernel has put strings, given an address in it.
fn stack_end(context: &Context, from: u64) -> u64 {
    let mut end = from.next_multiple_of(4096);
    while memory::readable(context, end, 8) {
        end += 4096;
    }
    end
}

/// Records the strings of an array of pointers: they lie one after the other.
fn record_strings(context: &Context, array: u64, what: u8) {
    let Some(first) = memory::read::<u64>(context, array).filter(|&p| p != 0) else { return };
    let mut at = array;
    let mut last = first;
    while let Some(next) = memory::read::<u64>(context, at + 8).filter(|&p| p != 0) {
        at += 8;
        last = next;
    }
    let end = last + memory::string_len(context, last, ARGUMENT_MAX).unwrap_or(0) + 1;
    let which = Which { arg: IMAGE_ARG, index: 0, part: what, flags: 0, bulk: false };
    capture::copy_bytes(context, which, first, end.saturating_sub(first));
}
