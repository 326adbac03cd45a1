// Streams over TCP and Unix sockets: addresses, options, data in both directions.
#include "expect.h"
#include <arpa/inet.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>
#include <sys/un.h>

static char out[40000], in[40000];

static void send_all(int fd, size_t len) {
    for (size_t at = 0; at < len;) {
        ssize_t n = send(fd, out + at, len - at, MSG_NOSIGNAL);
        CHECK(n > 0);
        EXPECT("sendto", n, DATA(out + at, (size_t)n), TEXT("MSG_NOSIGNAL"));
        at += (size_t)n;
    }
}

static void receive_all(int fd, size_t len) {
    for (size_t at = 0; at < len;) {
        ssize_t n = recv(fd, in + at, len - at, 0);
        CHECK(n > 0);
        EXPECT("recvfrom", n, DATA(in + at, (size_t)n));
        at += (size_t)n;
    }
}

static void talk(int domain, const void *address, socklen_t address_len) {
    int listener = socket(domain, SOCK_STREAM | SOCK_CLOEXEC, 0);
    CHECK(listener >= 0);
    EXPECT("socket", listener, TEXT("SOCK_STREAM"));
    CHECK(bind(listener, address, address_len) == 0);
    EXPECT("bind", 0, DATA(address, address_len));
    CHECK(listen(listener, 4) == 0);
    EXPECT("listen", 0);
    char bound[128];
    socklen_t bound_len = sizeof bound;
    CHECK(getsockname(listener, (struct sockaddr *)bound, &bound_len) == 0);
    EXPECT("getsockname", 0, DATA(bound, bound_len));
    int client = socket(domain, SOCK_STREAM, 0);
    CHECK(client >= 0 && connect(client, (struct sockaddr *)bound, bound_len) == 0);
    EXPECT("connect", 0, DATA(bound, bound_len));
    char peer[128];
    socklen_t peer_len = sizeof peer;
    int server = accept4(listener, (struct sockaddr *)peer, &peer_len, SOCK_CLOEXEC);
    CHECK(server >= 0);
    EXPECT("accept4", server, DATA(peer, peer_len), TEXT("SOCK_CLOEXEC"));
    peer_len = sizeof peer;
    CHECK(getpeername(client, (struct sockaddr *)peer, &peer_len) == 0);
    EXPECT("getpeername", 0, DATA(peer, peer_len));
    int size = 30000;
    CHECK(setsockopt(client, SOL_SOCKET, SO_SNDBUF, &size, sizeof size) == 0);
    EXPECT("setsockopt", 0, DATA(&size, sizeof size), TEXT("SO_SNDBUF"));
    socklen_t size_len = sizeof size;
    CHECK(getsockopt(client, SOL_SOCKET, SO_SNDBUF, &size, &size_len) == 0);
    EXPECT("getsockopt", 0, DATA(&size, sizeof size), DATA(&size_len, sizeof size_len));
    for (int i = 0; i < 5; i++) {
        size_t len = random_len(15000);
        fill(out, len);
        send_all(client, len);
        receive_all(server, len);
        CHECK(memcmp(in, out, len) == 0);
        send_all(server, len / 2 + 1);
        receive_all(client, len / 2 + 1);
    }
    CHECK(shutdown(client, SHUT_WR) == 0);
    EXPECT("shutdown", 0, TEXT("SHUT_WR"));
    CHECK(recv(server, in, sizeof in, 0) == 0);
    EXPECT("recvfrom", 0);
    close(client);
    close(server);
    close(listener);
}

int main(int argc, char **argv) {
    begin(argc, argv);
    struct sockaddr_in inet = {.sin_family = AF_INET, .sin_addr = {htonl(INADDR_LOOPBACK)}};
    talk(AF_INET, &inet, sizeof inet);
    struct sockaddr_un local = {.sun_family = AF_UNIX, .sun_path = "stream.socket"};
    talk(AF_UNIX, &local, sizeof local);
    int sock = socket(AF_INET, SOCK_STREAM, 0);
    inet.sin_port = htons(1);
    CHECK(connect(sock, (struct sockaddr *)&inet, sizeof inet) == -1 && errno == ECONNREFUSED);
    EXPECT_ERRNO("connect", ECONNREFUSED, TEXT("127.0.0.1"));
    return 0;
}
