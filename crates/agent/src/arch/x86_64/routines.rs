//! Memory routines that the compiler may call.

use core::arch::naked_asm;

#[unsafe(naked)]
#[unsafe(no_mangle)]
extern "C" fn memcpy(to: *mut u8, from: *const u8, len: usize) -> *mut u8 {
    // What the compiler copies is short, and beginning a string instruction takes as long as that.
    naked_asm!(
        "mov rax, rdi",
        "cmp rdx, 16",
        "jb 3f",
        "cmp rdx, 512",
        "ja 4f",
        "movups xmm1, [rsi + rdx - 16]",
        "lea r8, [rdi + rdx - 16]",
        "2:",
        "movups xmm0, [rsi]",
        "movups [rdi], xmm0",
        "add rsi, 16",
        "add rdi, 16",
        "cmp rdi, r8",
        "jb 2b",
        "movups [r8], xmm1",
        "ret",
        "3:",
        "cmp rdx, 8",
        "jb 4f",
        "mov rcx, [rsi]",
        "mov r8, [rsi + rdx - 8]",
        "mov [rdi], rcx",
        "mov [rdi + rdx - 8], r8",
        "ret",
        "4:",
        "mov rcx, rdx",
        "rep movsb",
        "ret",
    )
}

#[unsafe(naked)]
#[unsafe(no_mangle)]
extern "C" fn memmove(to: *mut u8, from: *const u8, len: usize) -> *mut u8 {
    naked_asm!(
        "mov rax, rdi",
        "mov rcx, rdx",
        "mov r8, rdi",
        "sub r8, rsi",
        "cmp r8, rdx",
        "jb 3f",
        "rep movsb",
        "ret",
        "3:",
        "lea rdi, [rdi + rdx - 1]",
        "lea rsi, [rsi + rdx - 1]",
        "std",
        "rep movsb",
        "cld",
        "ret",
    )
}

#[unsafe(naked)]
#[unsafe(no_mangle)]
extern "C" fn memset(to: *mut u8, value: i32, len: usize) -> *mut u8 {
    naked_asm!("mov r8, rdi", "mov eax, esi", "mov rcx, rdx", "rep stosb", "mov rax, r8", "ret")
}

#[unsafe(naked)]
#[unsafe(no_mangle)]
extern "C" fn memcmp(a: *const u8, b: *const u8, len: usize) -> i32 {
    naked_asm!(
        "xor eax, eax",
        "xor ecx, ecx",
        "4:",
        "cmp rcx, rdx",
        "je 5f",
        "movzx eax, byte ptr [rdi + rcx]",
        "movzx r8d, byte ptr [rsi + rcx]",
        "inc rcx",
        "sub eax, r8d",
        "jz 4b",
        "5:",
        "ret",
    )
}

#[unsafe(naked)]
#[unsafe(no_mangle)]
extern "C" fn bcmp(a: *const u8, b: *const u8, len: usize) -> i32 {
    naked_asm!("jmp {}", sym memcmp)
}
