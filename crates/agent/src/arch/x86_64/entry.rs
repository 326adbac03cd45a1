//! Assembly at the agent's edges: how a thread enters and leaves it.
//!
//! `%gs` points to the thread's [`Head`] whenever agent code runs. A patched call site jumps to
//! its stub, which loads the site into `%r11` and the return address into `%rcx` (a `syscall`
//! destroys both) and jumps to `reenact_entry`. The SIGSYS handler does the same by editing the
//! interrupted state. Nothing is written to the program's stack.
//!
//! From here control goes up by symbol, to functions of the layers above:
//!
//! | symbol | what it handles |
//! |---|---|
//! | `reenact_handle_call` | a call of the program |
//! | `reenact_handle_child` | the start of a thread that shares memory |
//! | `reenact_handle_sigsys`, `reenact_handle_signal` | signals |
//! | `reenact_handle_refused` | an rt_sigreturn that a filter has answered |
//! | `reenact_handle_held` | a held signal, while the call can still be undone |

use core::arch::global_asm;
use core::mem::offset_of;

use super::frames::{Frame, Registers, SignalFrame, UContext, fp};
use super::head::{Head, phase};

global_asm!(
    // Core files hold the image's first page, so debuggers find this code there.
    ".pushsection .text.first, \"ax\", @progbits",
    ".cfi_sections .eh_frame",
    //
    // ---- from the program into the agent and back -------------------------------------------
    // Bypasses the agent by the `syscall` in the stub, for calls that are not the program's own.
    ".globl reenact_bypass",
    ".balign 16",
    "reenact_bypass:",
    "lea -2(%rcx), %rcx",
    "jmp *%rcx",
    ".globl reenact_entry, reenact_entry_switched, reenact_entry_end, reenact_leave",
    ".balign 64",
    "reenact_entry:",
    "mov %rsp, %gs:{app_rsp}",
    "reenact_entry_switched:",
    // In the middle of a call there is a frame already: this call is a debugger's. Nothing here
    // changes flags. %rsp stays on a stack all the time, as signals may come without an alternate one.
    "mov %rcx, %gs:{entering}",
    "mov %gs:{phase}, %ecx",
    "lea -{recorded}(%rcx), %ecx",
    "jrcxz 1f",
    "mov %gs:{entering}, %rcx",
    "jmp reenact_bypass",
    "1:",
    "mov %gs:{entering}, %rcx",
    "mov %rcx, %gs:{resume}",
    "mov %gs:{frame_end}, %rsp",
    // Build a Frame, from its last field to its first.
    "lea -256(%rsp), %rsp",
    "lea 2(%r11), %rcx",
    "push %rcx",
    "push %rbp",
    "pushfq",
    "push %rcx",
    "push %gs:{app_rsp}",
    "push %rcx",
    "push %rax",
    "push %rdx",
    "push %rbx",
    "push %rbp",
    "push %rsi",
    "push %rdi",
    "push %r15",
    "push %r14",
    "push %r13",
    "push %r12",
    "push %r11",
    "push %r10",
    "push %r9",
    "push %r8",
    "lea -48(%rsp), %rsp",
    "movaps %xmm0, {xmm}(%rsp)",
    "movaps %xmm1, {xmm}+16(%rsp)",
    "movaps %xmm2, {xmm}+32(%rsp)",
    "movaps %xmm3, {xmm}+48(%rsp)",
    "movaps %xmm4, {xmm}+64(%rsp)",
    "movaps %xmm5, {xmm}+80(%rsp)",
    "movaps %xmm6, {xmm}+96(%rsp)",
    "movaps %xmm7, {xmm}+112(%rsp)",
    "movaps %xmm8, {xmm}+128(%rsp)",
    "movaps %xmm9, {xmm}+144(%rsp)",
    "movaps %xmm10, {xmm}+160(%rsp)",
    "movaps %xmm11, {xmm}+176(%rsp)",
    "movaps %xmm12, {xmm}+192(%rsp)",
    "movaps %xmm13, {xmm}+208(%rsp)",
    "movaps %xmm14, {xmm}+224(%rsp)",
    "movaps %xmm15, {xmm}+240(%rsp)",
    "mov %r11, %gs:{site}",
    "mov %rsp, %gs:{frame}",
    "movl ${before}, %gs:{phase}",
    // From here on a signal finds the program's state in the Frame.
    "reenact_entry_end:",
    "cld",
    "mov %rsp, %rdi",
    "mov %gs:{this}, %rsi",
    // A jump: this call never returns, so it needs no return address.
    "mov %gs:{stack}, %rsp",
    "jmp reenact_handle_call",
    // Entered with %rsp at a complete Frame.
    "reenact_leave:",
    // popfq takes as long as ten of these: used only if flags other than arithmetic ones are set.
    "mov {rflags}(%rsp), %eax",
    "test ${rare_flags}, %eax",
    "jnz 8f",
    "mov %eax, %ecx",
    "shr $11, %ecx",
    "and $1, %ecx",
    "mov %al, %ah",
    "add $0x7f, %cl", // overflows if the overflow flag was set
    "sahf",
    "7:", // nothing below changes flags
    "movaps {xmm}(%rsp), %xmm0",
    "movaps {xmm}+16(%rsp), %xmm1",
    "movaps {xmm}+32(%rsp), %xmm2",
    "movaps {xmm}+48(%rsp), %xmm3",
    "movaps {xmm}+64(%rsp), %xmm4",
    "movaps {xmm}+80(%rsp), %xmm5",
    "movaps {xmm}+96(%rsp), %xmm6",
    "movaps {xmm}+112(%rsp), %xmm7",
    "movaps {xmm}+128(%rsp), %xmm8",
    "movaps {xmm}+144(%rsp), %xmm9",
    "movaps {xmm}+160(%rsp), %xmm10",
    "movaps {xmm}+176(%rsp), %xmm11",
    "movaps {xmm}+192(%rsp), %xmm12",
    "movaps {xmm}+208(%rsp), %xmm13",
    "movaps {xmm}+224(%rsp), %xmm14",
    "movaps {xmm}+240(%rsp), %xmm15",
    "lea 48(%rsp), %rsp",
    "pop %r8",
    "pop %r9",
    "pop %r10",
    "pop %r11",
    "pop %r12",
    "pop %r13",
    "pop %r14",
    "pop %r15",
    "pop %rdi",
    "pop %rsi",
    "pop %rbp",
    "pop %rbx",
    "pop %rdx",
    "pop %rax",
    "pop %rcx",
    "mov (%rsp), %rsp",
    "jmp *%gs:{resume}",
    "8:",
    "push {rflags}(%rsp)",
    "popfq",
    "jmp 7b",
    //
    // ---- the program's own call ------------------------------------------------------------
    // reenact_call(nr, args: *const [u64; 6], %r12: return address) -> result; clobbers %r13 and
    // %r14. %rcx is cleared before the syscall: in a signal frame at that instruction, it shows
    // whether the kernel was entered. Returns by a jump: after a syscall, a `ret` is mispredicted
    // where the kernel clears return predictions.
    //
    // A debugger that looks at the thread during the call finds %rsp at the Frame, as if the
    // signal-return code were the caller, and %rbp at a link in the chain of frame pointers.
    ".globl reenact_call, reenact_call_insn",
    ".balign 64",
    "reenact_call:",
    "mov %rdi, %rax",
    "mov %rsi, %r11",
    "mov (%r11), %rdi",
    "mov 8(%r11), %rsi",
    "mov 16(%r11), %rdx",
    "mov 24(%r11), %r10",
    "mov 32(%r11), %r8",
    "mov 40(%r11), %r9",
    "xor %ecx, %ecx",
    "mov %rsp, %r13",
    "mov %rbp, %r14",
    "movl ${in_call}, %gs:{phase}",
    "mov %gs:{seen_rsp}, %rsp",
    ".cfi_startproc",
    "lea {link}(%rsp), %rbp",
    "reenact_call_insn:",
    "syscall",
    "mov %r13, %rsp",
    ".cfi_endproc",
    "mov %r14, %rbp",
    "jmp *%r12",
    //
    // reenact_old_call(nr, args: *const [u64; 6]) -> result: like reenact_call, by `int 0x80`.
    ".globl reenact_old_call, reenact_old_call_insn",
    "reenact_old_call:",
    "push %rbx",
    "push %rbp",
    "push %r12",
    "mov %edi, %eax",
    "mov %rsi, %r11",
    "mov (%r11), %ebx",
    "mov 8(%r11), %ecx",
    "mov 16(%r11), %edx",
    "mov 24(%r11), %esi",
    "mov 32(%r11), %edi",
    "mov 40(%r11), %ebp",
    "movl ${in_call}, %gs:{phase}",
    "mov %rsp, %r12",
    "mov %gs:{seen_rsp}, %rsp",
    ".cfi_startproc",
    "reenact_old_call_insn:",
    "int $0x80",
    "mov %r12, %rsp",
    ".cfi_endproc",
    "movslq %eax, %rax",
    "pop %r12",
    "pop %rbp",
    "pop %rbx",
    "ret",
    //
    // ---- clone without shared memory: the child continues on its copy of the agent's stack ------
    // reenact_fork(nr, args) -> result. The kernel gets the program's own arguments and checks
    // them. The child starts on the stack that the program chose for it, and leaves it at once.
    ".globl reenact_fork",
    "reenact_fork:",
    "push %rbx",
    "mov %rsp, %rbx",
    "mov %rdi, %rax",
    "mov %rsi, %r11",
    "mov (%r11), %rdi",
    "mov 8(%r11), %rsi",
    "mov 16(%r11), %rdx",
    "mov 24(%r11), %r10",
    "mov 32(%r11), %r8",
    "mov 40(%r11), %r9",
    "mov %gs:{seen_rsp}, %rsp",
    ".cfi_startproc",
    "syscall",
    "mov %rbx, %rsp",
    ".cfi_endproc",
    "pop %rbx",
    "ret",
    //
    // ---- clone with shared memory: the child has its own context and frame -------------------
    // reenact_clone(nr, args, child: *mut Head) -> result
    ".globl reenact_clone",
    "reenact_clone:",
    "push %rbx",
    "push %rbp",
    "push %r12",
    "mov %rdx, %rbx",
    "mov %rdi, %rax",
    "mov %rsi, %r11",
    "mov (%r11), %rdi",
    "mov 8(%r11), %rsi",
    "mov 16(%r11), %rdx",
    "mov 24(%r11), %r10",
    "mov 32(%r11), %r8",
    "mov 40(%r11), %r9",
    "mov %rsp, %r12",
    "mov %gs:{seen_rsp}, %rsp",
    ".cfi_startproc",
    "lea {link}(%rsp), %rbp",
    "syscall",
    "test %rax, %rax",
    "jz 2f",
    "mov %r12, %rsp",
    ".cfi_endproc",
    "pop %r12",
    "pop %rbp",
    "pop %rbx",
    "ret",
    "2:",
    "mov {stack}(%rbx), %rsp",
    "lea -8(%rsp), %rsp",
    "mov %rbx, %rdi",
    "call reenact_handle_child",
    "mov {frame}(%rbx), %rsp",
    "jmp reenact_leave",
    //
    // ---- the end of every signal handler ------------------------------------------------------
    // Debuggers recognise these exact bytes. They look up the function by the address minus one,
    // hence the nop. Other unwinders use the CFI: %rsp is at a `ucontext`, whose %rsp is at offset
    // 160 and whose registers begin at 40.
    ".globl reenact_restorer",
    ".balign 16",
    ".cfi_startproc",
    ".cfi_signal_frame",
    ".cfi_escape 0x0f, 4, 0x77, 0xa0, 0x01, 0x06",
    ".cfi_escape 0x10, 8, 2, 0x77, 40",
    ".cfi_escape 0x10, 9, 2, 0x77, 48",
    ".cfi_escape 0x10, 10, 2, 0x77, 56",
    ".cfi_escape 0x10, 11, 3, 0x77, 0xc0, 0x00",
    ".cfi_escape 0x10, 12, 3, 0x77, 0xc8, 0x00",
    ".cfi_escape 0x10, 13, 3, 0x77, 0xd0, 0x00",
    ".cfi_escape 0x10, 14, 3, 0x77, 0xd8, 0x00",
    ".cfi_escape 0x10, 15, 3, 0x77, 0xe0, 0x00",
    ".cfi_escape 0x10, 5, 3, 0x77, 0xe8, 0x00",
    ".cfi_escape 0x10, 4, 3, 0x77, 0xf0, 0x00",
    ".cfi_escape 0x10, 6, 3, 0x77, 0xf8, 0x00",
    ".cfi_escape 0x10, 3, 3, 0x77, 0x80, 0x01",
    ".cfi_escape 0x10, 1, 3, 0x77, 0x88, 0x01",
    ".cfi_escape 0x10, 0, 3, 0x77, 0x90, 0x01",
    ".cfi_escape 0x10, 2, 3, 0x77, 0x98, 0x01",
    ".cfi_escape 0x10, 7, 3, 0x77, 0xa0, 0x01",
    ".cfi_escape 0x10, 16, 3, 0x77, 0xa8, 0x01",
    "nop",
    "reenact_restorer:",
    ".byte 0x48, 0xc7, 0xc0", // mov $rt_sigreturn, %rax
    ".long {nr_sigreturn}",
    "syscall",
    ".cfi_endproc",
    "ud2",
    ".popsection",
    //
    // ---- a helper: a thread that does one piece of work while its creator sleeps -------------
    // reenact_helper(flags, stack top, argument, work) -> result
    ".globl reenact_helper",
    "reenact_helper:",
    "mov %rcx, %r9",
    "mov ${nr_clone}, %eax",
    "syscall",
    "test %rax, %rax",
    "jz 2f",
    "ret",
    "2:",
    "mov %rdx, %rdi",
    "call *%r9",
    "mov ${nr_exit}, %eax",
    "xor %edi, %edi",
    "syscall",
    "ud2",
    // Tells a debugger, which finds the program's registers as in a call.
    ".globl reenact_trap",
    "reenact_trap:",
    "push %rbx",
    "push %rbp",
    "mov %rsp, %rbx",
    "mov %gs:{seen_rsp}, %rsp",
    "lea {link}(%rsp), %rbp",
    "int3",
    "mov %rbx, %rsp",
    "pop %rbp",
    "pop %rbx",
    "ret",
    // Makes a call that the supervisor injects into a thread.
    ".globl reenact_call_for_others",
    "reenact_call_for_others:",
    "syscall",
    "ud2",
    //
    // ---- gives up the current call, which is not made yet ------------------------------------
    ".globl reenact_give_up",
    "reenact_give_up:",
    "mov %gs:{this}, %rdi",
    "mov %gs:{stack}, %rsp",
    "jmp reenact_handle_held",
    //
    // ---- rt_sigreturn for the program: %rdi is the address of its ucontext --------------------
    ".globl reenact_sigreturn, reenact_sigreturn_refused",
    "reenact_sigreturn:",
    "mov %gs:{running}, %eax",
    "mov %eax, %gs:{phase}",
    "mov %rdi, %rsp",
    "mov ${nr_sigreturn}, %eax",
    "syscall",
    // Reached only if a filter answers the call.
    "reenact_sigreturn_refused:",
    "mov %rax, %rdi",
    "mov %gs:{stack}, %rsp",
    "jmp reenact_handle_refused",
    //
    // ---- signal handlers: the kernel enters here on the agent's alternate stack -----------
    ".globl reenact_on_sigsys, reenact_on_signal",
    ".balign 16",
    "reenact_on_sigsys:",
    "cld",
    "push %rbp",
    "xor %ecx, %ecx",
    "call reenact_handle_sigsys",
    "jmp 2f",
    ".balign 16",
    "reenact_on_signal:",
    "cld",
    "push %rbp",
    "xor %ecx, %ecx",
    "call reenact_handle_signal",
    "2:",
    "pop %rbp",
    "cmp $1, %rax",
    "je reenact_resume",
    "ja reenact_pass_on",
    "ret",
    //
    // Enters the program's own handler with the kernel's frame. %rsp is at its pretcode.
    "reenact_pass_on:",
    "mov %rax, %rcx",
    "lea {context}(%rsp), %rdx",
    "lea {info}(%rsp), %rsi",
    "mov (%rsi), %edi",
    "xor %eax, %eax",
    "jmp *%rcx",
    // Resumes the interrupted agent code, and leaves the kernel's frame in place. %rsp is at the
    // frame's pretcode; the ucontext follows.
    "reenact_resume:",
    "lea {context}(%rsp), %rsi",
    "mov {fpstate}(%rsi), %rdx",
    "movups {fp_xmm}(%rdx), %xmm0",
    "movups {fp_xmm}+16(%rdx), %xmm1",
    "movups {fp_xmm}+32(%rdx), %xmm2",
    "movups {fp_xmm}+48(%rdx), %xmm3",
    "movups {fp_xmm}+64(%rdx), %xmm4",
    "movups {fp_xmm}+80(%rdx), %xmm5",
    "movups {fp_xmm}+96(%rdx), %xmm6",
    "movups {fp_xmm}+112(%rdx), %xmm7",
    "movups {fp_xmm}+128(%rdx), %xmm8",
    "movups {fp_xmm}+144(%rdx), %xmm9",
    "movups {fp_xmm}+160(%rdx), %xmm10",
    "movups {fp_xmm}+176(%rdx), %xmm11",
    "movups {fp_xmm}+192(%rdx), %xmm12",
    "movups {fp_xmm}+208(%rdx), %xmm13",
    "movups {fp_xmm}+224(%rdx), %xmm14",
    "movups {fp_xmm}+240(%rdx), %xmm15",
    "mov {rip}(%rsi), %rax",
    "mov %rax, %gs:{scratch}",
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
    "push {flags}(%rsi)",
    "popfq",
    "mov {rsp}(%rsi), %rsp",
    "mov {rsi}(%rsi), %rsi",
    "jmp *%gs:{scratch}",
    //
    // Leaves through a kernel frame: %rdi is the address of its pretcode.
    ".globl reenact_leave_by_frame",
    "reenact_leave_by_frame:",
    "lea {context}(%rdi), %rsp",
    "jmp reenact_restorer",
    app_rsp = const offset_of!(Head, app_rsp),
    resume = const offset_of!(Head, resume),
    entering = const offset_of!(Head, entering),
    frame_end = const offset_of!(Head, frame_end),
    stack = const offset_of!(Head, stack_top),
    seen_rsp = const offset_of!(Head, seen_rsp),
    phase = const offset_of!(Head, phase),
    running = const offset_of!(Head, running),
    this = const offset_of!(Head, this),
    site = const offset_of!(Head, site),
    frame = const offset_of!(Head, frame),
    rflags = const offset_of!(Frame, rflags),
    link = const offset_of!(Frame, link),
    info = const offset_of!(SignalFrame, info),
    context = const offset_of!(SignalFrame, context),
    fpstate = const REGISTERS + offset_of!(Registers, fpstate),
    fp_xmm = const fp::XMM,
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
    xmm = const offset_of!(Frame, xmm),
    // Single step, direction, nested task, alignment check, identification.
    rare_flags = const 0x24_4500,
    scratch = const offset_of!(Head, scratch),
    recorded = const phase::RECORDED,
    before = const phase::BEFORE,
    in_call = const phase::IN_CALL,
    nr_sigreturn = const linux_raw_sys::general::__NR_rt_sigreturn,
    nr_clone = const linux_raw_sys::general::__NR_clone,
    nr_exit = const linux_raw_sys::general::__NR_exit,
    options(att_syntax),
);

