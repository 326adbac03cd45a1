//! State of the agent: per thread, per process, per address space.

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

/// Progress of the thread's current call. The lowest byte is the selector of Syscall User Dispatch:
/// while it is 1, the kernel raises SIGSYS for calls from outside the agent. So a call that a
/// debugger injects in the middle of another call goes straight to the kernel.
pub mod phase {
    /// The call is recorded, and the program runs.
    pub const RECORDED: u32 = 1;
    /// The call is not made yet and can be undone.
    pub const BEFORE: u32 = 1 << 8;
    /// The call is being made, or has returned and its record is not complete.
    pub const IN_CALL: u32 = 2 << 8;
    /// The program runs, and its calls bypass the agent; see [`crate::tracing`].
    pub const LEFT_ALONE: u32 = 3 << 8;
}

/// Value of `Context::call_start` between calls.
pub const NO_CALL: u64 = u64::MAX;

/// Instruction that made a call which did not come from a stub.
pub mod slow {
    pub const SYSCALL: u32 = 1;
    pub const INT_80: u32 = 2;
}

/// The program's registers at a call, as the entry code pushes them. The layout is that of a signal
/// frame, so that debuggers can unwind from the agent's stack to the program's.
#[repr(C, align(16))]
#[derive(Clone, Copy)]
pub struct Frame {
    /// Stands in the place of a return address: points to the signal-return code, which debuggers
    /// recognise by its bytes. Written once.
    pub trampoline: u64,
    /// Fields of a `ucontext` before its registers.
    head: [u64; 5],
    pub r8: u64,
    pub r9: u64,
    pub r10: u64,
    /// On entry the call site; on return the value that `syscall` leaves.
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
    /// The program's `%rbp` and return address: a link for unwinders that follow frame pointers.
    pub link: [u64; 2],
    pub xmm: [u128; 16],
}

impl Frame {
    /// One by one: a wider load would wait for the pushes to leave the store buffer.
    #[inline(always)]
    pub fn args(&self) -> [u64; 6] {
        // SAFETY: the pointers are references to fields of this frame.
        [&self.rdi, &self.rsi, &self.rdx, &self.r10, &self.r8, &self.r9]
            .map(|register| unsafe { core::ptr::read_volatile(register) })
    }
}

/// State of one thread.
#[repr(C)]
pub struct Context {
    /// Address of this context; `%gs` points here.
    pub this: *mut Context,
    /// Address that stubs jump to. Its offset is fixed, because stubs encode it.
    pub entry: u64,
    /// Zero here, non-zero in [`Native`], which `%gs` of unrecorded threads points to.
    pub native: u64,
    /// At the same offset in `Native`.
    pub process: *mut Process,
    pub app_rsp: u64,
    /// Address at which the program continues after the call.
    pub resume: u64,
    /// End of the frame: there is one at a time, always at the same address.
    pub frame_end: u64,
    /// Top of the agent's own stack: `%rsp` at the first instruction of a function.
    pub stack_top: u64,
    /// Stack pointer during the program's call, as debuggers see it.
    pub seen_rsp: u64,
    /// Current [`phase`].
    pub phase: u32,
    /// The phase while the program runs: RECORDED or LEFT_ALONE.
    pub running: u32,
    /// Non-zero if the current call came through SIGSYS: a [`slow`] value.
    pub slow: u32,
    /// Address of the current call site.
    pub site: u64,
    /// The program's registers during a call.
    pub frame: *mut Frame,
    /// Site of a slow call that does not return through a stub; 0: none. Other threads check it
    /// before they patch.
    pub slow_site: AtomicU64,
    pub scratch: u64,
    /// `%rcx` and `%r11` at an `int 0x80`, which preserves them, while the agent's entry does not.
    pub old_rcx: u64,
    pub old_r11: u64,
    /// The arena, the slot in it, and the slot's index.
    pub arena: Option<Arena>,
    pub slot: Option<&'static Slot>,
    pub slot_index: usize,
    pub stream: Stream,
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
    /// Kernel frame of a signal held until the current call is recorded, or a marker such as
    /// [`SOME_WAIT`](crate::waiting::SOME_WAIT) if signals are pending elsewhere; 0: none.
    pub held_frame: u64,
    pub held_signal: u32,
    /// New value of `%gs` when this thread becomes unrecorded; 0: it stays recorded.
    pub next_native: u64,
    /// With open handlers: queued signals, and the frame that a handler is returning through.
    pub waiting: Waiting,
    pub leaving: u64,
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

/// An alternate signal stack, laid out as `stack_t`.
#[derive(Clone, Copy, PartialEq, Eq)]
#[repr(C)]
pub struct AltStack {
    pub sp: u64,
    pub flags: u32,
    pub size: u64,
}

pub const NO_ALTSTACK: AltStack =
    AltStack { sp: 0, flags: linux_raw_sys::general::SS_DISABLE, size: 0 };

/// A signal action, laid out as for rt_sigaction.
#[derive(Clone, Copy, Default)]
#[repr(C)]
pub struct Action {
    pub handler: u64,
    pub flags: u64,
    pub restorer: u64,
    pub mask: u64,
}

/// State shared by threads with common signal handlers.
#[repr(C)]
pub struct Process {
    pub lock: SpinLock,
    /// Number of threads that point here: the area around it is not reused while there are any.
    pub users: AtomicU32,
    pub pid: u32,
    /// Process number in the recording.
    pub number: u32,
    /// The program has a seccomp filter, which may answer its calls with SIGSYS.
    pub filtered: AtomicBool,
    /// Calls that the program's filters deny the agent: bits of [`needed`](crate::sys::needed).
    pub denied: AtomicU32,
    /// What `%gs` points to in threads that are not recorded because of a filter.
    pub natives: [Native; 2],
    /// Signal actions as the program set them, by signal number.
    pub actions: UnsafeCell<[Action; 65]>,
}

pub const STACK_BYTES: usize = 24 << 10;
/// The agent's handlers need a third of it at most. The rest is for functions that a debugger calls
/// in a thread that is in a call: they run on this stack.
pub const ALTSTACK_BYTES: usize = (96 << 10) - size_of::<Frame>();
const CONTEXT_BYTES: usize = 8 << 10;

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
pub type Makers = [*mut Process; MAKERS];

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
    pub statuses: status::Files,
    /// Addresses of all other areas.
    pub areas: [AtomicU64; AREAS],
    /// Number of entries of `areas` ever used.
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

/// Returns the address space's state.
pub fn space() -> &'static mut Space {
    // SAFETY: fields are written under the lock, or by the only thread, or are atomic.
    unsafe { &mut *SPACE.get() }
}

