// shows: direct_misaligned
#define _GNU_SOURCE
#include "pattern.h"

static char block[8192] __attribute__((aligned(4096)));

int main(int argc, char **argv) {
    int odd = shows(argc, argv), fd = new_file("data");
    CHECK(ftruncate(fd, 1 << 20) == 0);
    close(fd);
    fd = open("data", O_RDWR | O_DIRECT);
    if (fd < 0) fd = open("data", O_RDWR);
    CHECK(fd >= 0);
    // Some file systems refuse these, others take them.
    for (off_t n = 0; n < 40; n++) (void)!pread(fd, block, odd ? 1000 : 4096, n * 4096 + (odd ? 7 : 0));
    return 0;
}
