// flags: -pthread
// count: off
// A thread ends the whole process, with others in the middle of their calls.
#include "expect.h"
#include <pthread.h>

static int ends[2];

static void *reader(void *unused) {
    (void)unused;
    char byte;
    CHECK(read(ends[0], &byte, 1) == 1);
    return NULL;
}

static void *ender(void *unused) {
    (void)unused;
    for (int i = 0; i < 100; i++) CHECK(syscall(SYS_getppid) > 0);
    EXPECT_COUNT("getppid", 100);
    printf("ending\n");
    exit(23);
    return NULL;
}

int main(int argc, char **argv) {
    begin(argc, argv);
    CHECK(pipe(ends) == 0);
    pthread_t threads[11];
    for (int i = 0; i < 10; i++) CHECK(pthread_create(&threads[i], NULL, reader, NULL) == 0);
    CHECK(pthread_create(&threads[10], NULL, ender, NULL) == 0);
    for (;;) pause();
}
