// A file is written and read through a ring: no call carries the bytes. Where rings are forbidden, by
// plain calls.
#include "expect.h"
#include <linux/io_uring.h>
#include <stdatomic.h>
#include <sys/mman.h>

static struct {
    int fd;
    _Atomic uint32_t *tail, *done_head, *done_tail;
    uint32_t *order, mask, done_mask;
    struct io_uring_sqe *requests;
    struct io_uring_cqe *results;
} ring;

static void *map(size_t len, off_t what) {
    void *at = mmap(NULL, len, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_POPULATE, ring.fd, what);
    CHECK(at != MAP_FAILED);
    return at;
}

static void set_up(struct io_uring_params *p) {
    char *asked = map(p->sq_off.array + p->sq_entries * sizeof(uint32_t), IORING_OFF_SQ_RING);
    char *done = map(p->cq_off.cqes + p->cq_entries * sizeof(struct io_uring_cqe), IORING_OFF_CQ_RING);
    ring.requests = map(p->sq_entries * sizeof(struct io_uring_sqe), IORING_OFF_SQES);
    ring.tail = (void *)(asked + p->sq_off.tail);
    ring.mask = *(uint32_t *)(asked + p->sq_off.ring_mask);
    ring.order = (void *)(asked + p->sq_off.array);
    ring.done_head = (void *)(done + p->cq_off.head);
    ring.done_tail = (void *)(done + p->cq_off.tail);
    ring.done_mask = *(uint32_t *)(done + p->cq_off.ring_mask);
    ring.results = (void *)(done + p->cq_off.cqes);
}

static int request(int op, int fd, void *bytes, uint32_t len, uint64_t offset) {
    uint32_t tail = *ring.tail, at = tail & ring.mask;
    ring.requests[at] = (struct io_uring_sqe){
        .opcode = (uint8_t)op, .fd = fd, .addr = (uint64_t)bytes, .len = len, .off = offset};
    ring.order[at] = at;
    atomic_store(ring.tail, tail + 1);
    CHECK(syscall(SYS_io_uring_enter, ring.fd, 1, 1, IORING_ENTER_GETEVENTS, NULL, 0) == 1);
    EXPECT("io_uring_enter", 1);
    uint32_t head = *ring.done_head;
    CHECK(head != atomic_load(ring.done_tail));
    int result = ring.results[head & ring.done_mask].res;
    atomic_store(ring.done_head, head + 1);
    return result;
}

int main(int argc, char **argv) {
    begin(argc, argv);
    static char out[6000], in[6000];
    fill(out, sizeof out);
    int fd = open("by_ring", O_RDWR | O_CREAT | O_TRUNC, 0600);
    int plain = open("by_calls", O_RDWR | O_CREAT | O_TRUNC, 0600);
    CHECK(fd >= 0 && plain >= 0);
    struct io_uring_params params = {0};
    ring.fd = (int)syscall(SYS_io_uring_setup, 4, &params);
    if (ring.fd >= 0) {
        set_up(&params);
        CHECK(request(IORING_OP_WRITE, fd, out, sizeof out, 0) == sizeof out);
        CHECK(request(IORING_OP_READ, fd, in, sizeof in, 0) == sizeof in);
        CHECK(memcmp(in, out, sizeof in) == 0);
    } else {
        CHECK(pwrite(fd, out, sizeof out, 0) == sizeof out);
    }
    // What follows from it: contents, lengths, ends of the file.
    memset(in, 0, sizeof in);
    CHECK(pread(fd, in, sizeof in, 0) == sizeof in && memcmp(in, out, sizeof in) == 0);
    EXPECT("pread64", sizeof in, DATA(in, sizeof in));
    struct stat st;
    CHECK(fstat(fd, &st) == 0 && st.st_size == sizeof out);
    CHECK(stat("by_ring", &st) == 0 && st.st_size == sizeof out);
    CHECK(lseek(fd, 0, SEEK_END) == sizeof out);
    CHECK(write(fd, "more", 4) == 4);
    CHECK(pread(fd, in, 10, sizeof out) == 4);
    CHECK(rename("by_ring", "renamed") == 0 && fsync(fd) == 0);
    int again = open("renamed", O_RDONLY);
    CHECK(again >= 0 && read(again, in, sizeof in) == sizeof in && read(again, in, 100) == 4);
    // What has nothing to do with it.
    CHECK(write(plain, out, 100) == 100 && pread(plain, in, sizeof in, 0) == 100);
    EXPECT("pread64", 100, DATA(out, 100));
    return 0;
}
