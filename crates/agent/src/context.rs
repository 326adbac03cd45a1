//! What the agent knows: per thread, per process, per address space.

use core::cell::UnsafeCell;
use core::mem::offset_of;
use core::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};

use ring::{Arena, Catalog, Slot};

use crate::guards::Dispatch;
use crate::maps::Maps;
use crate::native::Native;
use crate::sites::Sites;
use crate::stream::Stream;
use crate::waiting::Waiting;
use crate::{status, sys};

/// How far the thread's current call has come. The lowest byte is the selector of Syscall User
/// Dispatch: the kernel raises SIGSYS for calls from outside the agent while it is 1. So a call that
/// a debugger has a thread make in the middle of another one goes straight to the kernel.
pub mod phase {
    /// The record is published, and the program runs.
    pub const RECORDED: u32 = 1;
    /// Nothing is decided: the call can be forgotten.
    pub const BEFORE: u32 = 1 << 8;
    /// The call is being made, or has returned and is not wholly recorded.
    pub const IN_CALL: u32 = 2 << 8;
    /// The program runs, and its calls go past the agent; see [`crate::tracing`].
    pub const LEFT_ALONE: u32 = 3 << 8;
}

/// See `Context::call_start`.
pub const NO_CALL: u64 = u64::MAX;

/// How a call that did not come from a stub was made.
pub mod slow {
    pub const SYSCALL: u32 = 1;
    pub const INT_80: u32 = 2;
}

/// The program's registers at a call, as the entry code pushes them: laid out like the frame of a
/// signal, so that debuggers that look at a thread in a call find their way from the agent's stack
/// to the program's.
#[repr(C, align(16))]
#[derive(Clone, Copy)]
pub struct Frame {
    /// Where a call has its return address: the code that returns from signals, which debuggers
    /// know by its bytes. Written once.
    pub trampoline: u64,
    /// What a `ucontext` has before its registers.
    head: [u64; 5],
    pub r8: u64,
    pub r9: u64,
    pub r10: u64,
    /// On entry the call site; on leaving what `syscall` would have left.
    pub r11: u64,
    pub r12: u64,
    pub r13: u64,
    pub r14: u64,
    pub r15: u64,
    pub rdi: u64,
    pub rsi: u64,
    pub rbp: u64,
    pub rbx: u64,
    pub rdx: u64,
    pub rax: u64,
    pub rcx: u64,
    pub rsp: u64,
    rip: u64,
    pub rflags: u64,
    /// The program's `%rbp`, and where it goes on: a link for those who follow frame pointers.
    pub link: [u64; 2],
    pub xmm: [u128; 16],
}

impl Frame {
    /// Read one by one: a wider load would have to wait for the pushes to leave the store buffer.
    #[inline(always)]
    pub fn args(&self) -> [u64; 6] {
        // SAFETY: reads fields of ours.
        [&self.rdi, &self.rsi, &self.rdx, &self.r10, &self.r8, &self.r9]
            .map(|register| unsafe { core::ptr::read_volatile(register) })
    }
}

/// One thread.
#[repr(C)]
pub struct Context {
    /// Its own address; `%gs` points here.
    pub this: *mut Context,
    /// Where stubs jump to. At a fixed offset: stubs are code.
    pub entry: u64,
    /// 0; see [`Native`](crate::native::Native), which other threads have here.
    pub native: u64,
    /// At the same place in both as well.
    pub process: *mut Process,
    pub app_rsp: u64,
    /// Where to go on after the call.
    pub resume: u64,
    /// Where frames end: there is one at a time, always in the same place.
    pub frame_end: u64,
    /// Of the agent's own stack, as it is at the first instruction of a function.
    pub stack_top: u64,
    /// The stack pointer that is seen while the program's call is made.
    pub seen_rsp: u64,
    /// See [`phase`].
    pub phase: u32,
    /// The phase while the program runs: RECORDED or LEFT_ALONE.
    pub running: u32,
    /// The current call came through SIGSYS: a [`slow`] value.
    pub slow: u32,
    /// The current call's site.
    pub site: u64,
    /// The program's registers during a call.
    pub frame: *mut Frame,
    /// A slow call's site whose return does not go through a stub; 0: none. Other threads read it
    /// before they patch.
    pub slow_site: AtomicU64,
    pub scratch: u64,
    /// What `int 0x80` preserves and the way into the agent does not.
    pub old_rcx: u64,
    pub old_r11: u64,
    /// The arena, the slot, and the thread's number.
    pub arena: Option<Arena>,
    pub slot: Option<&'static Slot>,
    pub slot_index: usize,
    pub stream: Stream,
    pub calls: u64,
    pub slow_calls: u64,
    /// Calls are made but not recorded.
    pub silent: bool,
    /// It may not read the time stamp counter.
    pub clockless: bool,
    /// A fault while we copy could not be handled now.
    pub fault_unsafe: bool,
    /// The mask that the program believes in.
    pub mask: u64,
    /// The mask in force during the current call, when it brings its own (ppoll ...).
    pub call_mask: Option<u64>,
    /// How many bytes of an address or option the current call may give.
    pub room: u32,
    /// The stream or another shared thing is being changed: signals wait.
    pub busy: bool,
    /// The kernel's frame of a signal that waits for the current call's record, or that there are
    /// signals in `waiting`: [`SOME_WAIT`](crate::waiting::SOME_WAIT); 0: none.
    pub held_frame: u64,
    pub held_signal: u32,
    /// What `%gs` is to point to when this thread is left unrecorded.
    pub next_native: u64,
    /// While handlers are open: signals that wait for the current call's record, or for a handler
    /// of ours, and the frame that such a handler returns by.
    pub waiting: Waiting,
    pub leaving: u64,
    /// A filter of the program's answers the current call with SIGSYS: the register of its number.
    pub trapped: Option<u64>,
    /// The current call is to be followed by the supervisor, which may be attached.
    pub exec_announced: bool,
    /// The current call was counted before it was made.
    pub counted_early: bool,
    /// A SIGSYS that was sent while the program believed it blocked.
    pub pending_sigsys: Option<[u64; 16]>,
    /// The program's own Syscall User Dispatch.
    pub dispatch: Option<Dispatch>,
    /// The program's alternate stack.
    pub altstack: AltStack,
    /// Mask and alternate stack before the last return from a handler: if it fails, they come back.
    pub before_return: (u64, AltStack),
    pub tid: u32,
    /// Its process id, for those who want to know whether it still lives.
    pub tgid: u32,
    /// Position in the stream at which the current call's records began; [`NO_CALL`] between
    /// calls. One word, so that a signal finds one or the other.
    pub call_start: AtomicU64,
    /// For a child that shares memory: its handlers are reset; it is a process of its own.
    pub clear_handlers: bool,
    pub new_process: bool,
    /// Processes that share our memory and wait until this one leaves it, the next one first.
    pub waiting_makers: Makers,
    /// This thread's area is in use; see `ThreadArea`.
    pub area_state: AtomicU32,
}

