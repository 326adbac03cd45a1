// Sends itself more through a pair of sockets than fits there unless it asks for more room.
#include "expect.h"
#include <sys/socket.h>

enum { SIZE = 320000, PIECE = 8000 };

static char out[SIZE], in[SIZE];

int main(void) {
    int ends[2], room = 1 << 20;
    CHECK(socketpair(AF_UNIX, SOCK_STREAM, 0, ends) == 0);
    EXPECT("socketpair", 0, DATA(ends, sizeof ends));
    CHECK(setsockopt(ends[0], SOL_SOCKET, SO_SNDBUF, &room, sizeof room) == 0);
    EXPECT("setsockopt", 0, DATA(&room, sizeof room), TEXT("SO_SNDBUF"));
    fill(out, sizeof out);
    size_t sent = 0;
    // Without leave for more (net.core.wmem_max) it may be less than all.
    for (ssize_t n; sent < sizeof out && (n = send(ends[0], out + sent, PIECE, MSG_DONTWAIT)) > 0;) {
        EXPECT("sendto", n, DATA(out + sent, (size_t)n), TEXT("MSG_DONTWAIT"));
        sent += (size_t)n;
    }
    CHECK(sent > 0);
    if (sent < sizeof out) EXPECT_ERRNO("sendto", EAGAIN);
    for (size_t at = 0; at < sent;) {
        ssize_t n = recv(ends[1], in + at, sent - at, 0);
        CHECK(n > 0);
        EXPECT("recvfrom", n, DATA(in + at, (size_t)n));
        at += (size_t)n;
    }
    return 0;
}
