//! State of the agent: per thread, per process, per address space.

use core::cell::UnsafeCell;
use core::ffi::c_void;
use core::mem::offset_of;
use core::ops::{Deref, DerefMut};
use core::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};

use linux_raw_sys::general as raw;
use ring::{Arena, Catalog, Slot};

use crate::arch::frames::{AltStack, Frame};
use crate::arch::head::{
    ALTSTACK_BYTES, CONTEXT_BYTES, Head, Native, STACK_BYTES, STACK_END, phase,
};
use crate::arch::{entry, processor};
use crate::chunk::Chunk;
use crate::lock::SpinLock;
use crate::signal::{Action, FAULTS, NO_ALTSTACK, signal_bit};
use crate::signal_queue::SignalQueue;
use crate::site_table::Sites;
use crate::status_lines;
use crate::sys::Denied;
use crate::text_map::Maps;

/// Value of `Context::call_start` between calls.
pub const NO_CALL: u64 = u64::MAX;

/// Marker in `Head::held_frame`: signals are blocked until the end of the current call.
pub const POSTPONED: u64 = 1;
/// Marker in `Head::held_frame`: signals may be queued.
pub const SOME_WAIT: u64 = 2;

/// State of one thread.
#[repr(C)]
pub struct Context {
    /// What the assembly knows.
    pub head: Head,
    /// The arena, the slot in it, and the slot's index.
    pub arena: Option<Arena>,
    pub slot: Option<&'static Slot>,
    pub slot_index: usize,
    /// The end of the stream that is being written.
    pub chunk: Chunk,
    pub calls: u64,
    pub slow_calls: u64,
    /// Calls are made but not recorded.
    pub silent: bool,
    /// The thread may not read the time stamp counter.
    pub clockless: bool,
    /// A page fault during a copy could not be handled now.
    pub fault_unsafe: bool,
    /// Signal mask as the program set it.
    pub mask: u64,
    /// Signal mask during the current call, if the call brings its own (ppoll ...).
    pub call_mask: Option<u64>,
    /// Size of the buffer that the current call has for an address or option.
    pub room: u32,
    /// The stream or other shared state is being changed: signals must wait.
    pub busy: bool,
    /// Number of the signal in `Head::held_frame`.
    pub held_signal: u32,
    /// With open handlers: queued signals.
    pub waiting: SignalQueue,
    /// Call number, kept for `%rax`, if a filter of the program answered the call with SIGSYS.
    pub trapped: Option<u64>,
    /// The supervisor was asked to follow the current exec, and may be attached.
    pub exec_announced: bool,
    /// The current call was counted before it was made.
    pub counted_early: bool,
    /// Siginfo of a SIGSYS that arrived while the program believed it blocked.
    pub pending_sigsys: Option<[u64; 16]>,
    /// Syscall User Dispatch as the program set it.
    pub dispatch: Option<Dispatch>,
    /// Alternate stack as the program set it.
    pub altstack: AltStack,
    /// Mask and alternate stack before the last rt_sigreturn: restored if it fails.
    pub before_return: (u64, AltStack),
    pub tid: u32,
    /// Process id, used to check whether the process still lives.
    pub tgid: u32,
    /// Stream position at which the current call's records began; [`NO_CALL`] between calls. A
    /// single word, so that a signal handler always sees a consistent value.
    pub call_start: AtomicU64,
    /// For a child that shares memory: whether to reset its handlers, and whether it is a process.
    pub clear_handlers: bool,
    pub new_process: bool,
    /// Processes sharing this memory that wait (vfork) until this one leaves it, nearest first.
    pub waiting_makers: Makers,
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

impl DerefMut for Context {
    #[inline(always)]
    fn deref_mut(&mut self) -> &mut Head {
        &mut self.head
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
    pub lock: SpinLock,
    /// Number of threads that point here: the area around it is not reused while there are any.
    pub users: AtomicU32,
    pub pid: u32,
    /// Process number in the recording.
    pub number: u32,
    /// The program has a seccomp filter, which may answer its calls with SIGSYS.
    pub filtered: AtomicBool,
    /// What `%gs` points to in threads that are not recorded because of a filter.
    pub natives: [Native; 2],
    /// Signal actions as the program set them, by signal number.
    pub actions: UnsafeCell<[Action; 65]>,
}

/// The agent's memory for one thread.
#[repr(C, align(4096))]
pub struct ThreadArea {
    pub context: Context,
    pub process: Process,
    pad: [u8; CONTEXT_BYTES - size_of::<Context>() - size_of::<Process>()],
    pub stack: [u8; STACK_BYTES],
    pub altstack: [u8; ALTSTACK_BYTES],
    pub frame: Frame,
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
    pub lock: SpinLock,
    /// `%gs` can be set without a system call.
    pub can_write_gs: bool,
    /// Some threads make calls unseen by the agent and may return to any site: patch no more sites.
    pub patched_enough: AtomicBool,
    /// Catalog of executable files; programs cannot write it.
    pub catalog: Option<Catalog>,
    /// Addresses of mapped arenas: several while threads of several users share this memory.
    pub arenas: [AtomicU64; ARENAS],
    /// Size of an arena, the same for all.
    pub arena_bytes: AtomicU64,
    pub sites: Sites,
    pub maps: Maps,
    pub statuses: status_lines::Files,
    /// Addresses of all other areas.
    pub areas: [AtomicU64; AREAS],
    /// Number of entries of `areas` ever used.
    pub areas_used: AtomicU32,
}

/// The address space's state; zeroed memory when an image starts.
#[unsafe(export_name = "reenact_space")]
pub static SPACE: SpaceCell = SpaceCell(UnsafeCell::new(zeroed()));

#[repr(transparent)]
pub struct SpaceCell(UnsafeCell<Space>);

// SAFETY: parts that several threads write are atomic or behind `Space::lock`.
unsafe impl Sync for SpaceCell {}

const fn zeroed() -> Space {
    // SAFETY: every field is made of integers, atomics, raw pointers and options with a null
    // niche or a zero tag: all-zero bytes are a value.
    unsafe { core::mem::zeroed() }
}

impl SpaceCell {
    pub fn get(&self) -> *mut Space {
        self.0.get()
    }
}

/// Returns the address space's state.
pub fn space() -> &'static mut Space {
    // SAFETY: fields are written under the lock, or by the only thread, or are atomic.
    unsafe { &mut *SPACE.get() }
}

impl Space {
    /// Returns every thread area, in use or not.
    pub fn areas(&self) -> impl Iterator<Item = &'static ThreadArea> {
        let used = self.areas_used.load(Ordering::Acquire) as usize;
        let others = self.areas[..used.min(AREAS)].iter().map(|at| at.load(Ordering::Acquire));
        let all = core::iter::once(&raw const self.first as u64).chain(others);
        // SAFETY: areas are never unmapped.
        all.filter(|&at| at != 0).map(|at| unsafe { &*(at as *const ThreadArea) })
    }
}

