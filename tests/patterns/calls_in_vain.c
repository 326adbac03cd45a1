// shows: polling
#include "pattern.h"

#include <poll.h>

int main(int argc, char **argv) {
    int polls = shows(argc, argv), ends[2];
    CHECK(pipe2(ends, O_NONBLOCK) == 0);
    char byte;
    if (polls)
        for (int n = 0; n < 5000; n++) CHECK(read(ends[0], &byte, 1) == -1 && errno == EAGAIN);
    struct pollfd one = {.fd = ends[0], .events = POLLIN};
    CHECK(poll(&one, 1, 10) == 0);
    return 0;
}
