//! The first instructions of a new image, in assembly: they temporarily overwrite the program's
//! entry point, start the agent and return to the program.
//!
//! Starting the agent is `reenact_handle_start`, with the parameters and the program's stack; it
//! returns the program's entry point. `reenact_space` begins with the area of the first thread.
//!
//! If anything fails, the entry point is restored and the program starts without the agent.

use core::arch::global_asm;
use core::mem::offset_of;

use super::head::STACK_END;
use crate::text_map::Map;

/// Size of stage 2 with its parameters, and its distance below the stack pointer.
const STAGE2_ROOM: usize = 1536;
const STAGE2_BELOW: usize = 2048;

/// Maximum number of mappings passed by the supervisor: the program and its interpreter.
pub const MAPS_MAX: usize = 4;
/// Maximum number of bytes that stage 1 overwrites.
pub const SAVED_MAX: usize = 64;

/// Parameters that the supervisor places behind stage 2, in this order.
#[repr(C)]
pub struct Parameters {
    pub image_shm: u64,
    pub catalog_shm: u64,
    pub arena_shm: u64,
    /// Size of the image, and of the image with its private memory.
    pub image_len: u64,
    pub total_len: u64,
    /// Offset of `reenact_start` in the image.
    pub start: u64,
    pub slot: u64,
    /// Number of pool chunks; not read from the arena, which programs can write.
    pub pool_chunks: u64,
    /// The program's entry point, and the pages that hold stage 1.
    pub entry: u64,
    pub page: u64,
    pub page_len: u64,
    pub page_prot: u64,
    pub stage1_len: u64,
    /// If segments cannot be attached by id: size of the arena, which comes as a descriptor
    /// together with another one for image and catalog. Otherwise 0.
    pub arena_len: u64,
    /// Addresses at which stage 2 has mapped arena and catalog in that case.
    pub arena_at: u64,
    pub catalog_at: u64,
    /// Where the agent's memory is to begin; 0: anywhere.
    pub hint: u64,
    /// Where the image is to be, if that is free; 0: anywhere.
    pub image_at: u64,
    pub maps: [Map; MAPS_MAX],
    pub saved: [u8; SAVED_MAX],
}

