// flags: -pthread
// count: off
// Threads that come and go, hundreds at once, each with its own calls.
#include "expect.h"
#include <pthread.h>

enum { ROUNDS = OFTEN(5, 2) };

static void *work(void *unused) {
    (void)unused;
    for (int i = 0; i < 10; i++) CHECK(syscall(SYS_getppid) > 0);
    return NULL;
}

int main(int argc, char **argv) {
    begin(argc, argv);
    pthread_attr_t small;
    CHECK(pthread_attr_init(&small) == 0 && pthread_attr_setstacksize(&small, 32768) == 0);
    static pthread_t threads[300];
    for (int round = 0; round < ROUNDS; round++) {
        for (int i = 0; i < 300; i++) CHECK(pthread_create(&threads[i], &small, work, NULL) == 0);
        for (int i = 0; i < 300; i++) CHECK(pthread_join(threads[i], NULL) == 0);
    }
    EXPECT_COUNT("getppid", ROUNDS * 3000);
    return 0;
}
