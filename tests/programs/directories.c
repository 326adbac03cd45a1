// getdents64 over enough names to need several calls.
#include "expect.h"

int main(int argc, char **argv) {
    begin(argc, argv);
    CHECK(mkdir("many", 0700) == 0);
    EXPECT("mkdir", 0, TEXT("many"));
    char name[64];
    for (int i = 0; i < 300; i++) {
        snprintf(name, sizeof name, "many/file-%03d-%016llx", i, (unsigned long long)random_word());
        int fd = open(name, O_WRONLY | O_CREAT | O_EXCL, 0600);
        CHECK(fd >= 0 && close(fd) == 0);
    }
    int dir = open("many", O_RDONLY | O_DIRECTORY);
    CHECK(dir >= 0);
    static char entries[4096] __attribute__((aligned(8)));
    int seen = 0, calls = 0;
    long n;
    while ((n = syscall(SYS_getdents64, dir, entries, sizeof entries)) > 0) {
        EXPECT("getdents64", n, DATA(entries, (size_t)n));
        calls++;
        for (long at = 0; at < n; at += *(uint16_t *)(entries + at + 16)) seen++;
    }
    CHECK(n == 0 && seen == 302 && calls > 2);
    EXPECT("getdents64", 0);
    CHECK(lseek(dir, 0, SEEK_SET) == 0);
    n = syscall(SYS_getdents, dir, entries, sizeof entries);
    CHECK(n > 0);
    EXPECT("getdents", n, DATA(entries, (size_t)n));

    // Back to a place in the middle, to the end, and beyond.
    off_t middle = lseek(dir, 0, SEEK_CUR);
    CHECK(middle > 0);
    for (int again = 0; again < 3; again++) {
        while ((n = syscall(SYS_getdents64, dir, entries, sizeof entries)) > 0) {
        }
        CHECK(n == 0 && syscall(SYS_getdents64, dir, entries, sizeof entries) == 0);
        CHECK(lseek(dir, middle, SEEK_SET) == middle);
    }
    CHECK(syscall(SYS_getdents64, dir, entries, 10) == -1 && errno == EINVAL);
    EXPECT_ERRNO("getdents64", EINVAL);
    CHECK(rmdir("many") == -1 && errno == ENOTEMPTY);
    CHECK(mkdir("gone", 0700) == 0);
    int gone = open("gone", O_RDONLY | O_DIRECTORY);
    CHECK(gone >= 0 && rmdir("gone") == 0);
    CHECK(syscall(SYS_getdents64, gone, entries, sizeof entries) == -1 && errno == ENOENT);
    EXPECT_ERRNO("getdents64", ENOENT);
    return 0;
}
