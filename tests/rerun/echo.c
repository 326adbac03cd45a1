/*
 * A server of TCP that waits by epoll, and its client.
 *
 *   echo serve PORT CONNECTIONS     answers each piece of 1,000 bytes with it and 1,000 more
 *   echo ask PORT WORD              three connections, each with three pieces; says what it got
 *
 * At the end of a connection the server sends 3,000,000 bytes in one call.
 */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <fcntl.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <unistd.h>

enum { PIECE = 1000, PIECES = 3, CONNECTIONS = 3, LAST = 3000000 };

static void fail(const char *what) {
    perror(what);
    exit(1);
}

static struct sockaddr_in at(const char *port) {
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_port = htons(atoi(port))};
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    return address;
}

/* Reads so many bytes, and returns their sum. */
static long take(int fd, long count) {
    static unsigned char bytes[65536];
    long sum = 0;
    while (count > 0) {
        ssize_t n = read(fd, bytes, count < (long)sizeof bytes ? count : (long)sizeof bytes);
        if (n <= 0)
            fail("read");
        for (ssize_t i = 0; i < n; i++)
            sum += bytes[i];
        count -= n;
    }
    return sum;
}

static int ask(const char *port, const char *word) {
    struct sockaddr_in server = at(port);
    char piece[PIECE];
    long sum = 0;
    for (int connection = 0; connection < CONNECTIONS; connection++) {
        int fd = socket(AF_INET, SOCK_STREAM, 0);
        if (connect(fd, (void *)&server, sizeof server) != 0)
            fail("connect");
        for (int number = 0; number < PIECES; number++) {
            memset(piece, '.', sizeof piece);
            snprintf(piece, sizeof piece, "%s %d %d", word, connection, number);
            /* In two parts, of which the server may see one. */
            if (send(fd, piece, 10, 0) != 10 || send(fd, piece + 10, PIECE - 10, 0) != PIECE - 10)
                fail("send");
            sum += take(fd, 2 * PIECE);
        }
        shutdown(fd, SHUT_WR);
        sum += take(fd, LAST);
        close(fd);
    }
    printf("sum %ld\n", sum);
    return 0;
}

/* Answers what came. Returns false at the end of the connection. */
static int answer(int fd, char *last) {
    char piece[PIECE], more[PIECE];
    char first;
    if (recv(fd, &first, 1, MSG_PEEK) < 0)
        fail("peek");
    ssize_t n = recv(fd, piece, sizeof piece, MSG_WAITALL);
    if (n < 0)
        fail("recv");
    if (n == 0) {
        for (long sent = 0; sent < LAST;) {
            ssize_t m = write(fd, last + sent, LAST - sent);
            if (m <= 0)
                fail("write");
            sent += m;
        }
        return 0;
    }
    memset(more, first, sizeof more);
    struct iovec parts[] = {{piece, n}, {more, sizeof more}};
    if (writev(fd, parts, 2) != n + PIECE)
        fail("writev");
    return 1;
}

static int serve(const char *port, int left) {
    struct sockaddr_in address = at(port);
    int one = 1, listening = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    setsockopt(listening, SOL_SOCKET, SO_REUSEADDR, &one, sizeof one);
    if (bind(listening, (void *)&address, sizeof address) != 0 || listen(listening, 8) != 0)
        fail("bind");
    char *last = malloc(LAST);
    memset(last, 'l', LAST);
    int queue = epoll_create1(EPOLL_CLOEXEC);
    struct epoll_event event = {.events = EPOLLIN, .data.fd = listening};
    epoll_ctl(queue, EPOLL_CTL_ADD, listening, &event);
    while (left > 0) {
        struct epoll_event events[4];
        int n = epoll_wait(queue, events, 4, -1);
        for (int i = 0; i < n; i++) {
            int fd = events[i].data.fd;
            if (fd == listening) {
                fd = accept4(listening, NULL, NULL, SOCK_CLOEXEC);
                setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
                /* Another number, as servers like them that have few to spare. */
                int high = fcntl(fd, F_DUPFD_CLOEXEC, 50);
                close(fd);
                event = (struct epoll_event){.events = EPOLLIN, .data.fd = high};
                epoll_ctl(queue, EPOLL_CTL_ADD, high, &event);
            } else if (!answer(fd, last)) {
                epoll_ctl(queue, EPOLL_CTL_DEL, fd, NULL);
                close(fd);
                left--;
            }
        }
    }
    struct pollfd none = {.fd = listening, .events = POLLIN};
    printf("served, %d more\n", poll(&none, 1, 10));
    return 0;
}

int main(int argc, char **argv) {
    if (argc > 3 && strcmp(argv[1], "serve") == 0)
        return serve(argv[2], atoi(argv[3]));
    return argc > 3 ? ask(argv[2], argv[3]) : 2;
}
