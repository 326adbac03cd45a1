// Files that are mapped and changed by calls, by other mappings, and by other processes: what the maps
// show goes into the output.
#define _GNU_SOURCE
#include <fcntl.h>
#include <signal.h>
#include <setjmp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <unistd.h>

#define PAGE 4096L
#define CHECK(good) do { if (!(good)) { perror(#good); exit(1); } } while (0)

static sigjmp_buf back;

static void fault(int signal) {
    (void)signal;
    siglongjmp(back, 1);
}

// A sum of memory, or -1 where there is none.
static long sum(const char *at, long bytes) {
    volatile long total = 0;
    if (sigsetjmp(back, 1) != 0) return -1;
    for (long i = 0; i < bytes; i++) total = total * 31 % 1000003 + (unsigned char)at[i];
    return total;
}

static void tell(const char *what, const char *at, long bytes) {
    printf("%s: %ld\n", what, sum(at, bytes));
    fflush(stdout);
}

// Bytes that no two runs have in common.
static char *by_chance(long bytes) {
    char *all = malloc(bytes);
    CHECK(all != NULL);
    for (long done = 0; done < bytes; done += 256)
        CHECK(getrandom(all + done, bytes - done < 256 ? bytes - done : 256, 0) > 0);
    return all;
}

static char *map(int fd, long offset, long bytes, int prot, int flags) {
    char *at = mmap(NULL, bytes, prot, flags, fd, offset);
    CHECK(at != MAP_FAILED);
    return at;
}

static int made(const char *name, long bytes) {
    int fd = open(name, O_RDWR | O_CREAT | O_TRUNC, 0644);
    CHECK(fd >= 0 && ftruncate(fd, bytes) == 0);
    return fd;
}

// Read by the map, written by calls: as databases do.
static void by_calls(void) {
    int fd = made("calls", 2 * PAGE), appends = open("calls", O_WRONLY | O_APPEND);
    char *first = by_chance(2 * PAGE), *at = map(fd, 0, 2 * PAGE, PROT_READ, MAP_SHARED);
    CHECK(pwrite(fd, first, 2 * PAGE, 0) == 2 * PAGE);
    tell("pwrite", at, 2 * PAGE);
    struct iovec parts[] = {{first + 7, 100}, {first + 300, 9}, {first, 0}, {first + 1000, 2000}};
    CHECK(pwritev(fd, parts, 4, 77) == 2109);
    tell("pwritev", at, 2 * PAGE);
    CHECK(lseek(fd, PAGE, SEEK_SET) == PAGE && write(fd, "word", 4) == 4 && write(fd, first, 300) == 300);
    tell("write", at, 2 * PAGE);
    CHECK(write(appends, first, PAGE) == PAGE && write(appends, first + 5, 10) == 10);
    at = mremap(at, 2 * PAGE, 4 * PAGE, MREMAP_MAYMOVE);
    CHECK(at != MAP_FAILED);
    tell("appended", at, 3 * PAGE + 10);
    tell("behind the end", at + 3 * PAGE, PAGE);
    CHECK(ftruncate(fd, PAGE + 100) == 0);
    tell("shrunk", at, 2 * PAGE);
    tell("gone", at + 2 * PAGE, 1);
    CHECK(ftruncate(fd, 4 * PAGE) == 0);
    tell("grown", at, 4 * PAGE);
    CHECK(fallocate(fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, 10, 2000) == 0);
    tell("punched", at, 4 * PAGE);
    CHECK(fallocate(fd, 0, 0, 6 * PAGE) == 0);
    at = mremap(at, 4 * PAGE, 6 * PAGE, MREMAP_MAYMOVE);
    CHECK(at != MAP_FAILED);
    tell("allocated", at, 6 * PAGE);
    CHECK(copy_file_range(fd, &(off64_t){10}, fd, &(off64_t){5 * PAGE}, 3000, 0) == 3000);
    tell("copied", at, 6 * PAGE);
    int again = open("calls", O_RDWR | O_TRUNC);
    CHECK(again >= 0);
    tell("emptied", at, 1);
    CHECK(write(again, first, 50) == 50);
    tell("begun again", at, PAGE);
    CHECK(munmap(at, 6 * PAGE) == 0);
}

