//! State of the agent: per thread, per process, per address space.

use core::cell::{Cell, UnsafeCell};
use core::ffi::c_void;
use core::mem::offset_of;
use core::ops::Deref;
use core::sync::atomic::{AtomicU32, AtomicU64, Ordering};

use linux_raw_sys::general as raw;
use ring::{Arena, Catalog, Slot, Standing};
use syscalls::abi::rings::REGISTERED_MAX;

use crate::aio_contexts::AioContexts;
use crate::arch::frames::{AltStack, Frame};
use crate::arch::head::{
    ALTSTACK_BYTES, CONTEXT_BYTES, Head, Native, STACK_BYTES, STACK_END, phase,
};
use crate::arch::{entry, processor};
use crate::baton::Baton;
use crate::cells::{Flag, Number, OptionalWord, Word};
use crate::chunk::Chunk;
use crate::copied::Copied;
use crate::cpu_time::CpuTime;
use crate::flights::Flights;
use crate::hurry::{Hurry, Where};
use crate::late_input::LateInput;
use crate::lock::SpinLock;
use crate::long_copies::LongCopies;
use crate::patience::Patience;
use crate::shadow::Rings;
use crate::signal::{Actions, FAULTS, NO_ALTSTACK, signal_bit};
use crate::signal_queue::SignalQueue;
use crate::site_table::Sites;
use crate::sys::Denied;
use crate::text_map::Maps;
use crate::timers::{Looking, Timer};
use crate::watch::Watch;
use crate::{course, status_lines};

/// Value of `Context::call_start` between calls.
pub const NO_CALL: u64 = u64::MAX;

/// Marker in `Head::held_frame`: signals are blocked until the end of the current call.
pub const POSTPONED: u64 = 1;
/// Marker in `Head::held_frame`: signals may be queued.
pub const SOME_WAIT: u64 = 2;

