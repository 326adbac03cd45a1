// io_uring: queues that get other lengths while something is in them, and completions of two lengths in
// one queue. Where the kernel has neither, nothing.
// count: off
#include "expect.h"
#include "ring.h"

#define BLOCK 4096
// Of newer headers.
#define REGISTER_RESIZE 33
#define REGISTER_SEND_MESSAGE 31
#define NO_ARRAY (1u << 16)
#define SINGLE (IORING_SETUP_SINGLE_ISSUER | IORING_SETUP_DEFER_TASKRUN | NO_ARRAY)
#define CQE_MIXED (1u << 18)
#define NOP_LONG (1u << 5)
#define DONE_LONG (1u << 15)
#define DONE_NONE (1u << 5)

static char out[64][BLOCK], in[BLOCK];
// Entries are taken in their own order: nobody reads this.
static uint32_t places[64];

static int resize(struct ring *ring, unsigned entries, unsigned completions) {
    struct io_uring_params p = {
        .sq_entries = entries, .cq_entries = completions, .flags = IORING_SETUP_CQSIZE};
    if (syscall(SYS_io_uring_register, ring->fd, REGISTER_RESIZE, &p, 1) < 0) return 0;
    CHECK(munmap(ring->at, ring->bytes) == 0 && munmap(ring->sqes, ring->sqe_bytes) == 0);
    map_ring(ring, &p);
    ring->order = places;
    return 1;
}

// What was put in and not submitted, and what was completed and not taken, is there after it.
static void resized(unsigned submitted, unsigned pending, unsigned from, unsigned to) {
    struct ring ring;
    if (!has_rings(&ring, from, SINGLE)) return;
    ring.order = places;
    int file = open("resized", O_RDWR | O_CREAT | O_TRUNC, 0600);
    CHECK(file >= 0);
    for (unsigned i = 0; i < submitted + pending; i++) {
        fill(out[i], BLOCK);
        next(&ring, IORING_OP_WRITE, file, out[i], BLOCK, (uint64_t)i * BLOCK);
        if (i + 1 == submitted) go(&ring, submitted, submitted);
    }
    if (!resize(&ring, to, 2 * to)) goto none;
    CHECK(*ring.tail - atomic_load(ring.head) == pending);
    CHECK(atomic_load(ring.done_tail) - *ring.done_head == submitted);
    for (unsigned i = 0; i < submitted + pending; i++) {
        struct io_uring_cqe done;
        if (i == submitted) go(&ring, pending, pending);
        while (!take(&ring, &done)) go(&ring, 0, 1);
        CHECK(done.res == BLOCK && done.user_data == i);
        EXPECT("io_uring:WRITE", BLOCK, DATA(out[i], BLOCK));
    }
    // It goes on, beyond the ends of both queues.
    for (unsigned i = 0; i < 3 * to; i++) {
        next(&ring, IORING_OP_READ, file, in, BLOCK, 0);
        CHECK(one(&ring, NULL) == BLOCK && memcmp(in, out[0], BLOCK) == 0);
        EXPECT("io_uring:READ", BLOCK, DATA(in, BLOCK));
    }
none:
    close(file);
    end(&ring);
}

static void too_short(void) {
    struct ring ring;
    if (!has_rings(&ring, 16, SINGLE)) return;
    ring.order = places;
    for (unsigned i = 0; i < 9; i++) next(&ring, IORING_OP_NOP, -1, NULL, 0, 0);
    struct io_uring_params p = {.sq_entries = 4, .cq_entries = 16, .flags = IORING_SETUP_CQSIZE};
    long ret = syscall(SYS_io_uring_register, ring.fd, REGISTER_RESIZE, &p, 1);
    CHECK(ret < 0);
    printf("too short: %s\n", strerrorname_np(errno));
    go(&ring, 9, 9);
    for (unsigned i = 0; i < 9; i++) CHECK(one(&ring, NULL) == 0);
    end(&ring);
}

// Completions of both lengths, over the end of the queue.
static void mixed(uint32_t flags) {
    struct ring ring;
    if (!has_rings(&ring, 4, CQE_MIXED | flags)) return;
    if (flags & NO_ARRAY) ring.order = places;
    int file = open("mixed", O_RDWR | O_CREAT | O_TRUNC, 0600);
    fill(out[0], BLOCK);
    CHECK(file >= 0 && write(file, out[0], BLOCK) == BLOCK);
    for (unsigned i = 0; i < 40; i++) {
        int is_long = i % 3 != 0;
        struct io_uring_sqe *sqe =
            next(&ring, is_long ? IORING_OP_NOP : IORING_OP_READ, is_long ? -1 : file, in, is_long ? 0 : BLOCK, 0);
        sqe->user_data = 1000 + i;
        if (is_long) {
            sqe->rw_flags = NOP_LONG;
            sqe->off = 77 * i, sqe->addr = 99 * i;
        }
        struct io_uring_cqe done = {0};
        go(&ring, 1, 1);
        while (!take(&ring, &done) || done.flags & DONE_NONE) go(&ring, 0, 0);
        CHECK(done.user_data == 1000 + i && done.res == (is_long ? 0 : BLOCK));
        CHECK(!(done.flags & DONE_LONG) == !is_long);
        if (is_long) {
            uint64_t extra[2];
            uint32_t head = *ring.done_head;
            memcpy(extra, ring.cqes + (head & ring.done_mask) * 16, sizeof extra);
            atomic_store(ring.done_head, head + 1);
            CHECK(extra[0] == 77 * i && extra[1] == 99 * i);
            EXPECT("io_uring:NOP", 0);
        } else {
            CHECK(memcmp(in, out[0], BLOCK) == 0);
            EXPECT("io_uring:READ", BLOCK, DATA(in, BLOCK));
        }
    }
    close(file);
    end(&ring);
}

// Completions that another ring, or a call, posts: there is no entry for them.
static void messages(void) {
    struct ring from, to;
    struct io_uring_cqe done;
    if (!has_rings(&from, 8, 0) || !has_rings(&to, 8, 0)) return;
    for (unsigned i = 0; i < 20; i++) {
        struct io_uring_sqe *sqe = next(&from, IORING_OP_MSG_RING, to.fd, NULL, 40 + i, 5000 + i);
        sqe->user_data = i;
        CHECK(one(&from, NULL) == 0);
        EXPECT("io_uring:MSG_RING", 0);
        while (!take(&to, &done)) go(&to, 0, 1);
        CHECK(done.user_data == 5000 + i && done.res == (int)(40 + i));
    }
    struct io_uring_sqe sqe = {.opcode = IORING_OP_MSG_RING, .fd = to.fd, .len = 7, .off = 8};
    if (syscall(SYS_io_uring_register, -1, REGISTER_SEND_MESSAGE, &sqe, 1) == 0) {
        while (!take(&to, &done)) go(&to, 0, 1);
        CHECK(done.user_data == 8 && done.res == 7);
    }
    end(&from), end(&to);
}

int main(int argc, char **argv) {
    begin(argc, argv);
    resized(1, 1, 4, 16);
    resized(3, 5, 8, 32);
    resized(5, 3, 16, 8);
    resized(1, 0, 8, 1);
    too_short();
    mixed(0);
    mixed(SINGLE);
    messages();
    return 0;
}
