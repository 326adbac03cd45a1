// io_uring: every operation with its data, by several threads and rings, with names that others have,
// through registered files, buffers and rings, found by epoll and eventfd, and left in flight. Where
// rings are forbidden, nothing.
// flags: -pthread
// count: off
#include "expect.h"
#include <linux/io_uring.h>
#include <poll.h>
#include <pthread.h>
#include <stdatomic.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/uio.h>

#define BLOCK 4096
#define MANY 32

struct ring {
    int fd;
    unsigned enter_flags;
    _Atomic uint32_t *head, *tail, *flags, *done_head, *done_tail;
    uint32_t *order, mask, done_mask, entries;
    struct io_uring_sqe *sqes;
    struct io_uring_cqe *cqes;
    size_t bytes, sqe_bytes;
    void *at;
};

static int has_rings = 1;

static struct ring setup(unsigned entries, unsigned flags) {
    struct io_uring_params p = {.flags = flags};
    struct ring ring = {.fd = (int)syscall(SYS_io_uring_setup, entries, &p)};
    if (ring.fd < 0) {
        has_rings = 0;
        return ring;
    }
    size_t asked = p.sq_off.array + p.sq_entries * sizeof(uint32_t);
    size_t done = p.cq_off.cqes + p.cq_entries * sizeof(struct io_uring_cqe);
    ring.bytes = asked > done ? asked : done;
    ring.sqe_bytes = p.sq_entries * sizeof(struct io_uring_sqe);
    int both = PROT_READ | PROT_WRITE, how = MAP_SHARED | MAP_POPULATE;
    char *at = mmap(NULL, ring.bytes, both, how, ring.fd, IORING_OFF_SQ_RING);
    ring.sqes = mmap(NULL, ring.sqe_bytes, both, how, ring.fd, IORING_OFF_SQES);
    CHECK(at != MAP_FAILED && ring.sqes != MAP_FAILED);
    ring.at = at;
    ring.head = (void *)(at + p.sq_off.head);
    ring.tail = (void *)(at + p.sq_off.tail);
    ring.flags = (void *)(at + p.sq_off.flags);
    ring.mask = *(uint32_t *)(at + p.sq_off.ring_mask);
    ring.order = (void *)(at + p.sq_off.array);
    ring.done_head = (void *)(at + p.cq_off.head);
    ring.done_tail = (void *)(at + p.cq_off.tail);
    ring.done_mask = *(uint32_t *)(at + p.cq_off.ring_mask);
    ring.cqes = (void *)(at + p.cq_off.cqes);
    ring.entries = p.sq_entries;
    return ring;
}

static void end(struct ring *ring) {
    CHECK(munmap(ring->at, ring->bytes) == 0 && munmap(ring->sqes, ring->sqe_bytes) == 0);
    CHECK(close(ring->fd) == 0);
}

static struct io_uring_sqe *next(struct ring *ring, int op, int fd, const void *at, unsigned len, uint64_t off) {
    uint32_t tail = *ring->tail, place = tail & ring->mask;
    // Not in the order of the array, so that the array matters.
    uint32_t index = ring->mask - place;
    struct io_uring_sqe *sqe = &ring->sqes[index];
    *sqe = (struct io_uring_sqe){
        .opcode = (uint8_t)op, .fd = fd, .addr = (uint64_t)at, .len = len, .off = off};
    ring->order[place] = index;
    atomic_store(ring->tail, tail + 1);
    return sqe;
}

static long go(struct ring *ring, unsigned submit, unsigned wait) {
    unsigned flags = ring->enter_flags | (wait ? IORING_ENTER_GETEVENTS : 0);
    long ret;
    do ret = syscall(SYS_io_uring_enter, ring->fd, submit, wait, flags, NULL, 0);
    while (ret < 0 && errno == EINTR);
    return ret;
}

static int take(struct ring *ring, struct io_uring_cqe *done) {
    uint32_t head = *ring->done_head;
    if (head == atomic_load(ring->done_tail)) return 0;
    *done = ring->cqes[head & ring->done_mask];
    atomic_store(ring->done_head, head + 1);
    return 1;
}

