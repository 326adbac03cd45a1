// io_uring: rings that the kernel polls, or whose entries and completions are twice as long, and
// buffers of which the kernel chooses; completions that are looked for in memory alone. Where rings are
// forbidden or the kernel lacks something, less.
// flags: -pthread
// count: off
#include "expect.h"
#include "ring.h"
#include <poll.h>
#include <pthread.h>
#include <sys/epoll.h>
#include <sys/socket.h>

#define BLOCK 4096
#define BUFFERS 8
#define GROUP 3

static char *out, *in;

// Every kind moves the same bytes.
static void moves(uint32_t flags, int how) {
    struct ring ring;
    if (!has_rings(&ring, 8, flags)) return;
    int fd = open("moved", O_RDWR | O_CREAT | how, 0600);
    if (fd < 0) return end(&ring);
    for (int i = 0; i < 20; i++) {
        fill(out, BLOCK);
        next(&ring, IORING_OP_WRITE, fd, out, BLOCK, (uint64_t)i * BLOCK);
        uint64_t data;
        int got = one(&ring, &data);
        // Not every file system can be polled.
        if (got == -EOPNOTSUPP || got == -EINVAL) break;
        CHECK(got == BLOCK && data == (uint64_t)(2 * i));
        EXPECT("io_uring:WRITE", BLOCK, DATA(out, BLOCK));
        next(&ring, IORING_OP_READ, fd, in, BLOCK, (uint64_t)i * BLOCK);
        got = one(&ring, NULL);
        if (got == -EOPNOTSUPP) break;
        CHECK(got == BLOCK && memcmp(in, out, BLOCK) == 0);
        EXPECT("io_uring:READ", BLOCK, DATA(in, BLOCK));
    }
    CHECK(close(fd) == 0);
    end(&ring);
}

// More than the queue holds, put in as soon as there is room, and waited for without entering.
static void polled_without_entering(void) {
    struct ring ring;
    if (!has_rings(&ring, 4, IORING_SETUP_SQPOLL)) return;
    int fd = open("polled", O_RDWR | O_CREAT | O_TRUNC, 0600);
    CHECK(fd >= 0);
    fill(out, BLOCK);
    for (int put = 0, taken = 0; taken < 200;) {
        struct io_uring_cqe done;
        // No more than there is room for completions, either.
        while (put < 200 && put - taken < 8 && *ring.tail - atomic_load(ring.head) <= ring.mask) {
            next(&ring, IORING_OP_WRITE, fd, out, BLOCK, (uint64_t)put++ * BLOCK);
            go(&ring, 1, 0);
        }
        while (take(&ring, &done)) {
            CHECK(done.res == BLOCK);
            taken++;
        }
        struct pollfd polled = {.fd = ring.fd, .events = POLLIN};
        if (taken < put) CHECK(poll(&polled, 1, 10000) == 1);
    }
    for (int i = 0; i < 200; i++) EXPECT("io_uring:WRITE", BLOCK, DATA(out, BLOCK));
    CHECK(close(fd) == 0);
    end(&ring);
}

static char pool[BUFFERS][BLOCK];

// What came into the buffer that the kernel has chosen; that is given back then.
static void chosen(struct ring *ring, const char *op, const char *expected, void (*back)(struct ring *, unsigned)) {
    int got = one(ring, NULL);
    CHECK(got > 0 && last_flags & IORING_CQE_F_BUFFER);
    unsigned number = last_flags >> IORING_CQE_BUFFER_SHIFT;
    CHECK(number < BUFFERS && memcmp(pool[number], expected, (size_t)got) == 0);
    EXPECT(op, got, DATA(pool[number], (size_t)got));
    memset(pool[number], 0xee, BLOCK);
    back(ring, number);
}

static void by_entry(struct ring *ring, unsigned number) {
    struct io_uring_sqe *sqe = next(ring, IORING_OP_PROVIDE_BUFFERS, 1, pool[number], BLOCK, number);
    sqe->buf_group = GROUP;
    CHECK(one(ring, NULL) >= 0);
}

static struct listed { uint64_t addr; uint32_t len; uint16_t bid, tail; } *list;

static void by_list(struct ring *ring, unsigned number) {
    (void)ring;
    uint16_t tail = *(volatile uint16_t *)&list[0].tail;
    struct listed *place = &list[tail & (BUFFERS - 1)];
    place->addr = (uint64_t)pool[number], place->len = BLOCK, place->bid = (uint16_t)number;
    atomic_thread_fence(memory_order_release);
    *(volatile uint16_t *)&list[0].tail = (uint16_t)(tail + 1);
}

