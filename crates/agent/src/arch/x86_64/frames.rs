//! Registers in memory: of the program during a call, and in the kernel's signal frames.

use core::arch::asm;
use core::cell::Cell;
use core::mem::offset_of;
use linux_raw_sys::ptrace;

/// Bytes below the stack pointer that belong to the running function.
pub const RED_ZONE: u64 = 128;
/// Length of the instruction that makes a system call.
pub const CALL_BYTES: u64 = 2;
/// Architecture of a call in siginfo and in seccomp's data.
pub const AUDIT_ARCH: u32 = ptrace::AUDIT_ARCH_X86_64;
/// The architecture of calls by `int 0x80`.
pub const AUDIT_ARCH_OLD: u32 = ptrace::AUDIT_ARCH_I386;

/// An alternate signal stack, laid out as `stack_t`.
#[derive(Clone, Copy, PartialEq, Eq)]
#[repr(C)]
pub struct AltStack {
    pub sp: u64,
    pub flags: u32,
    /// What the program gets must hold nothing of ours.
    pub padding: u32,
    pub size: u64,
}

/// The program's registers at a call, as the entry code pushes them. The layout is that of a signal
/// frame, so that debuggers can unwind from the agent's stack to the program's.
#[repr(C, align(16))]
#[derive(Clone)]
pub struct Frame {
    /// Stands in the place of a return address: points to the signal-return code, which debuggers
    /// recognise by its bytes. Written once.
    pub trampoline: Cell<u64>,
    /// Fields of a `ucontext` before its registers.
    head: [u64; 5],
    pub r8: u64,
    pub r9: u64,
    pub r10: u64,
    /// On entry the call site; on return the value that `syscall` leaves.
    pub r11: Cell<u64>,
    pub r12: u64,
    pub r13: u64,
    pub r14: u64,
    pub r15: u64,
    pub rdi: u64,
    pub rsi: u64,
    pub rbp: u64,
    pub rbx: u64,
    pub rdx: u64,
    pub rax: Cell<u64>,
    pub rcx: Cell<u64>,
    pub rsp: Cell<u64>,
    rip: u64,
    pub rflags: u64,
    /// The program's `%rbp` and return address: a link for unwinders that follow frame pointers.
    pub link: [u64; 2],
    pub xmm: [u128; 16],
}

impl Frame {
    /// The arguments of the call. One by one: a wider load would wait for the pushes to leave the
    /// store buffer.
    #[inline(always)]
    pub fn args(&self) -> [u64; 6] {
        // SAFETY: the pointers are references to fields of this frame.
        [&self.rdi, &self.rsi, &self.rdx, &self.r10, &self.r8, &self.r9]
            .map(|register| unsafe { core::ptr::read_volatile(register) })
    }

    /// The number of the call.
    #[inline(always)]
    pub fn number(&self) -> u64 {
        self.rax.get()
    }

    /// Changes the number of the call.
    pub fn set_number(&self, number: u64) {
        self.rax.set(number);
    }

    /// Sets the result of the call.
    #[inline(always)]
    pub fn set_result(&self, result: u64) {
        self.rax.set(result);
    }

    /// The result that was set.
    pub fn result(&self) -> u64 {
        self.rax.get()
    }

    pub fn stack(&self) -> u64 {
        self.rsp.get()
    }

    pub fn set_stack(&self, stack: u64) {
        self.rsp.set(stack);
    }

    /// Sets what the instruction of a call leaves: `syscall` leaves the flags in `%r11`. The site
    /// is kept in the context.
    #[inline(always)]
    pub fn leave_flags(&self) {
        self.r11.set(self.rflags);
    }

    /// Sets what the instruction leaves if the program continues at `address` by a signal.
    pub fn leave_address(&self, address: u64) {
        self.preserve(address, self.rflags);
    }

    /// Sets the two registers that the entry code destroys: for an instruction that preserves them.
    pub fn preserve(&self, rcx: u64, r11: u64) {
        self.rcx.set(rcx);
        self.r11.set(r11);
    }
}

/// Registers in a signal frame.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct Registers {
    pub r8: u64,
    pub r9: u64,
    pub r10: u64,
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
    pub rip: u64,
    pub rflags: u64,
    pub segments: u64,
    err: u64,
    trapno: u64,
    pub oldmask: u64,
    cr2: u64,
    pub fpstate: u64,
    reserved: [u64; 8],
}

