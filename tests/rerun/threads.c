// A thread.
// flags: -pthread
#include <pthread.h>
#include <stdio.h>

static void *run(void *text) {
    puts(text);
    return NULL;
}

int main(void) {
    pthread_t thread;
    if (pthread_create(&thread, NULL, run, "a thread") != 0) return 1;
    return pthread_join(thread, NULL);
}
