// io_uring: operations with arguments of their own, beside those that move files: extended attributes,
// splice and tee, commands, waits, sockets and pipes. Where the kernel lacks one, it is left out.
// count: off
#include "expect.h"
#include "ring.h"
#include <arpa/inet.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/xattr.h>

#define BYTES 3000
// Those of newer headers.
#define URING_CMD 46
#define WAITID 50
#define FUTEX_WAITS 51
#define FUTEX_WAKES 52
#define BIND_OP 56
#define LISTEN_OP 57
#define EPOLL_WAIT_OP 59
#define PIPE_OP 62
#define FUTEX2_SIZE_U32 2

static struct ring ring;
static char out[BYTES], in[BYTES];

static int lacks(int result) { return result == -EINVAL || result == -EOPNOTSUPP; }

static void attributes(void) {
    int fd = open("attributes", O_RDWR | O_CREAT | O_TRUNC, 0600);
    CHECK(fd >= 0);
    if (setxattr("attributes", "user.there", "x", 1, 0) < 0) {
        close(fd);
        return;
    }
    char value[700];
    for (int i = 0; i < 4; i++) {
        char name[20];
        snprintf(name, sizeof name, "user.name%d", i);
        size_t len = random_len(sizeof value);
        fill(value, len);
        int by_fd = i % 2;
        struct io_uring_sqe *sqe =
            next(&ring, by_fd ? IORING_OP_FSETXATTR : IORING_OP_SETXATTR, by_fd ? fd : 0, name, (unsigned)len, (uint64_t)value);
        if (!by_fd) sqe->addr3 = (uint64_t)"attributes";
        CHECK(one(&ring, NULL) == 0);
        EXPECT(by_fd ? "io_uring:FSETXATTR" : "io_uring:SETXATTR", 0, TEXT(name), DATA(value, len));
        by_fd = !by_fd;
        sqe = next(&ring, by_fd ? IORING_OP_FGETXATTR : IORING_OP_GETXATTR, by_fd ? fd : 0, name, sizeof in, (uint64_t)in);
        if (!by_fd) sqe->addr3 = (uint64_t)"attributes";
        CHECK(one(&ring, NULL) == (int)len && memcmp(in, value, len) == 0);
        EXPECT(by_fd ? "io_uring:FGETXATTR" : "io_uring:GETXATTR", len, TEXT(name), DATA(in, len));
    }
    close(fd);
}

static void splices(void) {
    int fd = open("spliced", O_RDWR | O_CREAT | O_TRUNC, 0600), ends[2], others[2];
    CHECK(fd >= 0 && pipe(ends) == 0 && pipe(others) == 0);
    fill(out, sizeof out);
    CHECK(write(fd, out, sizeof out) == sizeof out);
    for (int i = 0; i < 4; i++) {
        int len = 100 + 100 * i;
        uint64_t from = (uint64_t)i * 50, to = sizeof out + (uint64_t)i * 1000;
        struct io_uring_sqe *sqe = next(&ring, IORING_OP_SPLICE, ends[1], (void *)from, (unsigned)len, (uint64_t)-1);
        sqe->splice_fd_in = fd;
        CHECK(one(&ring, NULL) == len);
        EXPECT("io_uring:SPLICE", len);
        sqe = next(&ring, IORING_OP_TEE, others[1], NULL, (unsigned)len, 0);
        sqe->splice_fd_in = ends[0];
        CHECK(one(&ring, NULL) == len);
        EXPECT("io_uring:TEE", len);
        sqe = next(&ring, IORING_OP_SPLICE, fd, (void *)-1, (unsigned)len, to);
        sqe->splice_fd_in = ends[0];
        CHECK(one(&ring, NULL) == len);
        EXPECT("io_uring:SPLICE", len);
        CHECK(read(others[0], in, sizeof in) == len && memcmp(in, out + from, (size_t)len) == 0);
        CHECK(pread(fd, in, (size_t)len, (off_t)to) == len && memcmp(in, out + from, (size_t)len) == 0);
        EXPECT("pread64", len, DATA(in, (size_t)len));
    }
    // Where the file stands.
    CHECK(lseek(fd, 10, SEEK_SET) == 10);
    next(&ring, IORING_OP_SPLICE, ends[1], (void *)-1, 200, (uint64_t)-1)->splice_fd_in = fd;
    CHECK(one(&ring, NULL) == 200 && lseek(fd, 0, SEEK_CUR) == 210);
    CHECK(read(ends[0], in, sizeof in) == 200 && memcmp(in, out + 10, 200) == 0);
    EXPECT("read", 200, DATA(in, 200));
    for (int i = 0; i < 2; i++) close(ends[i]), close(others[i]);
    close(fd);
}

