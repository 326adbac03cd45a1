// shows: rereads
#include "pattern.h"

int main(int argc, char **argv) {
    int again = shows(argc, argv), fd = new_file("data");
    CHECK(ftruncate(fd, 64 * sizeof page) == 0);
    for (off_t n = 0; n < 64; n++) {
        off_t at = (again ? n % 8 : n) * sizeof page;
        CHECK(pread(fd, page, sizeof page, at) == (ssize_t)sizeof page);
    }
    return 0;
}
