// The calls that `cargo xtask bench replay` records and replays:
//
//     replay SIZE COUNT THREADS CONTENTS FILE
//
// Each thread writes and reads COUNT times SIZE bytes in a file of its own. The contents repeat after
// CONTENTS times; with 0 no two are alike.
#define _GNU_SOURCE
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define PLACES 1024

static size_t size;
static long count, contents;
static const char *name;

static void need(int held, const char *what) {
    if (held) return;
    perror(what);
    exit(1);
}

static void *work(void *number) {
    char path[4096];
    snprintf(path, sizeof path, "%s%ld", name, (long)number);
    int fd = open(path, O_RDWR | O_CREAT, 0600);
    need(fd >= 0, path);
    char *buffer = calloc(2, size);
    need(buffer != NULL, "calloc");
    for (long i = 0; i < count; i++) {
        off_t at = (off_t)(i % PLACES) * (off_t)size;
        long content = contents ? i % contents : i;
        memcpy(buffer, &content, sizeof content);
        need(pwrite(fd, buffer, size, at) == (ssize_t)size, "pwrite");
        need(pread(fd, buffer + size, size, at) == (ssize_t)size, "pread");
    }
    return NULL;
}

int main(int argc, char **argv) {
    if (argc != 6) return 2;
    size = strtoul(argv[1], NULL, 0);
    count = atol(argv[2]);
    long threads = atol(argv[3]);
    contents = atol(argv[4]);
    name = argv[5];
    pthread_t others[64];
    if (threads < 1 || threads > 64 || size < sizeof contents) return 2;
    for (long i = 1; i < threads; i++)
        need(pthread_create(&others[i], NULL, work, (void *)i) == 0, "pthread_create");
    work(0);
    for (long i = 1; i < threads; i++) pthread_join(others[i], NULL);
    return 0;
}
