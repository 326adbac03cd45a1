// flags: -pthread
// count: off
// Threads fork, and signals arrive, while other threads write: children see consistent state.
#include "expect.h"
#include <pthread.h>

static void *forker(void *unused) {
    (void)unused;
    for (int i = 0; i < 25; i++) {
        pid_t pid = fork();
        CHECK(pid >= 0);
        if (pid == 0) {
            for (int k = 0; k < 10; k++) syscall(SYS_getppid);
            _exit(17);
        }
        int status = wait_for(pid);
        CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 17);
    }
    return NULL;
}

static volatile int stop;

static void *writer(void *unused) {
    (void)unused;
    int fd = open("/dev/null", O_WRONLY);
    char bytes[4096] = {0};
    while (!stop) CHECK(write(fd, bytes, sizeof bytes) == sizeof bytes);
    return NULL;
}

int main(int argc, char **argv) {
    begin(argc, argv);
    pthread_t forkers[4], busy;
    CHECK(pthread_create(&busy, NULL, writer, NULL) == 0);
    for (int i = 0; i < 4; i++) CHECK(pthread_create(&forkers[i], NULL, forker, NULL) == 0);
    for (int i = 0; i < 4; i++) CHECK(pthread_join(forkers[i], NULL) == 0);
    stop = 1;
    CHECK(pthread_join(busy, NULL) == 0);
    EXPECT_COUNT("getppid", 1000);
    return 0;
}