/// State of one thread. The rule for its accesses is that of [`crate::cells`].
#[repr(C)]
pub struct Context {
    /// What the assembly knows.
    pub head: Head,
    /// The arena, the slot in it, and the slot's index.
    pub arena: Cell<Option<Arena>>,
    pub slot: Cell<Option<&'static Slot>>,
    pub slot_index: Cell<usize>,
    /// Address of the arena, for other threads; 0: none.
    pub arena_at: Word,
    /// The end of the stream that is being written.
    pub chunk: Chunk,
    /// How it copies to there.
    pub long_copies: LongCopies,
    /// What it computes between calls.
    pub cpu_time: CpuTime,
    pub calls: Cell<u64>,
    pub slow_calls: Cell<u64>,
    /// Calls are made but not recorded.
    pub silent: Flag,
    /// The thread may not read the time stamp counter.
    pub clockless: Cell<bool>,
    /// Bytes that are copied of the stack of each call.
    pub stack_bytes: Cell<u32>,
    /// The contents of some calls are left out.
    pub chooses: Cell<bool>,
    /// Those of the open call are.
    pub skips_contents: Cell<bool>,
    /// A call whose input is copied behind it.
    pub late_input: LateInput,
    /// Any of these: calls do not begin as usual.
    pub unusual: Cell<bool>,
    /// A page fault during a copy could not be handled now.
    pub fault_unsafe: Cell<bool>,
    /// Then: memory of the program that does not change now; null: none.
    pub copied: Cell<*const Copied>,
    /// Signal mask as the program set it.
    pub mask: Word,
    /// Signal mask during the current call, if the call brings its own (ppoll ...).
    pub call_mask: OptionalWord,
    /// Size of the buffer that the current call has for an address or option.
    pub room: Cell<u32>,
    /// The stream or other shared state is being changed: signals must wait.
    pub busy: Cell<bool>,
    /// Number of the signal in `Head::held_frame`.
    pub held_signal: Cell<u32>,
    /// With open handlers: queued signals.
    pub waiting: SignalQueue,
    /// Call number, kept for `%rax`, if a filter of the program answered the call with SIGSYS.
    pub trapped: Cell<Option<u64>>,
    /// The supervisor was asked to follow the current exec, and may be attached.
    pub exec_announced: Flag,
    /// The current call was counted before it was made.
    pub counted_early: Cell<bool>,
    /// Number of the current call among those that submit operations; 0: it is none. It stays after a
    /// call that was not made.
    pub batch: Cell<u32>,
    /// The ring to which it submits; 0: none.
    pub batch_ring: Cell<u32>,
    /// Rings with numbers that this thread has given: their places + 1.
    pub rings: Cell<[u8; REGISTERED_MAX]>,
    /// The next call does not take the usual way: there are deferred signals, or a dispatch.
    pub attention: Cell<bool>,
    /// Signals that wait for the next call, and those that have waited too long.
    pub deferred: Word,
    pub overdue: Word,
    /// How long the former may.
    pub patience: Patience,
    /// The timer that tells of these.
    pub alarm: Timer,
    /// The call before which some have arrived.
    pub hurry: Hurry,
    /// Whether it looks for completions in memory.
    pub looking: Looking,
    /// In a serialised recording: the CPU time of the thread when it began to run.
    pub has_baton_since: Word,
    /// Where the signal hit that is being delivered: a `syscalls::record::signal_place`.
    pub signal_place: Cell<u16>,
    /// In a re-execution: signals that were sent because they came here.
    pub raised: Word,
    /// The same: what it had used when the program went on after its last call.
    pub went_on: Cell<Standing>,
    /// Siginfo of a SIGSYS that arrived while the program believed it blocked.
    pub pending_sigsys: Cell<Option<[u64; 16]>>,
    /// The code in it, for other threads.
    pub pending_code: OptionalWord,
    /// Syscall User Dispatch as the program set it.
    pub dispatch: Cell<Option<Dispatch>>,
    /// Alternate stack as the program set it.
    pub altstack: Cell<AltStack>,
    /// Mask and alternate stack before the last rt_sigreturn: restored if it fails.
    pub before_return: Cell<(u64, AltStack)>,
    pub tid: Number,
    /// Process id, used to check whether the process still lives.
    pub tgid: Number,
    /// Stream position at which the current call's records began; [`NO_CALL`] between calls. A
    /// single word, so that a signal handler always sees a consistent value.
    pub call_start: AtomicU64,
    /// For a child that shares memory: whether to reset its handlers, and whether it is a process.
    pub clear_handlers: Cell<bool>,
    pub new_process: Flag,
    /// Processes sharing this memory that wait (vfork) until this one leaves it, nearest first.
    pub waiting_makers: Cell<Makers>,
    /// State of the `ThreadArea` around this context: an [`area`] value.
    pub area_state: AtomicU32,
}

impl Deref for Context {
    type Target = Head;

    #[inline(always)]
    fn deref(&self) -> &Head {
        &self.head
    }
}

/// Syscall User Dispatch as the program set it.
#[derive(Clone, Copy)]
pub struct Dispatch {
    pub start: u64,
    pub len: u64,
    pub selector: u64,
}

/// State shared by threads with common signal handlers.
#[repr(C)]
pub struct Process {
    /// What the program's filters deny the agent.
    pub denied: Denied,
    /// Number of threads that point here: the area around it is not reused while there are any.
    pub users: AtomicU32,
    pub pid: Number,
    /// Process number in the recording.
    pub number: Number,
    /// The program has a seccomp filter, which may answer its calls with SIGSYS.
    pub filtered: Flag,
    /// What `%gs` points to in threads that are not recorded because of a filter.
    pub natives: [Native; 2],
    /// Held while an action here and that of the kernel are changed.
    pub lock: SpinLock<()>,
    /// Signal actions as the program set them, by signal number.
    pub actions: Actions,
}

/// The agent's memory for one thread.
#[repr(C, align(4096))]
pub struct ThreadArea {
    pub context: Context,
    pub process: Process,
    pad: [u8; CONTEXT_BYTES - size_of::<Context>() - size_of::<Process>()],
    stack: UnsafeCell<[u8; STACK_BYTES]>,
    altstack: UnsafeCell<[u8; ALTSTACK_BYTES]>,
    frame: UnsafeCell<Frame>,
}