impl ThreadArea {
    /// Initialises the context of a new or reused area.
    pub fn init(&mut self) {
        let this = &raw mut self.context;
        // The previous thread in this area may have ended at any point.
        // SAFETY: zeros are valid for all fields but `area_state`, which marks the area as used.
        unsafe { this.cast::<u8>().write_bytes(0, offset_of!(Context, area_state)) };
        let context = &mut self.context;
        context.this = this.cast();
        context.entry = entry::entry();
        context.phase = phase::RECORDED;
        context.running = phase::RECORDED;
        let frame = &raw const self.frame;
        context.frame_end = frame as u64 + size_of::<Frame>() as u64;
        context.seen_rsp = frame as u64;
        context.stack_top = &raw const self.altstack as u64 - 8;
        self.frame.trampoline = entry::restorer();
        context.native = 0;
        context.altstack = NO_ALTSTACK;
        context.call_start = AtomicU64::new(NO_CALL);
        context.process = (&raw mut self.process).cast();
        self.process.users.store(1, Ordering::Relaxed);
        context.area_state.store(area::USED, Ordering::Relaxed);
    }

    pub fn altstack_address(&self) -> u64 {
        &raw const self.altstack as u64
    }
}

impl Context {
    /// Returns the area that begins with this context.
    pub fn area(&self) -> &'static mut ThreadArea {
        // SAFETY: contexts exist only as the first field of an area.
        unsafe { &mut *self.this.cast::<ThreadArea>() }
    }

    pub fn process(&self) -> &'static mut Process {
        // SAFETY: set at start to an area that lives as long as the thread.
        unsafe { &mut *self.process.cast::<Process>() }
    }

    /// Updates `fault_unsafe`: faults can be caught while unblocked and no signal frame is held.
    pub fn update_fault_safety(&mut self) {
        self.fault_unsafe = self.held_frame != 0 || self.mask & FAULTS != 0;
    }
}

/// Returns the context of the current thread.
pub fn current() -> &'static mut Context {
    // SAFETY: a head is the beginning of a context, or of a `Native`, of which nothing else is used.
    unsafe { &mut *processor::own_head().cast::<Context>() }
}

/// Signals to block during a call of the program: all, except faults that the program does not
/// block, and except SIGSYS if a filter may send it.
pub fn mask_all(context: &Context) -> u64 {
    let filtered = context.process().filtered.load(Ordering::Relaxed);
    let sigsys = if filtered { signal_bit(raw::SIGSYS) } else { 0 };
    !(FAULTS | sigsys) | context.mask & FAULTS
}