/// The kernel's ucontext.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct UContext {
    pub flags: u64,
    link: u64,
    pub stack: AltStack,
    pub regs: Registers,
    pub sigmask: u64,
}

/// Frame that the kernel pushes for a handler.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct SignalFrame {
    restorer: u64,
    pub context: UContext,
    pub info: [u8; 128],
}

/// Magic number at the end of the floating-point state in a frame.
const MAGIC_END: u32 = 0x4650_5845;

/// Field offsets in the floating-point state.
pub mod fp {
    pub const MXCSR: u64 = 24;
    pub const XMM: u64 = 160;
    /// Description of the contents by the kernel: magic number, sizes, features.
    pub const SOFTWARE: u64 = 464;
    pub const SW_SIZE: u64 = 468;
    pub const LEGACY_BYTES: u64 = 512;
    pub const XSTATE_BV: u64 = 512;
    pub const MAGIC: u32 = 0x4650_5853;
    pub const SSE: u64 = 1 << 1;
    pub const PKRU: u64 = 1 << 9;
    pub const MXCSR_INIT: u32 = 0x1f80;
    pub const CONTROL_INIT: u16 = 0x37f;
}

/// Flags that the kernel clears for a handler: direction, resume and trap.
const HANDLER_CLEARS: u64 = 0x400 | 0x1_0000 | 0x100;

impl UContext {
    /// The address at which execution goes on.
    pub fn address(&self) -> u64 {
        self.regs.rip
    }

    pub fn set_address(&mut self, address: u64) {
        self.regs.rip = address;
    }

    pub fn stack_pointer(&self) -> u64 {
        self.regs.rsp
    }

    /// The result of the call that was just made, or its number if a filter has answered it.
    pub fn result(&self) -> u64 {
        self.regs.rax
    }

    pub fn set_result(&mut self, result: u64) {
        self.regs.rax = result;
    }

    /// Address of the frame that this is part of.
    pub fn frame_address(&self) -> u64 {
        core::ptr::from_ref(self) as u64 - offset_of!(SignalFrame, context) as u64
    }

    /// Sets where the handler of this frame returns to.
    ///
    /// # Safety
    /// This must be part of a kernel frame.
    pub unsafe fn set_restorer(&mut self, restorer: u64) {
        // SAFETY: the caller guarantees that the kernel's frame begins with the return address.
        unsafe { core::ptr::from_mut(self).cast::<u64>().sub(1).write(restorer) };
    }

    /// Makes an interrupted `syscall` instruction at `site` enter the agent, which returns to
    /// `back`.
    pub fn enter_agent(&mut self, entry: u64, site: u64, back: u64) {
        self.regs.rcx = back;
        self.regs.r11 = site;
        self.regs.rip = entry;
    }

    /// Returns the two registers that the entry code destroys.
    pub fn destroyed(&self) -> (u64, u64) {
        (self.regs.rcx, self.regs.r11)
    }

    /// Sets the two registers that the entry code destroys.
    pub fn preserve(&mut self, rcx: u64, r11: u64) {
        self.regs.rcx = rcx;
        self.regs.r11 = r11;
    }

    /// Skips an instruction of this length that reads the time stamp counter.
    pub fn skip_time_stamp_read(&mut self, len: u64, now: u64) {
        self.regs.rax = now & 0xffff_ffff;
        self.regs.rdx = now >> 32;
        self.regs.rip += len;
    }

    /// Continues with a fault whose frame has no room: that kills the process, whatever its
    /// handlers are. `fault` is the address of an instruction that faults.
    pub fn crash(&mut self, fault: u64) {
        let stack = self.stack;
        // Stay on the alternate stack, but low: the kernel would start at its top again.
        self.regs.rsp = if stack.size == 0 { 16 } else { stack.sp + 256 };
        self.regs.rip = fault;
    }

    /// Whether the program's registers are still those that a call has left.
    pub fn is_as_left_by(&self, frame: &Frame) -> bool {
        let regs = &self.regs;
        let now = [
            regs.rax, regs.rbx, regs.rdx, regs.rdi, regs.rsi, regs.rbp, regs.rsp, regs.r8, regs.r9,
            regs.r10, regs.r12, regs.r13, regs.r14, regs.r15,
        ];
        let left = [
            frame.rax.get(),
            frame.rbx,
            frame.rdx,
            frame.rdi,
            frame.rsi,
            frame.rbp,
            frame.rsp.get(),
            frame.r8,
            frame.r9,
            frame.r10,
            frame.r12,
            frame.r13,
            frame.r14,
            frame.r15,
        ];
        now == left
    }

