// What every test program uses: checks, random data, and lines that say what was done.
//
// A program is run as `PROGRAM SEED [ARGS]` in an empty directory. It checks its own results, and
// prints for the calls that matter a line
//
//     EXPECT call=NAME ret=N|* [errno=NAME] [data=FNV:LEN]... [text=STRING]...
//     EXPECT_COUNT call=NAME count=N|>=N
//
// which the driver then looks for in the trace: `data` is the FNV-1a hash of a buffer that the call
// must carry, `text` stands somewhere in the call's line of `show --json` (it holds no blank). Everything
// else on standard output must be the same in every run.
//
// The first lines of a program tell the driver what is special:
//     // flags: ...   more flags for the compiler
//     // needs: root | userns | xattr   skipped without
//     // run: ...     more arguments
//     // count: off   how many calls are made depends on timing
//     // before: ...  it is also replayed after a run with this word that is not recorded, and then one
//                     with the word `change`
//     // gaps: ...    gaps that the trace may have, as `reenact show --json` names them
#pragma once
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/types.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define CHECK(what)                                                                      \
    do {                                                                                 \
        if (!(what)) {                                                                   \
            int saved_ = errno;                                                          \
            fprintf(stderr, "%s:%d: %s does not hold (errno %d: %s)\n", __FILE__, __LINE__, #what, \
                    saved_, strerror(saved_));                                           \
            _exit(1);                                                                    \
        }                                                                                \
    } while (0)

// How often something is done that needs many rounds to be hit: the long tier takes the time.
#ifdef LONG_TIER
#define OFTEN(long_tier, short_tier) (long_tier)
#else
#define OFTEN(long_tier, short_tier) (short_tier)
#endif

// A buffer that a call must carry, or a string that must be shown of it.
struct piece {
    const char *kind;
    const void *bytes;
    size_t len;
};
#define DATA(p, n) {"data", (p), (n)}
#define TEXT(s) {"text", (s), 0}
#define ANY LONG_MIN

__attribute__((unused)) static uint64_t fnv(const void *bytes, size_t len) {
    uint64_t hash = 0xcbf29ce484222325;
    for (size_t i = 0; i < len; i++) hash = (hash ^ ((const uint8_t *)bytes)[i]) * 0x100000001b3;
    return hash;
}

__attribute__((unused))
static void expect_line(const char *call, long ret, const char *error, const struct piece *piece) {
    flockfile(stdout);
    printf("EXPECT call=%s", call);
    if (ret == ANY)
        printf(" ret=*");
    else
        printf(" ret=%ld", ret);
    if (error) printf(" errno=%s", error);
    for (; piece->kind; piece++) {
        if (piece->kind[0] == 'd')
            printf(" data=%016llx:%zu", (unsigned long long)fnv(piece->bytes, piece->len), piece->len);
        else
            printf(" text=%s", (const char *)piece->bytes);
    }
    printf("\n");
    funlockfile(stdout);
}

// `call` returned `ret`, carrying these pieces.
#define EXPECT(call, ret, ...) \
    expect_line(call, ret, NULL, (struct piece[]){__VA_ARGS__ __VA_OPT__(, ){0}})
// `call` failed with this error.
#define EXPECT_ERRNO(call, error, ...) \
    expect_line(call, ANY, #error, (struct piece[]){__VA_ARGS__ __VA_OPT__(, ){0}})
// `call` was made exactly so often.
#define EXPECT_COUNT(call, n) printf("EXPECT_COUNT call=%s count=%ld\n", call, (long)(n))

static uint64_t random_state;

__attribute__((unused)) static uint64_t random_word(void) {
    random_state += 0x9e3779b97f4a7c15;
    uint64_t z = random_state;
    z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9;
    z = (z ^ z >> 27) * 0x94d049bb133111eb;
    return z ^ z >> 31;
}

__attribute__((unused)) static void fill(void *bytes, size_t len) {
    for (size_t i = 0; i < len; i++) ((uint8_t *)bytes)[i] = (uint8_t)(random_word() >> 56);
}

// A number from 1 to `most`.
__attribute__((unused)) static size_t random_len(size_t most) { return 1 + random_word() % most; }

// All that is printed leaves in one write, whatever its length, so that runs can be compared.
static char everything_printed[4 << 20];

__attribute__((unused)) static void begin(int argc, char **argv) {
    setvbuf(stdout, everything_printed, _IOFBF, sizeof everything_printed);
    CHECK(argc > 1);
    random_state = strtoull(argv[1], NULL, 0);
}

// The wait status of a child that must end.
__attribute__((unused)) static int wait_for(pid_t pid) {
    int status;
    pid_t got;
    do got = waitpid(pid, &status, 0);
    while (got < 0 && errno == EINTR);
    CHECK(got == pid);
    return status;
}

// Prints how a case has ended: some are meant to die. A check that does not hold ends the program as
// well, or a case would fail alone just as it does when it is recorded.
__attribute__((unused)) static void case_ended(const char *name, int status) {
    printf("%s: %x\n", name, status);
    if (WIFEXITED(status) && WEXITSTATUS(status) == 1) {
        fflush(stdout);
        _exit(1);
    }
}

// Runs a case in a process of its own.
__attribute__((unused)) static void run_case(const char *name, void (*run)(void)) {
    fflush(stdout);
    pid_t pid = fork();
    if (pid == 0) {
        run();
        fflush(stdout);
        _exit(0);
    }
    case_ended(name, wait_for(pid));
}

#define CHECK_CHILD(pid) CHECK(wait_for(pid) == 0)
