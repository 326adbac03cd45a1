// Sockets: streams, datagrams, names, descriptors and credentials that travel, options.
#include "cases.h"
#include <arpa/inet.h>
#include <stddef.h>
#include <netinet/tcp.h>
#include <sys/socket.h>
#include <sys/un.h>

static struct sockaddr_un named(const char *path) {
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    snprintf(address.sun_path, sizeof address.sun_path, "%s", path);
    return address;
}

static void pair_both_ways(void) {
    int fds[2];
    char text[20] = "";
    CHECK(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, fds) == 0);
    CHECK(write(fds[0], "there", 5) == 5 && read(fds[1], text, 3) == 3 && read(fds[1], text, 9) == 2);
    CHECK(send(fds[1], "back", 4, 0) == 4 && recv(fds[0], text, 9, MSG_PEEK) == 4 && recv(fds[0], text, 9, 0) == 4);
    CHECK(shutdown(fds[0], SHUT_WR) == 0 && read(fds[1], text, 9) == 0);
    FAILS(EPIPE, send(fds[0], "x", 1, MSG_NOSIGNAL));
    FAILS(EAGAIN, recv(fds[0], text, 9, MSG_DONTWAIT));
    FAILS(ESPIPE, lseek(fds[0], 0, SEEK_CUR));
    FAILS(ESPIPE, pread(fds[0], text, 1, 0));
}

static void server_with_name(void) {
    struct sockaddr_un address = named("socket");
    int server = socket(AF_UNIX, SOCK_STREAM, 0);
    FAILS(EINVAL, listen(server, 5));
    CHECK(bind(server, (void *)&address, sizeof address) == 0 && listen(server, 5) == 0);
    pid_t pid = fork();
    CHECK(pid >= 0);
    if (pid == 0) {
        int fd = socket(AF_UNIX, SOCK_STREAM, 0);
        char text[10] = "";
        CHECK(connect(fd, (void *)&address, sizeof address) == 0);
        CHECK(write(fd, "ask", 3) == 3 && read(fd, text, 9) == 6 && strcmp(text, "answer") == 0);
        _exit(0);
    }
    int fd = accept4(server, NULL, NULL, SOCK_CLOEXEC);
    char text[10];
    CHECK(fd >= 0 && read(fd, text, 9) == 3 && write(fd, "answer", 6) == 6);
    CHECK_CHILD(pid);
    FAILS(EADDRINUSE, bind(socket(AF_UNIX, SOCK_STREAM, 0), (void *)&address, sizeof address));
    CHECK(unlink("socket") == 0);
    FAILS(ENOENT, connect(socket(AF_UNIX, SOCK_STREAM, 0), (void *)&address, sizeof address));
}

static void descriptors_travel(void) {
    int fds[2], file = new_file("file", "by the way");
    CHECK(socketpair(AF_UNIX, SOCK_DGRAM, 0, fds) == 0);
    union { struct cmsghdr header; char room[CMSG_SPACE(2 * sizeof(int))]; } control = {0};
    struct msghdr message = {.msg_iov = &(struct iovec){"fd", 2}, .msg_iovlen = 1,
                             .msg_control = &control, .msg_controllen = sizeof control.room};
    control.header = (struct cmsghdr){.cmsg_len = CMSG_LEN(sizeof(int)), .cmsg_level = SOL_SOCKET, .cmsg_type = SCM_RIGHTS};
    memcpy(CMSG_DATA(&control.header), &file, sizeof file);
    message.msg_controllen = CMSG_SPACE(sizeof(int));
    CHECK(sendmsg(fds[0], &message, 0) == 2);
    pid_t pid = fork();
    CHECK(pid >= 0);
    if (pid == 0) {
        char text[20] = "";
        int got;
        close(file);
        message.msg_iov = &(struct iovec){text, 20};
        CHECK(recvmsg(fds[1], &message, MSG_CMSG_CLOEXEC) == 2);
        memcpy(&got, CMSG_DATA(&control.header), sizeof got);
        CHECK(fcntl(got, F_GETFD) == FD_CLOEXEC);
        CHECK(pread(got, text, 20, 3) == 7 && memcmp(text, "the way", 7) == 0);
        CHECK(pwrite(got, "BY", 2, 0) == 2);
        _exit(0);
    }
    CHECK_CHILD(pid);
    must_hold("file", "BY the way");
}

