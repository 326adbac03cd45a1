// A call changes rax, rcx and r11 and nothing else: general registers, vector registers, flags, the
// red zone below the stack pointer.
// flags: -mno-red-zone -fcf-protection=none
#include "expect.h"

struct state {
    uint64_t general[13]; // rbx rdx rsi rdi rbp r8 r9 r10 r12 r13 r14 r15 rflags
    uint8_t vector[16][32];
    uint64_t red_zone[16];
};

static struct state before __attribute__((aligned(64))), after __attribute__((aligned(64)));
static int with_ymm;

// Loads everything from `before`, makes call `nr`, stores everything to `after`.
long call_with(const struct state *before, struct state *after, long nr, int ymm);
__asm__(".text\n"
        ".globl call_with\n"
        "call_with:\n"
        "push %rbx\n push %rbp\n push %r12\n push %r13\n push %r14\n push %r15\n"
        "push %rsi\n" // after
        "mov %rdi, %r11\n"
        "mov %rdx, %rax\n"
        "test %ecx, %ecx\n"
        "jz 1f\n"
        ".set i, 0\n"
        ".irp reg,0,1,2,3,4,5,6,7,8,9,10,11,12,13,14,15\n"
        "vmovdqu 104+\\reg*32(%r11), %ymm\\reg\n"
        ".endr\n"
        "jmp 2f\n"
        "1:\n"
        ".irp reg,0,1,2,3,4,5,6,7,8,9,10,11,12,13,14,15\n"
        "movdqu 104+\\reg*32(%r11), %xmm\\reg\n"
        ".endr\n"
        "2:\n"
        // The red zone: 128 bytes below the stack pointer.
        ".irp word,0,1,2,3,4,5,6,7,8,9,10,11,12,13,14,15\n"
        "mov 616+\\word*8(%r11), %rbx\n"
        "mov %rbx, -128+\\word*8(%rsp)\n"
        ".endr\n"
        "mov 0(%r11), %rbx\n mov 8(%r11), %rdx\n mov 16(%r11), %rsi\n mov 24(%r11), %rdi\n"
        "mov 32(%r11), %rbp\n mov 40(%r11), %r8\n mov 48(%r11), %r9\n mov 56(%r11), %r10\n"
        "mov 64(%r11), %r12\n mov 72(%r11), %r13\n mov 80(%r11), %r14\n mov 88(%r11), %r15\n"
        // Carry, sign, overflow, direction stay clear of nothing: set carry and sign.
        "push %rax\n"
        // The push wrote into the red zone's last word; restore it below.
        "mov 96(%r11), %rcx\n"
        "push %rcx\n popf\n"
        "pop %rax\n"
        "mov 616+120(%r11), %rcx\n"
        "mov %rcx, -8(%rsp)\n"
        "mov 616+112(%r11), %rcx\n"
        "mov %rcx, -16(%rsp)\n"
        "syscall\n"
        "mov (%rsp), %r11\n" // after
        "mov %rbx, 0(%r11)\n"
        ".irp word,0,1,2,3,4,5,6,7,8,9,10,11,12,13,14,15\n"
        "mov -128+\\word*8(%rsp), %rcx\n"
        "mov %rcx, 616+\\word*8(%r11)\n"
        ".endr\n"
        "pushf\n pop %rcx\n mov %rcx, 96(%r11)\n"
        "mov %rdx, 8(%r11)\n mov %rsi, 16(%r11)\n mov %rdi, 24(%r11)\n"
        "mov %rbp, 32(%r11)\n mov %r8, 40(%r11)\n mov %r9, 48(%r11)\n mov %r10, 56(%r11)\n"
        "mov %r12, 64(%r11)\n mov %r13, 72(%r11)\n mov %r14, 80(%r11)\n mov %r15, 88(%r11)\n"
        "lea with_ymm_symbol(%rip), %rcx\n"
        "cmpl $0, (%rcx)\n"
        "je 3f\n"
        ".irp reg,0,1,2,3,4,5,6,7,8,9,10,11,12,13,14,15\n"
        "vmovdqu %ymm\\reg, 104+\\reg*32(%r11)\n"
        ".endr\n"
        "vzeroupper\n"
        "jmp 4f\n"
        "3:\n"
        ".irp reg,0,1,2,3,4,5,6,7,8,9,10,11,12,13,14,15\n"
        "movdqu %xmm\\reg, 104+\\reg*32(%r11)\n"
        ".endr\n"
        "4:\n"
        "pushq $0x202\n popf\n cld\n"
        "pop %rsi\n"
        "pop %r15\n pop %r14\n pop %r13\n pop %r12\n pop %rbp\n pop %rbx\n"
        "ret\n");
int with_ymm_symbol;

static void once(long nr, uint64_t flags) {
    fill(&before, sizeof before);
    before.general[12] = flags;
    memset(&after, 0, sizeof after);
    // Arguments that are random numbers: the calls used here take none, or fail on them.
    call_with(&before, &after, nr, with_ymm);
    for (int i = 0; i < 12; i++) {
        if (before.general[i] != after.general[i]) {
            fprintf(stderr, "call %ld: general register %d changed from %016llx to %016llx\n", nr, i,
                    (unsigned long long)before.general[i], (unsigned long long)after.general[i]);
            _exit(1);
        }
    }
    CHECK((after.general[12] & 0xcd5) == (flags & 0xcd5));
    for (int i = 0; i < 16; i++) {
        if (memcmp(before.vector[i], after.vector[i], with_ymm ? 32 : 16)) {
            fprintf(stderr, "call %ld: vector register %d changed\n", nr, i);
            _exit(1);
        }
    }
    CHECK(memcmp(before.red_zone, after.red_zone, sizeof before.red_zone) == 0);
}

int main(int argc, char **argv) {
    begin(argc, argv);
    with_ymm = with_ymm_symbol = __builtin_cpu_supports("avx2") ? 1 : 0;
    static const uint64_t flags[] = {0x202, 0x203, 0x282, 0xa02, 0x2d7, 0xad7, 0x602};
    for (int round = 0; round < 60; round++) {
        once(SYS_getppid, flags[round % 7]);
        // Calls with buffers, whose pointers are random: EFAULT or EBADF.
        once(SYS_write, flags[round % 7]);
        once(SYS_read, flags[round % 7]);
        once(SYS_uname, flags[round % 7]);
        once(SYS_rt_sigprocmask, flags[round % 7]);
        once(SYS_rt_sigaction, flags[round % 7]);
        once(600, flags[round % 7]);
    }
    EXPECT_COUNT("getppid", 60);
    EXPECT_COUNT("uname", 60);
    return 0;
}
