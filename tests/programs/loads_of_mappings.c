// flags: -pthread
// count: off
// Reads of mapped files. For each page that is read for the first time it prints a line
//
//     LOADED FILE OFFSET FNV
//
// with what the page holds: `record --mmap all` must have exactly these pages.
#include "expect.h"
#include <pthread.h>
#include <sys/mman.h>

enum { PAGE = 4096, PAGES = 64, LEN = PAGES * PAGE };

static volatile unsigned sum;

// Bytes of the page are `of` at most.
static void loaded(const char *file, const char *at, long page, long of) {
    sum += (unsigned char)at[page * PAGE + 1];
    printf("LOADED %s %ld %016llx\n", file, page * PAGE, (unsigned long long)fnv(at + page * PAGE, of));
}

static int made(const char *name, long length) {
    int fd = open(name, O_RDWR | O_CREAT | O_TRUNC, 0600);
    CHECK(fd >= 0);
    char bytes[PAGE];
    for (long at = 0; at < length; at += PAGE) {
        fill(bytes, PAGE);
        long part = length - at < PAGE ? length - at : PAGE;
        CHECK(write(fd, bytes, part) == part);
    }
    return fd;
}

static char *mapped(int fd, int prot, int flags) {
    char *at = mmap(NULL, LEN, prot, flags, fd, 0);
    CHECK(at != MAP_FAILED);
    return at;
}

// By a descriptor that reads only, in ascending order with gaps, and twice.
static void shared(void) {
    CHECK(close(made("shared", LEN)) == 0);
    int fd = open("shared", O_RDONLY);
    char *at = mapped(fd, PROT_READ, MAP_SHARED);
    for (long page = 0; page < PAGES; page += 3) loaded("shared", at, page, PAGE);
    CHECK(msync(at, LEN, MS_ASYNC) == 0 && fsync(fd) == 0);
    for (long page = 0; page < PAGES; page += 3) sum += (unsigned char)at[page * PAGE];
    CHECK(munmap(at, LEN) == 0 && close(fd) == 0);
}

// Stores stay in memory.
static void private(void) {
    int fd = made("private", LEN - 100);
    char *at = mapped(fd, PROT_READ | PROT_WRITE, MAP_PRIVATE);
    loaded("private", at, 7, PAGE);
    loaded("private", at, PAGES - 1, PAGE - 100);
    memset(at + 9 * PAGE, 'x', PAGE);
    at = mremap(at, LEN, 2 * LEN, MREMAP_MAYMOVE);
    CHECK(at != MAP_FAILED);
    loaded("private", at, 11, PAGE);
    CHECK(munmap(at, 2 * LEN) == 0 && close(fd) == 0);
}

// What is stored to is told as stored.
static void both(void) {
    int fd = made("both", LEN);
    char *at = mapped(fd, PROT_READ | PROT_WRITE, MAP_SHARED);
    loaded("both", at, 3, PAGE);
    CHECK(msync(at, LEN, MS_SYNC) == 0);
    fill(at + 3 * PAGE, PAGE);
    fill(at + 5 * PAGE, PAGE);
    loaded("both", at, 6, PAGE);
    CHECK(munmap(at, LEN) == 0);
    // Read only at first, and writable later.
    at = mapped(fd, PROT_READ, MAP_SHARED);
    loaded("both", at, 8, PAGE);
    CHECK(mprotect(at, LEN, PROT_READ | PROT_WRITE) == 0);
    fill(at + 9 * PAGE, PAGE);
    CHECK(munmap(at, LEN) == 0 && close(fd) == 0);
}

static char *by_all;

static void *look(void *first) {
    for (long page = (long)first; page < PAGES; page += 4) sum += (unsigned char)by_all[page * PAGE];
    return NULL;
}

static void by_threads(void) {
    int fd = made("threads", LEN);
    by_all = mapped(fd, PROT_READ, MAP_SHARED);
    pthread_t threads[4];
    for (long i = 0; i < 4; i++) CHECK(pthread_create(threads + i, NULL, look, (void *)i) == 0);
    for (long i = 0; i < 4; i++) CHECK(pthread_join(threads[i], NULL) == 0);
    for (long page = 0; page < PAGES; page++) loaded("threads", by_all, page, PAGE);
    CHECK(munmap(by_all, LEN) == 0 && close(fd) == 0);
}

// The child's first touches are its own.
static void across_fork(void) {
    int fd = made("forked", LEN);
    char *at = mapped(fd, PROT_READ, MAP_SHARED);
    loaded("forked", at, 2, PAGE);
    fflush(stdout);
    pid_t pid = fork();
    if (pid == 0) {
        loaded("forked", at, 4, PAGE);
        fflush(stdout);
        _exit(0);
    }
    CHECK_CHILD(pid);
    loaded("forked", at, 6, PAGE);
    CHECK(munmap(at, LEN) == 0 && close(fd) == 0);
}

int main(int argc, char **argv) {
    begin(argc, argv);
    shared();
    private();
    both();
    by_threads();
    across_fork();
    // Collected when the program ends.
    char *at = mapped(made("end", LEN), PROT_READ, MAP_SHARED);
    loaded("end", at, 60, PAGE);
    return 0;
}
