// flags: -nostdlib -static -fno-stack-protector -O1
// A program without any library, from its first instruction to its last.
typedef unsigned long word;

static long call3(long nr, long a, long b, long c) {
    long ret;
    __asm__ volatile("syscall" : "=a"(ret) : "a"(nr), "D"(a), "S"(b), "d"(c) : "rcx", "r11", "memory");
    return ret;
}

static const char line[] = "EXPECT_COUNT call=getppid count=1000\nEXPECT call=write ret=10 data=50c0aafd8b4330b2:10\n";

void begin_here(void) {
    for (int i = 0; i < 1000; i++)
        if (call3(110, 0, 0, 0) <= 0) call3(231, 1, 0, 0);
    long fd = call3(2, (long)"file", 0101, 0600);
    long written = call3(1, fd, (long)"0123456789", 10);
    call3(1, 1, (long)line, sizeof line - 1);
    call3(231, written == 10 ? 0 : 1, 0, 0);
    __builtin_unreachable();
}
__asm__(".globl _start\n_start:\nxor %ebp, %ebp\nand $-16, %rsp\ncall begin_here\n");
