// flags: -pthread
// count: off
// gaps: unwatched
// A program that fills pages when they are first touched, and learns of the first store to others, as
// garbage collectors and migrated virtual machines do. Where the kernel forbids it, less.
#include "expect.h"
#include <linux/userfaultfd.h>
#include <poll.h>
#include <pthread.h>
#include <sys/ioctl.h>
#include <sys/mman.h>

#ifndef UFFD_USER_MODE_ONLY
#define UFFD_USER_MODE_ONLY 1
#endif

enum { PAGE = 4096, PAGES = 64, LEN = PAGES * PAGE };

static int own, kernel_too;
static char *start, *source;
static _Atomic int filled, stored;
static int stop[2];

static void *serves(void *unused) {
    (void)unused;
    for (;;) {
        struct pollfd fds[] = {{.fd = own, .events = POLLIN}, {.fd = stop[0], .events = POLLIN}};
        if (poll(fds, 2, -1) < 0 && errno == EINTR) continue;
        if (fds[1].revents) return NULL;
        struct uffd_msg told;
        if (read(own, &told, sizeof told) != sizeof told) continue;
        CHECK(told.event == UFFD_EVENT_PAGEFAULT);
        uint64_t at = told.arg.pagefault.address & ~(uint64_t)(PAGE - 1);
        if (told.arg.pagefault.flags & UFFD_PAGEFAULT_FLAG_WP) {
            struct uffdio_writeprotect open = {.range = {at, PAGE}, .mode = 0};
            stored++;
            CHECK(ioctl(own, UFFDIO_WRITEPROTECT, &open) == 0);
        } else {
            struct uffdio_copy copy = {
                .dst = at, .src = (uint64_t)source + (at - (uint64_t)start), .len = PAGE};
            filled++;
            CHECK(ioctl(own, UFFDIO_COPY, &copy) == 0 || errno == EEXIST);
        }
    }
}

static int opened(uint64_t features) {
    kernel_too = 1;
    own = (int)syscall(SYS_userfaultfd, O_CLOEXEC | O_NONBLOCK);
    if (own < 0) {
        kernel_too = 0;
        own = (int)syscall(SYS_userfaultfd, O_CLOEXEC | O_NONBLOCK | UFFD_USER_MODE_ONLY);
    }
    struct uffdio_api api = {.api = UFFD_API, .features = features};
    return own >= 0 && ioctl(own, UFFDIO_API, &api) == 0;
}

static pthread_t begin_to_serve(void) {
    pthread_t thread;
    filled = stored = 0;
    CHECK(pipe(stop) == 0 && pthread_create(&thread, NULL, serves, NULL) == 0);
    return thread;
}

static void end_of_serving(pthread_t thread) {
    CHECK(write(stop[1], "x", 1) == 1 && pthread_join(thread, NULL) == 0);
    CHECK(close(stop[0]) == 0 && close(stop[1]) == 0 && close(own) == 0);
}

static void *touches(void *first) {
    for (int page = (int)(long)first; page < PAGES / 2; page += 4)
        CHECK(memcmp(start + page * PAGE, source + page * PAGE, PAGE) == 0);
    return NULL;
}

// Pages that are not there are filled, once each, also where a call reads them.
static void missing(int out) {
    if (!opened(0)) return;
    start = mmap(NULL, LEN, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    CHECK(start != MAP_FAILED);
    struct uffdio_register memory = {{(uint64_t)start, LEN}, UFFDIO_REGISTER_MODE_MISSING, 0};
    CHECK(ioctl(own, UFFDIO_REGISTER, &memory) == 0);
    pthread_t thread = begin_to_serve(), threads[4];
    for (long i = 0; i < 4; i++) CHECK(pthread_create(threads + i, NULL, touches, (void *)i) == 0);
    for (int i = 0; i < 4; i++) CHECK(pthread_join(threads[i], NULL) == 0);
    for (int page = PAGES / 2; page < PAGES; page++) {
        if (!kernel_too) CHECK(*(volatile char *)(start + page * PAGE) == source[page * PAGE]);
        CHECK(pwrite(out, start + page * PAGE, PAGE, page * PAGE) == PAGE);
        EXPECT("pwrite64", PAGE, DATA(source + page * PAGE, PAGE));
    }
    CHECK(filled == PAGES);
    end_of_serving(thread);
    CHECK(munmap(start, LEN) == 0);
}

// The first store to each page is told, and waits until it may go on; also one by a call.
static void write_protected(int in, int flags, int fd) {
    if (!opened(UFFD_FEATURE_PAGEFAULT_FLAG_WP | (fd < 0 ? 0 : UFFD_FEATURE_WP_HUGETLBFS_SHMEM))) return;
    start = mmap(NULL, LEN, PROT_READ | PROT_WRITE, flags, fd, 0);
    CHECK(start != MAP_FAILED);
    memset(start, 'o', LEN);
    struct uffdio_register memory = {{(uint64_t)start, LEN}, UFFDIO_REGISTER_MODE_WP, 0};
    struct uffdio_writeprotect protect = {
        .range = {(uint64_t)start, LEN}, .mode = UFFDIO_WRITEPROTECT_MODE_WP};
    CHECK(ioctl(own, UFFDIO_REGISTER, &memory) == 0);
    CHECK(ioctl(own, UFFDIO_WRITEPROTECT, &protect) == 0);
    pthread_t thread = begin_to_serve();
    for (int round = 0; round < 3; round++)
        for (int page = 0; page < PAGES / 2; page++) start[page * PAGE + round] = (char)page;
    CHECK(stored == PAGES / 2);
    for (int page = PAGES / 2; page < PAGES; page++) {
        if (!kernel_too) start[page * PAGE] = 0;
        CHECK(pread(in, start + page * PAGE, PAGE, page * PAGE) == PAGE);
        CHECK(memcmp(start + page * PAGE, source + page * PAGE, PAGE) == 0);
        EXPECT("pread64", PAGE, DATA(source + page * PAGE, PAGE));
    }
    CHECK(stored == PAGES);
    end_of_serving(thread);
    CHECK(munmap(start, LEN) == 0);
}

int main(int argc, char **argv) {
    begin(argc, argv);
    source = aligned_alloc(PAGE, LEN);
    fill(source, LEN);
    int fd = open("file", O_RDWR | O_CREAT | O_TRUNC, 0600), memory = (int)syscall(SYS_memfd_create, "m", 0);
    CHECK(fd >= 0 && memory >= 0 && ftruncate(memory, LEN) == 0);
    // The recorder watches a mapping of this process until it does so itself.
    char *mapped = mmap(NULL, PAGE, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    CHECK(mapped != MAP_FAILED && pwrite(fd, source, LEN, 0) == LEN);
    mapped[1] = source[1];
    missing(fd);
    write_protected(fd, MAP_PRIVATE | MAP_ANONYMOUS, -1);
    write_protected(fd, MAP_SHARED, memory);
    CHECK(munmap(mapped, PAGE) == 0);
    return 0;
}