    /// Copies the program's registers of a call, with the address to continue at.
    pub fn set_from(&mut self, frame: &Frame, address: u64) {
        let regs = &mut self.regs;
        regs.r8 = frame.r8;
        regs.r9 = frame.r9;
        regs.r10 = frame.r10;
        regs.r11 = frame.r11.get();
        regs.r12 = frame.r12;
        regs.r13 = frame.r13;
        regs.r14 = frame.r14;
        regs.r15 = frame.r15;
        regs.rdi = frame.rdi;
        regs.rsi = frame.rsi;
        regs.rbp = frame.rbp;
        regs.rbx = frame.rbx;
        regs.rdx = frame.rdx;
        regs.rax = frame.rax.get();
        regs.rcx = frame.rcx.get();
        regs.rsp = frame.rsp.get();
        regs.rflags = frame.rflags;
        regs.rip = address;
        if regs.fpstate != 0 {
            // SAFETY: the kernel's floating-point state, which holds at least the legacy area, and
            // the xsave header when the magic says so.
            unsafe {
                let to = (regs.fpstate + fp::XMM) as *mut u128;
                for (i, &xmm) in frame.xmm.iter().enumerate() {
                    to.add(i).write_unaligned(xmm);
                }
                if ((regs.fpstate + fp::SOFTWARE) as *const u32).read() == fp::MAGIC {
                    *((regs.fpstate + fp::XSTATE_BV) as *mut u64) |= fp::SSE;
                }
            }
        }
    }

    /// Replaces the state by that in another frame, which a handler was returning through.
    pub fn take_state(&mut self, outer: &UContext) {
        let (from, to) = (outer.regs.fpstate, self.regs.fpstate);
        self.regs = outer.regs;
        self.regs.fpstate = to;
        if from != 0 && to != 0 {
            let len = state_bytes(from).min(state_bytes(to)) as usize;
            // SAFETY: both are floating-point states of at least that size.
            unsafe { core::ptr::copy_nonoverlapping(from as *const u8, to as *mut u8, len) };
        }
    }

    /// Returns the frame that the kernel would build for a handler on a stack with this pointer.
    pub fn handler_frame(
        &self,
        stack_pointer: u64,
        restorer: u64,
        shown_stack: AltStack,
        mask: u64,
        info: &[u8; 128],
    ) -> HandlerFrame {
        let state_from = self.regs.fpstate;
        let state_bytes = state_bytes(state_from);
        let state_at = stack_pointer.wrapping_sub(state_bytes) & !63;
        let mut frame = SignalFrame { restorer, context: *self, info: *info };
        frame.context.link = 0;
        frame.context.stack = shown_stack;
        frame.context.sigmask = mask;
        frame.context.regs.oldmask = mask;
        frame.context.regs.fpstate = if state_from == 0 { 0 } else { state_at };
        HandlerFrame { at: frame_below(state_at), frame, state_at, state_from, state_bytes }
    }

    /// Points the state to a handler whose frame is in place.
    pub fn enter_handler(&mut self, handler: u64, signal: u32, frame_at: u64) {
        let regs = &mut self.regs;
        regs.rip = handler;
        regs.rsp = frame_at;
        regs.rdi = u64::from(signal);
        regs.rsi = frame_at + offset_of!(SignalFrame, info) as u64;
        regs.rdx = frame_at + offset_of!(SignalFrame, context) as u64;
        regs.rax = 0;
        regs.rflags &= !HANDLER_CLEARS;
        reset_state(regs.fpstate);
    }

    /// Returns the stack pointer below the bytes that the interrupted function uses.
    pub fn free_stack(&self) -> u64 {
        self.regs.rsp.wrapping_sub(RED_ZONE)
    }
}

/// A frame to be written to the program's memory.
pub struct HandlerFrame {
    /// Its address.
    pub at: u64,
    pub frame: SignalFrame,
    /// Where its floating-point state goes, where that is now, and its size.
    pub state_at: u64,
    pub state_from: u64,
    pub state_bytes: u64,
}

/// Returns the address of a frame below its floating-point state.
fn frame_below(state_at: u64) -> u64 {
    (state_at.wrapping_sub(size_of::<SignalFrame>() as u64) & !15).wrapping_sub(8)
}

