// flags: -pthread
// count: off
// Signals hit threads that write long buffers, one call after the other: some of what is recorded of a call is
// read already when the call has to be given up.
#include "expect.h"
#include <pthread.h>
#include <signal.h>
#include <sys/time.h>
#include <sys/uio.h>

enum { THREADS = 4, CALLS = 600, BYTES = 256 << 10 };

static void handler(int number) { (void)number; }

static void *writer(void *number) {
    uint64_t state = (uint64_t)(long)number * 0x123456789abcdef1;
    uint64_t *words = malloc(BYTES);
    CHECK(words != NULL);
    for (int k = 0; k < BYTES / 8; k++) {
        state = state * 6364136223846793005 + 1442695040888963407;
        words[k] = state ^ state >> 29;
    }
    char *bytes = (char *)words, name[] = "out-0";
    name[4] = (char)('0' + (long)number);
    int fd = open(name, O_RDWR | O_CREAT | O_TRUNC, 0600);
    CHECK(fd >= 0);
    for (int i = 0; i < CALLS; i++) {
        state = state * 6364136223846793005 + 1442695040888963407;
        long most = i % 10 ? 9000 : 150000;
        long length = 8 + (long)(state >> 33) % most, from = (long)(state >> 7 & 0xffff);
        struct iovec parts[] = {{bytes + from, length}, {bytes + from / 2, length / 3}, {bytes, 100}};
        CHECK(pwrite(fd, bytes + from, length, from) == length);
        CHECK(pwritev(fd, parts, 3, 2 * from) == length + length / 3 + 100);
    }
    return NULL;
}

int main(int argc, char **argv) {
    begin(argc, argv);
    struct sigaction action = {.sa_handler = handler, .sa_flags = SA_RESTART};
    CHECK(sigaction(SIGALRM, &action, NULL) == 0);
    struct itimerval often = {{0, 70}, {0, 70}}, never = {{0, 0}, {0, 0}};
    CHECK(setitimer(ITIMER_REAL, &often, NULL) == 0);
    pthread_t threads[THREADS];
    for (long i = 0; i < THREADS; i++) CHECK(pthread_create(&threads[i], NULL, writer, (void *)(i + 1)) == 0);
    for (int i = 0; i < THREADS; i++) CHECK(pthread_join(threads[i], NULL) == 0);
    CHECK(setitimer(ITIMER_REAL, &never, NULL) == 0);
    EXPECT_COUNT("pwrite64", THREADS * CALLS);
    EXPECT_COUNT("pwritev", THREADS * CALLS);
    return 0;
}
