// flags: -pthread
// count: off
// Two threads write 4-KiB buffers flat out, none like another. A second argument says how many each.
#include "expect.h"
#include <pthread.h>

enum { BYTES = 4096 };
static long writes = 2000;

static void *writer(void *number) {
    uint64_t state = (uint64_t)(long)number * 0x123456789abcdef1, buffer[BYTES / 8];
    char name[] = "out-0";
    name[4] = (char)('0' + (long)number);
    int fd = open(name, O_RDWR | O_CREAT | O_TRUNC, 0600);
    CHECK(fd >= 0);
    for (long i = 0; i < writes; i++) {
        for (int k = 0; k < BYTES / 8; k++) {
            state = state * 6364136223846793005 + 1442695040888963407;
            buffer[k] = state ^ state >> 29;
        }
        CHECK(pwrite(fd, buffer, BYTES, i % 1000 * BYTES) == BYTES);
    }
    return NULL;
}

int main(int argc, char **argv) {
    begin(argc, argv);
    if (argc > 2) writes = atol(argv[2]);
    pthread_t threads[2];
    for (long i = 0; i < 2; i++) CHECK(pthread_create(&threads[i], NULL, writer, (void *)(i + 1)) == 0);
    for (int i = 0; i < 2; i++) CHECK(pthread_join(threads[i], NULL) == 0);
    EXPECT_COUNT("pwrite64", 2 * writes);
    return 0;
}
