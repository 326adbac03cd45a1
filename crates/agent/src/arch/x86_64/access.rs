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
    // reenact_stream(to, from, len) -> bytes not copied. `to` is a multiple of 8. Whole lines of the
    // caches go past them to memory. A fault before the last instruction goes on there, and ends the
    // copy if the memory is missing there too.
    ".globl reenact_stream, reenact_stream_rest, reenact_stream_done",
    ".balign 16",
    "reenact_stream:",
    "mov %rdx, %rcx",
    "2: test $63, %dil",
    "jz 3f",
    "cmp $8, %rcx",
    "jb reenact_stream_rest",
    "mov (%rsi), %rax",
    "mov %rax, (%rdi)",
    "add $8, %rsi",
    "add $8, %rdi",
    "sub $8, %rcx",
    "jmp 2b",
    "3: cmp $64, %rcx",
    "jb reenact_stream_rest",
    "movups (%rsi), %xmm0",
    "movups 16(%rsi), %xmm1",
    "movups 32(%rsi), %xmm2",
    "movups 48(%rsi), %xmm3",
    "movntps %xmm0, (%rdi)",
    "movntps %xmm1, 16(%rdi)",
    "movntps %xmm2, 32(%rdi)",
    "movntps %xmm3, 48(%rdi)",
    "add $64, %rsi",
    "add $64, %rdi",
    "sub $64, %rcx",
    "jmp 3b",
    "reenact_stream_rest:",
    "rep movsb",
    "reenact_stream_done:",
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
    // reenact_store(to, word: u32) -> 0, or 1 on a fault.
    ".globl reenact_store, reenact_store_insn, reenact_store_fault",
    "reenact_store:",
    "reenact_store_insn:",
    "mov %esi, (%rdi)",
    "xor %eax, %eax",
    "ret",
    "reenact_store_fault:",
    "mov $1, %eax",
    "ret",
    options(att_syntax),
);

labels! {
    copy_insn = "reenact_copy_insn";
    copy_done = "reenact_copy_done";
    stream_begin = "reenact_stream";
    stream_rest = "reenact_stream_rest";
    stream_done = "reenact_stream_done";
    load_insn = "reenact_load_insn";
    load_fault = "reenact_load_fault";
    store_insn = "reenact_store_insn";
    store_fault = "reenact_store_fault";
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

/// The same past the caches, to an address that is a multiple of 8: they keep what they have, and need not fetch
/// what is overwritten. Nobody may be told of it before
/// [`stores_are_seen`](super::processor::stores_are_seen).
///
/// # Safety
/// As for [`reenact_copy`].
#[inline(always)]
pub unsafe fn reenact_stream(to: *mut u8, from: u64, len: u64) -> u64 {
    // SAFETY: the caller guarantees the agent's side; a fault on the other ends the copy.
    unsafe { call!("reenact_stream", "rdi" = to, "rsi" = from, "rdx" = len) }
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

/// Stores half a word, at once, to memory that may be unmapped. Returns non-zero on a fault.
///
/// # Safety
/// Faults must be catchable now.
#[inline(always)]
pub unsafe fn reenact_store(to: u64, word: u32) -> u64 {
    // SAFETY: a fault at `to` is caught.
    unsafe { call!("reenact_store", "rdi" = to, "rsi" = u64::from(word)) }
}