static void credentials_travel(void) {
    int fds[2], on = 1;
    CHECK(socketpair(AF_UNIX, SOCK_STREAM, 0, fds) == 0);
    CHECK(setsockopt(fds[1], SOL_SOCKET, SO_PASSCRED, &on, sizeof on) == 0);
    CHECK(write(fds[0], "who", 3) == 3);
    char text[10];
    union { struct cmsghdr header; char room[CMSG_SPACE(sizeof(struct ucred))]; } control;
    struct msghdr message = {.msg_iov = &(struct iovec){text, 10}, .msg_iovlen = 1,
                             .msg_control = &control, .msg_controllen = sizeof control};
    CHECK(recvmsg(fds[1], &message, 0) == 3 && control.header.cmsg_type == SCM_CREDENTIALS);
    struct ucred who;
    memcpy(&who, CMSG_DATA(&control.header), sizeof who);
    CHECK(who.pid == getpid() && who.uid == getuid() && who.gid == getgid());
    socklen_t len = sizeof who;
    CHECK(getsockopt(fds[0], SOL_SOCKET, SO_PEERCRED, &who, &len) == 0 && who.pid == getpid());
}

static int listening(struct sockaddr_in *address) {
    int server = socket(AF_INET, SOCK_STREAM, 0);
    socklen_t len = sizeof *address;
    *address = (struct sockaddr_in){.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    CHECK(server >= 0 && bind(server, (void *)address, len) == 0 && listen(server, 8) == 0);
    CHECK(getsockname(server, (void *)address, &len) == 0);
    return server;
}

static void internet_stream(void) {
    struct sockaddr_in address, peer;
    int server = listening(&address), on = 1;
    pid_t pid = fork();
    CHECK(pid >= 0);
    if (pid == 0) {
        int fd = socket(AF_INET, SOCK_STREAM, 0);
        CHECK(connect(fd, (void *)&address, sizeof address) == 0);
        CHECK(setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on) == 0);
        static char bytes[200000];
        for (size_t sent = 0; sent < sizeof bytes;) sent += (size_t)write(fd, bytes + sent, sizeof bytes - sent);
        _exit(0);
    }
    socklen_t len = sizeof peer;
    int fd = accept(server, (void *)&peer, &len);
    CHECK(fd >= 0 && peer.sin_addr.s_addr == htonl(INADDR_LOOPBACK));
    char text[7000];
    size_t total = 0;
    for (ssize_t got; (got = read(fd, text, sizeof text)) > 0;) total += (size_t)got;
    CHECK(total == 200000);
    CHECK_CHILD(pid);
    close(server);
    FAILS(ECONNREFUSED, connect(socket(AF_INET, SOCK_STREAM, 0), (void *)&address, sizeof address));
}

static void internet_datagrams(void) {
    struct sockaddr_in one = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)}, from;
    socklen_t len = sizeof one;
    int a = socket(AF_INET, SOCK_DGRAM, 0), b = socket(AF_INET, SOCK_DGRAM, 0);
    CHECK(bind(a, (void *)&one, len) == 0 && getsockname(a, (void *)&one, &len) == 0);
    CHECK(sendto(b, "datagram", 8, 0, (void *)&one, len) == 8);
    char text[20];
    CHECK(recvfrom(a, text, 4, MSG_TRUNC, (void *)&from, &len) == 8 && memcmp(text, "data", 4) == 0);
    CHECK(connect(b, (void *)&one, sizeof one) == 0 && send(b, "", 0, 0) == 0);
    CHECK(recv(a, text, 20, 0) == 0);
    FAILS(EMSGSIZE, send(b, everything_printed, 70000, 0));
    FAILS(EDESTADDRREQ, send(a, "x", 1, 0));
}

