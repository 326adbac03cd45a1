// shows: syncs
#include "pattern.h"

int main(int argc, char **argv) {
    int often = shows(argc, argv), fd = new_file("journal");
    for (int n = 1; n <= 60; n++) {
        CHECK(write(fd, fresh(), 4096) == 4096);
        if (often || n % 20 == 0) CHECK(fdatasync(fd) == 0);
    }
    return 0;
}
