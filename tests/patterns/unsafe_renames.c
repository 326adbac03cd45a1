// shows: unsafe_renames
#include "pattern.h"

int main(int argc, char **argv) {
    int unsafe = shows(argc, argv), fd = new_file("new");
    CHECK(write(fd, fresh(), 4096) == 4096);
    if (!unsafe) CHECK(fsync(fd) == 0);
    CHECK(rename("new", "name") == 0);
    return 0;
}