/// Offset of the registers in a ucontext.
pub(super) const REGISTERS: usize = offset_of!(UContext, regs);

// What the unwinding information of `reenact_restorer` and the pushes of `reenact_entry` say.
const _: () = assert!(REGISTERS == 40 && offset_of!(Registers, rsp) == 120);
const _: () = assert!(offset_of!(Frame, r8) == 48 && offset_of!(Frame, link) == 48 + 18 * 8);
const _: () = assert!(offset_of!(Frame, xmm) == 48 + 20 * 8 && offset_of!(Frame, trampoline) == 0);

/// Addresses of the labels above, to find out where a thread was interrupted.
macro_rules! labels {
    ($($name:ident = $symbol:literal;)*) => {
        $(#[inline(always)]
        pub fn $name() -> u64 {
            let address: u64;
            // SAFETY: `lea` only computes an address.
            unsafe {
                core::arch::asm!(
                    concat!("lea {}, [rip + ", $symbol, "]"),
                    out(reg) address,
                    options(pure, nomem, nostack, preserves_flags),
                );
            }
            address
        })*
    };
}

pub(super) use labels;

labels! {
    bypass = "reenact_bypass";
    entry = "reenact_entry";
    entry_switched = "reenact_entry_switched";
    entry_end = "reenact_entry_end";
    call_begin = "reenact_call";
    call_insn = "reenact_call_insn";
    old_call_begin = "reenact_old_call";
    old_call_insn = "reenact_old_call_insn";
    on_sigsys = "reenact_on_sigsys";
    on_signal = "reenact_on_signal";
    restorer = "reenact_restorer";
    image_start = "reenact_image_start";
    total_end = "reenact_total_end";
    sigreturn_begin = "reenact_sigreturn";
    sigreturn_refused = "reenact_sigreturn_refused";
    text_start = "reenact_text_start";
    text_end = "reenact_text_end";
    constants_end = "reenact_constants_end";
}

