// shows: unaligned_writes
#include "pattern.h"

int main(int argc, char **argv) {
    int unaligned = shows(argc, argv), fd = new_file("records");
    size_t size = unaligned ? 5000 : 8192;
    // Every second record, so that no write begins where the last one ended.
    for (off_t n = 0; n < 120; n++) {
        CHECK(pwrite(fd, fresh(), size, 2 * n * size) == (ssize_t)size);
    }
    return 0;
}
