// io_uring: rings that begin disabled, with restrictions of what may be submitted and registered.
// count: off
#include "expect.h"
#include "ring.h"

#define BLOCK 4096

static char out[BLOCK], in[BLOCK];

static long registers(struct ring *ring, unsigned what, void *at, unsigned count) {
    return syscall(SYS_io_uring_register, ring->fd, what, at, count);
}

int main(int argc, char **argv) {
    begin(argc, argv);
    struct ring ring;
    if (!has_rings(&ring, 8, IORING_SETUP_R_DISABLED)) return 0;
    int file = open("restricted", O_RDWR | O_CREAT | O_TRUNC, 0600);
    CHECK(file >= 0);
    fill(out, BLOCK);
    // Nothing is submitted before it is enabled.
    next(&ring, IORING_OP_WRITE, file, out, BLOCK, 0);
    CHECK(syscall(SYS_io_uring_enter, ring.fd, 1, 0, 0, NULL, 0) == -1 && errno == EBADFD);
    EXPECT_ERRNO("io_uring_enter", EBADFD);
    struct io_uring_restriction allowed[] = {
        {.opcode = IORING_RESTRICTION_SQE_OP, .sqe_op = IORING_OP_WRITE},
        {.opcode = IORING_RESTRICTION_SQE_OP, .sqe_op = IORING_OP_READ},
        {.opcode = IORING_RESTRICTION_REGISTER_OP, .register_op = IORING_REGISTER_ENABLE_RINGS},
        {.opcode = IORING_RESTRICTION_SQE_FLAGS_ALLOWED, .sqe_flags = IOSQE_IO_LINK},
    };
    CHECK(registers(&ring, IORING_REGISTER_RESTRICTIONS, allowed, 4) == 0);
    CHECK(registers(&ring, IORING_REGISTER_ENABLE_RINGS, NULL, 0) == 0);
    CHECK(one(&ring, NULL) == BLOCK);
    EXPECT("io_uring:WRITE", BLOCK, DATA(out, BLOCK));
    next(&ring, IORING_OP_READ, file, in, BLOCK, 0);
    CHECK(one(&ring, NULL) == BLOCK && memcmp(in, out, BLOCK) == 0);
    EXPECT("io_uring:READ", BLOCK, DATA(in, BLOCK));
    // What is not allowed is refused, by the kernel.
    next(&ring, IORING_OP_NOP, -1, NULL, 0, 0);
    CHECK(one(&ring, NULL) == -EACCES);
    EXPECT_ERRNO("io_uring:NOP", EACCES);
    next(&ring, IORING_OP_READ, file, in, BLOCK, 0)->flags = IOSQE_ASYNC;
    CHECK(one(&ring, NULL) == -EACCES);
    EXPECT_ERRNO("io_uring:READ", EACCES);
    CHECK(registers(&ring, IORING_REGISTER_EVENTFD, &file, 1) == -1 && errno == EACCES);
    close(file);
    end(&ring);
    return 0;
}
