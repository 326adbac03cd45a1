// `int 0x80` from a 64-bit program: the kernel's old door, with the numbers of 32-bit programs.
// count: off
#include "expect.h"

static long old_door(long nr, long a) {
    long ret;
    __asm__ volatile("int $0x80" : "=a"(ret) : "a"(nr), "b"(a) : "memory", "r8", "r9", "r10", "r11");
    return ret;
}

int main(int argc, char **argv) {
    begin(argc, argv);
    // 20 is getpid there, 64 getppid.
    long pid = old_door(20, 0);
    if (pid == -ENOSYS) {
        printf("the kernel has no int 0x80\n");
        return 0;
    }
    for (int i = 0; i < 100; i++) {
        CHECK(old_door(20, 0) == getpid());
        CHECK(old_door(64, 0) == getppid());
    }
    printf("100 times through the old door\n");
    return 0;
}
