// Two threads that compute for some 50 ms between their calls, and write what came out.
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>

static void *compute(void *of) {
    uint64_t value = (uintptr_t)of;
    for (int round = 0; round < 3; round++) {
        for (int i = 0; i < 40000000; i++) value = value * 6364136223846793005 + 1442695040888963407;
        printf("%u %d %016lx\n", (unsigned)(uintptr_t)of, round, value);
        fflush(stdout);
    }
    return NULL;
}

int main(void) {
    pthread_t threads[2];
    for (uintptr_t i = 0; i < 2; i++)
        if (pthread_create(&threads[i], NULL, compute, (void *)(i + 1)) != 0) return 1;
    for (int i = 0; i < 2; i++)
        if (pthread_join(threads[i], NULL) != 0) return 1;
    return 0;
}
