//! Open handlers: used while a filter denies masking signals, or returning from a handler.
//!
//! The kernel masks only what the program's handler asks for, so leaving the agent's handler need
//! not undo anything, and needs no system call. In exchange, a signal may hit in a handler, or
//! while another signal waits for the current call's record. It is then queued:
//!
//! | where the signal hit | what happens |
//! |---|---|
//! | a handler of the agent | queued, and delivered before that handler is left |
//! | a handler that has begun to return | delivered to the state it was returning to |
//! | a call that is made and not recorded | queued, and delivered once that is recorded |
//! | elsewhere | as usual |

use core::arch::asm;

use linux_raw_sys::general as raw;

use crate::context::{ALTSTACK_BYTES, AltStack, Context, current};
use crate::deliver::{MAGIC_END, SignalFrame, UContext, deliver, fp, fp_size};
use crate::{entry, entry_quiet, signals, sites, start};

/// Marker in `Context::held_frame`: signals may be queued.
pub const SOME_WAIT: u64 = 2;
/// Maximum number of queued signals. The kernel blocks a signal while its handler runs, so there
/// are rarely two.
const WAITING_MAX: u32 = 16;
/// Bytes at the end of the alternate stack for a frame that is moved or built there.
const FRAME_ROOM: usize = 24 << 10;
/// Offset in the alternate stack of `%rsp` while such a frame is built.
pub const BELOW_FRAME: usize = ALTSTACK_BYTES - FRAME_ROOM;

/// Queued signals, oldest first. A handler that interrupts another one only adds.
pub struct Waiting {
    list: [Entry; WAITING_MAX as usize],
    taken: u32,
    added: u32,
    /// Properties of the frames that the kernel builds for this thread.
    pattern: Pattern,
}

#[derive(Clone, Copy)]
struct Entry {
    signal: u32,
    info: [u8; 128],
}

#[derive(Clone, Copy)]
struct Pattern {
    flags: u64,
    segments: u64,
    stack: AltStack,
    /// End of the legacy area of the floating-point state, which describes the contents.
    software: [u64; 6],
}

impl Waiting {
    fn take(&mut self) -> Option<Entry> {
        if self.taken == self.added {
            return None;
        }
        let entry = self.list[(self.taken % WAITING_MAX) as usize];
        self.taken += 1;
        Some(entry)
    }

    pub fn clear(&mut self) {
        self.taken = self.added;
    }
}

/// Appends a signal to the queue.
pub fn add(context: &mut Context, signal: u32, info: &[u8; 128], uc: &UContext) {
    let waiting = &mut context.waiting;
    let waits_already = (waiting.taken..waiting.added)
        .any(|at| waiting.list[(at % WAITING_MAX) as usize].signal == signal);
    let is_queued = signal >= raw::SIGRTMIN;
    if (waits_already && !is_queued) || waiting.added - waiting.taken == WAITING_MAX {
        return;
    }
    let at = uc.regs.fpstate + fp::SOFTWARE;
    waiting.pattern = Pattern {
        flags: uc.flags,
        segments: uc.regs.segments,
        stack: uc.stack,
        software: if uc.regs.fpstate == 0 {
            [0; 6]
        } else {
            // SAFETY: within the kernel's floating-point state.
            unsafe { (at as *const [u64; 6]).read() }
        },
    };
    waiting.list[(waiting.added % WAITING_MAX) as usize] = Entry { signal, info: *info };
    waiting.added += 1;
    context.held_frame = SOME_WAIT;
}

/// Returns true if the interrupted code was a handler of the agent. If that had begun to return,
/// first replaces the interrupted state by the one it was returning to.
pub fn hit_a_handler(context: &Context, uc: &mut UContext) -> bool {
    if (entry_quiet::return_begin()..entry_quiet::return_end()).contains(&uc.regs.rip) {
        // SAFETY: the frame that the other handler returns through lies above ours.
        let outer = unsafe { &(*(context.leaving as *const SignalFrame)).context };
        let (from, to) = (outer.regs.fpstate, uc.regs.fpstate);
        uc.regs = outer.regs;
        uc.regs.fpstate = to;
        if from != 0 && to != 0 {
            let len = fp_size(from).min(fp_size(to)) as usize;
            // SAFETY: both are floating-point states of at least that size.
            unsafe { core::ptr::copy_nonoverlapping(from as *const u8, to as *mut u8, len) };
        }
    }
    let begins = (entry_quiet::on_sigsys()..entry_quiet::open_end()).contains(&uc.regs.rip);
    begins || signals::on_own_stack(context, uc)
}