/// The program's view of its alternate stack.
#[derive(Clone, Copy, PartialEq, Eq)]
#[repr(C)]
pub struct AltStack {
    pub sp: u64,
    pub flags: u32,
    pub size: u64,
}

pub const NO_ALTSTACK: AltStack =
    AltStack { sp: 0, flags: linux_raw_sys::general::SS_DISABLE, size: 0 };

/// A handler as rt_sigaction has it.
#[derive(Clone, Copy, Default)]
#[repr(C)]
pub struct Action {
    pub handler: u64,
    pub flags: u64,
    pub restorer: u64,
    pub mask: u64,
}

/// What threads with common signal handlers share.
#[repr(C)]
pub struct Process {
    pub lock: SpinLock,
    /// Threads that point here: the area it stands in is not free while there are any.
    pub users: AtomicU32,
    pub pid: u32,
    /// Number in the recording.
    pub number: u32,
    /// The program has a seccomp filter, which may answer its calls with SIGSYS.
    pub filtered: AtomicBool,
    /// What the program's filters deny the agent: bits of [`needed`](crate::sys::needed).
    pub denied: AtomicU32,
    /// What `%gs` of its threads points to that are not recorded because of that.
    pub natives: [Native; 2],
    /// By signal number.
    pub actions: UnsafeCell<[Action; 65]>,
}

pub const STACK_BYTES: usize = 24 << 10;
/// Handlers of ours need a third of it at most. The rest is for functions that a debugger calls in a
/// thread that is in a call: they run here.
pub const ALTSTACK_BYTES: usize = (96 << 10) - size_of::<Frame>();
const CONTEXT_BYTES: usize = 8 << 10;

/// The memory that a thread needs.
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

/// States of a thread area.
pub mod area {
    pub const FREE: u32 = 0;
    pub const USED: u32 = 1;
    /// Its thread is about to be gone.
    pub const LEAVING: u32 = 2;
}

/// Most threads of one address space that have an area at the same time.
pub const AREAS: usize = 8192;

/// Most arenas that are mapped in one address space at the same time.
pub const ARENAS: usize = 8;

/// Of the makers of a vfork child that was made by vfork children, so many are known.
pub const MAKERS: usize = 4;
pub type Makers = [*mut Process; MAKERS];

/// What all that share the memory share.
#[repr(C, align(4096))]
pub struct Space {
    /// The first thread's, so that a short-lived program needs no more memory.
    pub first: ThreadArea,
    pub lock: SpinLock,
    /// `%gs` can be set without a system call.
    pub can_write_gs: bool,
    /// Threads here make calls that the agent does not know of: no site is patched any more that one
    /// of them may return to.
    pub patched_enough: AtomicBool,
    /// What is known about executable files; no program can write it.
    pub catalog: Option<Catalog>,
    /// Arenas that are mapped: more than one while threads of several users share this memory.
    pub arenas: [AtomicU64; ARENAS],
    /// The size of each.
    pub arena_bytes: AtomicU64,
    pub sites: Sites,
    pub maps: Maps,
    pub statuses: status::Files,
    /// All other areas.
    pub areas: [AtomicU64; AREAS],
    /// Entries of `areas` that were ever used.
    pub areas_used: AtomicU32,
}

