// stat in all its forms, statx and statfs, each structure byte for byte.
#include "expect.h"
#include <sys/statfs.h>

int main(int argc, char **argv) {
    begin(argc, argv);
    int fd = open("file", O_RDWR | O_CREAT | O_TRUNC, 0640);
    CHECK(fd >= 0 && ftruncate(fd, (off_t)random_len(1 << 20)) == 0);
    CHECK(symlink("file", "link") == 0);
    EXPECT("symlink", 0, TEXT("file"), TEXT("link"));
    struct stat one, two;
    memset(&one, 0, sizeof one);
    CHECK(syscall(SYS_stat, "file", &one) == 0);
    EXPECT("stat", 0, DATA(&one, sizeof one), TEXT("file"));
    CHECK(syscall(SYS_fstat, fd, &two) == 0 && two.st_ino == one.st_ino);
    EXPECT("fstat", 0, DATA(&two, sizeof two));
    CHECK(syscall(SYS_lstat, "link", &one) == 0 && S_ISLNK(one.st_mode));
    EXPECT("lstat", 0, DATA(&one, sizeof one));
    CHECK(syscall(SYS_newfstatat, AT_FDCWD, "link", &one, AT_SYMLINK_NOFOLLOW) == 0);
    EXPECT("newfstatat", 0, DATA(&one, sizeof one), TEXT("AT_SYMLINK_NOFOLLOW"), TEXT("link"));
    struct statx more;
    CHECK(statx(AT_FDCWD, "file", 0, STATX_SIZE | STATX_INO | STATX_BTIME, &more) == 0);
    CHECK(more.stx_ino == two.st_ino);
    EXPECT("statx", 0, DATA(&more, sizeof more), TEXT("STATX_BTIME"));
    struct statfs fs;
    CHECK(syscall(SYS_statfs, "file", &fs) == 0);
    EXPECT("statfs", 0, DATA(&fs, sizeof fs));
    CHECK(syscall(SYS_fstatfs, fd, &fs) == 0);
    EXPECT("fstatfs", 0, DATA(&fs, sizeof fs));
    CHECK(syscall(SYS_stat, "absent", &one) == -1 && errno == ENOENT);
    EXPECT_ERRNO("stat", ENOENT, TEXT("absent"));
    CHECK(syscall(SYS_fstat, 777, &one) == -1 && errno == EBADF);
    EXPECT_ERRNO("fstat", EBADF);
    return 0;
}