/// Calls a routine above directly. For an `extern` declaration the compiler would use a table of
/// addresses, which would need relocation.
macro_rules! call {
    ($symbol:literal, $($register:tt = $value:expr),*) => {{
        let result: u64;
        core::arch::asm!(
            concat!("call ", $symbol),
            $(in($register) $value,)*
            lateout("rax") result,
            clobber_abi("C"),
        );
        result
    }};
}

pub(super) use call;

/// Makes the program's call.
///
/// # Safety
/// The program must have asked for this call.
#[inline(always)]
pub unsafe fn reenact_call(nr: u64, args: *const [u64; 6]) -> i64 {
    // SAFETY: the caller guarantees that the call is the program's; all clobbers are declared.
    unsafe {
        let result: i64;
        core::arch::asm!(
            "lea r12, [rip + 2f]",
            "jmp reenact_call",
            "2:",
            in("rdi") nr,
            in("rsi") args,
            out("r12") _,
            out("r13") _,
            out("r14") _,
            lateout("rax") result,
            clobber_abi("C"),
        );
        result
    }
}

/// Returns to the program with the registers in the frame.
///
/// # Safety
/// The call must have been made, or undone.
#[inline(always)]
pub unsafe fn reenact_leave(frame: &Frame) -> ! {
    // SAFETY: the caller guarantees that the call is finished; control does not come back.
    unsafe {
        core::arch::asm!(
            "mov rsp, {}",
            "jmp reenact_leave",
            in(reg) core::ptr::from_ref(frame),
            options(noreturn),
        )
    }
}