static int one(struct ring *ring) {
    struct io_uring_cqe done;
    CHECK(go(ring, 1, 1) == 1);
    // A signal may have ended the wait.
    while (!take(ring, &done)) CHECK(go(ring, 0, 1) == 0);
    return done.res;
}

static char out[3 * BLOCK], in[3 * BLOCK];

static void one_by_one(unsigned flags) {
    struct ring ring = setup(8, flags);
    if (!has_rings) return;
    next(&ring, IORING_OP_OPENAT, AT_FDCWD, "by_ring", 0600, 0)->open_flags = O_RDWR | O_CREAT | O_TRUNC;
    int fd = one(&ring);
    CHECK(fd >= 0);
    EXPECT("io_uring:OPENAT", fd, TEXT("by_ring"));
    for (int i = 0; i < 20; i++) {
        size_t len = random_len(sizeof out);
        off_t at = (off_t)(random_word() % 64) << 16;
        fill(out, len);
        struct io_uring_sqe *sqe = next(&ring, IORING_OP_WRITE, fd, out, (unsigned)len, (uint64_t)at);
        sqe->user_data = random_word();
        uint64_t data = sqe->user_data;
        struct io_uring_cqe done;
        CHECK(go(&ring, 1, 1) == 1 && take(&ring, &done));
        CHECK(done.user_data == data && done.res == (int)len);
        EXPECT("io_uring:WRITE", len, DATA(out, len));
        next(&ring, IORING_OP_READ, fd, in, sizeof in, (uint64_t)at);
        int got = one(&ring);
        CHECK(got >= (int)len && memcmp(in, out, len) == 0);
        EXPECT("io_uring:READ", got, DATA(in, (size_t)got));
    }
    struct iovec parts[2] = {{out, 100}, {out + BLOCK, 2 * BLOCK}};
    fill(out, sizeof out);
    next(&ring, IORING_OP_WRITEV, fd, parts, 2, 0);
    CHECK(one(&ring) == 100 + 2 * BLOCK);
    memcpy(in, out, 100);
    memcpy(in + 100, out + BLOCK, 2 * BLOCK);
    EXPECT("io_uring:WRITEV", 100 + 2 * BLOCK, DATA(in, 100 + 2 * BLOCK));
    struct iovec room[2] = {{in, 300}, {in + BLOCK, BLOCK}};
    next(&ring, IORING_OP_READV, fd, room, 2, 0);
    CHECK(go(&ring, 1, 0) == 1);
    memset(room, 0xee, sizeof room);
    struct io_uring_cqe done;
    CHECK(go(&ring, 0, 1) == 0 && take(&ring, &done) && done.res == 300 + BLOCK);
    memmove(in + 300, in + BLOCK, BLOCK);
    EXPECT("io_uring:READV", 300 + BLOCK, DATA(in, 300 + BLOCK));
    // Where the file stands.
    CHECK(lseek(fd, 100, SEEK_SET) == 100);
    next(&ring, IORING_OP_READ, fd, in, 50, (uint64_t)-1);
    CHECK(one(&ring) == 50 && memcmp(in, out + BLOCK, 50) == 0 && lseek(fd, 0, SEEK_CUR) == 150);
    EXPECT("io_uring:READ", 50, DATA(in, 50));
    next(&ring, IORING_OP_FSYNC, fd, NULL, 0, 0);
    CHECK(one(&ring) == 0);
    EXPECT("io_uring:FSYNC", 0);
    next(&ring, IORING_OP_FALLOCATE, fd, (void *)BLOCK, 0, 10 * BLOCK);
    int allocated = one(&ring);
    if (allocated == 0) EXPECT("io_uring:FALLOCATE", 0);
    static struct statx st;
    next(&ring, IORING_OP_STATX, AT_FDCWD, "by_ring", STATX_SIZE, (uint64_t)&st);
    CHECK(one(&ring) == 0 && st.stx_size >= 100 + 2 * BLOCK);
    EXPECT("io_uring:STATX", 0, DATA(&st, sizeof st));
    next(&ring, IORING_OP_MKDIRAT, AT_FDCWD, "directory", 0700, 0);
    CHECK(one(&ring) == 0);
    EXPECT("io_uring:MKDIRAT", 0, TEXT("directory"));
    next(&ring, IORING_OP_RENAMEAT, AT_FDCWD, "by_ring", (unsigned)AT_FDCWD, (uint64_t)"directory/moved");
    CHECK(one(&ring) == 0);
    EXPECT("io_uring:RENAMEAT", 0, TEXT("directory/moved"));
    next(&ring, IORING_OP_LINKAT, AT_FDCWD, "directory/moved", (unsigned)AT_FDCWD, (uint64_t)"linked");
    CHECK(one(&ring) == 0);
    EXPECT("io_uring:LINKAT", 0, TEXT("linked"));
    next(&ring, IORING_OP_SYMLINKAT, AT_FDCWD, "linked", 0, (uint64_t)"link");
    CHECK(one(&ring) == 0);
    EXPECT("io_uring:SYMLINKAT", 0, TEXT("linked"));
    for (int i = 0; i < 2; i++) {
        const char *name = i ? "link" : "linked";
        next(&ring, IORING_OP_UNLINKAT, AT_FDCWD, name, 0, 0);
        CHECK(one(&ring) == 0);
        EXPECT("io_uring:UNLINKAT", 0, TEXT(name));
    }
    next(&ring, IORING_OP_READ, -1, in, 10, 0);
    CHECK(one(&ring) == -EBADF);
    EXPECT_ERRNO("io_uring:READ", EBADF);
    next(&ring, IORING_OP_CLOSE, fd, NULL, 0, 0);
    CHECK(one(&ring) == 0);
    EXPECT("io_uring:CLOSE", 0);
    CHECK(unlink("directory/moved") == 0 && rmdir("directory") == 0);
    end(&ring);
}

