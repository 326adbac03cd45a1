// shows: small_reads
#include "pattern.h"

int main(int argc, char **argv) {
    int small = shows(argc, argv), fd = new_file("table");
    CHECK(write(fd, page, 60000) == 60000);
    size_t step = small ? 50 : 5000;
    for (off_t at = 0; at < 60000; at += step) CHECK(pread(fd, page, step, at) == (ssize_t)step);
    return 0;
}
