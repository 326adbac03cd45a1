// A recorded program that hides what it does: it stops its own recording, or wipes out what was
// recorded. Run as `silence HOW`; it exits with 3, and goes on as it likes.
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

static char *arena;
static size_t len;

// The largest shared and writable mapping that has the recorder's mark.
static int find_arena(void) {
    char line[512];
    FILE *maps = fopen("/proc/self/maps", "r");
    while (maps && fgets(line, sizeof line, maps)) {
        unsigned long from, to;
        char rights[8];
        if (sscanf(line, "%lx-%lx %7s", &from, &to, rights) != 3 || strcmp(rights, "rw-s")) continue;
        if (memcmp((void *)from, "REENACT", 7) == 0 && to - from > len) {
            arena = (char *)from;
            len = to - from;
        }
    }
    if (maps) fclose(maps);
    return arena != NULL;
}

static void work(void) {
    for (int i = 0; i < 200; i++) {
        int fd = open("hidden", O_CREAT | O_RDWR, 0600);
        if (write(fd, "x", 1) != 1) _exit(9);
        close(fd);
    }
}

int main(int argc, char **argv) {
    if (argc < 2 || !find_arena()) return 9;
    volatile uint32_t *stopped = (uint32_t *)(arena + 28);
    volatile uint32_t *alive = (uint32_t *)(arena + 128);
    if (!strcmp(argv[1], "stop")) *stopped = 3;
    if (!strcmp(argv[1], "stop-for-a-moment")) {
        *stopped = 3;
        work();
        *stopped = 0;
    }
    if (!strcmp(argv[1], "bury")) *alive |= 0x40000000;
    if (!strcmp(argv[1], "wipe")) memset(arena, 0, len);
    work();
    return 3;
}