// What is written was read on the way: by an entry that it is linked to, or waits for.
static void filled_on_the_way(void) {
    struct ring ring = setup(8, 0);
    int from = open("from", O_RDWR | O_CREAT | O_TRUNC, 0600), to = open("to", O_RDWR | O_CREAT | O_TRUNC, 0600);
    CHECK(from >= 0 && to >= 0);
    struct io_uring_cqe done;
    for (int i = 0; i < 4; i++) {
        fill(out, BLOCK);
        memset(in, 0, BLOCK);
        CHECK(pwrite(from, out, BLOCK, 0) == BLOCK);
        int how = i % 2 ? IOSQE_IO_DRAIN : 0;
        next(&ring, IORING_OP_READ, from, in, BLOCK, 0)->flags = how ? 0 : IOSQE_IO_LINK;
        struct iovec parts[2] = {{in, 100}, {in + 100, BLOCK - 100}};
        if (i < 2)
            next(&ring, IORING_OP_WRITE, to, in, BLOCK, (uint64_t)i * BLOCK)->flags = (uint8_t)how;
        else
            next(&ring, IORING_OP_WRITEV, to, parts, 2, (uint64_t)i * BLOCK)->flags = (uint8_t)how;
        CHECK(go(&ring, 2, 2) == 2);
        for (int left = 2; left > 0; left--) {
            while (!take(&ring, &done)) CHECK(go(&ring, 0, 1) == 0);
            CHECK(done.res == BLOCK);
        }
        if (i < 2)
            EXPECT("io_uring:WRITE", BLOCK, DATA(out, BLOCK));
        else
            EXPECT("io_uring:WRITEV", BLOCK, DATA(out, BLOCK));
        CHECK(pread(to, in, BLOCK, (off_t)i * BLOCK) == BLOCK && memcmp(in, out, BLOCK) == 0);
    }
    close(from);
    close(to);
    end(&ring);
}