const _: () = assert!(size_of::<ThreadArea>() == 128 << 10);
const _: () = assert!(offset_of!(ThreadArea, altstack) == STACK_END);
const _: () = assert!(offset_of!(Context, head) == 0 && offset_of!(Process, denied) == 0);

/// States of a thread area.
pub mod area {
    pub const FREE: u32 = 0;
    pub const USED: u32 = 1;
    /// The thread is about to exit.
    pub const LEAVING: u32 = 2;
}

/// Maximum number of thread areas in an address space.
pub const AREAS: usize = 8192;

/// Maximum number of arenas mapped in an address space at the same time.
pub const ARENAS: usize = 8;

/// Number of waiting processes tracked when vfork children call vfork themselves.
pub const MAKERS: usize = 4;
pub type Makers = [*mut c_void; MAKERS];

/// State shared by all threads in an address space.
#[repr(C, align(4096))]
pub struct Space {
    /// Area of the first thread; placed here so that a short-lived program needs no other memory.
    pub first: ThreadArea,
    pub lock: SpinLock<Shared>,
    /// `%gs` can be set without a system call.
    pub can_write_gs: Flag,
    /// Some threads make calls unseen by the agent and may return to any site: patch no more sites.
    pub patched_enough: Flag,
    /// Some status file was read from its beginning.
    pub reads_statuses: Flag,
    /// A context of Linux AIO was made.
    pub has_aio: Flag,
    pub aio: SpinLock<AioContexts>,
    /// A ring of io_uring was made, and is shadowed.
    pub has_rings: Flag,
    pub rings: Rings,
    /// Operations in flight. Taken with the lock of `aio` or of a ring held, or alone.
    pub flights: SpinLock<Flights>,
    /// Catalog of executable files; programs cannot write it. Set by the first thread.
    pub catalog: Cell<Option<Catalog>>,
    /// Addresses of mapped arenas: several while threads of several users share this memory.
    pub arenas: [AtomicU64; ARENAS],
    /// Size of an arena, the same for all.
    pub arena_bytes: AtomicU64,
    pub sites: Sites,
    pub watch: Watch,
    pub baton: Baton,
    /// Addresses of all other areas.
    pub areas: [AtomicU64; AREAS],
    /// Number of entries of `areas` ever used.
    pub areas_used: AtomicU32,
}

/// What is looked at and changed under the lock of the address space.
pub struct Shared {
    pub maps: Maps,
    pub statuses: status_lines::Files,
}

/// The address space's state; zeroed memory when an image starts.
#[unsafe(export_name = "reenact_space")]
static SPACE: SpaceCell = SpaceCell(UnsafeCell::new(zeroed()));

#[repr(transparent)]
struct SpaceCell(UnsafeCell<Space>);

// SAFETY: what several threads write is atomic or behind a lock. Cells are used by the thread that
// they belong to, or by the first thread before there are others.
unsafe impl Sync for SpaceCell {}

const fn zeroed() -> Space {
    // SAFETY: every field is made of integers, atomics, raw pointers and options with a null
    // niche or a zero tag: all-zero bytes are a value.
    unsafe { core::mem::zeroed() }
}

/// Returns the address space's state.
pub fn space() -> &'static Space {
    // SAFETY: it is reached by shared references only.
    unsafe { &*SPACE.0.get() }
}

impl Space {
    /// Returns every thread area, in use or not.
    pub fn areas(&self) -> impl Iterator<Item = &'static ThreadArea> {
        let used = self.areas_used.load(Ordering::Acquire) as usize;
        let others = self.areas[..used.min(AREAS)].iter().map(|at| at.load(Ordering::Acquire));
        let all = core::iter::once(&raw const self.first as u64).chain(others);
        // SAFETY: areas are never unmapped, and reached by shared references only.
        all.filter(|&at| at != 0).map(|at| unsafe { &*(at as *const ThreadArea) })
    }
}

