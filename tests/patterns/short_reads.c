// shows: short_reads
#include "pattern.h"

#include <sys/mman.h>

int main(int argc, char **argv) {
    int cut = shows(argc, argv), fd = new_file("data");
    CHECK(ftruncate(fd, 1 << 20) == 0);
    char *room = mmap(NULL, 8192, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    CHECK(room != MAP_FAILED);
    // Only half of the buffer can be written to: the kernel stops there.
    if (cut) CHECK(munmap(room + 4096, 4096) == 0);
    for (off_t n = 0; n < 30; n++) {
        CHECK(pread(fd, room, 8192, n * 8192) == (cut ? 4096 : 8192));
    }
    return 0;
}
