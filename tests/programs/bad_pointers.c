// Pointers that lead nowhere: the kernel's EFAULT reaches the program, and nothing else does.
#include "expect.h"
#include <poll.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/uio.h>

int main(int argc, char **argv) {
    begin(argc, argv);
    char *edge = mmap(NULL, 8192, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    CHECK(edge != MAP_FAILED && munmap(edge + 4096, 4096) == 0);
    int fd = open("file", O_RDWR | O_CREAT | O_TRUNC, 0600);
    CHECK(fd >= 0);
    char *nowhere[] = {NULL, (char *)1, edge + 4096, (char *)0xffff800000000000, (char *)-1, (char *)0x7ffffffff000};
    for (int i = 0; i < 6; i++) {
        char *bad = nowhere[i];
        CHECK(syscall(SYS_write, fd, bad, 10) == -1 && errno == EFAULT);
        EXPECT_ERRNO("write", EFAULT);
        CHECK(syscall(SYS_openat, AT_FDCWD, bad, O_RDONLY) == -1 && errno == EFAULT);
        EXPECT_ERRNO("openat", EFAULT);
        CHECK(syscall(SYS_stat, bad, edge) == -1 && errno == EFAULT);
        EXPECT_ERRNO("stat", EFAULT);
        CHECK(syscall(SYS_stat, ".", bad) == -1 && errno == EFAULT);
        CHECK(syscall(SYS_writev, fd, bad, 2) == -1 && errno == EFAULT);
        EXPECT_ERRNO("writev", EFAULT);
        // With NULL for both it would succeed.
        if (bad) CHECK(syscall(SYS_execve, "/bin/true", bad, bad) == -1 && errno == EFAULT);
        CHECK(syscall(SYS_pipe2, bad, 0) == -1 && errno == EFAULT);
        EXPECT_ERRNO("pipe2", EFAULT);
        CHECK(syscall(SYS_uname, bad) == -1 && errno == EFAULT);
        EXPECT_ERRNO("uname", EFAULT);
        CHECK(syscall(SYS_poll, bad, 3, 0) == -1 && errno == EFAULT);
        EXPECT_ERRNO("poll", EFAULT);
        if (bad) CHECK(syscall(SYS_rt_sigprocmask, SIG_BLOCK, bad, NULL, 8) == -1 && errno == EFAULT);
        if (bad) CHECK(syscall(SYS_rt_sigaction, SIGUSR1, bad, NULL, 8) == -1 && errno == EFAULT);
        if (bad) CHECK(syscall(SYS_sigaltstack, bad, NULL) == -1 && errno == EFAULT);
        CHECK(syscall(SYS_sendmsg, fd, bad, 0) == -1);
        CHECK(syscall(SYS_select, 10, bad, NULL, NULL, edge) >= -1);
    }
    // A buffer whose end is missing: what is there gets written, the rest is not read.
    CHECK(lseek(fd, 0, SEEK_SET) == 0);
    memset(edge, 'e', 4096);
    ssize_t n = write(fd, edge + 4000, 500);
    CHECK(n == 96 || (n == -1 && errno == EFAULT));
    if (n == 96)
        EXPECT("write", 96);
    else
        EXPECT_ERRNO("write", EFAULT);
    CHECK(pwrite(fd, "0123456789", 10, 0) == 10);
    CHECK(pread(fd, edge + 4090, 10, 0) >= -1);
    // A path whose NUL stands beyond the mapping.
    memset(edge + 4080, 'p', 16);
    CHECK(open(edge + 4080, O_RDONLY) == -1 && errno == EFAULT);
    // A path that ends exactly at the end of the mapping.
    memcpy(edge + 4091, "file", 5);
    int again = open(edge + 4091, O_RDONLY);
    CHECK(again >= 0);
    EXPECT("openat", again, TEXT("file"));
    // Lengths that cannot be.
    CHECK(syscall(SYS_write, fd, edge, -1L) == -1 && (errno == EINVAL || errno == EFAULT));
    struct iovec vector[2] = {{edge, 10}, {(void *)1, 10}};
    n = writev(fd, vector, 2);
    CHECK(n == 10 || (n == -1 && errno == EFAULT));
    vector[0].iov_len = (size_t)-1;
    CHECK(writev(fd, vector, 2) == -1 && errno == EINVAL);
    return 0;
}
