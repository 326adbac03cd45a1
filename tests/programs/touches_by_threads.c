// flags: -pthread
// Two threads touch pages of mapped files, each of their own. Around each touch is a pair of calls that
// name the page: with `record --mmap all` the trace must have it between them, by the thread that makes
// them. Says which pages:
//
//     TOUCHED read|stored PAGE
#include "expect.h"
#include <pthread.h>
#include <sys/mman.h>

enum { PAGE = 4096, PAGES = 32, LEN = PAGES * PAGE, BEFORE = 1 << 20, AFTER = 1 << 21 };

static volatile unsigned sum;
static char *read_only, *writable;
static int marks;

static void rest(void) {
    for (volatile int i = 0; i < 20000; i++) {}
}

static void touch(const char *how, long page) {
    long at = page * PAGE + (*how == 's' ? LEN : 0);
    CHECK(lseek(marks, BEFORE + at, SEEK_SET) == BEFORE + at);
    rest();
    if (*how == 's') {
        writable[page * PAGE] = 'x';
    } else {
        sum += (unsigned char)read_only[page * PAGE];
    }
    rest();
    CHECK(lseek(marks, AFTER + at, SEEK_SET) == AFTER + at);
}

static void *work(void *first) {
    // In descending order, so that pages are not told together.
    for (long page = PAGES - 2 + (long)first; page >= 0; page -= 2) {
        touch("read", page);
        touch("stored", page);
    }
    return NULL;
}

static char *mapped(const char *name, int prot) {
    int fd = open(name, O_RDWR | O_CREAT | O_TRUNC, 0600);
    CHECK(fd >= 0);
    char bytes[PAGE];
    for (long page = 0; page < PAGES; page++) {
        fill(bytes, PAGE);
        CHECK(write(fd, bytes, PAGE) == PAGE);
    }
    char *at = mmap(NULL, LEN, prot, MAP_SHARED, fd, 0);
    CHECK(at != MAP_FAILED && close(fd) == 0);
    return at;
}

int main(int argc, char **argv) {
    begin(argc, argv);
    read_only = mapped("read", PROT_READ);
    writable = mapped("stored", PROT_READ | PROT_WRITE);
    marks = open("marks", O_RDWR | O_CREAT, 0600);
    CHECK(marks >= 0);
    pthread_t threads[2];
    for (long i = 0; i < 2; i++) CHECK(pthread_create(threads + i, NULL, work, (void *)i) == 0);
    for (long i = 0; i < 2; i++) CHECK(pthread_join(threads[i], NULL) == 0);
    for (long page = 0; page < PAGES; page++) printf("TOUCHED read %ld\nTOUCHED stored %ld\n", page, page);
    return 0;
}