/// Delivers queued signals, before a handler of the agent returns to the program. Returns 1 if more
/// may have been queued.
pub extern "C" fn deliver_waiting(uc: &mut UContext) -> u32 {
    let context = current();
    let rip = uc.regs.rip;
    if signals::on_own_stack(context, uc) {
        return 0;
    }
    if rip == entry::entry() {
        signals::set_before_entry(context, uc);
    } else if start::in_agent_text(rip) {
        // Delivered when the call is recorded.
        return 0;
    } else {
        sites::show_original(&mut uc.regs);
    }
    // First: signals that arrive from here on set it again.
    context.held_frame = 0;
    while let Some(Entry { signal, info }) = context.waiting.take() {
        let base = context.call_mask.take().unwrap_or(context.mask);
        deliver(context, signal, &info, uc, base);
    }
    uc.regs.rip = sites::real_address(uc.regs.rip);
    1
}

/// Delivers queued signals, with the state after the current call, or before it.
#[cold]
pub fn leave_with_waiting(context: &mut Context, made: bool) -> ! {
    if !made {
        context.slow = 0;
    }
    // SAFETY: the call is recorded, or undone.
    unsafe { entry_quiet::leave_with_waiting(made) }
}

/// Builds the frame that the kernel would build for a signal that hits the program now, at the end
/// of the alternate stack, and returns its address. Runs on the part of the stack below it.
pub extern "C" fn build_frame(made: u32) -> u64 {
    let context = current();
    let pattern = context.waiting.pattern;
    let top = context.area().altstack_address() + ALTSTACK_BYTES as u64;
    let magic = pattern.software[0] as u32;
    let len = (pattern.software[0] >> 32) as u32;
    let has_more = magic == fp::MAGIC;
    let len = if has_more { u64::from(len) } else { fp::LEGACY_BYTES };
    let fp_at = (top - len) & !63;
    // SAFETY: agent memory with enough room, aligned as the instructions require.
    unsafe {
        core::ptr::write_bytes(fp_at as *mut u8, 0, len as usize);
        let at = fp_at as *mut u8;
        if has_more {
            let what = pattern.software[1];
            let (low, high) = (what as u32, (what >> 32) as u32);
            asm!("xsave64 [{}]", in(reg) at, in("eax") low, in("edx") high, options(nostack));
            let end = (fp_at + u64::from(pattern.software[2] as u32)) as *mut u32;
            end.write_unaligned(MAGIC_END);
        } else {
            asm!("fxsave64 [{}]", in(reg) at, options(nostack));
        }
        ((fp_at + fp::SOFTWARE) as *mut [u64; 6]).write(pattern.software);
    }
    let frame_at = ((fp_at - size_of::<SignalFrame>() as u64) & !15) - 8;
    // SAFETY: agent memory below the saved state; all zeros is a valid frame.
    let frame = unsafe {
        (frame_at as *mut SignalFrame).write_bytes(0, 1);
        &mut *(frame_at as *mut SignalFrame)
    };
    let uc = &mut frame.context;
    uc.flags = pattern.flags;
    uc.stack = pattern.stack;
    uc.regs.segments = pattern.segments;
    uc.regs.fpstate = fp_at;
    if made != 0 {
        signals::set_after_call(context, uc);
    } else {
        signals::set_at_site(context, uc);
    }
    frame_at
}

/// Moves a frame to the agent's stack, which is not in use then. The kernel put it elsewhere
/// because no alternate stack is registered, or because the program's handler does not ask for it.
pub extern "C" fn move_frame(frame: &SignalFrame) -> u64 {
    let context = current();
    let top = context.area().altstack_address() + ALTSTACK_BYTES as u64;
    let from = frame.context.regs.fpstate;
    let len = fp_size(from);
    let fp_at = (top - len) & !63;
    let frame_at = ((fp_at - size_of::<SignalFrame>() as u64) & !15) - 8;
    // SAFETY: copies the kernel's frame and state to agent memory with enough room.
    unsafe {
        core::ptr::copy_nonoverlapping(from as *const u8, fp_at as *mut u8, len as usize);
        let to = frame_at as *mut SignalFrame;
        to.write(*frame);
        (*to).context.regs.fpstate = if from == 0 { 0 } else { fp_at };
    }
    frame_at
}
