// Processes and threads take tokens from one pipe and put them back, as builds share their jobs: who
// waits for a token may have waited longer than who gets it.
// flags: -pthread
#include "expect.h"
#include <pthread.h>

enum { WORKERS = 4, TOKENS = 2, ROUNDS = 60 };

static int ends[2];

static void *work(void *number) {
    char name[16], token;
    snprintf(name, sizeof name, "work%ld", (long)number);
    int fd = open(name, O_RDWR | O_CREAT | O_TRUNC, 0600);
    CHECK(fd >= 0);
    for (int i = 0; i < ROUNDS; i++) {
        CHECK(read(ends[0], &token, 1) == 1 && token == '+');
        CHECK(pwrite(fd, name, sizeof name, i * (long)sizeof name) == sizeof name);
        CHECK(write(ends[1], &token, 1) == 1);
    }
    CHECK(close(fd) == 0);
    return NULL;
}

int main(int argc, char **argv) {
    begin(argc, argv);
    CHECK(pipe(ends) == 0);
    CHECK(write(ends[1], "++++", TOKENS) == TOKENS);
    EXPECT("write", TOKENS, DATA("++", TOKENS));
    pid_t child = fork();
    CHECK(child >= 0);
    pthread_t threads[WORKERS / 2];
    for (long i = 0; i < WORKERS / 2; i++) {
        long number = child == 0 ? i : i + WORKERS / 2;
        CHECK(pthread_create(&threads[i], NULL, work, (void *)number) == 0);
    }
    for (int i = 0; i < WORKERS / 2; i++) CHECK(pthread_join(threads[i], NULL) == 0);
    if (child == 0) _exit(0);
    int status;
    CHECK(waitpid(child, &status, 0) == child && status == 0);
    char left[8];
    CHECK(read(ends[0], left, sizeof left) == TOKENS);
    EXPECT("read", TOKENS, DATA("++", TOKENS));
    EXPECT_COUNT("pwrite64", WORKERS * ROUNDS);
    return 0;
}
