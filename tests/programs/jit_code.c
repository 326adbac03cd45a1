// Calls made from code that the program wrote itself, into pages that are writable and executable.
#include "expect.h"
#include <sys/mman.h>

int main(int argc, char **argv) {
    begin(argc, argv);
    // mov $110,%eax; syscall; ret -- and the same followed by a nop sled that a patch could use.
    static const unsigned char plain[] = {0xb8, 110, 0, 0, 0, 0x0f, 0x05, 0xc3};
    static const unsigned char roomy[] = {0xb8, 110, 0, 0, 0, 0x0f, 0x05, 0x48, 0x89, 0xc0, 0x90, 0xc3};
    unsigned char *page = mmap(NULL, 8192, PROT_READ | PROT_WRITE | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    CHECK(page != MAP_FAILED);
    long calls = 0;
    for (int round = 0; round < 200; round++) {
        // The code is rewritten again and again, at places that overlap.
        unsigned char *at = page + random_word() % 4000;
        int kind = (int)(random_word() % 2);
        memset(page, 0xcc, 8192);
        memcpy(at, kind ? plain : roomy, kind ? sizeof plain : sizeof roomy);
        long (*code)(void) = (long (*)(void))at;
        for (int i = 0; i < 10; i++, calls++) CHECK(code() == getppid());
        // What the program wrote is what it reads.
        CHECK(memcmp(at, kind ? plain : roomy, 5) == 0);
    }
    // The same page, first writable, then executable, then gone.
    for (int round = 0; round < 20; round++) {
        unsigned char *once = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        memcpy(once + 40, roomy, sizeof roomy);
        CHECK(mprotect(once, 4096, PROT_READ | PROT_EXEC) == 0);
        for (int i = 0; i < 10; i++, calls++) CHECK(((long (*)(void))(once + 40))() == getppid());
        CHECK(munmap(once, 4096) == 0);
    }
    EXPECT_COUNT("getppid", 2 * calls);
    return 0;
}
