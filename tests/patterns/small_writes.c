// shows: small_writes
#include "pattern.h"

int main(int argc, char **argv) {
    int small = shows(argc, argv), fd = new_file("log");
    size_t step = small ? 40 : 4000;
    for (size_t at = 0; at < 12000; at += step) CHECK(write(fd, page + at, step) == (ssize_t)step);
    return 0;
}
