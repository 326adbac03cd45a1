// What a program has unmapped stays unmapped, whatever the recording needs memory for meanwhile.
#include "expect.h"
#include <sys/mman.h>
#include <sys/syscall.h>

enum { PIECE = 64 << 10, PIECES = 2048, HOLES = 64 };

// A call of this program's own, so that those of the library are all new when the holes are there.
static long own_call(long number, long one, long two, long three, long four) {
    register long r10 __asm__("r10") = four;
    register long r8 __asm__("r8") = -1;
    register long r9 __asm__("r9") = 0;
    long ret;
    __asm__ volatile("syscall\n\tnop\n\tnop\n\tnop\n\tnop\n\tnop"
                     : "=a"(ret)
                     : "0"(number), "D"(one), "S"(two), "d"(three), "r"(r10), "r"(r8), "r"(r9)
                     : "rcx", "r11", "memory");
    return ret;
}

int main(int argc, char **argv) {
    begin(argc, argv);
    static char *pieces[PIECES];
    int flags = MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE;
    // The first ones fill what is free between libraries; so the holes are where the kernel looks first.
    for (int i = 0; i < PIECES; i++) {
        pieces[i] = (char *)own_call(SYS_mmap, 0, PIECE, PROT_READ | PROT_WRITE, flags);
        CHECK((long)pieces[i] > 0);
    }
    for (int i = 0; i < HOLES; i++) CHECK(own_call(SYS_munmap, (long)pieces[i * 2], PIECE, 0, 0) == 0);
    for (int i = 0; i < 300; i++) {
        CHECK(getppid() > 0 && access("nowhere", F_OK) == -1 && getuid() == geteuid());
    }
    unsigned char there;
    for (int i = 0; i < HOLES; i++) {
        long ret = own_call(SYS_mincore, (long)pieces[i * 2], PIECE, (long)&there, 0);
        CHECK(ret == -ENOMEM);
    }
    return 0;
}
