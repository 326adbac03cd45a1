//! Access to program memory, which may be unmapped: a fault at one of these instructions ends it, see
//! [`end_access`](super::places::end_access).

use core::arch::global_asm;

use super::entry::{call, labels};

global_asm!(
    // reenact_copy(to, from, len) -> bytes not copied. A fault at the instruction ends the copy.
    ".globl reenact_copy, reenact_copy_insn, reenact_copy_done",
    ".balign 16",
    "reenact_copy:",
    "mov %rdx, %rcx",
    "reenact_copy_insn:",
    "rep movsb",
    "reenact_copy_done:",
    "mov %rcx, %rax",
    "ret",
    // reenact_load(from, to: *mut u64) -> 0, or 1 on a fault.
    ".globl reenact_load, reenact_load_insn, reenact_load_fault",
    "reenact_load:",
    "reenact_load_insn:",
    "mov (%rdi), %rax",
    "mov %rax, (%rsi)",
    "xor %eax, %eax",
    "ret",
    "reenact_load_fault:",
    "mov $1, %eax",
    "ret",
    options(att_syntax),
);

labels! {
    copy_insn = "reenact_copy_insn";
    copy_done = "reenact_copy_done";
    load_insn = "reenact_load_insn";
    load_fault = "reenact_load_fault";
}

/// Copies memory of which one side may be unmapped. Returns the number of bytes not copied.
///
/// # Safety
/// Faults must be catchable now, and the agent's side must be valid.
#[inline(always)]
pub unsafe fn reenact_copy(to: *mut u8, from: u64, len: u64) -> u64 {
    // SAFETY: the caller guarantees the agent's side; a fault on the other ends the copy.
    unsafe { call!("reenact_copy", "rdi" = to, "rsi" = from, "rdx" = len) }
}

/// Loads a word that may be unmapped. Returns non-zero on a fault.
///
/// # Safety
/// Faults must be catchable now, and `to` must be valid.
#[inline(always)]
pub unsafe fn reenact_load(from: u64, to: *mut u64) -> u64 {
    // SAFETY: the caller guarantees `to`; a fault at `from` is caught.
    unsafe { call!("reenact_load", "rdi" = from, "rsi" = to) }
}
