// flags: -pthread
// count: off
// Mapped files that are moved, copied, cut, covered and shown from other pages on, in every way that
// mremap and remap_file_pages have; calls about them that fail; stores by the kernel. For each page that
// is stored to between two collections it prints a line
//
//     STORED FILE OFFSET FNV
//
// with what the page then holds: the trace must have exactly these pages.
#include "expect.h"
#include <pthread.h>
#include <sys/mman.h>
#include <sys/uio.h>

enum { PAGE = 4096, PAGES = 16, LEN = PAGES * PAGE };

static void stored(const char *file, long page, const char *bytes) {
    printf("STORED %s %ld %016llx\n", file, page * PAGE, (unsigned long long)fnv(bytes, PAGE));
}

// Stores to memory that shows a page of a file.
static void store(const char *file, char *at, long page) {
    fill(at, PAGE);
    stored(file, page, at);
}

static int made(const char *name, long pages) {
    int fd = open(name, O_RDWR | O_CREAT | O_TRUNC, 0600);
    CHECK(fd >= 0 && ftruncate(fd, pages * PAGE) == 0);
    return fd;
}

static char *mapped(int fd, long pages) {
    char *at = mmap(NULL, pages * PAGE, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    CHECK(at != MAP_FAILED);
    return at;
}

// An old length of 0 makes another mapping.
static void copied(void) {
    int fd = made("copied", PAGES);
    char *at = mapped(fd, PAGES);
    char *other = mremap(at, 0, LEN, MREMAP_MAYMOVE);
    CHECK(other != MAP_FAILED);
    store("copied", other + 3 * PAGE, 3);
    CHECK(munmap(at, LEN) == 0);
    char *part = mremap(other + 4 * PAGE, 0, 8 * PAGE, MREMAP_MAYMOVE);
    CHECK(part != MAP_FAILED);
    store("copied", part, 4);
    store("copied", part + 7 * PAGE, 11);
    store("copied", other + 15 * PAGE, 15);
    CHECK(fsync(fd) == 0 && munmap(other, LEN) == 0);
    store("copied", part + PAGE, 5);
    CHECK(munmap(part, 8 * PAGE) == 0 && close(fd) == 0);
}

static void left_behind(void) {
    int fd = made("left", PAGES);
    char *at = mapped(fd, PAGES);
    store("left", at + PAGE, 1);
    char *new = mremap(at, LEN, LEN, MREMAP_MAYMOVE | MREMAP_DONTUNMAP, 0);
    if (new != MAP_FAILED) {
        store("left", at + 2 * PAGE, 2);
        store("left", new + 3 * PAGE, 3);
        CHECK(munmap(new, LEN) == 0);
    }
    store("left", at + 4 * PAGE, 4);
    CHECK(munmap(at, LEN) == 0 && close(fd) == 0);
}

static void reordered(void) {
    int fd = made("reordered", PAGES);
    char *at = mapped(fd, PAGES);
    store("reordered", at + PAGE, 1);
    if (remap_file_pages(at, 4 * PAGE, 0, 8, 0) == 0) {
        store("reordered", at, 8);
        store("reordered", at + 2 * PAGE, 10);
    }
    store("reordered", at + 5 * PAGE, 5);
    CHECK(munmap(at, LEN) == 0 && close(fd) == 0);
}

static void over_another(void) {
    int first = made("first", PAGES), second = made("second", PAGES);
    char *one = mapped(first, PAGES), *two = mapped(second, PAGES);
    store("first", one + PAGE, 1);
    store("second", two + 2 * PAGE, 2);
    CHECK(mremap(one, LEN, LEN, MREMAP_MAYMOVE | MREMAP_FIXED, two) == two);
    store("first", two + 3 * PAGE, 3);
    CHECK(mmap(two + 4 * PAGE, 4 * PAGE, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, second, 8 * PAGE) ==
          two + 4 * PAGE);
    store("second", two + 4 * PAGE, 8);
    store("first", two + 8 * PAGE, 8);
    CHECK(munmap(two, LEN) == 0 && close(first) == 0 && close(second) == 0);
}

static char *shared;

// Stores while the mapping changes around its pages.
static void *goes_on(void *number) {
    for (long round = 0; round < 4000; round++)
        for (long page = 0; page < 4; page++) ((long *)(shared + page * PAGE))[(long)number] = round;
    return NULL;
}

static void resized(void) {
    int fd = made("resized", 2 * PAGES);
    char *at = mapped(fd, PAGES);
    store("resized", at + 15 * PAGE, 15);
    CHECK(mremap(at, LEN, 4 * PAGE, 0) == at);
    store("resized", at + 3 * PAGE, 3);
    at = mremap(at, 4 * PAGE, 2 * LEN, MREMAP_MAYMOVE);
    CHECK(at != MAP_FAILED);
    store("resized", at + 31 * PAGE, 31);
    store("resized", at + 15 * PAGE, 15);
    CHECK(munmap(at + 8 * PAGE, 8 * PAGE) == 0);
    store("resized", at + 20 * PAGE, 20);
    CHECK(munmap(at, 2 * LEN) == 0 && close(fd) == 0);
}

// Calls about memory that fail take nothing away.
static void refused(void) {
    int fd = made("refused", PAGES);
    char *at = mapped(fd, PAGES);
    CHECK(mremap(at, LEN, LEN, MREMAP_MAYMOVE | MREMAP_FIXED, at) == MAP_FAILED);
    store("refused", at, 0);
    CHECK(munmap(at + 1, PAGE) == -1 && mprotect(at + 1, PAGE, PROT_READ | PROT_WRITE) == -1);
    store("refused", at + PAGE, 1);
    CHECK(mmap(at, LEN, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, -1, 0) == MAP_FAILED);
    CHECK(mremap(at, LEN, LEN, MREMAP_FIXED, at + LEN) == MAP_FAILED);
    store("refused", at + 2 * PAGE, 2);
    CHECK(munmap(at, LEN) == 0 && close(fd) == 0);
}

static void by_the_kernel(void) {
    static char bytes[2 * PAGE];
    int from = made("from", PAGES), fd = made("read", PAGES), self;
    fill(bytes, sizeof bytes);
    CHECK(pwrite(from, bytes, sizeof bytes, 0) == sizeof bytes);
    char *at = mapped(fd, PAGES);
    CHECK(pread(from, at + PAGE, 2 * PAGE, 0) == 2 * PAGE);
    struct iovec parts[2] = {{at + 5 * PAGE, 100}, {at + 9 * PAGE + 50, 200}};
    CHECK(preadv(from, parts, 2, 0) == 300);
    struct iovec own = {bytes, 100}, other = {at + 12 * PAGE, 100};
    CHECK(process_vm_writev(getpid(), &own, 1, &other, 1, 0) == 100);
    long pages[] = {1, 2, 5, 9, 12};
    for (int i = 0; i < 5; i++) stored("read", pages[i], at + pages[i] * PAGE);
    if ((self = open("/proc/self/mem", O_RDWR)) >= 0) {
        if (pwrite(self, bytes, PAGE, (off_t)(at + 11 * PAGE)) == PAGE) stored("read", 11, at + 11 * PAGE);
        close(self);
    }
    CHECK(munmap(at, LEN) == 0 && close(fd) == 0 && close(from) == 0);
}

// Several threads map their first files at the same time.
static pthread_barrier_t all;

static void *maps_first(void *name) {
    int fd = made(name, PAGES);
    pthread_barrier_wait(&all);
    char *at = mapped(fd, PAGES);
    memset(at + 3 * PAGE, *(char *)name, PAGE);
    CHECK(fsync(fd) == 0);
    return at;
}

int main(int argc, char **argv) {
    begin(argc, argv);
    static char *names[] = {"a", "b", "c", "d"};
    pthread_t threads[4];
    CHECK(pthread_barrier_init(&all, NULL, 4) == 0);
    for (int i = 0; i < 4; i++) CHECK(pthread_create(threads + i, NULL, maps_first, names[i]) == 0);
    for (int i = 0; i < 4; i++) {
        void *at;
        CHECK(pthread_join(threads[i], &at) == 0);
        stored(names[i], 3, (char *)at + 3 * PAGE);
    }
    copied();
    left_behind();
    reordered();
    over_another();
    resized();
    refused();
    by_the_kernel();
    // While threads store, a mapping grows, shrinks, is the object of calls that fail, and is forked.
    int fd = made("busy", 64);
    char *room = mmap(NULL, 64 * PAGE, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    CHECK(room != MAP_FAILED && munmap(room + PAGE, 63 * PAGE) == 0);
    shared = mmap(room, 4 * PAGE, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, fd, 0);
    CHECK(shared == room);
    for (long i = 0; i < 4; i++) CHECK(pthread_create(threads + i, NULL, goes_on, (void *)i) == 0);
    long pages = 4;
    for (int round = 0; round < 30; round++) {
        long new = round % 2 ? 4 : 8 + round;
        CHECK(mremap(shared, pages * PAGE, new * PAGE, 0) == shared);
        pages = new;
        CHECK(mremap(shared, pages * PAGE, pages * PAGE, MREMAP_MAYMOVE | MREMAP_FIXED, shared) == MAP_FAILED);
        if (round % 10 == 5) {
            fflush(stdout);
            pid_t pid = fork();
            if (pid == 0) {
                shared[PAGE + 2000] = (char)round;
                _exit(0);
            }
            CHECK_CHILD(pid);
        }
    }
    for (int i = 0; i < 4; i++) CHECK(pthread_join(threads[i], NULL) == 0);
    CHECK(munmap(shared, pages * PAGE) == 0 && close(fd) == 0);
    return 0;
}
