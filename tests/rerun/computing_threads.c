// Two threads that compute between calls, beside the first one.
#include <pthread.h>
#include <stddef.h>
#include <sys/syscall.h>
#include <unistd.h>

static void *compute(void *unused) {
    for (int round = 0; round < 20; round++) {
        for (volatile long i = 0; i < 1000000; i++) {}
        syscall(SYS_getppid);
    }
    return unused;
}

int main(void) {
    pthread_t one, other;
    if (pthread_create(&one, NULL, compute, NULL) || pthread_create(&other, NULL, compute, NULL)) return 1;
    pthread_join(one, NULL);
    pthread_join(other, NULL);
    return 0;
}
