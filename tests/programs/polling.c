// poll, ppoll, select and pselect6: what was asked and what was ready.
#include "expect.h"
#include <poll.h>
#include <sys/select.h>

int main(int argc, char **argv) {
    begin(argc, argv);
    int ends[2];
    CHECK(pipe(ends) == 0);
    struct pollfd watched[2] = {{ends[0], POLLIN, 0}, {ends[1], POLLOUT, 0}};
    CHECK(poll(watched, 2, 0) == 1 && watched[1].revents == POLLOUT);
    EXPECT("poll", 1, DATA(watched, sizeof watched), TEXT("POLLOUT"));
    CHECK(poll(watched, 1, 20) == 0);
    EXPECT("poll", 0, DATA(watched, sizeof *watched));
    CHECK(write(ends[1], "x", 1) == 1);
    struct timespec wait = {1, 500};
    CHECK(syscall(SYS_ppoll, watched, 2, &wait, NULL, 8) == 2);
    EXPECT("ppoll", 2, DATA(watched, sizeof watched));
    fd_set readable, writable;
    FD_ZERO(&readable);
    FD_ZERO(&writable);
    FD_SET(ends[0], &readable);
    FD_SET(ends[1], &writable);
    struct timeval limit = {2, 0};
    CHECK(syscall(SYS_select, ends[1] + 1, &readable, &writable, NULL, &limit) == 2);
    CHECK(FD_ISSET(ends[0], &readable) && FD_ISSET(ends[1], &writable));
    EXPECT("select", 2, DATA(&readable, 8), DATA(&writable, 8), DATA(&limit, sizeof limit));
    char byte;
    CHECK(read(ends[0], &byte, 1) == 1);
    FD_ZERO(&readable);
    FD_SET(ends[0], &readable);
    wait = (struct timespec){0, 1000000};
    CHECK(syscall(SYS_pselect6, ends[0] + 1, &readable, NULL, NULL, &wait, NULL) == 0);
    CHECK(!FD_ISSET(ends[0], &readable));
    EXPECT("pselect6", 0, DATA(&readable, 8));
    watched[0].fd = 900;
    CHECK(poll(watched, 1, 0) == 1 && watched[0].revents == POLLNVAL);
    EXPECT("poll", 1, DATA(watched, sizeof *watched), TEXT("POLLNVAL"));
    return 0;
}