// Many at a time that have all one name, linked, drained, refused; more than the queue of completions
// has room for.
static void many(void) {
    struct ring ring = setup(MANY, 0);
    static char bytes[MANY][BLOCK], back[MANY][BLOCK];
    int fd = open("many", O_RDWR | O_CREAT | O_TRUNC, 0600);
    CHECK(fd >= 0);
    struct io_uring_cqe done;
    for (int round = 0; round < 4; round++) {
        for (int i = 0; i < MANY; i++) {
            fill(bytes[i], BLOCK);
            next(&ring, IORING_OP_WRITE, fd, bytes[i], BLOCK, (uint64_t)i * BLOCK)->flags =
                round == 1 ? IOSQE_IO_LINK : round == 2 ? IOSQE_IO_DRAIN : round == 3 ? IOSQE_ASYNC : 0;
        }
        CHECK(go(&ring, MANY, MANY) == MANY);
        for (int i = 0; i < MANY; i++) {
            CHECK(take(&ring, &done) && done.res == BLOCK && done.user_data == 0);
            EXPECT("io_uring:WRITE", BLOCK, DATA(bytes[i], BLOCK));
        }
        for (int i = 0; i < MANY; i++)
            next(&ring, IORING_OP_READ, fd, back[i], BLOCK, (uint64_t)i * BLOCK);
        // Taken a few at a time.
        for (int i = 0; i < MANY; i += 8) CHECK(go(&ring, 8, 1) == 8);
        for (int left = MANY; left > 0; left--) {
            while (!take(&ring, &done)) CHECK(go(&ring, 0, 1) == 0);
            CHECK(done.res == BLOCK);
        }
        CHECK(memcmp(bytes, back, sizeof bytes) == 0);
        for (int i = 0; i < MANY; i++) EXPECT("io_uring:READ", BLOCK, DATA(back[i], BLOCK));
    }
    // One that makes no sense in the middle: the kernel stops there.
    for (int i = 0; i < 4; i++) next(&ring, i == 1 ? 200 : IORING_OP_NOP, 0, NULL, 0, 0)->user_data = (uint64_t)i;
    int seen = 0;
    for (unsigned left = 4; left > 0;) {
        long made = go(&ring, left, 0);
        CHECK(made > 0);
        left -= (unsigned)made;
    }
    CHECK(go(&ring, 0, 4) == 0);
    while (take(&ring, &done)) {
        CHECK(done.res == (done.user_data == 1 ? -EINVAL : 0));
        seen |= 1 << done.user_data;
    }
    CHECK(seen == 15);
    // Nothing is taken until there are more than have room.
    for (int round = 0; round < 4; round++) {
        for (int i = 0; i < MANY; i++) next(&ring, IORING_OP_NOP, 0, NULL, 0, 0);
        CHECK(go(&ring, MANY, 0) == MANY);
    }
    int got = 0;
    while (got < 4 * MANY) {
        if (take(&ring, &done)) got++;
        else CHECK(go(&ring, 0, 1) == 0);
    }
    CHECK(close(fd) == 0);
    end(&ring);
}

// Files and buffers in tables of the ring, a ring by a number, and by a second descriptor.
static void registered(void) {
    struct ring ring = setup(8, 0);
    int fd = open("many", O_RDWR);
    CHECK(fd >= 0);
    int fds[4] = {-1, fd, -1, -1};
    CHECK(syscall(SYS_io_uring_register, ring.fd, IORING_REGISTER_FILES, fds, 4) == 0);
    struct iovec room = {out, sizeof out};
    if (syscall(SYS_io_uring_register, ring.fd, IORING_REGISTER_BUFFERS, &room, 1) == 0) {
        fill(out, BLOCK);
        next(&ring, IORING_OP_WRITE_FIXED, fd, out, BLOCK, 0);
        CHECK(one(&ring) == BLOCK);
        EXPECT("io_uring:WRITE_FIXED", BLOCK, DATA(out, BLOCK));
        next(&ring, IORING_OP_READ_FIXED, fd, out + BLOCK, BLOCK, BLOCK);
        CHECK(one(&ring) == BLOCK);
        EXPECT("io_uring:READ_FIXED", BLOCK, DATA(out + BLOCK, BLOCK));
    }
    next(&ring, IORING_OP_READ, 1, in, BLOCK, BLOCK)->flags = IOSQE_FIXED_FILE;
    CHECK(one(&ring) == BLOCK);
    EXPECT("io_uring:READ", BLOCK, DATA(in, BLOCK), TEXT("/many"));
    int again = dup(ring.fd);
    CHECK(again >= 0);
    int first = ring.fd;
    ring.fd = again;
    fill(out, BLOCK);
    next(&ring, IORING_OP_WRITE, fd, out, BLOCK, 0);
    CHECK(one(&ring) == BLOCK);
    EXPECT("io_uring:WRITE", BLOCK, DATA(out, BLOCK));
    CHECK(close(first) == 0);
    // A third one that nobody told us of.
    ring.fd = fcntl(again, F_DUPFD, 50);
    CHECK(ring.fd >= 50);
    next(&ring, IORING_OP_READ, fd, in, BLOCK, 0);
    CHECK(one(&ring) == BLOCK && memcmp(in, out, BLOCK) == 0);
    EXPECT("io_uring:READ", BLOCK, DATA(in, BLOCK));
    CHECK(close(again) == 0);
    struct io_uring_rsrc_update number = {.offset = -1U, .data = (uint64_t)ring.fd};
    if (syscall(SYS_io_uring_register, ring.fd, 20, &number, 1) == 1) {
        int real = ring.fd;
        ring.fd = (int)number.offset;
        ring.enter_flags = 1 << 4;
        next(&ring, IORING_OP_READ, fd, in, 100, 0);
        CHECK(one(&ring) == 100);
        EXPECT("io_uring:READ", 100, DATA(in, 100));
        // Only the number is left.
        CHECK(close(real) == 0);
        next(&ring, IORING_OP_READ, fd, in, 200, 0);
        CHECK(one(&ring) == 200);
        EXPECT("io_uring:READ", 200, DATA(in, 200));
    }
    CHECK(close(fd) == 0);
    CHECK(munmap(ring.at, ring.bytes) == 0 && munmap(ring.sqes, ring.sqe_bytes) == 0);
}

