// flags: -pthread
// count: off
// Processes are spawned while 100 threads make calls: every call is recorded.
#include "expect.h"
#include <pthread.h>
#include <spawn.h>

enum { CALLS = OFTEN(1000, 200), SPAWNS = OFTEN(400, 200) };

extern char **environ;

static void *caller(void *unused) {
    (void)unused;
    for (int i = 0; i < CALLS; i++) CHECK(syscall(SYS_getppid) > 0);
    return NULL;
}

int main(int argc, char **argv) {
    begin(argc, argv);
    pthread_t threads[100];
    pthread_attr_t small;
    CHECK(pthread_attr_init(&small) == 0 && pthread_attr_setstacksize(&small, 65536) == 0);
    for (int i = 0; i < 100; i++) CHECK(pthread_create(&threads[i], &small, caller, NULL) == 0);
    char *args[] = {"true", NULL};
    for (int i = 0; i < SPAWNS; i += 4) {
        pid_t pids[4];
        for (int k = 0; k < 4; k++) CHECK(posix_spawn(&pids[k], "/bin/true", NULL, NULL, args, environ) == 0);
        for (int k = 0; k < 4; k++) CHECK_CHILD(pids[k]);
    }
    for (int i = 0; i < 100; i++) CHECK(pthread_join(threads[i], NULL) == 0);
    EXPECT_COUNT("getppid", 100 * CALLS);
    EXPECT_COUNT("execve", SPAWNS);
    return 0;
}