static void many_messages(void) {
    int fds[2];
    CHECK(socketpair(AF_UNIX, SOCK_SEQPACKET, 0, fds) == 0);
    struct mmsghdr out[5] = {0}, in[5] = {0};
    struct iovec from[5], to[5];
    char texts[5][10] = {"a", "bb", "ccc", "dddd", "eeeee"}, found[5][10] = {0};
    for (int i = 0; i < 5; i++) {
        from[i] = (struct iovec){texts[i], (size_t)i + 1};
        to[i] = (struct iovec){found[i], 9};
        out[i].msg_hdr = (struct msghdr){.msg_iov = from + i, .msg_iovlen = 1};
        in[i].msg_hdr = (struct msghdr){.msg_iov = to + i, .msg_iovlen = 1};
    }
    CHECK(sendmmsg(fds[0], out, 5, 0) == 5 && recvmmsg(fds[1], in, 5, 0, NULL) == 5);
    for (int i = 0; i < 5; i++) CHECK(in[i].msg_len == (unsigned)i + 1 && strcmp(texts[i], found[i]) == 0);
    FAILS(EAGAIN, recvmmsg(fds[1], in, 5, MSG_DONTWAIT, NULL));
}

static void options(void) {
    int fd = socket(AF_INET, SOCK_STREAM, 0), value = 0;
    socklen_t len = sizeof value;
    CHECK(getsockopt(fd, SOL_SOCKET, SO_TYPE, &value, &len) == 0 && value == SOCK_STREAM);
    value = 1;
    CHECK(setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &value, sizeof value) == 0);
    FAILS(EINVAL, setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &value, 1));
    FAILS(ENOPROTOOPT, setsockopt(fd, SOL_SOCKET, 9999, &value, sizeof value));
    FAILS(ENOTSOCK, getsockopt(0, SOL_SOCKET, SO_TYPE, &value, &len));
    FAILS(ENOTCONN, getpeername(fd, (void *)everything_printed, &len));
    FAILS(EAFNOSUPPORT, socket(77, SOCK_STREAM, 0));
    struct timeval limit = {0, 20000};
    int fds[2];
    CHECK(socketpair(AF_UNIX, SOCK_STREAM, 0, fds) == 0);
    CHECK(setsockopt(fds[0], SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit) == 0);
    FAILS(EAGAIN, read(fds[0], &value, 1));
}

static void abstract_names(void) {
    struct sockaddr_un address = {.sun_family = AF_UNIX}, found;
    snprintf(address.sun_path + 1, 40, "wild-%d", getpid());
    socklen_t len = (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + strlen(address.sun_path + 1)), got = sizeof found;
    int a = socket(AF_UNIX, SOCK_DGRAM, 0), b = socket(AF_UNIX, SOCK_DGRAM, 0);
    CHECK(bind(a, (void *)&address, len) == 0 && sendto(b, "abstract", 8, 0, (void *)&address, len) == 8);
    char text[20];
    CHECK(recv(a, text, 20, 0) == 8 && getsockname(a, (void *)&found, &got) == 0 && got == len);
    CHECK(bind(b, (void *)&address, sizeof(sa_family_t)) == 0);
    close(a);
    FAILS(ECONNREFUSED, sendto(b, "x", 1, 0, (void *)&address, len));
}

static void file_over_socket(void) {
    int fds[2], file = new_file("in", "sent by splice"), ends[2], out = new_file("out", "");
    CHECK(socketpair(AF_UNIX, SOCK_STREAM, 0, fds) == 0 && pipe(ends) == 0);
    loff_t at = 0;
    CHECK(splice(file, &at, ends[1], NULL, 14, 0) == 14 && splice(ends[0], NULL, fds[0], NULL, 14, 0) == 14);
    CHECK(splice(fds[1], NULL, ends[1], NULL, 14, 0) == 14 && splice(ends[0], NULL, out, NULL, 14, 0) == 14);
    must_hold("out", "sent by splice");
}

CASES(
    {.name = "pair_both_ways", .function = pair_both_ways},
    {.name = "server_with_name", .function = server_with_name},
    {.name = "descriptors_travel", .function = descriptors_travel},
    {.name = "credentials_travel", .function = credentials_travel},
    {.name = "internet_stream", .function = internet_stream},
    {.name = "internet_datagrams", .function = internet_datagrams},
    {.name = "many_messages", .function = many_messages},
    {.name = "options", .function = options},
    {.name = "abstract_names", .function = abstract_names},
    {.name = "file_over_socket", .function = file_over_socket}, )