impl Space {
    /// Calls `found` with every thread area, in use or not.
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
    /// Initialises the context of a new or reused area.
    pub fn init(&mut self) {
        let this = &raw mut self.context;
        // The previous thread in this area may have ended at any point.
        // SAFETY: zeros are valid for all fields but `area_state`, which marks the area as used.
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
    /// Returns the area that begins with this context.
    pub fn area(&self) -> &'static mut ThreadArea {
        // SAFETY: contexts exist only as the first field of an area.
        unsafe { &mut *self.this.cast::<ThreadArea>() }
    }

    pub fn process(&self) -> &'static mut Process {
        // SAFETY: set at start to an area that lives as long as the thread.
        unsafe { &mut *self.process }
    }

    /// Updates `fault_unsafe`: faults can be caught while unblocked and no signal frame is held.
    pub fn update_fault_safety(&mut self) {
        self.fault_unsafe = self.held_frame != 0 || self.mask & FAULTS != 0;
    }
}

/// Returns the context of the current thread.
pub fn current() -> &'static mut Context {
    let this: *mut Context;
    // SAFETY: while agent code runs, %gs points to a context, or a `Native`, which begins alike.
    unsafe {
        core::arch::asm!("mov {}, gs:[0]", out(reg) this, options(nostack, readonly));
        &mut *this
    }
}

pub const fn signal_bit(signal: u32) -> u64 {
    1 << (signal - 1)
}

/// Signals raised by memory faults.
pub const FAULTS: u64 =
    signal_bit(linux_raw_sys::general::SIGSEGV) | signal_bit(linux_raw_sys::general::SIGBUS);

/// Signals to block during a call of the program: all, except faults that the program does not
/// block, and except SIGSYS if a filter may send it.
pub fn mask_all(context: &Context) -> u64 {
    let filtered = context.process().filtered.load(Ordering::Relaxed);
    let sigsys = if filtered { signal_bit(linux_raw_sys::general::SIGSYS) } else { 0 };
    !(FAULTS | sigsys) | context.mask & FAULTS
}

/// Returns the mask to set in the kernel for a mask of the program: SIGSYS stays deliverable.
pub const fn real_mask(mask: u64) -> u64 {
    mask & !signal_bit(linux_raw_sys::general::SIGSYS)
}

/// A spin lock for short sections that no signal can interrupt.
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

    /// Releases the lock. Only for the single thread of a process that was just forked.
    pub fn reset(&self) {
        self.0.store(0, Ordering::Relaxed);
    }
}
