// shows: useless_seeks
#include "pattern.h"

int main(int argc, char **argv) {
    int useless = shows(argc, argv), fd = new_file("data");
    CHECK(ftruncate(fd, 1 << 20) == 0);
    for (off_t n = 0; n < 120; n++) {
        if (useless) CHECK(lseek(fd, 0, SEEK_END) == 1 << 20);
        CHECK(lseek(fd, n * 4096, SEEK_SET) == n * 4096);
        CHECK(read(fd, page, 2000) == 2000);
    }
    return 0;
}
