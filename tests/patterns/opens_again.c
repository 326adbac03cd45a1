// shows: churn
#include "pattern.h"

int main(int argc, char **argv) {
    int churns = shows(argc, argv), fd = new_file("config");
    CHECK(write(fd, page, 4096) == 4096);
    for (int n = 0; n < 300 && churns; n++) {
        CHECK(close(fd) == 0);
        CHECK((fd = open("config", O_RDONLY)) >= 0);
    }
    return 0;
}
