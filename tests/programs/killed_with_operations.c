// io_uring: a process is killed while an operation is under way. What was completed before is there,
// and what went into the other one. With the word `recorder` it is its parent that is killed, and the
// program goes on without. Where rings are forbidden, nothing.
// count: off
#include "expect.h"
#include <linux/io_uring.h>
#include <stdatomic.h>
#include <sys/mman.h>

static struct {
    int fd;
    _Atomic uint32_t *tail, *done_head, *done_tail;
    uint32_t *order, mask, done_mask;
    struct io_uring_sqe *sqes;
    struct io_uring_cqe *cqes;
} ring;

static int has_ring(void) {
    struct io_uring_params p = {0};
    ring.fd = (int)syscall(SYS_io_uring_setup, 8, &p);
    if (ring.fd < 0) return 0;
    size_t asked = p.sq_off.array + p.sq_entries * sizeof(uint32_t);
    size_t done = p.cq_off.cqes + p.cq_entries * sizeof *ring.cqes;
    int both = PROT_READ | PROT_WRITE, how = MAP_SHARED | MAP_POPULATE;
    char *at = mmap(NULL, asked > done ? asked : done, both, how, ring.fd, IORING_OFF_SQ_RING);
    ring.sqes = mmap(NULL, p.sq_entries * sizeof *ring.sqes, both, how, ring.fd, IORING_OFF_SQES);
    CHECK(at != MAP_FAILED && (void *)ring.sqes != MAP_FAILED);
    ring.tail = (void *)(at + p.sq_off.tail);
    ring.mask = *(uint32_t *)(at + p.sq_off.ring_mask);
    ring.order = (void *)(at + p.sq_off.array);
    ring.done_head = (void *)(at + p.cq_off.head);
    ring.done_tail = (void *)(at + p.cq_off.tail);
    ring.done_mask = *(uint32_t *)(at + p.cq_off.ring_mask);
    ring.cqes = (void *)(at + p.cq_off.cqes);
    return 1;
}

static void submit(int op, int fd, const void *at, unsigned len, unsigned wait) {
    uint32_t tail = *ring.tail, place = tail & ring.mask;
    ring.sqes[place] = (struct io_uring_sqe){
        .opcode = (uint8_t)op, .fd = fd, .addr = (uint64_t)at, .len = len, .user_data = tail};
    ring.order[place] = place;
    atomic_store(ring.tail, tail + 1);
    CHECK(syscall(SYS_io_uring_enter, ring.fd, 1, wait, wait ? IORING_ENTER_GETEVENTS : 0, NULL, 0) == 1);
}

static int result(void) {
    uint32_t head = *ring.done_head;
    CHECK(head != atomic_load(ring.done_tail));
    int res = ring.cqes[head & ring.done_mask].res;
    atomic_store(ring.done_head, head + 1);
    return res;
}

static char out[4096], in[100];

static void one_done_one_under_way(void) {
    int ends[2], fd = open("written", O_RDWR | O_CREAT | O_TRUNC, 0600);
    CHECK(fd >= 0 && pipe(ends) == 0);
    fill(out, sizeof out);
    submit(IORING_OP_WRITE, fd, out, sizeof out, 1);
    CHECK(result() == sizeof out);
    submit(IORING_OP_READ, ends[0], in, sizeof in, 0);
    EXPECT("io_uring:WRITE", sizeof out, DATA(out, sizeof out));
}

int main(int argc, char **argv) {
    begin(argc, argv);
    if (argc > 2 && strcmp(argv[2], "recorder") == 0) {
        pid_t parent = getppid();
        if (!has_ring()) return 0;
        setsid();
        one_done_one_under_way();
        // The trace is written from time to time.
        for (int i = 0; i < 250; i++) usleep(10000);
        kill(parent, SIGKILL);
        while (getppid() == parent) usleep(1000);
        int fd = open("after", O_RDWR | O_CREAT | O_TRUNC, 0600);
        submit(IORING_OP_WRITE, fd, out, sizeof out, 1);
        CHECK(result() == sizeof out && close(fd) == 0 && rename("after", "done") == 0);
        return 0;
    }
    pid_t pid = fork();
    if (pid == 0) {
        if (!has_ring()) return 0;
        one_done_one_under_way();
        fflush(stdout);
        raise(SIGKILL);
    }
    int status = wait_for(pid);
    CHECK(status == 0 || WTERMSIG(status) == SIGKILL);
    return 0;
}
