// flags: -pthread
// count: off
// Threads and a process read and write the same bytes of a file, move its end and share an offset,
// without any order among them: what each saw tells who came first.
#include "expect.h"
#include <pthread.h>

enum { ROUNDS = 400, SIZE = 24 << 10, PIECE = 3 << 10 };
static int file, log_file;

static uint32_t next(uint32_t *state) { return *state = *state * 1664525 + 1013904223, *state >> 8; }

static void *race(void *number) {
    uint32_t state = (uint32_t)(long)number * 7919 + 1;
    char bytes[PIECE];
    struct stat stat;
    for (int round = 0; round < ROUNDS; round++) {
        size_t len = 1 + next(&state) % PIECE;
        off_t at = (next(&state) % 24) << 10;
        for (size_t i = 0; i < len; i++) bytes[i] = (char)(next(&state) >> 8);
        switch (next(&state) % 8) {
        case 0: case 1: CHECK(pwrite(file, bytes, len, at) == (ssize_t)len); break;
        case 2: case 3: case 4: CHECK(pread(file, bytes, len, at) >= 0); break;
        case 5: CHECK(read(log_file, bytes, len) >= 0); break;
        case 6: CHECK(fstat(file, &stat) == 0 && lseek(file, 0, SEEK_END) >= 0); break;
        // Nothing would tell who was first.
        default: CHECK(write(log_file, "raced\n", 6) == 6);
        }
    }
    return NULL;
}

int main(int argc, char **argv) {
    begin(argc, argv);
    file = open("file", O_RDWR | O_CREAT, 0600);
    log_file = open("log", O_RDWR | O_CREAT | O_APPEND, 0600);
    CHECK(file >= 0 && log_file >= 0);
    pid_t pid = fork();
    CHECK(pid >= 0);
    if (pid == 0) {
        race((void *)4);
        _exit(0);
    }
    pthread_t threads[3];
    for (long i = 0; i < 3; i++) CHECK(pthread_create(&threads[i], NULL, race, (void *)(i + 1)) == 0);
    for (int i = 0; i < 3; i++) CHECK(pthread_join(threads[i], NULL) == 0);
    CHECK(wait_for(pid) == 0);
    static char all[64 << 10];
    CHECK(pread(file, all, sizeof all, 0) >= 0);
    CHECK(pread(log_file, all, sizeof all, 0) > 0);
    // What is left must be the same in every run.
    CHECK(unlink("log") == 0 && ftruncate(file, 0) == 0);
    printf("raced\n");
    return 0;
}