impl ThreadArea {
    /// Initialises the context of a new or reused area, which this thread has claimed.
    pub fn init(&self) {
        let context = &self.context;
        context.reset();
        context.this.set(&raw const context.head);
        context.entry.set(entry::entry());
        context.phase.set(phase::RECORDED);
        context.running.set(phase::RECORDED);
        let frame = self.frame.get();
        context.frame_end.set(frame as u64 + size_of::<Frame>() as u64);
        context.seen_rsp.set(frame as u64);
        context.stack_top.set(self.altstack_address() - 8);
        self.frame().trampoline.set(entry::restorer());
        context.altstack.set(NO_ALTSTACK);
        context.call_start.store(NO_CALL, Ordering::Relaxed);
        context.process.set((&raw const self.process).cast_mut().cast());
        self.process.users.store(1, Ordering::Relaxed);
        context.area_state.store(area::USED, Ordering::Relaxed);
    }

    pub fn altstack_address(&self) -> u64 {
        self.altstack.get() as u64
    }

    /// The place of the program's registers during a call. Only for a thread that is not in one.
    pub fn frame(&self) -> &Frame {
        // SAFETY: the entry code writes it at the beginning of a call, when nothing refers to it.
        unsafe { &*self.frame.get() }
    }

    /// Gives a new thread the registers of its creator.
    pub fn set_frame(&self, frame: &Frame) {
        // SAFETY: the thread does not run yet, and nobody else refers to its frame.
        unsafe { core::ptr::copy_nonoverlapping(frame, self.frame.get(), 1) };
        self.context.frame.set(self.frame.get());
    }
}

impl Context {
    /// Clears what the previous thread in this area has left, which may have ended at any point.
    /// All but the state of the area is named, so that no field is forgotten.
    fn reset(&self) {
        let Context {
            head,
            arena,
            arena_at,
            slot,
            slot_index,
            chunk: _,       // set when the stream is opened
            long_copies: _, // as true for the next thread
            cpu_time,
            calls,
            slow_calls,
            silent,
            clockless,
            stack_bytes,
            chooses,
            skips_contents,
            late_input,
            unusual,
            fault_unsafe,
            copied,
            mask,
            call_mask,
            room,
            busy,
            held_signal,
            waiting,
            trapped,
            exec_announced,
            counted_early,
            batch,
            batch_ring,
            rings,
            attention,
            deferred,
            overdue,
            patience: _,
            alarm,
            hurry,
            looking,
            has_baton_since,
            signal_place,
            raised,
            went_on,
            pending_sigsys,
            pending_code,
            dispatch,
            altstack,
            before_return,
            tid,
            tgid,
            call_start,
            clear_handlers,
            new_process,
            waiting_makers,
            area_state: _,
        } = self;
        head.reset();
        arena.set(None);
        arena_at.set(0);
        slot.set(None);
        slot_index.set(0);
        self.chunk.stalled_ns.set(0);
        cpu_time.reset();
        calls.set(0);
        slow_calls.set(0);
        silent.set(false);
        clockless.set(false);
        stack_bytes.set(0);
        chooses.set(false);
        skips_contents.set(false);
        late_input.forget();
        unusual.set(false);
        fault_unsafe.set(false);
        copied.set(core::ptr::null());
        mask.set(0);
        call_mask.set(None);
        room.set(0);
        busy.set(false);
        held_signal.set(0);
        waiting.clear();
        trapped.set(None);
        exec_announced.set(false);
        counted_early.set(false);
        batch.set(0);
        batch_ring.set(0);
        rings.set([0; REGISTERED_MAX]);
        attention.set(false);
        deferred.set(0);
        overdue.set(0);
        alarm.forget();
        hurry.end();
        looking.forget();
        has_baton_since.set(0);
        signal_place.set(0);
        raised.set(0);
        went_on.set(Standing { tsc: 0, cpu_ns: 0, waits: 0, put_off: 0, faults: 0 });
        pending_sigsys.set(None);
        pending_code.set(None);
        dispatch.set(None);
        altstack.set(NO_ALTSTACK);
        before_return.set((0, NO_ALTSTACK));
        tid.set(0);
        tgid.set(0);
        call_start.store(NO_CALL, Ordering::Relaxed);
        clear_handlers.set(false);
        new_process.set(false);
        waiting_makers.set([core::ptr::null_mut(); MAKERS]);
    }

