// A ring of io_uring as it is, without liburing.
#pragma once
#include "expect.h"
#include <linux/io_uring.h>
#include <stdatomic.h>
#include <sys/mman.h>

struct ring {
    int fd;
    uint32_t setup;
    _Atomic uint32_t *tail, *head, *flags, *done_head, *done_tail;
    uint32_t *order, mask, done_mask;
    char *sqes, *cqes;
    size_t bytes, sqe_bytes;
    void *at;
};

// Maps the queues of a ring that was set up with these parameters.
static void map_ring(struct ring *ring, const struct io_uring_params *p) {
    size_t each = p->flags & IORING_SETUP_CQE32 ? 32 : 16;
    size_t asked = p->sq_off.array + p->sq_entries * sizeof(uint32_t), done = p->cq_off.cqes + p->cq_entries * each;
    ring->bytes = asked > done ? asked : done;
    ring->sqe_bytes = p->sq_entries * (p->flags & IORING_SETUP_SQE128 ? 128 : 64);
    int both = PROT_READ | PROT_WRITE, how = MAP_SHARED | MAP_POPULATE;
    char *at = mmap(NULL, ring->bytes, both, how, ring->fd, IORING_OFF_SQ_RING);
    ring->sqes = mmap(NULL, ring->sqe_bytes, both, how, ring->fd, IORING_OFF_SQES);
    CHECK(at != MAP_FAILED && (void *)ring->sqes != MAP_FAILED);
    ring->at = at;
    ring->head = (void *)(at + p->sq_off.head);
    ring->tail = (void *)(at + p->sq_off.tail);
    ring->flags = (void *)(at + p->sq_off.flags);
    ring->mask = *(uint32_t *)(at + p->sq_off.ring_mask);
    ring->order = (void *)(at + p->sq_off.array);
    ring->done_head = (void *)(at + p->cq_off.head);
    ring->done_tail = (void *)(at + p->cq_off.tail);
    ring->done_mask = *(uint32_t *)(at + p->cq_off.ring_mask);
    ring->cqes = at + p->cq_off.cqes;
}

// Returns 0 if the kernel gives none like that.
__attribute__((unused)) static int has_rings(struct ring *ring, unsigned entries, uint32_t flags) {
    struct io_uring_params p = {.flags = flags, .sq_thread_idle = 20};
    *ring = (struct ring){.fd = (int)syscall(SYS_io_uring_setup, entries, &p), .setup = flags};
    if (ring->fd < 0) return 0;
    map_ring(ring, &p);
    return 1;
}

__attribute__((unused)) static void end(struct ring *ring) {
    CHECK(munmap(ring->at, ring->bytes) == 0 && munmap(ring->sqes, ring->sqe_bytes) == 0);
    CHECK(close(ring->fd) == 0);
}

static struct io_uring_sqe *next(struct ring *ring, int op, int fd, const void *at, unsigned len, uint64_t off) {
    uint32_t tail = *ring->tail, place = tail & ring->mask;
    // The kernel may not have taken what was there.
    while (tail - atomic_load(ring->head) > ring->mask) syscall(SYS_getppid);
    size_t each = ring->setup & IORING_SETUP_SQE128 ? 128 : 64;
    struct io_uring_sqe *sqe = (void *)(ring->sqes + place * each);
    memset(sqe, 0, each);
    *sqe = (struct io_uring_sqe){
        .opcode = (uint8_t)op, .fd = fd, .addr = (uint64_t)at, .len = len, .off = off, .user_data = tail};
    ring->order[place] = place;
    atomic_store(ring->tail, tail + 1);
    return sqe;
}

static int take(struct ring *ring, struct io_uring_cqe *done) {
    uint32_t head = *ring->done_head;
    if (head == atomic_load(ring->done_tail)) return 0;
    size_t each = ring->setup & IORING_SETUP_CQE32 ? 32 : 16;
    memcpy(done, ring->cqes + (head & ring->done_mask) * each, sizeof *done);
    atomic_store(ring->done_head, head + 1);
    return 1;
}

// Submits, and waits for so many completions.
static void go(struct ring *ring, unsigned submit, unsigned wait) {
    unsigned flags = wait ? IORING_ENTER_GETEVENTS : 0;
    if (ring->setup & IORING_SETUP_SQPOLL) {
        atomic_thread_fence(memory_order_seq_cst);
        if (atomic_load(ring->flags) & IORING_SQ_NEED_WAKEUP) flags |= IORING_ENTER_SQ_WAKEUP;
        // The number is none of its business.
        submit = 0;
        if (!flags) return;
    }
    while (syscall(SYS_io_uring_enter, ring->fd, submit, wait, flags, NULL, 0) < 0) CHECK(errno == EINTR);
}

static unsigned last_flags;

// Submits an entry, and returns the result of the next completion.
__attribute__((unused)) static int one(struct ring *ring, uint64_t *data) {
    struct io_uring_cqe done;
    go(ring, 1, 1);
    while (!take(ring, &done)) go(ring, 0, 1);
    if (data) *data = done.user_data;
    last_flags = done.flags;
    return done.res;
}
