// The family around mmap.
#include "expect.h"
#include <sys/mman.h>

enum { PAGE = 4096, LEN = 16 * PAGE };

// What was stored to memory is read under other names.
static void read_as(const char *name, const char *expected) {
    static char in[LEN];
    int fd = open(name, O_RDONLY);
    CHECK(fd >= 0 && read(fd, in, LEN) == LEN && memcmp(in, expected, LEN) == 0);
    EXPECT("read", LEN, DATA(in, LEN));
    CHECK(close(fd) == 0);
}

static void renamed(void) {
    CHECK(mkdir("built", 0700) == 0);
    int fd = open("built/unfinished", O_RDWR | O_CREAT | O_EXCL, 0700);
    CHECK(fd >= 0 && ftruncate(fd, LEN) == 0);
    char *shared = mmap(NULL, LEN, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    CHECK(shared != MAP_FAILED && close(fd) == 0);
    fill(shared, LEN);
    CHECK(rename("built/unfinished", "built/finished") == 0);
    read_as("built/finished", shared);
    CHECK(link("built/finished", "second") == 0);
    read_as("second", shared);
    CHECK(rename("built", "moved") == 0);
    read_as("moved/finished", shared);
    CHECK(mkdir("other", 0700) == 0);
    CHECK(renameat2(AT_FDCWD, "other", AT_FDCWD, "moved", RENAME_EXCHANGE) == 0);
    read_as("other/finished", shared);
    CHECK(munmap(shared, LEN) == 0);
}

int main(int argc, char **argv) {
    begin(argc, argv);
    int fd = open("file", O_RDWR | O_CREAT | O_TRUNC, 0600);
    CHECK(fd >= 0 && ftruncate(fd, LEN) == 0);
    EXPECT("ftruncate", 0);
    char *shared = mmap(NULL, LEN, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    CHECK(shared != MAP_FAILED);
    EXPECT("mmap", (long)shared, TEXT("MAP_SHARED"), TEXT("PROT_WRITE"));
    fill(shared, LEN);
    CHECK(msync(shared, LEN, MS_SYNC) == 0);
    EXPECT("msync", 0, TEXT("MS_SYNC"));
    static char in[LEN];
    CHECK(pread(fd, in, LEN, 0) == LEN && memcmp(in, shared, LEN) == 0);
    EXPECT("pread64", LEN, DATA(in, LEN));
    unsigned char resident[16];
    CHECK(mincore(shared, LEN, resident) == 0 && (resident[0] & 1));
    EXPECT("mincore", 0, DATA(resident, sizeof resident));
    CHECK(madvise(shared, LEN, MADV_WILLNEED) == 0);
    EXPECT("madvise", 0, TEXT("MADV_WILLNEED"));
    CHECK(mprotect(shared, PAGE, PROT_READ) == 0);
    EXPECT("mprotect", 0, TEXT("PROT_READ"));
    char *plain = mmap(NULL, PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    CHECK(plain != MAP_FAILED);
    plain = mremap(plain, PAGE, 8 * PAGE, MREMAP_MAYMOVE);
    CHECK(plain != MAP_FAILED);
    EXPECT("mremap", (long)plain, TEXT("MREMAP_MAYMOVE"));
    plain[8 * PAGE - 1] = 1;
    CHECK(mlock(plain, PAGE) == 0 && munlock(plain, PAGE) == 0);
    EXPECT("mlock", 0);
    CHECK(munmap(plain, 8 * PAGE) == 0);
    EXPECT("munmap", 0);
    CHECK(mmap(NULL, 0, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0) == MAP_FAILED && errno == EINVAL);
    EXPECT_ERRNO("mmap", EINVAL);
    // Data straight from a mapping to a file and back, at unaligned addresses.
    char spare[5000];
    memcpy(spare, shared + 2 * PAGE + 3, sizeof spare);
    CHECK(pwrite(fd, shared + 2 * PAGE + 3, sizeof spare, 9 * PAGE + 1) == sizeof spare);
    EXPECT("pwrite64", sizeof spare, DATA(spare, sizeof spare));
    CHECK(pread(fd, shared + 9 * PAGE + 5, 777, 3) == 777);
    EXPECT("pread64", 777, DATA(shared + 9 * PAGE + 5, 777));
    void *brk_now = (void *)syscall(SYS_brk, 0);
    EXPECT("brk", (long)brk_now);
    renamed();
    return 0;
}
