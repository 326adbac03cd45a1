// shows: short_writes
#include "pattern.h"

int main(int argc, char **argv) {
    int too_much = shows(argc, argv), ends[2];
    CHECK(pipe2(ends, O_NONBLOCK) == 0);
    for (int n = 0; n < 40; n++) {
        CHECK(write(ends[1], fresh(), 40000) == 40000);
        // The pipe holds 65536 bytes.
        if (too_much) CHECK(write(ends[1], page, 40000) < 40000);
        while (read(ends[0], page, sizeof page) > 0) {
        }
    }
    return 0;
}
