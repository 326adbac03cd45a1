// flags: -pthread
// count: off
// A thread that is not the leader calls exec while others are busy: it becomes the leader.
#include "expect.h"
#include <pthread.h>

static char *program, *seed;

static void *busy(void *unused) {
    (void)unused;
    for (;;) syscall(SYS_getpgid, 0);
    return NULL;
}

static void *replacer(void *unused) {
    (void)unused;
    char pid[20];
    snprintf(pid, sizeof pid, "%d", getpid());
    char *args[] = {program, seed, "second", pid, NULL};
    execv(program, args);
    CHECK(!"exec returned");
    return NULL;
}

int main(int argc, char **argv) {
    begin(argc, argv);
    if (argc > 2) {
        CHECK(getpid() == atoi(argv[3]) && gettid() == getpid());
        for (int i = 0; i < 100; i++) CHECK(syscall(SYS_getppid) > 0);
        EXPECT_COUNT("getppid", 100);
        printf("the second image has one thread\n");
        return 0;
    }
    char self[4096];
    ssize_t n = readlink("/proc/self/exe", self, sizeof self - 1);
    CHECK(n > 0);
    self[n] = 0;
    program = self;
    seed = argv[1];
    pthread_t threads[6];
    for (int i = 0; i < 5; i++) CHECK(pthread_create(&threads[i], NULL, busy, NULL) == 0);
    CHECK(pthread_create(&threads[5], NULL, replacer, NULL) == 0);
    for (;;) pause();
}