// Two mappings of one file, one of them private, and the name of another file.
static void by_maps(void) {
    int fd = made("maps", 3 * PAGE);
    char *bytes = by_chance(PAGE), *a = map(fd, 0, 3 * PAGE, PROT_READ | PROT_WRITE, MAP_SHARED);
    char *b = map(fd, PAGE, PAGE, PROT_READ, MAP_SHARED);
    char *c = map(fd, 0, 3 * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE);
    memcpy(a + PAGE, bytes, PAGE);
    tell("by the other", b, PAGE);
    tell("by the private one", c, 3 * PAGE);
    c[0] = 1;
    a[PAGE - 1] = a[1] = 5;
    CHECK(pwrite(fd, bytes, 500, PAGE + 50) == 500);
    tell("copied on write", c, PAGE);
    tell("not copied", c + PAGE, PAGE);
    CHECK(madvise(c, PAGE, MADV_DONTNEED) == 0);
    tell("as the file", c, PAGE);
    CHECK(mprotect(b, PAGE, PROT_READ | PROT_WRITE) == 0);
    b[3] = bytes[3] + 1;
    tell("made writable", a, 3 * PAGE);
    CHECK(rename("maps", "renamed") == 0);
    int other = made("maps", PAGE), same = open("renamed", O_RDWR);
    char *d = map(other, 0, PAGE, PROT_READ | PROT_WRITE, MAP_SHARED);
    char *e = map(same, 0, 3 * PAGE, PROT_READ | PROT_WRITE, MAP_SHARED);
    e[9] = 77;
    tell("another file", d, PAGE);
    tell("the same file", a, 3 * PAGE);
    CHECK(unlink("renamed") == 0 && unlink("maps") == 0);
    e[10] = 78;
    tell("without a name", a, 3 * PAGE);
}

// A child has the mapping; another one maps the file itself.
static void by_children(void) {
    int there[2], back_again[2], fd = made("children", PAGE);
    char *at = map(fd, 0, PAGE, PROT_READ | PROT_WRITE, MAP_SHARED), byte;
    CHECK(pipe(there) == 0 && pipe(back_again) == 0);
    if (fork() == 0) {
        char *own = map(open("children", O_RDWR), 0, PAGE, PROT_READ | PROT_WRITE, MAP_SHARED);
        for (int i = 0; i < 50; i++) {
            if (read(there[0], &byte, 1) != 1) _exit(1);
            at[i] = own[i + 100] + 3;
            own[i + 200] = at[i] * 2;
            if (pwrite(fd, &own[i], 2, 300 + 2 * i) != 2 || write(back_again[1], &byte, 1) != 1) _exit(1);
        }
        _exit(0);
    }
    char *bytes = by_chance(50);
    for (int i = 0; i < 50; i++) {
        at[i + 100] = bytes[i];
        CHECK(write(there[1], &byte, 1) == 1 && read(back_again[0], &byte, 1) == 1);
        bytes[(i + 1) % 50] += at[i] + at[i + 200] + at[300 + 2 * i];
    }
    wait(NULL);
    tell("with a child", at, PAGE);
}

// A file in memory, mapped twice; and one of 160 MiB that is nearly all hole.
static void large(void) {
    int fd = memfd_create("name", 0);
    CHECK(fd >= 0 && ftruncate(fd, PAGE) == 0);
    char *a = map(fd, 0, PAGE, PROT_READ | PROT_WRITE, MAP_SHARED), *b = map(fd, 0, PAGE, PROT_READ, MAP_SHARED);
    memcpy(a, by_chance(PAGE), PAGE);
    tell("in memory", b, PAGE);
    char *bytes = by_chance(3 * PAGE);
    const long huge = 160L << 20;
    fd = made("large", huge);
    CHECK(pwrite(fd, bytes, 3 * PAGE, huge / 2 - PAGE) == 3 * PAGE);
    a = map(fd, 0, huge, PROT_READ | PROT_WRITE, MAP_SHARED);
    b = map(fd, huge / 2, PAGE, PROT_READ, MAP_SHARED);
    tell("in the middle", a + huge / 2 - PAGE, 3 * PAGE);
    memcpy(a + huge - PAGE, bytes, PAGE);
    a[huge / 2 + 5] = 1;
    CHECK(pwrite(fd, bytes, 100, 1000) == 100);
    tell("at its ends", a, 3 * PAGE);
    tell("once more", a + huge - PAGE, PAGE);
    tell("a part", b, PAGE);
    CHECK(munmap(a, huge) == 0 && close(fd) == 0);
    fd = open("large", O_RDONLY);
    a = map(fd, 0, huge, PROT_READ, MAP_PRIVATE);
    tell("mapped again", a + huge - PAGE, PAGE);
    CHECK(unlink("large") == 0);
}

int main(void) {
    signal(SIGBUS, fault);
    by_calls();
    by_maps();
    by_children();
    large();
    return 0;
}
