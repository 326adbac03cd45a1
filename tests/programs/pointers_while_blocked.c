// What calls are given while all signals are blocked, so that a recorder could not catch a fault: all of
// it is recorded, and pointers that lead nowhere are the call's EFAULT and end nothing. The same alone, in a
// child that shares the memory, and beside other threads, one of which maps and unmaps all the time.
// flags: -pthread
// count: off
#include "expect.h"
#include <pthread.h>
#include <spawn.h>
#include <sys/mman.h>
#include <sys/uio.h>

enum { PAGE = 4096, ROUNDS = OFTEN(400, 40) };

extern char **environ;
static volatile int enough;

// Two pages with nothing behind them.
static char *before_nothing(void) {
    char *pages = mmap(NULL, 3 * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    CHECK(pages != MAP_FAILED && munmap(pages + 2 * PAGE, PAGE) == 0);
    return pages;
}

static void *maps_and_unmaps(void *unused) {
    (void)unused;
    while (!enough) CHECK(munmap(before_nothing(), 2 * PAGE) == 0);
    return NULL;
}

static void try_all(const char *who) {
    char *pages = before_nothing(), *end = pages + 2 * PAGE, name[64];
    snprintf(name, sizeof name, "file-of-%s", who);
    int fd = open(name, O_RDWR | O_CREAT | O_TRUNC, 0600);
    CHECK(fd >= 0);
    EXPECT("openat", fd, TEXT(name));

    // Data of every length around the end, in one piece and in many.
    fill(pages, 2 * PAGE);
    for (size_t len = 1; len <= 2 * PAGE; len += 1 + len / 2) {
        CHECK(pwrite(fd, end - len, len, 0) == (ssize_t)len);
        EXPECT("pwrite64", (long)len, DATA(end - len, len));
        CHECK(pread(fd, end - len, len, 0) == (ssize_t)len);
        EXPECT("pread64", (long)len, DATA(end - len, len));
    }
    struct iovec vector[200];
    for (int i = 0; i < 200; i++) vector[i] = (struct iovec){pages + 40 * i, 1 + i % 40};
    ssize_t sum = 0;
    for (int i = 0; i < 200; i++) sum += vector[i].iov_len;
    CHECK(writev(fd, vector, 200) == sum);
    EXPECT("writev", sum);

    // Names that end with the memory, and that do not.
    size_t len = strlen(name) + 1;
    memcpy(end - len, name, len);
    CHECK(access(end - len, F_OK) == 0);
    memset(end - 3000, 'n', 3000);
    CHECK(access(end - 3000, F_OK) == -1 && errno == EFAULT);
    EXPECT_ERRNO("access", EFAULT);

    // Strings of an exec: the last behind what is there, and the array itself.
    static char longest[3 * PAGE];
    memset(longest, 'l', sizeof longest - 1);
    char *strings[] = {name, longest, "", end - 20, NULL};
    CHECK(syscall(SYS_execve, "/bin/true", strings, NULL) == -1 && errno == EFAULT);
    strings[3] = name;
    CHECK(syscall(SYS_execve, "/nowhere/true", strings, environ) == -1 && errno == ENOENT);
    EXPECT_ERRNO("execve", ENOENT, TEXT(longest), TEXT(name));
    char **array = (char **)end - 2;
    array[0] = array[1] = name;
    CHECK(syscall(SYS_execve, "/bin/true", array, NULL) == -1 && errno == EFAULT);

    // Actions, masks and what else a recorder reads and writes for a program.
    uint64_t action[4] = {1, 0, 0, 7}, now[4];
    CHECK(syscall(SYS_rt_sigaction, SIGUSR2, action, NULL, 8) == 0);
    CHECK(syscall(SYS_rt_sigaction, SIGUSR2, NULL, now, 8) == 0 && now[0] == 1 && now[3] == 7);
    CHECK(syscall(SYS_rt_sigaction, SIGUSR2, end - 24, NULL, 8) == -1 && errno == EFAULT);
    CHECK(syscall(SYS_rt_sigaction, SIGUSR2, NULL, end - 24, 8) == -1 && errno == EFAULT);
    CHECK(syscall(SYS_rt_sigaction, SIGUSR2, NULL, end - 32, 8) == 0);
    CHECK(memcmp(end - 32, now, 32) == 0);
    CHECK(syscall(SYS_rt_sigprocmask, SIG_BLOCK, end - 4, NULL, 8) == -1 && errno == EFAULT);
    CHECK(syscall(SYS_rt_sigprocmask, SIG_BLOCK, NULL, end - 4, 8) == -1 && errno == EFAULT);
    CHECK(syscall(SYS_rt_sigprocmask, SIG_BLOCK, NULL, end - 8, 8) == 0);
    CHECK(syscall(SYS_pipe2, end - 4, 0) == -1 && errno == EFAULT);
    CHECK(syscall(SYS_uname, end - 100) == -1 && errno == EFAULT);
    CHECK(close(fd) == 0 && unlink(name) == 0 && munmap(pages, 2 * PAGE) == 0);
}

static void spawn(const char *last) {
    char *argv[] = {"sh", "-c", "test \"$1\" = \"$2\"", "sh", (char *)last, (char *)last, NULL};
    pid_t pid;
    CHECK(posix_spawn(&pid, "/bin/sh", NULL, NULL, argv, environ) == 0);
    CHECK_CHILD(pid);
}

static void *in_thread(void *who) {
    try_all(who);
    return NULL;
}

int main(int argc, char **argv) {
    begin(argc, argv);
    sigset_t all;
    sigfillset(&all);
    CHECK(sigprocmask(SIG_SETMASK, &all, NULL) == 0);
    try_all("one-alone");
    for (int i = 0; i < ROUNDS; i++) spawn("alone");

    fflush(stdout);
    pid_t pid = fork();
    if (pid == 0) {
        try_all("a-child");
        fflush(stdout);
        _exit(0);
    }
    CHECK_CHILD(pid);

    pthread_t mapper, other;
    CHECK(pthread_create(&mapper, NULL, maps_and_unmaps, NULL) == 0);
    for (int i = 0; i < ROUNDS; i++) spawn("beside-a-thread");
    CHECK(pthread_create(&other, NULL, in_thread, "a-thread") == 0);
    CHECK(pthread_join(other, NULL) == 0);
    enough = 1;
    CHECK(pthread_join(mapper, NULL) == 0);
    return 0;
}
