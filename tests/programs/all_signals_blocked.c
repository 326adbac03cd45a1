// flags: -pthread
// Every signal blocked, in every thread, while calls with good and bad pointers are made.
#include "expect.h"
#include <pthread.h>

static void *work(void *seed) {
    (void)seed;
    for (int i = 0; i < 300; i++) {
        CHECK(syscall(SYS_getpgid, 0) >= 0);
        CHECK(syscall(SYS_write, 1, (void *)16, 5) == -1 && errno == EFAULT);
        CHECK(syscall(SYS_uname, (void *)16) == -1 && errno == EFAULT);
    }
    return NULL;
}

int main(int argc, char **argv) {
    begin(argc, argv);
    uint64_t all = ~0ull, seen = 0;
    CHECK(syscall(SYS_rt_sigprocmask, SIG_SETMASK, &all, NULL, 8) == 0);
    CHECK(syscall(SYS_rt_sigprocmask, SIG_SETMASK, NULL, &seen, 8) == 0);
    uint64_t never = 1ull << (SIGKILL - 1) | 1ull << (SIGSTOP - 1);
    CHECK(seen == (all & ~never));
    work(NULL);
    pthread_t threads[3];
    for (int i = 0; i < 3; i++) CHECK(pthread_create(&threads[i], NULL, work, NULL) == 0);
    for (int i = 0; i < 3; i++) CHECK(pthread_join(threads[i], NULL) == 0);
    // The mask goes over to a new process and a new image.
    pid_t pid = fork();
    if (pid == 0) {
        work(NULL);
        char *args[] = {"sh", "-c", "sed -n /^SigBlk/p /proc/self/status", NULL};
        dup2(open("mask", O_WRONLY | O_CREAT | O_TRUNC, 0600), 1);
        execv("/bin/sh", args);
        _exit(1);
    }
    CHECK_CHILD(pid);
    char line[100] = {0};
    int fd = open("mask", O_RDONLY);
    CHECK(read(fd, line, sizeof line - 1) > 0);
    printf("%s", line);
    EXPECT_COUNT("getpgid", 1500);
    return 0;
}
