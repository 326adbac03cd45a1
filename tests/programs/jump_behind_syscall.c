// Code that jumps to the instruction right behind a `syscall`: replacing that instruction together
// with the syscall would break it.
// flags: -fcf-protection=none
#include "expect.h"

long both_ways(long make_the_call);
__asm__(".text\n"
        ".globl both_ways\n"
        "both_ways:\n"
        "mov $1000, %eax\n"
        "xor %edx, %edx\n"
        "test %rdi, %rdi\n"
        "jz 1f\n" // straight behind the syscall
        "mov $110, %eax\n"
        "syscall\n"
        "1:\n"
        "mov %rax, %rdx\n"
        "lea 1(%rdx), %rax\n"
        "ret\n"
        // The same through a register, from a distance.
        ".globl by_register\n"
        "by_register:\n"
        "mov %rdi, %r8\n"
        "mov $110, %eax\n"
        "test %rdi, %rdi\n"
        "jnz 2f\n"
        "lea 3f(%rip), %rcx\n"
        "mov $2000, %eax\n"
        "jmp *%rcx\n"
        "2:\n"
        "syscall\n"
        "3:\n"
        "mov %rax, %rdx\n"
        "mov %rdx, %rax\n"
        "ret\n"
        // A loop whose head is the instruction behind the syscall.
        ".globl loop_behind\n"
        "loop_behind:\n"
        "mov $110, %eax\n"
        "syscall\n"
        "4:\n"
        "add $3, %rax\n"
        "dec %rdi\n"
        "jnz 4b\n"
        "ret\n");
long by_register(long make_the_call);
long loop_behind(long rounds);

int main(int argc, char **argv) {
    begin(argc, argv);
    long parent = getppid();
    for (int i = 0; i < 200; i++) {
        CHECK(both_ways(1) == parent + 1);
        CHECK(both_ways(0) == 1001);
        CHECK(by_register(1) == parent);
        CHECK(by_register(0) == 2000);
        CHECK(loop_behind(5) == parent + 15);
    }
    EXPECT_COUNT("getppid", 601);
    return 0;
}
