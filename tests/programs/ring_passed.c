// io_uring: a ring that is passed to a process with a ring of its own (SCM_RIGHTS), and one that stays
// open over an exec.
// count: off
#include "expect.h"
#include "ring.h"
#include <sys/socket.h>

#define BLOCK 4096

static char out[BLOCK], in[BLOCK];

struct told {
    int fd;
    struct io_uring_params params;
};

static void moves(struct ring *ring, int is_seen) {
    int file = open("passed", O_RDWR | O_CREAT | O_TRUNC, 0600);
    CHECK(file >= 0);
    fill(out, BLOCK);
    next(ring, IORING_OP_WRITE, file, out, BLOCK, 0);
    CHECK(one(ring, NULL) == BLOCK);
    CHECK(pread(file, in, BLOCK, 0) == BLOCK && memcmp(in, out, BLOCK) == 0);
    if (is_seen) EXPECT("io_uring:WRITE", BLOCK, DATA(out, BLOCK));
    EXPECT("pread64", BLOCK, DATA(out, BLOCK));
    close(file);
}

static void gives(int end) {
    struct told told = {0};
    told.fd = (int)syscall(SYS_io_uring_setup, 8, &told.params);
    char room[CMSG_SPACE(sizeof told.fd)] = {0};
    struct iovec vector = {&told, sizeof told};
    struct msghdr message = {.msg_iov = &vector, .msg_iovlen = 1, .msg_control = room, .msg_controllen = sizeof room};
    struct cmsghdr *with = CMSG_FIRSTHDR(&message);
    *with = (struct cmsghdr){.cmsg_len = CMSG_LEN(sizeof told.fd), .cmsg_level = SOL_SOCKET, .cmsg_type = SCM_RIGHTS};
    memcpy(CMSG_DATA(with), &told.fd, sizeof told.fd);
    if (told.fd < 0) message.msg_controllen = 0;
    ssize_t sent = sendmsg(end, &message, 0);
    // Newer kernels do not pass rings.
    if (sent < 0) {
        told.fd = -1;
        CHECK(write(end, &told, sizeof told) == sizeof told);
    }
    char byte;
    CHECK(read(end, &byte, 1) == 1);
    _exit(0);
}

static void takes(int end) {
    struct told told = {0};
    char room[CMSG_SPACE(sizeof told.fd)] = {0};
    struct iovec vector = {&told, sizeof told};
    struct msghdr message = {.msg_iov = &vector, .msg_iovlen = 1, .msg_control = room, .msg_controllen = sizeof room};
    CHECK(recvmsg(end, &message, 0) == sizeof told);
    struct ring own, other;
    struct cmsghdr *with = CMSG_FIRSTHDR(&message);
    if (told.fd >= 0 && with && has_rings(&own, 8, 0)) {
        memcpy(&told.fd, CMSG_DATA(with), sizeof told.fd);
        other = (struct ring){.fd = told.fd};
        map_ring(&other, &told.params);
        moves(&own, 1);
        moves(&other, 0);
    }
    CHECK(write(end, "x", 1) == 1);
}

int main(int argc, char **argv) {
    if (argc > 2) {
        // What was left by the program before.
        struct told told;
        begin(argc, argv);
        CHECK(read(atoi(argv[2]), &told, sizeof told) == sizeof told);
        struct ring ring = {.fd = told.fd};
        map_ring(&ring, &told.params);
        moves(&ring, 0);
        return 0;
    }
    begin(argc, argv);
    int ends[2];
    CHECK(socketpair(AF_UNIX, SOCK_STREAM, 0, ends) == 0);
    pid_t pid = fork();
    if (pid == 0) gives(ends[1]);
    takes(ends[0]);
    CHECK_CHILD(pid);
    struct told told = {0};
    told.fd = (int)syscall(SYS_io_uring_setup, 8, &told.params);
    if (told.fd < 0) return 0;
    struct ring ring = {.fd = told.fd};
    map_ring(&ring, &told.params);
    moves(&ring, 1);
    CHECK(fcntl(told.fd, F_SETFD, 0) == 0);
    CHECK(write(ends[0], &told, sizeof told) == sizeof told);
    char number[16];
    snprintf(number, sizeof number, "%d", ends[1]);
    fflush(stdout);
    execl("/proc/self/exe", argv[0], argv[1], number, NULL);
    return 1;
}
