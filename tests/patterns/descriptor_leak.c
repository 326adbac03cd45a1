// shows: descriptor_leak
#include "pattern.h"

int main(int argc, char **argv) {
    int leak = shows(argc, argv);
    CHECK(close(new_file("config")) == 0);
    for (int n = 0; n < 50; n++) {
        int fd = open("config", O_RDONLY);
        CHECK(fd >= 0);
        if (!leak) CHECK(close(fd) == 0);
    }
    return 0;
}
