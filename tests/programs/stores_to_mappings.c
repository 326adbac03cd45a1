// flags: -pthread
// count: off
// Stores to shared mappings of files. For each page that is stored to between two collections it
// prints a line
//
//     STORED FILE OFFSET FNV
//
// with what the page then holds: the trace must have exactly these pages.
#include "expect.h"
#include <pthread.h>
#include <sys/mman.h>
#include <sys/prctl.h>

enum { PAGE = 4096, PAGES = 64, LEN = PAGES * PAGE };

static void stored(const char *file, long page, const char *bytes) {
    printf("STORED %s %ld %016llx\n", file, page * PAGE, (unsigned long long)fnv(bytes, PAGE));
}

static void store(const char *file, char *at, long page) {
    fill(at + page * PAGE, PAGE);
    stored(file, page, at + page * PAGE);
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

// One page again after each call that makes data durable, and a byte of another page.
static void made_durable(void) {
    int fd = made("durable", PAGES);
    char *at = mapped(fd, PAGES);
    store("durable", at, 3);
    CHECK(msync(at, LEN, MS_SYNC) == 0);
    store("durable", at, 3);
    CHECK(msync(at, LEN, MS_ASYNC) == 0);
    store("durable", at, 3);
    CHECK(madvise(at, LEN, MADV_DONTNEED) == 0);
    unsigned char there[PAGES];
    CHECK(mincore(at, LEN, there) == 0 && (there[3] & 1) == 1);
    CHECK(msync(at + 1, LEN, MS_SYNC) == -1 && madvise(at, LEN, 77) == -1);
    CHECK(mprotect(at, LEN, PROT_READ) == 0 && mprotect(at, LEN, PROT_READ | PROT_WRITE) == 0);
    store("durable", at, 3);
    CHECK(fsync(fd) == 0);
    store("durable", at, 3);
    CHECK(fdatasync(fd) == 0);
    store("durable", at, 3);
    CHECK(syncfs(fd) == 0);
    CHECK(at[7 * PAGE] == 0);
    at[9 * PAGE + 77] = 'x';
    stored("durable", 9, at + 9 * PAGE);
    CHECK(munmap(at, LEN) == 0);
    CHECK(close(fd) == 0);
}

static char *shared;

static void *fill_pages(void *first) {
    for (long page = (long)first; page < (long)first + 8; page++)
        memset(shared + page * PAGE, (int)page + 1, PAGE);
    return NULL;
}

static void by_threads(void) {
    int fd = made("threads", PAGES);
    shared = mapped(fd, PAGES);
    pthread_t threads[4];
    for (long i = 0; i < 4; i++) CHECK(pthread_create(threads + i, NULL, fill_pages, (void *)(i * 8)) == 0);
    for (long i = 0; i < 4; i++) CHECK(pthread_join(threads[i], NULL) == 0);
    CHECK(fsync(fd) == 0);
    for (long page = 0; page < 32; page++) {
        char bytes[PAGE];
        memset(bytes, (int)page + 1, PAGE);
        stored("threads", page, bytes);
    }
    CHECK(munmap(shared, LEN) == 0 && close(fd) == 0);
}

// Parent and child have the same file: each tells of its own stores.
static void across_fork(void) {
    int fd = made("forked", PAGES);
    char *at = mapped(fd, PAGES);
    store("forked", at, 1);
    fflush(stdout);
    pid_t pid = fork();
    if (pid == 0) {
        store("forked", at, 2);
        CHECK(msync(at, LEN, MS_SYNC) == 0);
        store("forked", at, 4);
        fflush(stdout);
        _exit(0);
    }
    CHECK_CHILD(pid);
    CHECK(at[4 * PAGE + 1] == at[4 * PAGE + 1]);
    store("forked", at, 6);
    CHECK(munmap(at, LEN) == 0 && close(fd) == 0);
}

static void moved_and_cut(void) {
    int fd = made("moved", PAGES);
    char *at = mapped(fd, PAGES);
    store("moved", at, 5);
    char *over = mmap(NULL, 4 * LEN, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    CHECK(over != MAP_FAILED);
    at = mremap(at, LEN, 3 * LEN, MREMAP_MAYMOVE | MREMAP_FIXED, over);
    CHECK(at == over && ftruncate(fd, 2 * LEN) == 0);
    store("moved", at, PAGES + 5);
    CHECK(ftruncate(fd, LEN) == 0);
    CHECK(ftruncate(fd, 2 * LEN) == 0);
    store("moved", at, PAGES + 6);
    // The first half goes, the second stays.
    CHECK(munmap(at, LEN) == 0);
    at[(PAGES + 7) * PAGE] = 1;
    stored("moved", PAGES + 7, at + (PAGES + 7) * PAGE);
    // Something else takes its place.
    CHECK(mmap(at + LEN, 2 * LEN, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0) ==
          at + LEN);
    memset(at + LEN, 1, 2 * LEN);
    CHECK(munmap(at + LEN, 3 * LEN) == 0 && close(fd) == 0);
}

// Two mappings of a file whose length is no multiple of a page.
static void twice(void) {
    int fd = made("twice", 2);
    CHECK(ftruncate(fd, PAGE + 100) == 0);
    char *one = mapped(fd, 2);
    char *other = mmap(NULL, PAGE, PROT_READ | PROT_WRITE, MAP_SHARED, fd, PAGE);
    CHECK(other != MAP_FAILED);
    store("twice", one, 0);
    memset(other, 'z', 100);
    printf("STORED twice %d %016llx\n", PAGE, (unsigned long long)fnv(other, 100));
    CHECK(fsync(fd) == 0);
    CHECK(munmap(one, 2 * PAGE) == 0 && munmap(other, PAGE) == 0 && close(fd) == 0);
}

// Nothing but the mapping is left.
static void without_descriptors(void) {
    int fd = made("alone", PAGES);
    char *at = mapped(fd, PAGES);
    store("alone", at, 11);
    fflush(stdout);
    pid_t pid = fork();
    if (pid == 0) {
        store("alone", at, 12);
        fflush(stdout);
        CHECK(syscall(SYS_close_range, 0, ~0U, 0) == 0);
        execl("/bin/true", "true", NULL);
        _exit(1);
    }
    CHECK_CHILD(pid);
    CHECK(close(fd) == 0 && unlink("alone") == 0);
    store("alone", at, 13);
    CHECK(munmap(at, LEN) == 0);
}

// Read-only at first: by mprotect some of it becomes writable, and the rest later.
static void made_writable(void) {
    int fd = made("later", PAGES);
    char *at = mmap(NULL, LEN, PROT_READ, MAP_SHARED, fd, 0);
    CHECK(at != MAP_FAILED && at[5 * PAGE] == 0);
    CHECK(mprotect(at + 8 * PAGE, 8 * PAGE, PROT_READ | PROT_WRITE) == 0);
    store("later", at, 9);
    at = mremap(at + 8 * PAGE, 4 * PAGE, 8 * PAGE, MREMAP_MAYMOVE);
    CHECK(at != MAP_FAILED);
    store("later", at - 8 * PAGE, 10);
    CHECK(munmap(at, 8 * PAGE) == 0);
    at = mmap(NULL, LEN, PROT_NONE, MAP_SHARED, fd, 0);
    CHECK(at != MAP_FAILED);
    fflush(stdout);
    pid_t pid = fork();
    if (pid == 0) {
        CHECK(mprotect(at, LEN, PROT_READ | PROT_WRITE) == 0);
        store("later", at, 20);
        fflush(stdout);
        _exit(0);
    }
    CHECK_CHILD(pid);
    CHECK(mprotect(at, LEN, PROT_READ | PROT_WRITE) == 0);
    store("later", at, 21);
    CHECK(mprotect(at, LEN, PROT_READ) == 0 && mprotect(at, LEN, PROT_READ | PROT_WRITE) == 0);
    store("later", at, 22);
    CHECK(munmap(at, LEN) == 0 && close(fd) == 0);
    // By a descriptor that reads only it cannot become writable.
    fd = open("later", O_RDONLY);
    at = mmap(NULL, LEN, PROT_READ, MAP_SHARED, fd, 0);
    CHECK(at != MAP_FAILED && mprotect(at, LEN, PROT_READ | PROT_WRITE) == -1);
    CHECK(munmap(at, LEN) == 0 && close(fd) == 0);
}

static char *by_child;
static int child_fd;

// A child of vfork maps a file into its parent's memory, where it stays.
static void by_vfork_child(void) {
    child_fd = made("vforked", PAGES);
    pid_t pid = vfork();
    if (pid == 0) {
        by_child = mmap(NULL, LEN, PROT_READ | PROT_WRITE, MAP_SHARED, child_fd, 0);
        if (by_child == MAP_FAILED) _exit(1);
        memset(by_child + 3 * PAGE, 'c', PAGE);
        if (msync(by_child, LEN, MS_SYNC) != 0) _exit(1);
        memset(by_child + 4 * PAGE, 'd', PAGE);
        execl("/bin/true", "true", NULL);
        _exit(1);
    }
    CHECK_CHILD(pid);
    stored("vforked", 3, by_child + 3 * PAGE);
    stored("vforked", 4, by_child + 4 * PAGE);
    store("vforked", by_child, 5);
    CHECK(munmap(by_child, LEN) == 0 && close(child_fd) == 0);
}

// A long file without data, which the kernel maps by more than a page at a time.
static void in_holes(void) {
    const long pages = 1 << 14;
    int fd = made("holes", pages);
    char *at = mapped(fd, pages);
    for (long page = 1000; page < 1600; page++) store("holes", at, page);
    store("holes", at, 9000);
    CHECK(at[12000 * PAGE] == 0 && msync(at, pages * PAGE, MS_SYNC) == 0);
    CHECK(at[1300 * PAGE] == at[1300 * PAGE]);
    store("holes", at, 1005);
    store("holes", at, 1600);
    memset(at + 1006 * PAGE, 0, PAGE);
    stored("holes", 1006, at + 1006 * PAGE);
    CHECK(fsync(fd) == 0);
    store("holes", at, 15000);
    CHECK(ftruncate(fd, pages / 2 * PAGE) == 0 && ftruncate(fd, pages * PAGE) == 0);
    store("holes", at, 15000);
    fflush(stdout);
    pid_t pid = fork();
    if (pid == 0) {
        store("holes", at, 2000);
        CHECK(msync(at, pages * PAGE, MS_SYNC) == 0);
        store("holes", at, 2001);
        fflush(stdout);
        _exit(0);
    }
    CHECK_CHILD(pid);
    store("holes", at, 3000);
    // Another mapping of the file.
    char *other = mmap(NULL, 8 * PAGE, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 4000L * PAGE);
    CHECK(other != MAP_FAILED);
    fill(other, PAGE);
    stored("holes", 4000, other);
    store("holes", at, 5000);
    CHECK(munmap(other, 8 * PAGE) == 0 && munmap(at, pages * PAGE) == 0 && close(fd) == 0);
    // One process after another.
    fd = open("holes", O_RDWR);
    at = mapped(fd, 2 * pages);
    CHECK(ftruncate(fd, 2 * pages * PAGE) == 0);
    store("holes", at, pages + 3000);
    CHECK(munmap(at + (pages + 3000) * PAGE, PAGE) == 0);
    store("holes", at, pages + 3001);
    CHECK(munmap(at, 2 * pages * PAGE) == 0 && close(fd) == 0);
}

int main(int argc, char **argv) {
    begin(argc, argv);
    // The first mapping of the process is one by such a child.
    by_vfork_child();
    made_durable();
    in_holes();
    by_threads();
    across_fork();
    moved_and_cut();
    twice();
    made_writable();
    by_vfork_child();
    without_descriptors();
    // Collected when the program ends.
    char *at = mapped(made("end", PAGES), PAGES);
    for (long page = 0; page < PAGES; page += 2) store("end", at, page);
    return 0;
}