// A command for a socket: how many bytes can be read.
static void commands(void) {
    struct ring twice;
    struct sockaddr_in name = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t len = sizeof name;
    int fd = socket(AF_INET, SOCK_DGRAM, 0);
    if (fd < 0 || !has_rings(&twice, 4, IORING_SETUP_SQE128)) return;
    int is_there = bind(fd, (void *)&name, len) == 0 && getsockname(fd, (void *)&name, &len) == 0 &&
                   sendto(fd, out, 77, 0, (void *)&name, len) == 77;
    for (int i = 0; is_there && i < 3; i++) {
        char command[80];
        fill(command, sizeof command);
        // It takes nothing, and nobody looks at what it is given.
        struct io_uring_sqe *sqe = next(&twice, URING_CMD, fd, NULL, 0, 0);
        memcpy((char *)sqe + 48, command, sizeof command);
        int got = one(&twice, NULL);
        if (got < 0) break;
        CHECK(got == 77);
        EXPECT("io_uring:URING_CMD", 77, DATA(command, sizeof command));
    }
    close(fd);
    end(&twice);
}

static void waits(void) {
    int ends[2], poller = epoll_create1(0);
    CHECK(pipe(ends) == 0 && write(ends[1], "x", 1) == 1);
    struct epoll_event event = {.events = EPOLLIN, .data.u64 = 0x1234567890};
    next(&ring, IORING_OP_EPOLL_CTL, poller, &event, EPOLL_CTL_ADD, (uint64_t)ends[0]);
    CHECK(one(&ring, NULL) == 0);
    EXPECT("io_uring:EPOLL_CTL", 0, DATA(&event, sizeof event), TEXT("EPOLL_CTL_ADD"));
    struct epoll_event found[4];
    next(&ring, EPOLL_WAIT_OP, poller, found, 4, 0);
    int got = one(&ring, NULL);
    if (!lacks(got)) {
        CHECK(got == 1 && found[0].data.u64 == event.data.u64);
        EXPECT("io_uring:EPOLL_WAIT", 1, DATA(found, sizeof *found));
    }
    next(&ring, IORING_OP_POLL_ADD, ends[0], NULL, 0, 0)->poll_events = POLLIN;
    CHECK(one(&ring, NULL) == POLLIN);
    EXPECT("io_uring:POLL_ADD", POLLIN, TEXT("POLLIN"));
    struct { int64_t s, ns; } soon = {0, 1000000};
    next(&ring, IORING_OP_TIMEOUT, -1, &soon, 1, 0);
    CHECK(one(&ring, NULL) == -ETIME);
    EXPECT_ERRNO("io_uring:TIMEOUT", ETIME, DATA(&soon, sizeof soon));
    fflush(stdout);
    pid_t pid = fork();
    if (pid == 0) _exit(7);
    siginfo_t info;
    memset(&info, 0, sizeof info);
    struct io_uring_sqe *sqe = next(&ring, WAITID, pid, NULL, P_PID, (uint64_t)&info);
    sqe->file_index = WEXITED;
    got = one(&ring, NULL);
    if (lacks(got)) {
        CHECK(WEXITSTATUS(wait_for(pid)) == 7);
    } else {
        CHECK(got == 0 && info.si_status == 7 && info.si_pid == pid);
        EXPECT("io_uring:WAITID", 0, TEXT("P_PID"));
    }
    static uint32_t word = 5;
    sqe = next(&ring, FUTEX_WAITS, FUTEX2_SIZE_U32, &word, 0, 6);
    sqe->addr3 = UINT32_MAX;
    got = one(&ring, NULL);
    if (!lacks(got)) {
        CHECK(got == -EAGAIN);
        EXPECT_ERRNO("io_uring:FUTEX_WAIT", EAGAIN);
        sqe = next(&ring, FUTEX_WAKES, FUTEX2_SIZE_U32, &word, 0, 1);
        sqe->addr3 = UINT32_MAX;
        CHECK(one(&ring, NULL) == 0);
        EXPECT("io_uring:FUTEX_WAKE", 0);
    }
    // What is cancelled, and what takes it back.
    next(&ring, IORING_OP_POLL_ADD, ends[1], NULL, 0, 0)->poll_events = POLLHUP;
    uint64_t name = *ring.tail - 1;
    go(&ring, 1, 0);
    next(&ring, IORING_OP_ASYNC_CANCEL, -1, (void *)name, 0, 0);
    go(&ring, 1, 2);
    struct io_uring_cqe done;
    for (int i = 0; i < 2; i++) {
        while (!take(&ring, &done)) go(&ring, 0, 1);
        CHECK(done.user_data == name ? done.res == -ECANCELED : done.res == 0);
    }
    EXPECT_ERRNO("io_uring:POLL_ADD", ECANCELED, TEXT("POLLHUP"));
    EXPECT("io_uring:ASYNC_CANCEL", 0);
    close(poller), close(ends[0]), close(ends[1]);
}

