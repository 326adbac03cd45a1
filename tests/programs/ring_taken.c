// io_uring: a ring that another process takes (pidfd_getfd), submits to, and has completions of.
// count: off
#include "expect.h"
#include "ring.h"
#include <sys/socket.h>

#define BLOCK 4096

static char bytes[BLOCK], back[BLOCK];

// What is told of the ring.
struct told {
    int fd;
    struct io_uring_params params;
};

static void owns(int end) {
    struct told told = {0};
    struct ring ring;
    told.fd = (int)syscall(SYS_io_uring_setup, 8, &told.params);
    if (told.fd >= 0) {
        ring = (struct ring){.fd = told.fd};
        map_ring(&ring, &told.params);
    }
    CHECK(write(end, &told, sizeof told) == sizeof told);
    char byte;
    CHECK(read(end, &byte, 1) == 1);
    _exit(0);
}

int main(int argc, char **argv) {
    begin(argc, argv);
    int ends[2], file = open("taken", O_RDWR | O_CREAT | O_TRUNC, 0600);
    CHECK(socketpair(AF_UNIX, SOCK_STREAM, 0, ends) == 0 && file >= 0);
    fill(bytes, BLOCK);
    pid_t pid = fork();
    if (pid == 0) owns(ends[1]);
    struct told told;
    CHECK(read(ends[0], &told, sizeof told) == sizeof told);
    int process = (int)syscall(SYS_pidfd_open, pid, 0);
    CHECK(process >= 0);
    struct ring ring = {.fd = told.fd < 0 ? -1 : (int)syscall(SYS_pidfd_getfd, process, told.fd, 0)};
    if (ring.fd >= 0) {
        map_ring(&ring, &told.params);
        next(&ring, IORING_OP_WRITE, file, bytes, BLOCK, 0);
        CHECK(one(&ring, NULL) == BLOCK);
        end(&ring);
        CHECK(pread(file, back, BLOCK, 0) == BLOCK && memcmp(back, bytes, BLOCK) == 0);
        EXPECT("pread64", BLOCK, DATA(back, BLOCK));
    }
    CHECK(write(ends[0], "x", 1) == 1);
    CHECK_CHILD(pid);
    close(process), close(file), close(ends[0]), close(ends[1]);
    return 0;
}