/// Size of a floating-point state; 0 if there is none.
fn state_bytes(at: u64) -> u64 {
    if at == 0 {
        return 0;
    }
    // SAFETY: `at` is the kernel's floating-point state, which has at least the legacy area.
    unsafe {
        if ((at + fp::SOFTWARE) as *const u32).read() == fp::MAGIC {
            u64::from(((at + fp::SW_SIZE) as *const u32).read())
        } else {
            fp::LEGACY_BYTES
        }
    }
}

/// Resets the floating-point state for a handler, except for the protection keys.
fn reset_state(at: u64) {
    if at == 0 {
        return;
    }
    // SAFETY: `at` is the kernel's floating-point state, which has at least the legacy area.
    unsafe {
        (at as *mut u16).write(fp::CONTROL_INIT);
        ((at + fp::MXCSR) as *mut u32).write(fp::MXCSR_INIT);
        if ((at + fp::SOFTWARE) as *const u32).read() == fp::MAGIC {
            *((at + fp::XSTATE_BV) as *mut u64) &= fp::PKRU;
        }
    }
}

/// Properties of the frames that the kernel builds for a thread.
#[derive(Clone, Copy)]
pub struct Pattern {
    flags: u64,
    segments: u64,
    stack: AltStack,
    /// End of the legacy area of the floating-point state, which describes the contents.
    software: [u64; 6],
}

impl Pattern {
    /// Takes them from a frame.
    pub fn of(uc: &UContext) -> Pattern {
        let software = if uc.regs.fpstate == 0 {
            [0; 6]
        } else {
            // SAFETY: within the kernel's floating-point state.
            unsafe { ((uc.regs.fpstate + fp::SOFTWARE) as *const [u64; 6]).read() }
        };
        Pattern { flags: uc.flags, segments: uc.regs.segments, stack: uc.stack, software }
    }

    /// Builds a frame below `top` as the kernel would, with the present floating-point state and
    /// without registers.
    ///
    /// # Safety
    /// Below `top` there must be unused memory of the agent with enough room.
    pub unsafe fn build(&self, top: u64) -> *mut SignalFrame {
        let magic = self.software[0] as u32;
        let len = (self.software[0] >> 32) as u32;
        let has_more = magic == fp::MAGIC;
        let len = if has_more { u64::from(len) } else { fp::LEGACY_BYTES };
        let state_at = (top - len) & !63;
        // SAFETY: agent memory with enough room, aligned as the instructions require.
        unsafe {
            core::ptr::write_bytes(state_at as *mut u8, 0, len as usize);
            let at = state_at as *mut u8;
            if has_more {
                let what = self.software[1];
                let (low, high) = (what as u32, (what >> 32) as u32);
                asm!("xsave64 [{}]", in(reg) at, in("eax") low, in("edx") high, options(nostack));
                let end = (state_at + u64::from(self.software[2] as u32)) as *mut u32;
                end.write_unaligned(MAGIC_END);
            } else {
                asm!("fxsave64 [{}]", in(reg) at, options(nostack));
            }
            ((state_at + fp::SOFTWARE) as *mut [u64; 6]).write(self.software);
        }
        let frame = frame_below(state_at) as *mut SignalFrame;
        // SAFETY: agent memory below the saved state; all zeros is a valid frame.
        unsafe {
            frame.write_bytes(0, 1);
            let uc = &mut (*frame).context;
            uc.flags = self.flags;
            uc.stack = self.stack;
            uc.regs.segments = self.segments;
            uc.regs.fpstate = state_at;
        }
        frame
    }
}

impl SignalFrame {
    /// Copies a kernel frame to a place below `top`.
    ///
    /// # Safety
    /// Below `top` there must be unused memory of the agent with enough room.
    pub unsafe fn copy_below(&self, top: u64) -> *mut SignalFrame {
        let from = self.context.regs.fpstate;
        let len = state_bytes(from);
        let state_at = (top - len) & !63;
        let to = frame_below(state_at) as *mut SignalFrame;
        // SAFETY: copies the kernel's frame and state to agent memory with enough room.
        unsafe {
            core::ptr::copy_nonoverlapping(from as *const u8, state_at as *mut u8, len as usize);
            to.write(*self);
            (*to).context.regs.fpstate = if from == 0 { 0 } else { state_at };
        }
        to
    }
}
