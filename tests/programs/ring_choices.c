// io_uring: data that comes into, and goes out of, buffers of which the kernel chooses: messages with
// their headers, vectors, several buffers at a time, and reads that go on. Where the kernel has less, less.
// count: off
#include "expect.h"
#include "ring.h"
#include <sys/socket.h>
#include <sys/uio.h>
#include <sys/un.h>

#define SHORT 64
#define BUFFERS 16
#define GROUP 5
// Those of newer headers.
#define READ_MULTISHOT 49
#define REGISTER_LIST 22
#define RECV_MULTISHOT 2
#define BUNDLE 16

static char pool[BUFFERS][SHORT * 8];
static struct listed { uint64_t addr; uint32_t len; uint16_t bid, tail; } *list;
static uint16_t listed;
static char out[SHORT * 64], in[SHORT * 64];

static void give(unsigned number, unsigned len) {
    struct listed *place = &list[listed & (BUFFERS - 1)];
    place->addr = (uint64_t)pool[number], place->len = len, place->bid = (uint16_t)number;
    atomic_thread_fence(memory_order_release);
    *(volatile uint16_t *)&list[0].tail = ++listed;
}

// A ring with a list of buffers.
static int begins(struct ring *ring, unsigned len) {
    if (!has_rings(ring, 8, 0)) return 0;
    if (list) munmap(list, 4096);
    list = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    listed = 0;
    struct { uint64_t addr; uint32_t entries; uint16_t group, flags; uint64_t reserved[3]; } asked = {
        .addr = (uint64_t)list, .entries = BUFFERS, .group = GROUP};
    if (syscall(SYS_io_uring_register, ring->fd, REGISTER_LIST, &asked, 1) < 0) return 0;
    // Not in their order in memory.
    for (unsigned i = 0; i < BUFFERS; i++) give((i * 5) % BUFFERS, len);
    return 1;
}

static struct io_uring_sqe *choosing(struct ring *ring, int op, int fd, const void *at, unsigned len) {
    struct io_uring_sqe *sqe = next(ring, op, fd, at, len, 0);
    sqe->flags = IOSQE_BUFFER_SELECT, sqe->buf_group = GROUP;
    return sqe;
}

// The next completion, which may be there.
static int got(struct ring *ring) {
    struct io_uring_cqe done;
    while (!take(ring, &done)) go(ring, 0, 1);
    last_flags = done.flags;
    return done.res;
}

static unsigned chosen(void) {
    CHECK(last_flags & IORING_CQE_F_BUFFER);
    return last_flags >> IORING_CQE_BUFFER_SHIFT;
}

// What is read again and again by one entry.
static void reads_on(void) {
    struct ring ring;
    int ends[2];
    if (!begins(&ring, SHORT)) return;
    CHECK(pipe(ends) == 0);
    choosing(&ring, READ_MULTISHOT, ends[0], NULL, 0);
    go(&ring, 1, 0);
    for (int i = 0; i < 40; i++) {
        size_t len = random_len(3 * SHORT);
        fill(out, len);
        CHECK(write(ends[1], out, len) == (ssize_t)len);
        for (size_t taken = 0; taken < len;) {
            int bytes = got(&ring);
            if (bytes == -EINVAL && i == 0) goto none;
            CHECK(bytes > 0 && last_flags & IORING_CQE_F_MORE);
            unsigned number = chosen();
            CHECK(memcmp(pool[number], out + taken, (size_t)bytes) == 0);
            EXPECT("io_uring:READ_MULTISHOT", bytes, DATA(pool[number], (size_t)bytes));
            memset(pool[number], 0xee, SHORT);
            give(number, SHORT);
            taken += (size_t)bytes;
        }
    }
none:
    close(ends[0]), close(ends[1]);
    end(&ring);
}

