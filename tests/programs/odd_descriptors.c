// Calls about descriptors that are no files: what they give is the same whatever they are, or depends on
// the kind alone. Some belong to the machine: nothing here writes to them or changes them.
#include "expect.h"
#include <linux/io_uring.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/file.h>
#include <sys/inotify.h>
#include <sys/mman.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/timerfd.h>
#include <sys/uio.h>

// What can be asked and done of any descriptor.
static void any(int fd) {
    CHECK(fd >= 0);
    int copy = dup(fd);
    CHECK(copy >= 0 && close(copy) == 0);
    copy = fcntl(fd, F_DUPFD_CLOEXEC, 50);
    CHECK(copy >= 50);
    CHECK(fcntl(copy, F_GETFD) == FD_CLOEXEC);
    CHECK(fcntl(copy, F_SETFD, 0) == 0 && fcntl(copy, F_GETFD) == 0);
    int flags = fcntl(copy, F_GETFL);
    CHECK(flags >= 0);
    CHECK(fcntl(copy, F_SETFL, flags) == 0 && fcntl(copy, F_GETFL) == flags);
    CHECK(fcntl(copy, F_GETOWN) == 0);
    struct stat told;
    CHECK(fstat(copy, &told) == 0);
    CHECK(lseek(copy, 0, SEEK_CUR) >= -1);
    CHECK(dup2(copy, 60) == 60 && close(60) == 0);
    char byte[16];
    struct iovec vector = {byte, sizeof byte};
    // Some do not fail, or would wait; whatever they say.
    if (fcntl(copy, F_SETFL, flags | O_NONBLOCK) == 0) {
        (void)!read(copy, byte, sizeof byte);
        (void)!readv(copy, &vector, 1);
        (void)!preadv(copy, &vector, 1, 0);
        (void)fsync(copy);
        (void)flock(copy, LOCK_SH | LOCK_NB);
        struct flock lock = {.l_type = F_RDLCK};
        (void)fcntl(copy, F_GETLK, &lock);
        (void)fcntl(copy, F_ADD_SEALS, F_SEAL_SEAL);
        (void)fcntl(copy, F_GETPIPE_SZ);
        (void)posix_fadvise(copy, 0, 0, POSIX_FADV_NORMAL);
    }
    CHECK(close(copy) == 0);
    CHECK(close(fd) == 0);
}

int main(int argc, char **argv) {
    begin(argc, argv);
    any(epoll_create1(0));
    any(eventfd(3, 0));
    any(timerfd_create(CLOCK_MONOTONIC, 0));
    any(inotify_init1(0));
    sigset_t set;
    sigemptyset(&set);
    any(signalfd(-1, &set, 0));
    any(syscall(SYS_pidfd_open, getpid(), 0));
    any(socket(AF_INET, SOCK_DGRAM, 0));
    any(socket(AF_UNIX, SOCK_STREAM, 0));
    any(open("/proc/self/mem", O_RDONLY));
    any(open("/proc/self/status", O_RDONLY));
    any(open("/proc", O_RDONLY | O_DIRECTORY));
    any(open("/dev/urandom", O_RDONLY));
    any(open("/sys", O_RDONLY | O_DIRECTORY));
    // Not on every kernel.
    int fd = syscall(SYS_memfd_secret, 0);
    if (fd >= 0) any(fd);
    struct io_uring_params params = {0};
    fd = syscall(SYS_io_uring_setup, 4, &params);
    if (fd >= 0) any(fd);
    struct { unsigned long long handled; } rules = {1};
    fd = syscall(SYS_landlock_create_ruleset, &rules, sizeof rules, 0);
    if (fd >= 0) any(fd);
    fd = syscall(SYS_perf_event_open, NULL, 0, -1, -1, 0);
    CHECK(fd < 0);
    // A descriptor of this process, by way of the kernel.
    int file = open("file", O_RDWR | O_CREAT, 0600);
    int self = syscall(SYS_pidfd_open, getpid(), 0);
    CHECK(file >= 0 && self >= 0 && write(file, "hello", 5) == 5);
    fd = syscall(SYS_pidfd_getfd, self, file, 0);
    CHECK(fd >= 0);
    char got[8] = "";
    CHECK(pread(fd, got, 5, 0) == 5 && memcmp(got, "hello", 5) == 0);
    CHECK(write(fd, " world", 6) == 6 && lseek(file, 0, SEEK_CUR) == 11);
    any(fd);
    // And one of another process.
    int ends[2];
    CHECK(pipe(ends) == 0);
    pid_t pid = fork();
    CHECK(pid >= 0);
    if (pid == 0) {
        int theirs = open("theirs", O_RDWR | O_CREAT, 0600);
        CHECK(dup2(theirs, 40) == 40);
        CHECK(write(ends[1], "x", 1) == 1);
        // No call, which it might be killed before or in.
        for (volatile int on = 1; on;) {}
    }
    char byte;
    CHECK(read(ends[0], &byte, 1) == 1);
    int other = syscall(SYS_pidfd_open, pid, 0);
    fd = syscall(SYS_pidfd_getfd, other, 40, 0);
    if (fd >= 0) CHECK(write(fd, "by another", 10) == 10);
    int status;
    CHECK(kill(pid, SIGKILL) == 0 && waitpid(pid, &status, 0) == pid);
    return 0;
}
