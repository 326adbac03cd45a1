// executes TIMES THREADS: all threads execute this program at the same time, and so on.
#define _GNU_SOURCE
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

enum { THREADS_MAX = 64 };

static atomic_int ready;
static int threads;
static char **next;

static void *execute(void *nothing) {
    ready++;
    while (ready < threads) {
    }
    execv(next[0], next);
    perror("execv");
    exit(1);
    return nothing;
}

int main(int argc, char **argv) {
    int times = argc > 1 ? atoi(argv[1]) : 0;
    threads = argc > 2 ? atoi(argv[2]) : 0;
    if (times == 0) {
        puts("the end");
        return 0;
    }
    if (threads < 1 || threads > THREADS_MAX)
        return 2;
    char left[16];
    snprintf(left, sizeof left, "%d", times - 1);
    char *args[] = {argv[0], left, argv[2], NULL};
    next = args;
    pthread_t thread;
    for (int i = 1; i < threads; i++)
        if (pthread_create(&thread, NULL, execute, NULL))
            return 3;
    execute(NULL);
}