/// Makes the program's call by `int 0x80`.
///
/// # Safety
/// The program must have asked for this call.
pub unsafe fn reenact_old_call(nr: u64, args: *const [u64; 6]) -> i64 {
    // SAFETY: the caller guarantees that the call is the program's.
    unsafe { call!("reenact_old_call", "rdi" = nr, "rsi" = args) as i64 }
}

/// Tells a debugger that traces the thread, or ends the process.
pub fn trap() {
    // SAFETY: it returns with all registers that it must preserve.
    unsafe { call!("reenact_trap",) };
}

/// Makes a clone whose child has its own memory and returns from here too.
///
/// # Safety
/// The program must have asked for this call. Signals must be blocked until the child is set up.
pub unsafe fn reenact_fork(nr: u64, args: *const [u64; 6]) -> i64 {
    // SAFETY: the caller guarantees that the call is the program's and signals are blocked.
    unsafe { call!("reenact_fork", "rdi" = nr, "rsi" = args) as i64 }
}

/// Makes a clone whose child shares memory and continues in `on_child` with the context `child`.
///
/// # Safety
/// The program must have asked for this call. The context and its frame must be complete.
pub unsafe fn reenact_clone(nr: u64, args: *const [u64; 6], child: u64) -> i64 {
    // SAFETY: the caller guarantees that the child finds a complete context and frame.
    unsafe { call!("reenact_clone", "rdi" = nr, "rsi" = args, "rdx" = child) as i64 }
}

