// Loops of one call, for `cargo xtask bench record`:
//
//     loops getppid COUNT
//     loops write|read SIZE COUNT FILE     content repeats over 64 MiB
//     loops distinct COUNT FILE            4-KiB writes, no two alike
//     loops think COUNT STEPS FILE [sync]  4-KiB writes, each after so many steps of computing
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#define SPAN ((size_t)64 << 20)

static uint64_t state = 1;

static uint64_t next_word(void) {
    state ^= state << 13;
    state ^= state >> 7;
    state ^= state << 17;
    return state;
}

static void need(int held, const char *what) {
    if (held) return;
    perror(what);
    exit(1);
}

int main(int argc, char **argv) {
    if (argc < 3) return 2;
    if (strcmp(argv[1], "getppid") == 0) {
        for (long i = atol(argv[2]); i > 0; i--) syscall(SYS_getppid);
        return 0;
    }
    if (strcmp(argv[1], "distinct") == 0 && argc == 4) {
        uint64_t page[512];
        int fd = open(argv[3], O_RDWR | O_CREAT, 0600);
        need(fd >= 0, argv[3]);
        for (long i = 0, count = atol(argv[2]); i < count; i++) {
            for (int k = 0; k < 512; k++) page[k] = next_word();
            // Always over the same 64 MiB: the file itself costs the same every time.
            need(pwrite(fd, page, sizeof page, (size_t)i * sizeof page % SPAN) == sizeof page, "pwrite");
        }
        return 0;
    }
    if (strcmp(argv[1], "think") == 0 && argc >= 5) {
        uint64_t page[512] = {0};
        long steps = atol(argv[3]);
        int fd = open(argv[4], O_RDWR | O_CREAT, 0600);
        need(fd >= 0, argv[4]);
        for (long i = 0, count = atol(argv[2]); i < count; i++) {
            for (long k = 0; k < steps; k++) page[k % 512] += next_word();
            need(pwrite(fd, page, sizeof page, (size_t)i * sizeof page % SPAN) == sizeof page, "pwrite");
            if (argc > 5) need(fdatasync(fd) == 0, "fdatasync");
        }
        return 0;
    }
    if (argc != 5) return 2;
    int writes = strcmp(argv[1], "write") == 0;
    size_t size = strtoul(argv[2], NULL, 0);
    uint64_t *span = malloc(SPAN);
    need(span != NULL, "malloc");
    for (size_t i = 0; i < SPAN / 8; i++) span[i] = next_word();
    int fd = open(argv[4], O_RDWR | O_CREAT, 0600);
    need(fd >= 0, argv[4]);
    if (!writes) {
        for (size_t at = 0; at < SPAN; at += 1 << 20)
            need(pwrite(fd, (char *)span + at, 1 << 20, (off_t)at) == 1 << 20, "pwrite");
    }
    char *bytes = (char *)span;
    size_t at = 0;
    for (long i = atol(argv[3]); i > 0; i--) {
        ssize_t moved = writes ? pwrite(fd, bytes + at, size, (off_t)at) : pread(fd, bytes + at, size, (off_t)at);
        need(moved == (ssize_t)size, writes ? "pwrite" : "pread");
        at = (at + size) % SPAN;
    }
    return 0;
}
