// The calls that make, change and remove files.
#include "expect.h"
#include <linux/openat2.h>
#include <sys/time.h>

int main(int argc, char **argv) {
    begin(argc, argv);
    CHECK(umask(022) != 0777);
    CHECK(mkdir("dir", 0755) == 0 && mkdirat(AT_FDCWD, "dir/sub", 0700) == 0);
    EXPECT("mkdirat", 0, TEXT("dir/sub"));
    int dir = open("dir", O_RDONLY | O_DIRECTORY);
    CHECK(dir >= 0);
    struct open_how how = {.flags = O_RDWR | O_CREAT, .mode = 0640, .resolve = RESOLVE_BENEATH};
    int fd = (int)syscall(SYS_openat2, dir, "file", &how, sizeof how);
    CHECK(fd >= 0);
    EXPECT("openat2", fd, DATA(&how, sizeof how), TEXT("RESOLVE_BENEATH"));
    char bytes[5000];
    fill(bytes, sizeof bytes);
    CHECK(write(fd, bytes, sizeof bytes) == sizeof bytes);
    EXPECT("write", sizeof bytes, DATA(bytes, sizeof bytes));
    CHECK(fsync(fd) == 0 && fdatasync(fd) == 0 && sync_file_range(fd, 0, 0, SYNC_FILE_RANGE_WRITE) == 0);
    EXPECT("sync_file_range", 0, TEXT("SYNC_FILE_RANGE_WRITE"));
    CHECK(posix_fadvise(fd, 0, 0, POSIX_FADV_SEQUENTIAL) == 0);
    EXPECT("fadvise64", 0, TEXT("POSIX_FADV_SEQUENTIAL"));
    CHECK(fchmod(fd, 0604) == 0 && chmod("dir/file", 0600) == 0 && fchmodat(dir, "file", 0644, 0) == 0);
    EXPECT("chmod", 0, TEXT("dir/file"));
    CHECK(chown("dir/file", (uid_t)-1, getegid()) == 0 && fchown(fd, getuid(), (gid_t)-1) == 0);
    EXPECT("chown", 0, TEXT("dir/file"));
    CHECK(link("dir/file", "hard") == 0 && linkat(dir, "file", AT_FDCWD, "hard2", 0) == 0);
    EXPECT("linkat", 0, TEXT("hard2"));
    CHECK(rename("hard", "moved") == 0);
    EXPECT("rename", 0, TEXT("hard"), TEXT("moved"));
    CHECK(renameat(AT_FDCWD, "moved", dir, "moved") == 0);
    EXPECT("renameat", 0);
    if (renameat2(dir, "moved", AT_FDCWD, "hard2", RENAME_EXCHANGE) == 0)
        EXPECT("renameat2", 0, TEXT("RENAME_EXCHANGE"));
    CHECK(symlinkat("nowhere", dir, "dangling") == 0);
    EXPECT("symlinkat", 0, TEXT("nowhere"));
    CHECK(mknod("fifo", S_IFIFO | 0600, 0) == 0);
    EXPECT("mknodat", 0, TEXT("fifo"));
    struct timespec times[2] = {{(time_t)random_len(1000000000), 5}, {(time_t)random_len(1000000000), 6}};
    CHECK(utimensat(AT_FDCWD, "dir/file", times, 0) == 0);
    EXPECT("utimensat", 0, DATA(times, sizeof times));
    struct timeval older[2] = {{(time_t)random_len(1000000000), 7}, {(time_t)random_len(1000000000), 8}};
    CHECK(syscall(SYS_utimes, "dir/file", older) == 0);
    EXPECT("utimes", 0, DATA(older, sizeof older));
    CHECK(truncate("dir/file", 100) == 0);
    EXPECT("truncate", 0);
    CHECK(fallocate(fd, FALLOC_FL_KEEP_SIZE, 0, 8192) == 0);
    EXPECT("fallocate", 0, TEXT("FALLOC_FL_KEEP_SIZE"));
    CHECK(lseek(fd, 0, SEEK_END) == 100 && lseek(fd, 0, SEEK_DATA) == 0);
    EXPECT("lseek", 100, TEXT("SEEK_END"));
    CHECK(access("dir/file", R_OK) == 0 && faccessat(dir, "file", W_OK, AT_EACCESS) == 0);
    EXPECT("access", 0, TEXT("R_OK"));
    CHECK(access("none", F_OK) == -1 && errno == ENOENT);
    EXPECT_ERRNO("access", ENOENT);
    int copy = dup(fd), copy2 = dup2(fd, 40), copy3 = dup3(fd, 41, O_CLOEXEC);
    CHECK(copy >= 0 && copy2 == 40 && copy3 == 41);
    EXPECT("dup", copy);
    EXPECT("dup2", 40);
    EXPECT("dup3", 41, TEXT("O_CLOEXEC"));
    CHECK(syscall(SYS_close_range, 40, 41, 0) == 0);
    EXPECT("close_range", 0);
    CHECK(fchdir(dir) == 0 && chdir("..") == 0);
    EXPECT("fchdir", 0);
    EXPECT("chdir", 0, TEXT(".."));
    CHECK(rmdir("dir/sub") == 0 && unlinkat(dir, "dangling", 0) == 0 && unlink("fifo") == 0);
    EXPECT("rmdir", 0, TEXT("dir/sub"));
    EXPECT("unlinkat", 0, TEXT("dangling"));
    CHECK(rmdir("dir") == -1 && errno == ENOTEMPTY);
    EXPECT_ERRNO("rmdir", ENOTEMPTY);
    CHECK(readahead(fd, 0, 4096) == 0);
    EXPECT("readahead", 0);
    sync();
    EXPECT("sync", 0);
    return 0;
}