// What was completed is seen after epoll, poll and an eventfd, without entering the ring.
static void *writes(void *end) {
    usleep(3000);
    CHECK(write(*(int *)end, "x", 1) == 1);
    return NULL;
}

static void waited_for(void) {
    struct ring ring = setup(8, 0);
    int event = eventfd(0, 0), poller = epoll_create1(0), ends[2];
    CHECK(syscall(SYS_io_uring_register, ring.fd, IORING_REGISTER_EVENTFD, &event, 1) == 0);
    struct epoll_event wanted = {.events = EPOLLIN};
    CHECK(epoll_ctl(poller, EPOLL_CTL_ADD, ring.fd, &wanted) == 0 && pipe(ends) == 0);
    for (int i = 0; i < 3; i++) {
        struct io_uring_cqe done;
        static char byte;
        next(&ring, IORING_OP_READ, ends[0], &byte, 1, (uint64_t)-1);
        CHECK(go(&ring, 1, 0) == 1 && !take(&ring, &done));
        pthread_t thread;
        CHECK(pthread_create(&thread, NULL, writes, &ends[1]) == 0);
        if (i == 0) {
            int got;
            while ((got = epoll_wait(poller, &wanted, 1, -1)) < 0 && errno == EINTR) {}
            CHECK(got == 1);
        } else if (i == 1) {
            struct pollfd polled = {.fd = ring.fd, .events = POLLIN};
            int got;
            while ((got = poll(&polled, 1, -1)) < 0 && errno == EINTR) {}
            CHECK(got == 1);
        } else {
            uint64_t count;
            while (read(event, &count, 8) == 8 && *ring.done_head == atomic_load(ring.done_tail)) {}
        }
        CHECK(take(&ring, &done) && done.res == 1 && byte == 'x');
        EXPECT("io_uring:READ", 1, DATA(&byte, 1));
        CHECK(pthread_join(thread, NULL) == 0);
        // Nothing is left that epoll would tell of.
        CHECK(epoll_wait(poller, &wanted, 1, 0) == 0);
    }
    end(&ring);
    close(event), close(poller), close(ends[0]), close(ends[1]);
}

// Each thread has a ring; one ring is used by all, under a lock.
static struct {
    struct ring ring;
    pthread_mutex_t lock;
    int fd;
    char bytes[4][MANY][BLOCK];
} shared = {.lock = PTHREAD_MUTEX_INITIALIZER};

