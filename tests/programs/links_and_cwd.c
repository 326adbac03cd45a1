// readlink, readlinkat and getcwd: text without and with its NUL.
#include "expect.h"

int main(int argc, char **argv) {
    begin(argc, argv);
    char target[200], got[400];
    for (size_t i = 0; i < sizeof target - 1; i++) target[i] = (char)('a' + random_word() % 26);
    target[sizeof target - 1] = 0;
    CHECK(symlink(target, "link") == 0);
    EXPECT("symlink", 0, TEXT(target));
    CHECK(readlink("link", got, sizeof got) == sizeof target - 1);
    CHECK(memcmp(got, target, sizeof target - 1) == 0);
    EXPECT("readlink", sizeof target - 1, DATA(got, sizeof target - 1));
    // The buffer is shorter than the target: what fits is what comes.
    CHECK(readlinkat(AT_FDCWD, "link", got, 50) == 50);
    EXPECT("readlinkat", 50, DATA(got, 50));
    CHECK(readlink("nothing", got, sizeof got) == -1 && errno == ENOENT);
    EXPECT_ERRNO("readlink", ENOENT);
    long n = syscall(SYS_getcwd, got, sizeof got);
    CHECK(n > 1 && got[n - 1] == 0);
    EXPECT("getcwd", n, DATA(got, (size_t)n));
    CHECK(syscall(SYS_getcwd, got, 1) == -1 && errno == ERANGE);
    EXPECT_ERRNO("getcwd", ERANGE);
    return 0;
}
