// io_uring: a ring that a process and its child both have. What the one submits is told of it, also
// where the other one makes calls when it is completed.
// count: off
#include "expect.h"
#include "ring.h"

#define BLOCK 4096

static char out[BLOCK], in[BLOCK];

// The child brings about what its parent waits for, and makes calls until that is there.
static void completed_while_child_calls(void) {
    struct ring ring;
    int ends[2], done[2];
    if (!has_rings(&ring, 8, 0)) return;
    CHECK(pipe(ends) == 0 && pipe(done) == 0);
    for (int i = 0; i < 10; i++) {
        fill(out, BLOCK);
        next(&ring, IORING_OP_READ, ends[0], in, BLOCK, (uint64_t)-1);
        go(&ring, 1, 0);
        pid_t pid = fork();
        if (pid == 0) {
            CHECK(write(ends[1], out, BLOCK) == BLOCK);
            for (int n = 0; n < 200; n++) syscall(SYS_getppid);
            CHECK(write(done[1], "x", 1) == 1);
            usleep(1000);
            _exit(0);
        }
        char byte;
        CHECK(read(done[0], &byte, 1) == 1);
        CHECK(one(&ring, NULL) == BLOCK && memcmp(in, out, BLOCK) == 0);
        EXPECT("io_uring:READ", BLOCK, DATA(out, BLOCK));
        CHECK_CHILD(pid);
        memset(in, 0, BLOCK);
    }
    close(ends[0]), close(ends[1]), close(done[0]), close(done[1]);
    end(&ring);
}

// The child submits to the ring, and its parent after that.
static void used_by_both(uint32_t flags) {
    struct ring ring;
    int file = open("both", O_RDWR | O_CREAT | O_TRUNC, 0600);
    if (!has_rings(&ring, 8, flags)) return;
    CHECK(file >= 0);
    for (int i = 0; i < 4; i++) {
        fill(out, BLOCK);
        // What a child expects is known before it begins: it prints nothing.
        EXPECT("io_uring:WRITE", BLOCK, DATA(out, BLOCK));
        fflush(stdout);
        pid_t pid = fork();
        if (pid == 0) {
            next(&ring, IORING_OP_WRITE, file, out, BLOCK, 0);
            CHECK(one(&ring, NULL) == BLOCK);
            _exit(0);
        }
        CHECK_CHILD(pid);
        next(&ring, IORING_OP_READ, file, in, BLOCK, 0);
        CHECK(one(&ring, NULL) == BLOCK && memcmp(in, out, BLOCK) == 0);
        EXPECT("io_uring:READ", BLOCK, DATA(in, BLOCK));
    }
    close(file);
    end(&ring);
}

int main(int argc, char **argv) {
    begin(argc, argv);
    completed_while_child_calls();
    used_by_both(0);
    return 0;
}
