//! What the assembly knows of a thread: the head of its context, to which `%gs` points.

use core::cell::Cell;
use core::ffi::c_void;
use core::sync::atomic::{AtomicU64, Ordering};

use super::frames::{Frame, RED_ZONE};
use crate::cells::{Number, Pointer, Word};

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

/// Instruction that made a call which did not come from a stub.
pub mod slow {
    pub const SYSCALL: u32 = 1;
    pub const INT_80: u32 = 2;
    /// `syscall`, in a re-execution.
    pub const ANSWERED: u32 = 3;
}

/// The first fields of a thread's context. The rule for its accesses is that of [`crate::cells`];
/// the assembly reads and writes them between the accesses of Rust.
#[repr(C)]
pub struct Head {
    /// Address of this head; `%gs` points here.
    pub this: Cell<*const Head>,
    /// Address that stubs jump to. Its offset is fixed, because stubs encode it.
    pub entry: Word,
    /// Zero here, non-zero in [`Native`], which `%gs` of unrecorded threads points to.
    pub native: Word,
    /// The state that threads of a process share. At the same offset in `Native`.
    pub process: Pointer<c_void>,
    pub app_rsp: Cell<u64>,
    /// Address at which the program continues after the call.
    pub resume: Cell<u64>,
    /// End of the frame: there is one at a time, always at the same address.
    pub frame_end: Cell<u64>,
    /// Top of the agent's own stack: `%rsp` at the first instruction of a function.
    pub stack_top: Cell<u64>,
    /// Stack pointer during the program's call, as debuggers see it.
    pub seen_rsp: Cell<u64>,
    /// Current [`phase`].
    pub phase: Number,
    /// The phase while the program runs: RECORDED or LEFT_ALONE.
    pub running: Number,
    /// Non-zero if the current call came through SIGSYS: a [`slow`] value.
    pub slow: Cell<u32>,
    /// Address of the current call site.
    pub site: Cell<u64>,
    /// The program's registers during a call.
    pub frame: Cell<*const Frame>,
    /// Site of a slow call that does not return through a stub; 0: none. Other threads check it
    /// before they patch.
    pub slow_site: AtomicU64,
    pub scratch: Cell<u64>,
    /// `%rcx` and `%r11` at an `int 0x80`, which preserves them, while the agent's entry does not.
    pub old_rcx: Cell<u64>,
    pub old_r11: Cell<u64>,
    /// Kernel frame of a signal held until the current call is recorded, or a marker such as
    /// [`SOME_WAIT`](crate::waiting::SOME_WAIT) if signals are pending elsewhere; 0: none.
    pub held_frame: Word,
    /// New value of `%gs` when this thread becomes unrecorded; 0: it stays recorded.
    pub next_native: Cell<u64>,
    /// `%rcx` at the entry, until it is known whether this is a call of the program.
    pub entering: Cell<u64>,
}

impl Head {
    /// Clears what the previous thread has left.
    pub fn reset(&self) {
        let Head {
            this,
            entry,
            native,
            process,
            app_rsp,
            resume,
            frame_end,
            stack_top,
            seen_rsp,
            phase,
            running,
            slow,
            site,
            frame,
            slow_site,
            scratch,
            old_rcx,
            old_r11,
            held_frame,
            next_native,
            entering,
        } = self;
        this.set(core::ptr::null());
        process.set(core::ptr::null_mut());
        frame.set(core::ptr::null());
        [entry, native, held_frame].into_iter().for_each(|word| word.set(0));
        let cells =
            [app_rsp, resume, frame_end, stack_top, seen_rsp, site, scratch, old_rcx, old_r11];
        cells.into_iter().chain([next_native, entering]).for_each(|cell| cell.set(0));
        phase.set(0);
        running.set(0);
        slow.set(0);
        slow_site.store(0, Ordering::Relaxed);
    }
}

/// Target of `%gs` in threads that are not recorded, see [`crate::native`]; begins like [`Head`].
#[repr(C)]
pub struct Native {
    pub this: Pointer<Native>,
    pub entry: Word,
    pub native: Word,
    pub process: Pointer<c_void>,
}

/// Data below the red zone of a new thread's stack, read by its first instructions.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct Words {
    pub mask: u64,
    pub sets_mask: u64,
    pub native: *const Native,
    pub resume: u64,
}

/// Distance of the [`Words`] below the stack pointer.
pub const WORDS_BELOW: u64 = 160;
const _: () = assert!(size_of::<Words>() as u64 + RED_ZONE == WORDS_BELOW);

/// Size of the part of a thread's area that begins with the head.
pub const CONTEXT_BYTES: usize = 8 << 10;
/// Size of the stack for calls, which follows it.
pub const STACK_BYTES: usize = 24 << 10;
/// Size of the stack for signal handlers, which follows that. The agent's handlers need a third of
/// it at most. The rest is for functions that a debugger calls in a thread that is in a call: they
/// run on this stack.
pub const ALTSTACK_BYTES: usize = (96 << 10) - size_of::<Frame>();
/// Offset in the area of the end of the stack for calls.
pub const STACK_END: usize = CONTEXT_BYTES + STACK_BYTES;