/// The address space's state; zeroed memory when an image starts.
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

pub const FIRST_STACK_TOP: usize = CONTEXT_BYTES + STACK_BYTES;

impl SpaceCell {
    pub fn get(&self) -> *mut Space {
        self.0.get()
    }
}

/// The address space's state.
pub fn space() -> &'static mut Space {
    // SAFETY: fields are written under the lock, or by the only thread, or are atomic.
    unsafe { &mut *SPACE.get() }
}

impl Space {
    /// Calls `found` with the areas of all threads that may be there.
    pub fn each_area(&self, mut found: impl FnMut(&ThreadArea)) {
        let used = self.areas_used.load(Ordering::Acquire) as usize;
        let others = self.areas[..used.min(AREAS)].iter().map(|at| at.load(Ordering::Acquire));
        for at in core::iter::once(&raw const self.first as u64).chain(others) {
            if at != 0 {
                // SAFETY: areas are never unmapped.
                found(unsafe { &*(at as *const ThreadArea) });
            }
        }
    }
}

impl ThreadArea {
    /// Prepares the context in a fresh area.
    pub fn init(&mut self) {
        let this = &raw mut self.context;
        // The last thread that was here may have ended in the middle of anything.
        // SAFETY: plain data, whose last field tells others that the area is in use.
        unsafe { this.cast::<u8>().write_bytes(0, offset_of!(Context, area_state)) };
        let context = &mut self.context;
        context.this = this;
        context.entry = crate::entry::entry();
        context.phase = phase::RECORDED;
        context.running = phase::RECORDED;
        let frame = &raw const self.frame;
        context.frame_end = frame as u64 + size_of::<Frame>() as u64;
        context.seen_rsp = frame as u64;
        context.stack_top = &raw const self.altstack as u64 - 8;
        self.frame.trampoline = crate::entry::restorer();
        context.native = 0;
        context.altstack = NO_ALTSTACK;
        context.call_start = AtomicU64::new(NO_CALL);
        context.process = &raw mut self.process;
        self.process.users.store(1, Ordering::Relaxed);
        context.area_state.store(area::USED, Ordering::Relaxed);
    }

    pub fn altstack_address(&self) -> u64 {
        &raw const self.altstack as u64
    }
}

impl Context {
    /// The area that the context stands at the beginning of.
    pub fn area(&self) -> &'static mut ThreadArea {
        // SAFETY: contexts exist only as the first field of an area.
        unsafe { &mut *self.this.cast::<ThreadArea>() }
    }

    pub fn process(&self) -> &'static mut Process {
        // SAFETY: set at start to an area that lives as long as the thread.
        unsafe { &mut *self.process }
    }

    /// Copies may take a page fault of the program's making only while that fault can be caught.
    pub fn update_fault_safety(&mut self) {
        self.fault_unsafe = self.held_frame != 0 || self.mask & FAULTS != 0;
    }
}

/// The context of the thread that we are in.
pub fn current() -> &'static mut Context {
    let this: *mut Context;
    // SAFETY: %gs points to the thread's context whenever code of ours runs for such a thread.
    unsafe {
        core::arch::asm!("mov {}, gs:[0]", out(reg) this, options(nostack, readonly));
        &mut *this
    }
}

pub const fn signal_bit(signal: u32) -> u64 {
    1 << (signal - 1)
}

/// The signals that a fault raises.
pub const FAULTS: u64 =
    signal_bit(linux_raw_sys::general::SIGSEGV) | signal_bit(linux_raw_sys::general::SIGBUS);

/// What the agent blocks while it makes a call of the program's: every signal, but those that a
/// fault raises only if the program blocks them too, and SIGSYS only if no filter sends it.
pub fn mask_all(context: &Context) -> u64 {
    let filtered = context.process().filtered.load(Ordering::Relaxed);
    let sigsys = if filtered { signal_bit(linux_raw_sys::general::SIGSYS) } else { 0 };
    !(FAULTS | sigsys) | context.mask & FAULTS
}

/// What the kernel is told when the program asks for a mask: SIGSYS must get through.
pub const fn real_mask(mask: u64) -> u64 {
    mask & !signal_bit(linux_raw_sys::general::SIGSYS)
}

/// A lock for short sections that no signal can interrupt.
pub struct SpinLock(AtomicU32);

impl SpinLock {
    pub fn with<T>(&self, work: impl FnOnce() -> T) -> T {
        let mut spins = 0u32;
        while self.0.compare_exchange(0, 1, Ordering::Acquire, Ordering::Relaxed).is_err() {
            core::hint::spin_loop();
            spins += 1;
            if spins > 100 && !sys::is_quiet() {
                sys::call(linux_raw_sys::general::__NR_sched_yield, [0; 6]);
            }
        }
        let result = work();
        self.0.store(0, Ordering::Release);
        result
    }

    /// Only for the single thread of a process that was just forked.
    pub fn reset(&self) {
        self.0.store(0, Ordering::Relaxed);
    }
}