global_asm!(
    // Register state of a new program.
    ".macro zero_registers",
    "xor %eax, %eax",
    "xor %ebx, %ebx",
    "xor %ecx, %ecx",
    "xor %edx, %edx",
    "xor %esi, %esi",
    "xor %edi, %edi",
    "xor %ebp, %ebp",
    "xor %r8d, %r8d",
    "xor %r9d, %r9d",
    "xor %r10d, %r10d",
    "xor %r11d, %r11d",
    "xor %r12d, %r12d",
    "xor %r13d, %r13d",
    "xor %r14d, %r14d",
    "xor %r15d, %r15d",
    ".endm",
    // Stage 1 overwrites the entry point; it copies stage 2 from below the stack to a page.
    ".globl reenact_stage1, reenact_stage1_end, reenact_stage2, reenact_stage2_end",
    "reenact_stage1:",
    "mov $9, %eax",
    "xor %edi, %edi",
    "mov ${stage2_room}, %esi",
    "mov $7, %edx",
    "mov $0x22, %r10d",
    "or $-1, %r8",
    "xor %r9d, %r9d",
    "syscall",
    "mov %rax, %rdi",
    "lea -{stage2_below}(%rsp), %rsi",
    "mov ${stage2_room}, %ecx",
    "rep movsb",
    "jmp *%rax",
    "reenact_stage1_end:",
    // Stage 2: map zeroed private memory, attach the image over its start.
    "reenact_stage2:",
    "mov %rax, %rbx",
    "lea reenact_stage2_end(%rip), %rbp", // the parameters follow the code
    "or $-1, %r14d",
    "or $-1, %r15d",
    "cmpq $0, {p_arena_len}(%rbp)",
    "je 1f",
    // If segments cannot be attached, two descriptors arrive through a socket pair: the arena, and
    // the image with the catalog. The supervisor takes the other end of the pair when it sees this
    // call return. If the supervisor is gone, the socket is empty.
    "mov $53, %eax",
    "mov $1, %edi",        // AF_UNIX
    "mov $0x80002, %esi",  // SOCK_DGRAM | SOCK_CLOEXEC
    "xor %edx, %edx",
    "lea {pair}(%rbx), %r10",
    "syscall",
    "test %eax, %eax",
    "jnz 9f",
    "lea {p_slot}(%rbp), %rax",
    "mov %rax, {vector}(%rbx)",
    "movq $8, {vector}+8(%rbx)",
    "lea {vector}(%rbx), %rax",
    "mov %rax, {message}+16(%rbx)",
    "movq $1, {message}+24(%rbx)",
    "lea {control}(%rbx), %rax",
    "mov %rax, {message}+32(%rbx)",
    "movq $24, {message}+40(%rbx)",
    "mov $47, %eax",
    "mov {pair}(%rbx), %edi",
    "lea {message}(%rbx), %rsi",
    "mov $0x40000040, %edx", // MSG_DONTWAIT | MSG_CMSG_CLOEXEC
    "syscall",
    "mov %rax, %r13",
    "mov $3, %eax",
    "mov {pair}(%rbx), %edi",
    "syscall",
    "mov $3, %eax",
    "mov {pair}+4(%rbx), %edi",
    "syscall",
    "cmp $8, %r13",
    "jne 9f",
    "cmpq $24, {control}(%rbx)", // a header and two descriptors
    "jne 9f",
    "mov {control}+16(%rbx), %r14d",
    "mov {control}+20(%rbx), %r15d",
    "mov $9, %eax",
    "xor %edi, %edi",
    "mov {p_arena_len}(%rbp), %rsi",
    "mov $3, %edx",
    "mov $0x4001, %r10d", // MAP_SHARED | MAP_NORESERVE
    "mov %r14d, %r8d",
    "xor %r9d, %r9d",
    "syscall",
    "cmp $-4096, %rax",
    "ja 9f",
    "mov %rax, {p_arena_at}(%rbp)",
    "mov $9, %eax",
    "xor %edi, %edi",
    "mov ${catalog_bytes}, %esi",
    "mov $1, %edx",
    "mov $0x4001, %r10d",
    "mov %r15d, %r8d",
    "mov {p_image}(%rbp), %r9",
    "syscall",
    "cmp $-4096, %rax",
    "ja 9f",
    "mov %rax, {p_catalog_at}(%rbp)",
    "1:",
    "mov $9, %eax",
    "mov {p_image_at}(%rbp), %rdi",
    "mov {p_total}(%rbp), %rsi",
    "mov $3, %edx",
    "mov $0x4022, %r10d", // MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE
    "or $-1, %r8",
    "xor %r9d, %r9d",
    "syscall",
    "cmp $-4096, %rax",
    "ja 9f",
    "mov %rax, %r12",
    "test %r15d, %r15d",
    "js 2f",
    "mov $9, %eax",
    "mov %r12, %rdi",
    "mov {p_image}(%rbp), %rsi",
    "mov $5, %edx",
    "mov $0x12, %r10d", // MAP_PRIVATE | MAP_FIXED
    "mov %r15d, %r8d",
    "xor %r9d, %r9d",
    "syscall",
    "cmp $-4096, %rax",
    "ja 9f",
    "mov $3, %eax",
    "mov %r14d, %edi",
    "syscall",
    "mov $3, %eax",
    "mov %r15d, %edi",
    "syscall",
    "jmp 3f",
    "2:",
    "mov $30, %eax",
    "mov {p_image_shm}(%rbp), %rdi",
    "mov %r12, %rsi",
    "mov $0xd000, %edx", // SHM_RDONLY | SHM_REMAP | SHM_EXEC
    "syscall",
    "cmp $-4096, %rax",
    "ja 9f",
    "3:",
    "mov {p_start}(%rbp), %rax",
    "add %r12, %rax",
    "mov %rbp, %rdi", // parameters
    "mov %rsp, %rsi", // the program's stack
    "jmp *%rax",
    // No agent: put the entry point's bytes back and start the program.
    "9:",
    "test %r14d, %r14d",
    "js 4f",
    "mov $3, %eax",
    "mov %r14d, %edi",
    "syscall",
    "mov $3, %eax",
    "mov %r15d, %edi",
    "syscall",
    "4:",
    "mov $10, %eax",
    "mov {p_page}(%rbp), %rdi",
    "mov {p_page_len}(%rbp), %rsi",
    "mov $7, %edx",
    "syscall",
    "mov {p_entry}(%rbp), %rdi",
    "lea {p_saved}(%rbp), %rsi",
    "mov $(reenact_stage1_end - reenact_stage1), %ecx",
    "rep movsb",
    "mov $10, %eax",
    "mov {p_page}(%rbp), %rdi",
    "mov {p_page_len}(%rbp), %rsi",
    "mov {p_page_prot}(%rbp), %rdx",
    "syscall",
    "mov {p_entry}(%rbp), %rax",
    "push %rax",
    "zero_registers",
    "ret",
    ".balign 8",
    "reenact_stage2_end:",
    //
    // The agent's first instructions: fill in the table of addresses (base + addend each), set up a
    // stack, call Rust, then go to the program's entry point.
    ".globl reenact_start",
    "reenact_start:",
    "lea reenact_image_start(%rip), %rax",
    "lea reenact_rela_start(%rip), %rcx",
    "lea reenact_rela_end(%rip), %rdx",
    "6:",
    "cmp %rdx, %rcx",
    "jae 7f",
    "mov (%rcx), %r8",
    "mov 16(%rcx), %r9",
    "add %rax, %r9",
    "mov %r9, (%rax,%r8)",
    "add $24, %rcx",
    "jmp 6b",
    "7:",
    "lea reenact_space+{stack_end}(%rip), %rsp",
    "push %rsi",
    "push %rsi",
    "call reenact_handle_start",
    // %rax is the program's entry point.
    "pop %rsp",
    "push %rax",
    "zero_registers",
    "ret",
    stage2_room = const STAGE2_ROOM,
    stage2_below = const STAGE2_BELOW,
    p_total = const offset_of!(Parameters, total_len),
    p_image = const offset_of!(Parameters, image_len),
    p_image_shm = const offset_of!(Parameters, image_shm),
    p_start = const offset_of!(Parameters, start),
    p_page = const offset_of!(Parameters, page),
    p_page_len = const offset_of!(Parameters, page_len),
    p_page_prot = const offset_of!(Parameters, page_prot),
    p_entry = const offset_of!(Parameters, entry),
    p_slot = const offset_of!(Parameters, slot),
    p_arena_len = const offset_of!(Parameters, arena_len),
    p_arena_at = const offset_of!(Parameters, arena_at),
    p_catalog_at = const offset_of!(Parameters, catalog_at),
    p_image_at = const offset_of!(Parameters, image_at),
    catalog_bytes = const ring::CATALOG_BYTES,
    // After stage 2, in its page: a msghdr, an iovec, control data, a pair of descriptors.
    message = const STAGE2_ROOM,
    vector = const STAGE2_ROOM + 64,
    control = const STAGE2_ROOM + 80,
    pair = const STAGE2_ROOM + 104,
    p_saved = const offset_of!(Parameters, saved),
    stack_end = const STACK_END,
    options(att_syntax),
);

const _: () = assert!(STAGE2_BELOW >= STAGE2_ROOM + 128 && STAGE2_ROOM < 3072);