    /// Returns the area that begins with this context.
    pub fn area(&self) -> &'static ThreadArea {
        // SAFETY: contexts exist only as the first field of an area, and areas are never unmapped.
        unsafe { &*self.this.get().cast::<ThreadArea>() }
    }

    pub fn process(&self) -> &'static Process {
        // SAFETY: set at start to an area that lives as long as the thread.
        unsafe { &*self.process.get().cast::<Process>() }
    }

    /// The program's registers during a call.
    #[inline(always)]
    pub fn frame(&self) -> &Frame {
        // SAFETY: set by the entry code, or before the thread began.
        unsafe { &*self.frame.get() }
    }

    /// Sets whether the thread may not read the time stamp counter.
    pub fn set_clockless(&self, clockless: bool) {
        self.clockless.set(clockless);
        self.update_unusual();
    }

    /// Where the open call is made.
    pub fn open_place(&self) -> Where {
        [self.site.get(), self.frame().rsp.get()]
    }

    /// Updates `unusual`.
    pub fn update_unusual(&self) {
        let is_serialised = course::is_serialised();
        let is_partial = self.stack_bytes.get() != 0 || self.chooses.get();
        let is_late = self.late_input.is_expected();
        self.unusual.set(self.clockless.get() || is_partial || is_serialised || is_late);
    }

    /// Sets the arena to record to.
    pub fn set_arena(&self, arena: Option<Arena>) {
        self.arena.set(arena);
        self.arena_at.set(arena.map_or(0, |arena| arena.base() as u64));
        self.stack_bytes.set(arena.map_or(0, |arena| arena.control().stack_bytes()));
        self.chooses.set(arena.is_some_and(|arena| arena.control().chooses()));
        self.set_clockless(self.clockless.get());
    }

    /// Keeps a SIGSYS that the program believes blocked.
    pub fn keep_sigsys(&self, info: [u64; 16]) {
        self.pending_sigsys.set(Some(info));
        self.pending_code.set(Some(info[1]));
    }

    /// Restores what an rt_sigreturn that was not made has changed.
    pub fn forget_return(&self) {
        let (mask, altstack) = self.before_return.get();
        self.mask.set(mask);
        self.altstack.set(altstack);
    }

    /// Returns the SIGSYS that was kept, which is kept no more.
    pub fn take_sigsys(&self) -> Option<[u64; 16]> {
        self.pending_code.set(None);
        self.pending_sigsys.take()
    }

    /// Whether no other thread could change what is mapped: all that share the memory wait for this one.
    pub fn is_alone_in_memory(&self) -> bool {
        const LOOKED_AT: usize = MAKERS + 1;
        let space = space();
        let waits = |other: &Context| self.waiting_makers.get().contains(&other.process.get());
        !space.patched_enough.get()
            && space.areas_used.load(Ordering::Relaxed) as usize <= LOOKED_AT
            && space.areas().map(|area| &area.context).all(|other| {
                core::ptr::eq(other, self)
                    || other.area_state.load(Ordering::Relaxed) == area::FREE
                    || waits(other) && other.process().users.load(Ordering::Relaxed) == 1
            })
    }

    /// Updates `fault_unsafe`: faults can be caught while unblocked and no signal frame is held.
    pub fn update_fault_safety(&self) {
        self.fault_unsafe.set(self.held_frame.get() != 0 || self.mask.get() & FAULTS != 0);
    }
}

/// Returns the context of the current thread, which is recorded.
#[inline(always)]
pub fn current() -> &'static Context {
    // SAFETY: a head is the beginning of a context, which is reached by shared references only.
    unsafe { &*processor::own_head().cast::<Context>() }
}

/// Returns the process of the current thread, recorded or not.
#[inline(always)]
pub fn current_process() -> &'static Process {
    // SAFETY: set to an area that lives as long as the thread.
    unsafe { &*processor::own_process().cast::<Process>() }
}

/// Signals to block during a call of the program: all, except faults that the program does not
/// block, and except SIGSYS if a filter may send it.
pub fn mask_all(context: &Context) -> u64 {
    let filtered = context.process().filtered.get();
    let sigsys = if filtered { signal_bit(raw::SIGSYS) } else { 0 };
    !(FAULTS | sigsys) | context.mask.get() & FAULTS
}
