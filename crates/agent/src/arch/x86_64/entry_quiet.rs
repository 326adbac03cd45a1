//! More assembly at the agent's edges, for processes whose filters deny calls that the agent needs:
//! open handlers, for which the kernel masks nothing and which return without a system call
//! ([`crate::waiting`]), and threads that are not recorded ([`crate::native`]).
//!
//! From here, too, control goes up by symbol:
//!
//! | symbol | what it does |
//! |---|---|
//! | `reenact_handle_sigsys`, `reenact_handle_signal` | handle signals |
//! | `reenact_move_frame`, `reenact_build_frame` | put a frame where it can be left through |
//! | `reenact_deliver_waiting` | delivers queued signals |
//! | `reenact_is_left_alone` | tells whether a traced thread was outside the agent |
//! | `reenact_handle_native_signal`, `reenact_handle_native_action` | for unrecorded threads |

use core::arch::global_asm;
use core::mem::offset_of;

use super::entry::{REGISTERS, call, labels};
use super::frames::{Frame, Registers, SignalFrame, UContext, fp};
use super::head::{ALTSTACK_BYTES, Head, Native, WORDS_BELOW, Words, phase};

/// Bytes at the end of the alternate stack for a frame that is moved or built there.
const FRAME_ROOM: usize = 24 << 10;
/// Offset in the alternate stack of `%rsp` while such a frame is built.
const BELOW_FRAME: usize = ALTSTACK_BYTES - FRAME_ROOM;

