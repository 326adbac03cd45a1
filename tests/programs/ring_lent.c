// io_uring: rings in memory of the program (IORING_SETUP_NO_MMAP), with a descriptor or with a number
// alone, of each length; and what becomes of that memory. Where the kernel has none like that, nothing.
// count: off
#include "expect.h"
#include "ring.h"

#define BLOCK 4096
// Of newer headers.
#define NO_MMAP (1u << 14)
#define REGISTERED_ONLY (1u << 15)
#define ENTER_REGISTERED 16
#define BY_NUMBER (1u << 31)

static char out[BLOCK], in[BLOCK];

struct lent {
    struct ring ring;
    struct io_uring_params params;
    unsigned enter;
    char *queues;
    size_t bytes;
};

static int has_lent(struct lent *it, unsigned entries, uint32_t flags, int how) {
    it->params = (struct io_uring_params){.flags = flags | NO_MMAP, .sq_thread_idle = 20};
    it->bytes = 16 * BLOCK;
    it->queues = mmap(NULL, 2 * it->bytes, PROT_READ | PROT_WRITE, how | MAP_ANONYMOUS, -1, 0);
    CHECK(it->queues != MAP_FAILED);
    char *sqes = it->queues + it->bytes;
    // sq_off.user_addr and cq_off.user_addr, which older headers lack.
    memcpy((char *)&it->params + 72, &sqes, 8);
    memcpy((char *)&it->params + 112, &it->queues, 8);
    int fd = (int)syscall(SYS_io_uring_setup, entries, &it->params);
    if (fd < 0) {
        munmap(it->queues, 2 * it->bytes);
        return 0;
    }
    const struct io_uring_params *p = &it->params;
    CHECK(p->flags == (flags | NO_MMAP));
    char *at = it->queues, *same;
    memcpy(&same, (char *)p + 112, 8);
    CHECK(same == at);
    it->enter = flags & REGISTERED_ONLY ? ENTER_REGISTERED : 0;
    it->ring = (struct ring){.fd = fd, .setup = flags, .at = at};
    it->ring.head = (void *)(at + p->sq_off.head);
    it->ring.tail = (void *)(at + p->sq_off.tail);
    it->ring.flags = (void *)(at + p->sq_off.flags);
    it->ring.mask = *(uint32_t *)(at + p->sq_off.ring_mask);
    it->ring.order = (void *)(at + p->sq_off.array);
    it->ring.done_head = (void *)(at + p->cq_off.head);
    it->ring.done_tail = (void *)(at + p->cq_off.tail);
    it->ring.done_mask = *(uint32_t *)(at + p->cq_off.ring_mask);
    it->ring.cqes = at + p->cq_off.cqes;
    it->ring.sqes = sqes;
    CHECK(it->ring.mask + 1 == p->sq_entries && it->ring.done_mask + 1 == p->cq_entries);
    return 1;
}

static int goes(struct lent *it, unsigned submit, uint64_t *data) {
    struct io_uring_cqe done;
    unsigned flags = IORING_ENTER_GETEVENTS | it->enter;
    if (it->ring.setup & IORING_SETUP_SQPOLL) flags |= IORING_ENTER_SQ_WAKEUP;
    do {
        long ret = syscall(SYS_io_uring_enter, it->ring.fd, submit, 1, flags, NULL, 0);
        CHECK(ret >= 0 || errno == EINTR);
        if (ret > 0) submit = 0;
    } while (!take(&it->ring, &done));
    if (data) *data = done.user_data;
    return done.res;
}

static void moves(unsigned entries, uint32_t flags, int how) {
    struct lent it;
    if (!has_lent(&it, entries, flags, how)) return;
    int file = open("lent", O_RDWR | O_CREAT | O_TRUNC, 0600);
    CHECK(file >= 0);
    for (unsigned i = 0; i < 3 * entries + 5; i++) {
        fill(out, BLOCK);
        next(&it.ring, IORING_OP_WRITE, file, out, BLOCK, (uint64_t)i * BLOCK);
        uint64_t data;
        CHECK(goes(&it, 1, &data) == BLOCK && data == 2 * i);
        EXPECT("io_uring:WRITE", BLOCK, DATA(out, BLOCK));
        next(&it.ring, IORING_OP_READ, file, in, BLOCK, (uint64_t)i * BLOCK);
        CHECK(goes(&it, 1, NULL) == BLOCK && memcmp(in, out, BLOCK) == 0);
        EXPECT("io_uring:READ", BLOCK, DATA(in, BLOCK));
    }
    if (flags & REGISTERED_ONLY) {
        // There is no descriptor to be closed, and nothing that has another one's number.
        struct { uint32_t place, zero; uint64_t number; } update = {.place = (uint32_t)it.ring.fd};
        // IORING_UNREGISTER_RING_FDS
        CHECK(syscall(SYS_io_uring_register, it.ring.fd, 21 | BY_NUMBER, &update, 1) == 1);
    } else {
        CHECK(fcntl(it.ring.fd, F_GETFD) == FD_CLOEXEC && close(it.ring.fd) == 0);
    }
    CHECK(munmap(it.queues, 2 * it.bytes) == 0 && close(file) == 0);
}

// The memory goes while something is in flight, and the ring after that.
static void memory_goes(void) {
    struct lent it;
    int ends[2];
    if (!has_lent(&it, 8, 0, MAP_SHARED)) return;
    CHECK(pipe(ends) == 0);
    next(&it.ring, IORING_OP_READ, ends[0], in, BLOCK, (uint64_t)-1);
    CHECK(syscall(SYS_io_uring_enter, it.ring.fd, 1, 0, 0, NULL, 0) == 1);
    CHECK(munmap(it.queues, 2 * it.bytes) == 0);
    fill(out, BLOCK);
    CHECK(write(ends[1], out, BLOCK) == BLOCK);
    for (int i = 0; i < 100; i++) syscall(SYS_getppid);
    // All that the ring says is lost, but it is there.
    CHECK(syscall(SYS_io_uring_enter, it.ring.fd, 0, 1, IORING_ENTER_GETEVENTS, NULL, 0) == 0);
    CHECK(memcmp(in, out, BLOCK) == 0);
    EXPECT("io_uring:READ", BLOCK, DATA(in, BLOCK));
    CHECK(close(it.ring.fd) == 0);
    close(ends[0]), close(ends[1]);
}

int main(int argc, char **argv) {
    begin(argc, argv);
    for (unsigned entries = 1; entries <= 256; entries *= 4) {
        moves(entries, 0, MAP_PRIVATE);
        moves(entries, 0, MAP_SHARED);
    }
    moves(8, IORING_SETUP_SQE128, MAP_PRIVATE);
    moves(8, IORING_SETUP_CQE32, MAP_PRIVATE);
    moves(8, IORING_SETUP_SQPOLL, MAP_SHARED);
    moves(8, IORING_SETUP_SINGLE_ISSUER | IORING_SETUP_DEFER_TASKRUN, MAP_SHARED);
    moves(8, REGISTERED_ONLY, MAP_SHARED);
    moves(64, REGISTERED_ONLY | IORING_SETUP_SINGLE_ISSUER | IORING_SETUP_DEFER_TASKRUN, MAP_PRIVATE);
    memory_goes();
    return 0;
}
