// shows: missing_files
#include "pattern.h"

int main(int argc, char **argv) {
    int missing = shows(argc, argv);
    CHECK(close(new_file("here")) == 0);
    for (int n = 0; n < 150; n++) {
        char name[64];
        snprintf(name, sizeof name, "search/%d/here", n);
        struct stat found;
        CHECK(stat(missing ? name : "here", &found) == (missing ? -1 : 0));
    }
    return 0;
}