// Messages, one by one. Their vector is used for something else at once.
static void messages(int is_chosen) {
    struct ring ring;
    int ends[2];
    if (!begins(&ring, 8 * SHORT)) return;
    CHECK(socketpair(AF_UNIX, SOCK_DGRAM, 0, ends) == 0);
    struct sockaddr_un name = {.sun_family = AF_UNIX}, from;
    snprintf(name.sun_path, sizeof name.sun_path, "sender%d", is_chosen);
    CHECK(bind(ends[1], (void *)&name, sizeof name) == 0);
    for (int i = 0; i < 20; i++) {
        size_t len = random_len(8 * SHORT);
        fill(out, len);
        CHECK(write(ends[1], out, len) == (ssize_t)len);
        struct iovec vector = {is_chosen ? NULL : in, is_chosen ? 8 * SHORT : sizeof in};
        struct msghdr message = {.msg_iov = &vector, .msg_iovlen = 1, .msg_name = &from, .msg_namelen = sizeof from};
        if (is_chosen)
            choosing(&ring, IORING_OP_RECVMSG, ends[0], &message, 1);
        else
            next(&ring, IORING_OP_RECVMSG, ends[0], &message, 1, 0);
        go(&ring, 1, 0);
        vector = (struct iovec){&from, 1};
        CHECK(got(&ring) == (int)len && strcmp(from.sun_path, name.sun_path) == 0);
        unsigned number = is_chosen ? chosen() : 0;
        const char *at = is_chosen ? pool[number] : in;
        CHECK(memcmp(at, out, len) == 0);
        EXPECT("io_uring:RECVMSG", len, DATA(at, len), TEXT(name.sun_path));
        if (is_chosen) give(number, 8 * SHORT);
    }
    close(ends[0]), close(ends[1]);
    CHECK(unlink(name.sun_path) == 0);
    end(&ring);
}

// Messages of one entry: each buffer begins with a header, the name and control data.
static void messages_go_on(void) {
    struct ring ring;
    int ends[2];
    if (!begins(&ring, 8 * SHORT)) return;
    CHECK(socketpair(AF_UNIX, SOCK_DGRAM, 0, ends) == 0);
    struct msghdr message = {.msg_namelen = 24, .msg_controllen = 8};
    choosing(&ring, IORING_OP_RECVMSG, ends[0], &message, 1)->ioprio = RECV_MULTISHOT;
    go(&ring, 1, 0);
    memset(&message, 0xee, sizeof message);
    for (int i = 0; i < 20; i++) {
        size_t len = random_len(4 * SHORT);
        fill(out, len);
        CHECK(write(ends[1], out, len) == (ssize_t)len);
        int bytes = got(&ring);
        if (bytes == -EINVAL && i == 0) break;
        struct { uint32_t name, control, payload, flags; } header;
        CHECK(bytes == (int)(sizeof header + 32 + len) && last_flags & IORING_CQE_F_MORE);
        unsigned number = chosen();
        memcpy(&header, pool[number], sizeof header);
        CHECK(header.payload == len && memcmp(pool[number] + sizeof header + 32, out, len) == 0);
        EXPECT("io_uring:RECVMSG", bytes, DATA(pool[number], (size_t)bytes));
        give(number, 8 * SHORT);
    }
    close(ends[0]), close(ends[1]);
    end(&ring);
}