static void sockets(void) {
    struct sockaddr_un name = {.sun_family = AF_UNIX, .sun_path = "by_ring"};
    int served = socket(AF_UNIX, SOCK_STREAM, 0), client = socket(AF_UNIX, SOCK_STREAM, 0);
    CHECK(served >= 0 && client >= 0);
    next(&ring, BIND_OP, served, &name, 0, sizeof name);
    int got = one(&ring, NULL);
    if (lacks(got)) {
        CHECK(bind(served, (void *)&name, sizeof name) == 0 && listen(served, 4) == 0);
    } else {
        CHECK(got == 0);
        EXPECT("io_uring:BIND", 0, TEXT("by_ring"));
        next(&ring, LISTEN_OP, served, NULL, 4, 0);
        CHECK(one(&ring, NULL) == 0);
        EXPECT("io_uring:LISTEN", 0);
    }
    struct sockaddr_un mine = {.sun_family = AF_UNIX, .sun_path = "who_asks"}, seen;
    CHECK(bind(client, (void *)&mine, sizeof mine) == 0);
    next(&ring, IORING_OP_CONNECT, client, &name, 0, sizeof name);
    CHECK(one(&ring, NULL) == 0);
    EXPECT("io_uring:CONNECT", 0, TEXT("by_ring"));
    socklen_t len = sizeof seen;
    next(&ring, IORING_OP_ACCEPT, served, &seen, 0, (uint64_t)&len);
    int accepted = one(&ring, NULL);
    CHECK(accepted >= 0 && strcmp(seen.sun_path, "who_asks") == 0);
    EXPECT("io_uring:ACCEPT", accepted, TEXT("who_asks"));
    CHECK(unlink("by_ring") == 0 && unlink("who_asks") == 0);
    close(served), close(client), close(accepted);
}

static void pipes(void) {
    int ends[2] = {-1, -1};
    next(&ring, PIPE_OP, 0, ends, 0, 0)->open_flags = O_CLOEXEC;
    int got = one(&ring, NULL);
    if (lacks(got)) return;
    CHECK(got == 0);
    EXPECT("io_uring:PIPE", 0, DATA(ends, sizeof ends));
    fill(out, 500);
    next(&ring, IORING_OP_WRITE, ends[1], out, 500, (uint64_t)-1);
    CHECK(one(&ring, NULL) == 500);
    EXPECT("io_uring:WRITE", 500, DATA(out, 500));
    CHECK(read(ends[0], in, sizeof in) == 500 && memcmp(in, out, 500) == 0);
    EXPECT("read", 500, DATA(in, 500));
    close(ends[0]), close(ends[1]);
}

int main(int argc, char **argv) {
    begin(argc, argv);
    if (!has_rings(&ring, 8, 0)) return 0;
    attributes();
    splices();
    commands();
    waits();
    sockets();
    pipes();
    end(&ring);
    return 0;
}
