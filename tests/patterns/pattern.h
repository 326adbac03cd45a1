// What the programs in this folder share. Each is run twice in an empty directory: as
// `PROGRAM shows` it does what its first line says, and `reenact stat patterns` must find that and
// nothing else; as `PROGRAM not` it does the same work well, and nothing must be found.
#pragma once
#include "../programs/expect.h"

static char page[1 << 16];

__attribute__((unused)) static int shows(int argc, char **argv) {
    CHECK(argc == 2);
    // Bytes that hardly repeat, so that what is written is neither known nor packable.
    uint64_t state = 1;
    for (size_t i = 0; i < sizeof page; i++) {
        state = state * 6364136223846793005u + 1442695040888963407u;
        page[i] = state >> 56;
    }
    return strcmp(argv[1], "shows") == 0;
}

__attribute__((unused)) static int new_file(const char *name) {
    int fd = open(name, O_RDWR | O_CREAT | O_TRUNC, 0600);
    CHECK(fd >= 0);
    return fd;
}

// No two pages that it gives are alike.
__attribute__((unused)) static const char *fresh(void) {
    static uint64_t count;
    count++;
    for (size_t at = 0; at < sizeof page; at += 512) memcpy(page + at, &count, sizeof count);
    return page;
}