static void *works(void *number) {
    long n = (long)number;
    struct ring own = setup(4, 0);
    for (int i = 0; i < MANY; i++) {
        struct ring *ring = i % 2 ? &own : &shared.ring;
        if (ring != &own) pthread_mutex_lock(&shared.lock);
        next(ring, IORING_OP_WRITE, shared.fd, shared.bytes[n][i], BLOCK, (uint64_t)(n * MANY + i) * BLOCK);
        CHECK(one(ring) == BLOCK);
        if (ring != &own) pthread_mutex_unlock(&shared.lock);
    }
    end(&own);
    return NULL;
}

static void by_threads(void) {
    shared.ring = setup(8, 0);
    shared.fd = open("threads", O_RDWR | O_CREAT | O_TRUNC, 0600);
    fill(shared.bytes, sizeof shared.bytes);
    pthread_t threads[4];
    for (long i = 0; i < 4; i++) CHECK(pthread_create(&threads[i], NULL, works, (void *)i) == 0);
    for (int i = 0; i < 4; i++) CHECK(pthread_join(threads[i], NULL) == 0);
    for (int i = 0; i < 4; i++)
        for (int j = 0; j < MANY; j++) EXPECT("io_uring:WRITE", BLOCK, DATA(shared.bytes[i][j], BLOCK));
    // A child goes on with its parent's ring.
    fflush(stdout);
    pid_t pid = fork();
    if (pid == 0) {
        static char text[] = "by the child";
        next(&shared.ring, IORING_OP_WRITE, shared.fd, text, sizeof text, 0);
        CHECK(one(&shared.ring) == sizeof text);
        EXPECT("io_uring:WRITE", sizeof text, DATA(text, sizeof text));
        fflush(stdout);
        _exit(0);
    }
    CHECK(wait_for(pid) == 0);
    CHECK(pread(shared.fd, in, 13, 0) == 13 && memcmp(in, "by the child", 13) == 0);
    next(&shared.ring, IORING_OP_READ, shared.fd, in, BLOCK, BLOCK);
    CHECK(one(&shared.ring) == BLOCK);
    EXPECT("io_uring:READ", BLOCK, DATA(in, BLOCK));
    close(shared.fd);
    end(&shared.ring);
}

static void on_alarm(int signal) { (void)signal; }

static void interrupted(void) {
    struct sigaction action = {.sa_handler = on_alarm, .sa_flags = SA_RESTART};
    sigaction(SIGALRM, &action, NULL);
    timer_t timer;
    CHECK(timer_create(CLOCK_MONOTONIC, NULL, &timer) == 0);
    struct itimerspec every = {{0, 200000}, {0, 200000}};
    CHECK(timer_settime(timer, 0, &every, NULL) == 0);
    struct ring ring = setup(8, 0);
    int fd = open("many", O_RDWR);
    for (int i = 0; i < 200; i++) {
        fill(out, sizeof out);
        next(&ring, IORING_OP_WRITE, fd, out, sizeof out, 0)->flags = i % 2 ? IOSQE_ASYNC : 0;
        CHECK(one(&ring) == sizeof out);
        EXPECT("io_uring:WRITE", sizeof out, DATA(out, sizeof out));
    }
    CHECK(timer_delete(timer) == 0);
    close(fd);
    end(&ring);
}

static void left_behind(void) {
    int ends[2];
    CHECK(pipe(ends) == 0);
    for (int i = 0; i < 2; i++) {
        fflush(stdout);
        pid_t pid = fork();
        if (pid == 0) {
            struct ring ring = setup(4, 0);
            next(&ring, IORING_OP_POLL_ADD, ends[0], NULL, 0, 0)->poll_events = POLLIN;
            CHECK(go(&ring, 1, 0) == 1);
            if (i) raise(SIGKILL);
            end(&ring);
            _exit(0);
        }
        wait_for(pid);
    }
    EXPECT_COUNT("io_uring:POLL_ADD", 2);
}

int main(int argc, char **argv) {
    begin(argc, argv);
    one_by_one(0);
    if (!has_rings) return 0;
    one_by_one(IORING_SETUP_COOP_TASKRUN);
    filled_on_the_way();
    many();
    registered();
    waited_for();
    by_threads();
    interrupted();
    left_behind();
    return 0;
}