/// Starts a thread for one piece of work. Returns its id, or an error.
///
/// # Safety
/// Every signal must be blocked. The flags must make the caller sleep until the thread has ended.
/// The stack must be unused, and `argument` what `work` expects.
pub unsafe fn reenact_helper(
    flags: u64,
    stack_top: u64,
    argument: u64,
    work: extern "C" fn(u64),
) -> i64 {
    let work = work as usize as u64;
    // SAFETY: the caller guarantees a stack for the thread, and sleeps while it runs.
    unsafe {
        call!("reenact_helper", "rdi" = flags, "rsi" = stack_top, "rdx" = argument, "rcx" = work)
            as i64
    }
}

/// Makes rt_sigreturn with this stack pointer: the address of a ucontext.
///
/// # Safety
/// The ucontext must be complete or unreadable; in the latter case the kernel sends SIGSEGV.
pub unsafe fn reenact_sigreturn(rsp: u64) -> ! {
    // SAFETY: the caller guarantees the ucontext; control does not come back.
    unsafe { core::arch::asm!("jmp reenact_sigreturn", in("rdi") rsp, options(noreturn)) }
}

/// Gives up the current call to deliver the signal that is held.
///
/// # Safety
/// The call must not be made yet, and no lock be held.
pub unsafe fn give_up_call() -> ! {
    // SAFETY: the caller guarantees that the call can be undone; control does not come back.
    unsafe { core::arch::asm!("jmp reenact_give_up", options(noreturn)) }
}

/// Leaves through the kernel's signal frame at this address.
///
/// # Safety
/// The frame must be complete.
pub unsafe fn reenact_leave_by_frame(frame: u64) -> ! {
    // SAFETY: the caller guarantees the frame; control does not come back.
    unsafe { core::arch::asm!("jmp reenact_leave_by_frame", in("rdi") frame, options(noreturn)) }
}