// As many buffers as there are bytes for, with one completion, by an entry for each or by one for all.
static void bundles(int how) {
    struct ring ring;
    int ends[2];
    if (!begins(&ring, SHORT)) return;
    CHECK(socketpair(AF_UNIX, SOCK_STREAM, 0, ends) == 0);
    unsigned order[BUFFERS];
    for (unsigned i = 0; i < BUFFERS; i++) order[i] = (i * 5) % BUFFERS;
    unsigned first = 0;
    int is_on = 0;
    for (int i = 0; i < 40; i++) {
        size_t len = random_len(10 * SHORT);
        fill(out, len);
        CHECK(write(ends[1], out, len) == (ssize_t)len);
        for (size_t taken = 0; taken < len;) {
            if (!is_on) {
                choosing(&ring, IORING_OP_RECV, ends[0], NULL, 0)->ioprio = (uint16_t)(BUNDLE | how);
                go(&ring, 1, 0);
            }
            int bytes = got(&ring);
            if (bytes == -EINVAL && i == 0) goto none;
            CHECK(bytes > 0);
            is_on = (last_flags & IORING_CQE_F_MORE) != 0;
            CHECK(chosen() == order[first]);
            for (int done = 0; done < bytes; done += SHORT) {
                unsigned number = order[first];
                int here = bytes - done < SHORT ? bytes - done : SHORT;
                memcpy(in + done, pool[number], (size_t)here);
                memset(pool[number], 0xee, SHORT);
                give(number, SHORT);
                first = (first + 1) % BUFFERS;
            }
            CHECK(memcmp(in, out + taken, (size_t)bytes) == 0);
            EXPECT("io_uring:RECV", bytes, DATA(in, (size_t)bytes));
            taken += (size_t)bytes;
        }
    }
none:
    close(ends[0]), close(ends[1]);
    end(&ring);
}

// What is sent is chosen as well.
static void sends(int how) {
    struct ring ring;
    int ends[2];
    if (!begins(&ring, SHORT)) return;
    CHECK(socketpair(AF_UNIX, SOCK_STREAM, 0, ends) == 0);
    // The list is full: the first ones are sent away, and come back with other bytes.
    for (int i = 0; i < BUFFERS; i++) fill(pool[i], SHORT);
    for (int i = 0; i < 20; i++) {
        choosing(&ring, IORING_OP_SEND, ends[0], NULL, 0)->ioprio = (uint16_t)how;
        go(&ring, 1, 0);
        int bytes = got(&ring);
        if (bytes == -EINVAL && i == 0) break;
        CHECK(bytes > 0 && bytes % SHORT == 0);
        CHECK(recv(ends[1], in, (size_t)bytes, MSG_WAITALL) == bytes);
        unsigned number = chosen();
        for (int done = 0; done < bytes; done += SHORT) {
            CHECK(memcmp(pool[number], in + done, SHORT) == 0);
            fill(pool[number], SHORT);
            give(number, SHORT);
            number = (number + 5) % BUFFERS;
        }
        EXPECT("io_uring:SEND", bytes, DATA(in, (size_t)bytes));
    }
    close(ends[0]), close(ends[1]);
    end(&ring);
}

static void vectors(void) {
    struct ring ring;
    if (!begins(&ring, SHORT)) return;
    int fd = open("vectors", O_RDWR | O_CREAT | O_TRUNC, 0600);
    fill(out, sizeof out);
    CHECK(fd >= 0 && write(fd, out, sizeof out) == sizeof out);
    for (int i = 0; i < 20; i++) {
        struct iovec vector = {NULL, random_len(SHORT)};
        int len = (int)vector.iov_len;
        struct io_uring_sqe *sqe = choosing(&ring, IORING_OP_READV, fd, &vector, 1);
        sqe->off = random_word() % 1000;
        uint64_t at = sqe->off;
        go(&ring, 1, 0);
        vector = (struct iovec){in, 1};
        int bytes = got(&ring);
        if (bytes < 0 && i == 0) break;
        unsigned number = chosen();
        CHECK(bytes == len && memcmp(pool[number], out + at, (size_t)len) == 0);
        EXPECT("io_uring:READV", len, DATA(pool[number], (size_t)len));
        give(number, SHORT);
    }
    close(fd);
    end(&ring);
}

int main(int argc, char **argv) {
    begin(argc, argv);
    reads_on();
    messages(0);
    messages(1);
    messages_go_on();
    bundles(0);
    bundles(RECV_MULTISHOT);
    sends(0);
    sends(BUNDLE);
    vectors();
    return 0;
}
