// flags: -pthread
// count: off
// gaps: killed
// SIGKILL strikes a process whose threads are in the middle of calls of every kind.
#include "expect.h"
#include <pthread.h>

static void *busy(void *kind) {
    char bytes[5000];
    int fd = open("busy", O_RDWR | O_CREAT, 0600), ends[2];
    CHECK(pipe(ends) == 0);
    memset(bytes, 'k', sizeof bytes);
    for (;;) switch ((long)kind) {
        case 0: CHECK(pwrite(fd, bytes, sizeof bytes, 0) == sizeof bytes); break;
        case 1: CHECK(pread(fd, bytes, sizeof bytes, 0) >= 0); break;
        case 2: CHECK(read(ends[0], bytes, 1) == 1); break;
        default: syscall(SYS_getppid);
        }
    return NULL;
}

int main(int argc, char **argv) {
    begin(argc, argv);
    for (int round = 0; round < 5; round++) {
        int ready[2];
        CHECK(pipe(ready) == 0);
        pid_t pid = fork();
        CHECK(pid >= 0);
        if (pid == 0) {
            pthread_t thread;
            for (long i = 0; i < 4; i++) CHECK(pthread_create(&thread, NULL, busy, (void *)i) == 0);
            CHECK(write(ready[1], "r", 1) == 1);
            busy((void *)3);
        }
        char byte;
        CHECK(read(ready[0], &byte, 1) == 1);
        EXPECT("read", 1, DATA("r", 1));
        struct timespec moment = {0, (long)random_len(20000000)};
        CHECK(nanosleep(&moment, NULL) == 0);
        CHECK(kill(pid, SIGKILL) == 0);
        int status = wait_for(pid);
        CHECK(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
    }
    printf("five killed\n");
    return 0;
}