global_asm!(
    // ---- open handlers: %rsp is at the kernel's frame, whose ucontext follows ------------------
    ".globl reenact_on_sigsys_open, reenact_on_signal_open",
    ".balign 16",
    "reenact_on_sigsys_open:",
    "lea reenact_handle_sigsys(%rip), %rax",
    "jmp 1f",
    ".balign 16",
    "reenact_on_signal_open:",
    "lea reenact_handle_signal(%rip), %rax",
    "1:",
    "cld",
    "cmpq $0, %gs:{native}",
    "jne 4f",
    "cmpl ${left_alone}, %gs:{running}",
    "je 9f",
    "2:",
    "lea -8(%rsp), %rcx",
    "sub %gs:{stack}, %rcx",
    "cmp ${altstack_bytes}, %rcx",
    "jae 3f",
    "5:",
    "push %rbp",
    "mov $1, %ecx",
    "call *%rax",
    "pop %rbp",
    "jmp reenact_return",
    // The frame is not on the agent's stack: move it there.
    "3:",
    "mov %rax, %rbx",
    "mov %rsp, %rdi",
    "mov %gs:{stack}, %rcx",
    "lea {below_frame}+8(%rcx), %rsp",
    "call reenact_move_frame",
    "mov %rax, %rsp",
    "lea {context}(%rsp), %rdx",
    "lea {info}(%rsp), %rsi",
    "mov (%rsi), %edi",
    "mov %rbx, %rax",
    "jmp 5b",
    // A thread traced by a program of the recording, unless it is in its last recorded call.
    "9:",
    "push %rax",
    "push %rdi",
    "push %rsi",
    "push %rdx",
    "push %rdx",
    "mov %rdx, %rdi",
    "call reenact_is_left_alone",
    "mov %eax, %ecx",
    "pop %rdx",
    "pop %rdx",
    "pop %rsi",
    "pop %rdi",
    "pop %rax",
    "test %ecx, %ecx",
    "jz 2b",
    "jmp 4f",
    "reenact_open_end:",
    // A thread that is not recorded: continue in the program's handler.
    "4:",
    "push %rdi",
    "push %rsi",
    "push %rdx",
    "call reenact_handle_native_signal",
    "pop %rdx",
    "pop %rsi",
    "pop %rdi",
    "test %rax, %rax",
    "jz reenact_return_plain",
    "jmp *%rax",
    //
    // ---- return to the state in the frame at %rsp, without a system call ----------------------
    // A handler that interrupts this code continues with the state in our frame, which it finds by
    // the registers (`returning_frame`): no word could say it, as handlers interrupt each other.
    ".globl reenact_return, reenact_return_plain, reenact_return_last, reenact_return_end",
    "reenact_return:",
    "cmpq $0, %gs:{held_frame}",
    "jne 8f",
    "reenact_return_plain:",
    "lea {context}(%rsp), %rsi",
    "movzwl {segments}+6(%rsi), %eax", // %ss
    "push %rax",
    "push {rsp}(%rsi)",
    "push {flags}(%rsi)",
    "movzwl {segments}(%rsi), %eax", // %cs
    "push %rax",
    "push {rip}(%rsi)",
    "mov {fpstate}(%rsi), %rdi",
    "test %rdi, %rdi",
    "jz 6f",
    "cmpl ${magic}, {software}(%rdi)",
    "jne 5f",
    "mov {software}+8(%rdi), %eax",
    "mov {software}+12(%rdi), %edx",
    "xrstor64 (%rdi)",
    "jmp 6f",
    "5:",
    "fxrstor64 (%rdi)",
    "6:",
    "push $2", // iretq would fail with some flags that the program may have set
    "popfq",
    "mov {r8}(%rsi), %r8",
    "mov {r9}(%rsi), %r9",
    "mov {r10}(%rsi), %r10",
    "mov {r11}(%rsi), %r11",
    "mov {r12}(%rsi), %r12",
    "mov {r13}(%rsi), %r13",
    "mov {r14}(%rsi), %r14",
    "mov {r15}(%rsi), %r15",
    "mov {rdi}(%rsi), %rdi",
    "mov {rbp}(%rsi), %rbp",
    "mov {rbx}(%rsi), %rbx",
    "mov {rdx}(%rsi), %rdx",
    "mov {rax}(%rsi), %rax",
    "mov {rcx}(%rsi), %rcx",
    "mov {rsi}(%rsi), %rsi",
    "reenact_return_last:",
    "iretq",
    "reenact_return_end:",
    "8:",
    "lea {context}(%rsp), %rdi",
    "push %rbp",
    "call reenact_deliver_waiting",
    "pop %rbp",
    "test %eax, %eax",
    "jnz reenact_return",
    "jmp reenact_return_plain",
    //
    // reenact_leave_with_waiting(made): enters the program's handlers, from the end of a call.
    "reenact_leave_with_waiting:",
    "mov %gs:{stack}, %rcx",
    "lea {below_frame}+8(%rcx), %rsp",
    "call reenact_build_frame",
    "mov %rax, %rsp",
    "jmp reenact_return",
    //
    // ---- threads that are not recorded -------------------------------------------------------
    // Entered from stubs: runs the stub's own `syscall`, just before the return address.
    ".balign 16",
    "reenact_native_alone:",
    "lea -2(%rcx), %rcx",
    "jmp *%rcx",
    // For threads beside recorded ones: rt_sigaction must update the agent's table.
    ".balign 16",
    "reenact_native_beside_us:",
    "cmp ${nr_sigaction}, %rax",
    "jne reenact_native_alone",
    "lea -128(%rsp), %rsp",
    "push %rcx",
    "push %rbp",
    "mov %rsp, %rbp",
    "push %rdi",
    "push %rsi",
    "push %rdx",
    "push %r8",
    "push %r9",
    "push %r10",
    "sub $256, %rsp",
    "and $-16, %rsp",
    "movaps %xmm0, (%rsp)",
    "movaps %xmm1, 16(%rsp)",
    "movaps %xmm2, 32(%rsp)",
    "movaps %xmm3, 48(%rsp)",
    "movaps %xmm4, 64(%rsp)",
    "movaps %xmm5, 80(%rsp)",
    "movaps %xmm6, 96(%rsp)",
    "movaps %xmm7, 112(%rsp)",
    "movaps %xmm8, 128(%rsp)",
    "movaps %xmm9, 144(%rsp)",
    "movaps %xmm10, 160(%rsp)",
    "movaps %xmm11, 176(%rsp)",
    "movaps %xmm12, 192(%rsp)",
    "movaps %xmm13, 208(%rsp)",
    "movaps %xmm14, 224(%rsp)",
    "movaps %xmm15, 240(%rsp)",
    "mov %r10, %rcx",
    "cld",
    "call reenact_handle_native_action",
    "movaps (%rsp), %xmm0",
    "movaps 16(%rsp), %xmm1",
    "movaps 32(%rsp), %xmm2",
    "movaps 48(%rsp), %xmm3",
    "movaps 64(%rsp), %xmm4",
    "movaps 80(%rsp), %xmm5",
    "movaps 96(%rsp), %xmm6",
    "movaps 112(%rsp), %xmm7",
    "movaps 128(%rsp), %xmm8",
    "movaps 144(%rsp), %xmm9",
    "movaps 160(%rsp), %xmm10",
    "movaps 176(%rsp), %xmm11",
    "movaps 192(%rsp), %xmm12",
    "movaps 208(%rsp), %xmm13",
    "movaps 224(%rsp), %xmm14",
    "movaps 240(%rsp), %xmm15",
    "lea -48(%rbp), %rsp",
    "pop %r10",
    "pop %r9",
    "pop %r8",
    "pop %rdx",
    "pop %rsi",
    "pop %rdi",
    "pop %rbp",
    "pop %rcx",
    "lea 128(%rsp), %rsp",
    "jmp *%rcx",
    //
    // Turns a recorded thread into an unrecorded one, with the registers that the program expects.
    "reenact_go_native:",
    "mov %gs:{scratch}, %r11",
    "mov %gs:{next_native}, %rcx",
    "wrgsbase %rcx",
    "jmp *%r11",
    //
    // reenact_make_native(frame, has its own stack) -> result: a clone whose child gets the
    // program's registers, and finds what else it needs below its stack (`Words`).
    "reenact_make_native:",
    "push %rbx",
    "push %rbp",
    "push %r12",
    "push %r13",
    "push %r14",
    "push %r15",
    "mov %esi, %gs:{scratch}",
    "movaps {f_xmm}(%rdi), %xmm0",
    "movaps {f_xmm}+16(%rdi), %xmm1",
    "movaps {f_xmm}+32(%rdi), %xmm2",
    "movaps {f_xmm}+48(%rdi), %xmm3",
    "movaps {f_xmm}+64(%rdi), %xmm4",
    "movaps {f_xmm}+80(%rdi), %xmm5",
    "movaps {f_xmm}+96(%rdi), %xmm6",
    "movaps {f_xmm}+112(%rdi), %xmm7",
    "movaps {f_xmm}+128(%rdi), %xmm8",
    "movaps {f_xmm}+144(%rdi), %xmm9",
    "movaps {f_xmm}+160(%rdi), %xmm10",
    "movaps {f_xmm}+176(%rdi), %xmm11",
    "movaps {f_xmm}+192(%rdi), %xmm12",
    "movaps {f_xmm}+208(%rdi), %xmm13",
    "movaps {f_xmm}+224(%rdi), %xmm14",
    "movaps {f_xmm}+240(%rdi), %xmm15",
    "mov {f_rax}(%rdi), %rax",
    "mov {f_rbx}(%rdi), %rbx",
    "mov {f_rdx}(%rdi), %rdx",
    "mov {f_rsi}(%rdi), %rsi",
    "mov {f_rbp}(%rdi), %rbp",
    "mov {f_r8}(%rdi), %r8",
    "mov {f_r9}(%rdi), %r9",
    "mov {f_r10}(%rdi), %r10",
    "mov {f_r12}(%rdi), %r12",
    "mov {f_r13}(%rdi), %r13",
    "mov {f_r14}(%rdi), %r14",
    "mov {f_r15}(%rdi), %r15",
    "mov {f_rdi}(%rdi), %rdi",
    "cmpl $0, %gs:{scratch}",
    "je 2f",
    "syscall",
    "reenact_native_made:",
    "test %rax, %rax",
    "jz 4f",
    "3:",
    "movl ${in_call}, %gs:{phase}",
    "jmp 7f",
    "reenact_native_waits:",
    "2:",
    "syscall",
    "test %rax, %rax",
    "jnz 3b",
    "mov %gs:{app_rsp}, %rsp", // its creator waits
    "jmp 4f",
    "reenact_native_made_end:",
    "7:",
    "pop %r15",
    "pop %r14",
    "pop %r13",
    "pop %r12",
    "pop %rbp",
    "pop %rbx",
    "ret",
    // In the child, which still has its creator's %gs.
    "4:",
    "mov {words}+{w_native}(%rsp), %rcx",
    "wrgsbase %rcx",
    "cmpq $0, {words}+{w_sets_mask}(%rsp)",
    "je 6f",
    "lea -256(%rsp), %rsp",
    "push %rdi",
    "push %rsi",
    "push %rdx",
    "push %r10",
    "mov ${nr_procmask}, %eax",
    "mov ${set_mask}, %edi",
    "lea 256+32+{words}+{w_mask}(%rsp), %rsi",
    "xor %edx, %edx",
    "mov $8, %r10d",
    "syscall",
    "pop %r10",
    "pop %rdx",
    "pop %rsi",
    "pop %rdi",
    "mov 256+{words}+{w_resume}(%rsp), %r11",
    "lea 256(%rsp), %rsp",
    "xor %eax, %eax",
    "jmp *%r11",
    "6:",
    "jmp *{words}+{w_resume}(%rsp)",
    //
    // Raises a fault that kills the process.
    "reenact_fault:",
    "hlt",
    native = const offset_of!(Head, native),
    stack = const offset_of!(Head, stack_top),
    held_frame = const offset_of!(Head, held_frame),
    scratch = const offset_of!(Head, scratch),
    next_native = const offset_of!(Head, next_native),
    app_rsp = const offset_of!(Head, app_rsp),
    phase = const offset_of!(Head, phase),
    running = const offset_of!(Head, running),
    left_alone = const phase::LEFT_ALONE,
    in_call = const phase::IN_CALL,
    altstack_bytes = const ALTSTACK_BYTES,
    below_frame = const BELOW_FRAME,
    context = const offset_of!(SignalFrame, context),
    info = const offset_of!(SignalFrame, info),
    r8 = const REGISTERS + offset_of!(Registers, r8),
    r9 = const REGISTERS + offset_of!(Registers, r9),
    r10 = const REGISTERS + offset_of!(Registers, r10),
    r11 = const REGISTERS + offset_of!(Registers, r11),
    r12 = const REGISTERS + offset_of!(Registers, r12),
    r13 = const REGISTERS + offset_of!(Registers, r13),
    r14 = const REGISTERS + offset_of!(Registers, r14),
    r15 = const REGISTERS + offset_of!(Registers, r15),
    rdi = const REGISTERS + offset_of!(Registers, rdi),
    rsi = const REGISTERS + offset_of!(Registers, rsi),
    rbp = const REGISTERS + offset_of!(Registers, rbp),
    rbx = const REGISTERS + offset_of!(Registers, rbx),
    rdx = const REGISTERS + offset_of!(Registers, rdx),
    rax = const REGISTERS + offset_of!(Registers, rax),
    rcx = const REGISTERS + offset_of!(Registers, rcx),
    rsp = const REGISTERS + offset_of!(Registers, rsp),
    rip = const REGISTERS + offset_of!(Registers, rip),
    flags = const REGISTERS + offset_of!(Registers, rflags),
    segments = const REGISTERS + offset_of!(Registers, segments),
    fpstate = const REGISTERS + offset_of!(Registers, fpstate),
    software = const fp::SOFTWARE,
    magic = const fp::MAGIC,
    f_xmm = const offset_of!(Frame, xmm),
    f_rax = const offset_of!(Frame, rax),
    f_rbx = const offset_of!(Frame, rbx),
    f_rdx = const offset_of!(Frame, rdx),
    f_rsi = const offset_of!(Frame, rsi),
    f_rdi = const offset_of!(Frame, rdi),
    f_rbp = const offset_of!(Frame, rbp),
    f_r8 = const offset_of!(Frame, r8),
    f_r9 = const offset_of!(Frame, r9),
    f_r10 = const offset_of!(Frame, r10),
    f_r12 = const offset_of!(Frame, r12),
    f_r13 = const offset_of!(Frame, r13),
    f_r14 = const offset_of!(Frame, r14),
    f_r15 = const offset_of!(Frame, r15),
    words = const -(WORDS_BELOW as i64),
    w_mask = const offset_of!(Words, mask),
    w_sets_mask = const offset_of!(Words, sets_mask),
    w_native = const offset_of!(Words, native),
    w_resume = const offset_of!(Words, resume),
    nr_sigaction = const linux_raw_sys::general::__NR_rt_sigaction,
    nr_procmask = const linux_raw_sys::general::__NR_rt_sigprocmask,
    set_mask = const linux_raw_sys::general::SIG_SETMASK,
    options(att_syntax),
);