static void chooses(void (*back)(struct ring *, unsigned)) {
    struct ring ring;
    int ends[2], fd = open("moved", O_RDWR | O_CREAT | O_TRUNC, 0600);
    if (!has_rings(&ring, 8, 0)) return;
    CHECK(fd >= 0 && socketpair(AF_UNIX, SOCK_STREAM, 0, ends) == 0);
    if (back == by_entry) {
        struct io_uring_sqe *sqe = next(&ring, IORING_OP_PROVIDE_BUFFERS, BUFFERS, pool, BLOCK, 0);
        sqe->buf_group = GROUP;
        CHECK(one(&ring, NULL) >= 0);
    } else {
        list = mmap(NULL, BLOCK, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        struct { uint64_t addr; uint32_t entries; uint16_t group, flags; uint64_t reserved[3]; } asked = {
            .addr = (uint64_t)list, .entries = BUFFERS, .group = GROUP};
        // IORING_REGISTER_PBUF_RING
        if (syscall(SYS_io_uring_register, ring.fd, 22, &asked, 1) < 0) return end(&ring);
        for (unsigned i = 0; i < BUFFERS; i++) by_list(&ring, i);
    }
    fill(out, BLOCK);
    CHECK(write(fd, out, BLOCK) == BLOCK);
    for (int i = 0; i < 3 * BUFFERS; i++) {
        unsigned len = (unsigned)random_len(BLOCK - 1) + 1;
        struct io_uring_sqe *sqe = next(&ring, IORING_OP_READ, fd, NULL, len, 0);
        sqe->flags = IOSQE_BUFFER_SELECT, sqe->buf_group = GROUP;
        chosen(&ring, "io_uring:READ", out, back);
        fill(in, len);
        CHECK(write(ends[0], in, len) == len);
        sqe = next(&ring, IORING_OP_RECV, ends[1], NULL, 0, 0);
        sqe->flags = IOSQE_BUFFER_SELECT, sqe->buf_group = GROUP;
        chosen(&ring, "io_uring:RECV", in, back);
    }
    close(fd), close(ends[0]), close(ends[1]);
    end(&ring);
}

static void *writes(void *end) {
    usleep(2000);
    CHECK(write(*(int *)end, "x", 1) == 1);
    return NULL;
}

// Completions that nobody asks for: the thread makes no call until they are there.
static void looked_for(uint32_t flags) {
    struct ring ring;
    int ends[2];
    if (!has_rings(&ring, 8, flags)) return;
    CHECK(pipe(ends) == 0);
    for (int i = 0; i < 20; i++) {
        struct io_uring_cqe done;
        char byte = 0;
        pthread_t thread;
        CHECK(pthread_create(&thread, NULL, writes, &ends[1]) == 0);
        next(&ring, IORING_OP_READ, ends[0], &byte, 1, (uint64_t)-1);
        go(&ring, 1, 0);
        while (!take(&ring, &done)) {}
        CHECK(done.res == 1 && byte == 'x');
        EXPECT("io_uring:READ", 1, DATA("x", 1));
        CHECK(pthread_join(thread, NULL) == 0);
    }
    // No call ends early, however much the thread computes in between.
    int poller = epoll_create1(0);
    for (int i = 0; i < 50; i++) {
        struct epoll_event event;
        for (volatile int n = 0; n < 1000000; n++) {}
        CHECK(epoll_wait(poller, &event, 1, 1) == 0);
    }
    close(poller), close(ends[0]), close(ends[1]);
    end(&ring);
}

int main(int argc, char **argv) {
    begin(argc, argv);
    CHECK(posix_memalign((void **)&out, BLOCK, BLOCK) == 0 && posix_memalign((void **)&in, BLOCK, BLOCK) == 0);
    moves(0, 0);
    moves(IORING_SETUP_SQPOLL, 0);
    moves(IORING_SETUP_IOPOLL, O_DIRECT);
    moves(IORING_SETUP_SQE128, 0);
    moves(IORING_SETUP_CQE32, 0);
    moves(IORING_SETUP_SQPOLL | IORING_SETUP_SQE128 | IORING_SETUP_CQE32, 0);
    polled_without_entering();
    looked_for(0);
    looked_for(IORING_SETUP_SQPOLL);
    chooses(by_entry);
    chooses(by_list);
    return 0;
}
