// Datagrams with addresses, cut by buffers that are too short.
#include "expect.h"
#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>

int main(int argc, char **argv) {
    begin(argc, argv);
    struct sockaddr_in to = {.sin_family = AF_INET, .sin_addr = {htonl(INADDR_LOOPBACK)}}, from;
    int receiver = socket(AF_INET, SOCK_DGRAM, 0), sender = socket(AF_INET, SOCK_DGRAM, 0);
    CHECK(receiver >= 0 && sender >= 0);
    socklen_t len = sizeof to;
    CHECK(bind(receiver, (struct sockaddr *)&to, sizeof to) == 0);
    CHECK(getsockname(receiver, (struct sockaddr *)&to, &len) == 0 && len == sizeof to);
    static char out[8000], in[8000];
    for (int i = 0; i < 30; i++) {
        size_t n = random_len(sizeof out);
        fill(out, n);
        CHECK(sendto(sender, out, n, 0, (struct sockaddr *)&to, sizeof to) == (ssize_t)n);
        EXPECT("sendto", n, DATA(out, n), DATA(&to, sizeof to));
        len = sizeof from;
        CHECK(recvfrom(receiver, in, sizeof in, 0, (struct sockaddr *)&from, &len) == (ssize_t)n);
        CHECK(memcmp(in, out, n) == 0 && len == sizeof from);
        EXPECT("recvfrom", n, DATA(in, n), DATA(&from, sizeof from));
    }
    // MSG_TRUNC returns the true length, which is more than the buffer holds.
    fill(out, 100);
    CHECK(sendto(sender, out, 100, 0, (struct sockaddr *)&to, sizeof to) == 100);
    CHECK(recvfrom(receiver, in, 10, MSG_TRUNC, NULL, NULL) == 100);
    EXPECT("recvfrom", 100, DATA(out, 10), TEXT("MSG_TRUNC"));
    CHECK(recvfrom(receiver, in, 10, MSG_DONTWAIT, NULL, NULL) == -1 && errno == EAGAIN);
    EXPECT_ERRNO("recvfrom", EAGAIN);
    return 0;
}