const _: () = assert!(offset_of!(Head, native) == offset_of!(Native, native));
const _: () = assert!(offset_of!(Head, process) == offset_of!(Native, process));
const _: () = assert!(offset_of!(Head, entry) == offset_of!(Native, entry));

labels! {
    on_sigsys = "reenact_on_sigsys_open";
    on_signal = "reenact_on_signal_open";
    open_end = "reenact_open_end";
    return_begin = "reenact_return";
    return_plain = "reenact_return_plain";
    return_last = "reenact_return_last";
    return_end = "reenact_return_end";
    native_alone = "reenact_native_alone";
    native_beside_us = "reenact_native_beside_us";
    native_made = "reenact_native_made";
    native_waits = "reenact_native_waits";
    native_made_end = "reenact_native_made_end";
    go_native = "reenact_go_native";
    fault = "reenact_fault";
}

/// Returns the frame through which the interrupted code has begun to return to the state in it.
pub fn returning_frame(uc: &UContext) -> Option<*const SignalFrame> {
    let address = match uc.regs.rip {
        rip if !(return_begin()..return_end()).contains(&rip) => return None,
        rip if rip <= return_plain() => uc.regs.rsp,
        // The five words that the instruction takes lie below the frame.
        rip if rip == return_last() => uc.regs.rsp + 5 * 8,
        _ => uc.regs.rsi - offset_of!(SignalFrame, context) as u64,
    };
    Some(address as *const SignalFrame)
}

