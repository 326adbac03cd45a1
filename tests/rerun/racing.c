// Threads that race for memory, and wait for each other without a call.
// flags: -pthread -O1
#include <pthread.h>
#include <stdio.h>
#include <unistd.h>

static volatile long counter, seen[2];
static volatile int there;

static void *count(void *number) {
    long me = (long)number;
    for (long i = 0; i < 20000000; i++) counter++;
    seen[me] = counter;
    getppid();
    there++;
    while (there < 2) {
    }
    printf("thread %ld saw %ld\n", me, seen[me]);
    fflush(stdout);
    return NULL;
}

int main(void) {
    pthread_t other;
    if (pthread_create(&other, NULL, count, (void *)1L) != 0) return 1;
    count((void *)0L);
    pthread_join(other, NULL);
    printf("%ld\n", counter);
    return 0;
}
