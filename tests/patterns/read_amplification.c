// shows: read_amplification
#include "pattern.h"

// Records of 100 bytes are wanted: with a whole buffer for each, or with one for many.
int main(int argc, char **argv) {
    int overlap = shows(argc, argv), fd = new_file("data");
    CHECK(ftruncate(fd, 1 << 20) == 0);
    for (off_t n = 0; n < 600; n++) {
        off_t at = n * (overlap ? 100 : 1700);
        size_t size = overlap ? 8192 : 1700;
        CHECK(pread(fd, page, size, at) == (ssize_t)size);
    }
    return 0;
}