/// Returns true if the address is at the beginning of an open handler.
pub fn begins_handler(address: u64) -> bool {
    (on_sigsys()..open_end()).contains(&address)
}

/// Returns true if a thread at `rip` in `reenact_make_native` has made the clone.
pub fn has_made_native(rip: u64) -> bool {
    (native_made()..=native_made_end()).contains(&rip) && rip != native_waits()
}

/// Enters the program's handlers for queued signals, after a call or before it.
///
/// # Safety
/// The call must be recorded, or undone.
pub unsafe fn leave_with_waiting(made: bool) -> ! {
    // SAFETY: the caller guarantees that the call is finished; control does not come back.
    unsafe {
        core::arch::asm!(
            "jmp reenact_leave_with_waiting",
            in("rdi") u64::from(made),
            options(noreturn),
        )
    }
}

/// Makes a clone that shares memory, with the frame's registers.
///
/// # Safety
/// The program must have asked for this call, and the child's `Words` must be below its stack.
pub unsafe fn make_native(frame: &Frame, own_stack: bool) -> i64 {
    let frame = core::ptr::from_ref(frame);
    // SAFETY: the caller guarantees what the child needs; the routine saves all registers.
    unsafe { call!("reenact_make_native", "rdi" = frame, "rsi" = u64::from(own_stack)) as i64 }
}
