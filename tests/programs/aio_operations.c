// Linux AIO: every operation with its data, by several threads, in vectors, with control blocks that
// are used again at once, from a ring that is read without a call, and left in flight.
// flags: -pthread
// count: off
#include "expect.h"
#include <linux/aio_abi.h>
#include <pthread.h>
#include <sys/uio.h>

#define BLOCK 4096
#define MANY 32

struct ring {
    unsigned id, places;
    volatile unsigned head, tail;
    unsigned magic, features[2], head_bytes;
    struct io_event events[];
};

static aio_context_t setup(unsigned places) {
    aio_context_t context = 0;
    CHECK(syscall(SYS_io_setup, places, &context) == 0);
    return context;
}

static struct iocb block(int opcode, int fd, const void *at, uint64_t len, off_t offset) {
    return (struct iocb){.aio_lio_opcode = (uint16_t)opcode, .aio_fildes = (unsigned)fd,
                         .aio_buf = (uint64_t)at, .aio_nbytes = len, .aio_offset = offset};
}

static void submit(aio_context_t context, struct iocb *one) {
    CHECK(syscall(SYS_io_submit, context, 1, &one) == 1);
}

static struct io_event reap(aio_context_t context) {
    struct io_event done;
    CHECK(syscall(SYS_io_getevents, context, 1, 1, &done, NULL) == 1);
    return done;
}

// What was completed, taken from memory, as fio and Seastar do.
static struct io_event take(aio_context_t context) {
    struct ring *ring = (struct ring *)context;
    CHECK(ring->magic == 0xa10a10a1);
    while (ring->head == ring->tail) usleep(100);
    __sync_synchronize();
    struct io_event done = ring->events[ring->head];
    ring->head = (ring->head + 1) % ring->places;
    return done;
}

// All operations, each alone. The control block is written over as soon as it was submitted.
static void one_by_one(int fd) {
    aio_context_t context = setup(4);
    static char out[3 * BLOCK], in[3 * BLOCK];
    for (int i = 0; i < 20; i++) {
        size_t len = random_len(sizeof out);
        off_t at = (off_t)(random_word() % 64) << 20;
        fill(out, len);
        struct iocb one = block(IOCB_CMD_PWRITE, fd, out, len, at);
        one.aio_data = random_word();
        uint64_t data = one.aio_data;
        submit(context, &one);
        memset(&one, 0xee, sizeof one);
        struct io_event done = reap(context);
        CHECK(done.data == data && done.res == (int64_t)len && done.obj == (uint64_t)&one);
        EXPECT("aio:PWRITE", len, DATA(out, len));
        one = block(IOCB_CMD_PREAD, fd, in, sizeof in, at);
        submit(context, &one);
        CHECK((done = reap(context)).res >= (int64_t)len && memcmp(in, out, len) == 0);
        EXPECT("aio:PREAD", done.res, DATA(in, (size_t)done.res));
    }
    struct iovec parts[3] = {{out, 100}, {out + 200, 0}, {out + BLOCK, 2 * BLOCK}};
    fill(out, sizeof out);
    struct iocb one = block(IOCB_CMD_PWRITEV, fd, parts, 3, 0);
    submit(context, &one);
    memset(parts, 0xee, sizeof parts);
    CHECK(reap(context).res == 100 + 2 * BLOCK);
    memcpy(in, out, 100);
    memcpy(in + 100, out + BLOCK, 2 * BLOCK);
    EXPECT("aio:PWRITEV", 100 + 2 * BLOCK, DATA(in, 100 + 2 * BLOCK));
    struct iovec room[2] = {{in, 300}, {in + BLOCK, BLOCK}};
    one = block(IOCB_CMD_PREADV, fd, room, 2, 0);
    submit(context, &one);
    memset(room, 0xee, sizeof room);
    CHECK(reap(context).res == 300 + BLOCK);
    CHECK(memcmp(in, out, 100) == 0 && memcmp(in + 100, out + BLOCK, 200) == 0);
    memmove(in + 300, in + BLOCK, BLOCK);
    EXPECT("aio:PREADV", 300 + BLOCK, DATA(in, 300 + BLOCK));
    one = block(IOCB_CMD_FDSYNC, fd, NULL, 0, 0);
    submit(context, &one);
    CHECK(reap(context).res == 0);
    EXPECT("aio:FDSYNC", 0);
    one = block(IOCB_CMD_FSYNC, fd, NULL, 0, 0);
    submit(context, &one);
    CHECK(reap(context).res == 0);
    EXPECT("aio:FSYNC", 0);
    int ends[2];
    CHECK(pipe(ends) == 0 && write(ends[1], "x", 1) == 1);
    one = block(IOCB_CMD_POLL, ends[0], (void *)1, 0, 0);
    submit(context, &one);
    CHECK(reap(context).res == 1);
    EXPECT("aio:POLL", 1);
    close(ends[0]);
    close(ends[1]);
    CHECK(syscall(SYS_io_destroy, context) == 0);
}

// Many at a time, of which only some are taken at once; the kernel refuses what is wrong.
static void many(int fd) {
    aio_context_t context = setup(MANY);
    static char out[MANY][BLOCK], in[MANY][BLOCK];
    struct iocb blocks[MANY + 1], *all[MANY + 1];
    for (int i = 0; i < MANY; i++) {
        fill(out[i], BLOCK);
        blocks[i] = block(IOCB_CMD_PWRITE, fd, out[i], BLOCK, (off_t)i * BLOCK);
        all[i] = &blocks[i];
    }
    // The last one is refused, so one less is submitted.
    blocks[MANY] = block(IOCB_CMD_PWRITE, -1, out[0], BLOCK, 0);
    all[MANY] = &blocks[MANY];
    CHECK(syscall(SYS_io_submit, context, MANY + 1, all) == MANY);
    CHECK(syscall(SYS_io_submit, context, 1, &all[MANY]) < 0);
    struct io_event done[MANY];
    for (int left = MANY; left > 0;) {
        long got = syscall(SYS_io_getevents, context, 1, left, done, NULL);
        CHECK(got > 0);
        for (long i = 0; i < got; i++) {
            long n = (struct iocb *)done[i].obj - blocks;
            CHECK(done[i].res == BLOCK);
            EXPECT("aio:PWRITE", BLOCK, DATA(out[n], BLOCK));
        }
        left -= (int)got;
    }
    // Read back, and taken from the ring without a call.
    for (int i = 0; i < MANY; i++) blocks[i] = block(IOCB_CMD_PREAD, fd, in[i], BLOCK, (off_t)i * BLOCK);
    CHECK(syscall(SYS_io_submit, context, MANY, all) == MANY);
    for (int i = 0; i < MANY; i++) {
        struct io_event one = take(context);
        long n = (struct iocb *)one.obj - blocks;
        CHECK(one.res == BLOCK && memcmp(in[n], out[n], BLOCK) == 0);
        EXPECT("aio:PREAD", BLOCK, DATA(in[n], BLOCK));
    }
    // The same control block again and again, its completions taken in both ways.
    for (int i = 0; i < 3 * MANY; i++) {
        fill(out[0], BLOCK);
        blocks[0] = block(i % 2 ? IOCB_CMD_PREAD : IOCB_CMD_PWRITE, fd, out[0], BLOCK, 0);
        submit(context, &blocks[0]);
        struct io_event one = i % 3 ? take(context) : reap(context);
        CHECK(one.res == BLOCK);
        if (i % 2)
            EXPECT("aio:PREAD", BLOCK, DATA(out[0], BLOCK));
        else
            EXPECT("aio:PWRITE", BLOCK, DATA(out[0], BLOCK));
    }
    CHECK(syscall(SYS_io_destroy, context) == 0);
}

// What is completed while no call is made is found at the next one, and marked late.
static void *writes(void *end) {
    usleep(2000);
    CHECK(write(*(int *)end, "x", 1) == 1);
    return NULL;
}

static void late(void) {
    aio_context_t context = setup(4);
    struct ring *ring = (struct ring *)context;
    int ends[2];
    CHECK(pipe(ends) == 0);
    struct iocb one = block(IOCB_CMD_POLL, ends[0], (void *)1, 0, 0);
    submit(context, &one);
    pthread_t thread;
    CHECK(pthread_create(&thread, NULL, writes, &ends[1]) == 0);
    while (ring->head == ring->tail) __builtin_ia32_pause();
    struct io_event done = take(context);
    CHECK(done.res & 1);
    EXPECT("aio:POLL", done.res, TEXT("\"late\":1"));
    CHECK(pthread_join(thread, NULL) == 0);
    close(ends[0]);
    close(ends[1]);
    CHECK(syscall(SYS_io_destroy, context) == 0);
}

// Reads that a disk does meanwhile are taken from memory, without a call.
static void late_reads(void) {
    int fd = open("direct", O_RDWR | O_CREAT | O_TRUNC | O_DIRECT, 0600);
    if (fd < 0) return; // No such files here.
    char *buffers = aligned_alloc(4096, 8 * 4096), out[4096];
    aio_context_t context = setup(4);
    struct ring *ring = (struct ring *)context;
    for (int i = 0; i < 8; i++) {
        // One for each: what came out is left alone until it is recorded.
        char *buffer = buffers + i * 4096;
        fill(out, sizeof out);
        memcpy(buffer, out, sizeof out);
        CHECK(pwrite(fd, buffer, 4096, i * 4096) == 4096);
        memset(buffer, 0, 4096);
        struct iocb one = block(IOCB_CMD_PREAD, fd, buffer, 4096, i * 4096);
        submit(context, &one);
        while (*(volatile unsigned *)&ring->head == *(volatile unsigned *)&ring->tail)
            __builtin_ia32_pause();
        CHECK(take(context).res == 4096 && memcmp(buffer, out, sizeof out) == 0);
        EXPECT("aio:PREAD", 4096, DATA(out, sizeof out));
    }
    CHECK(syscall(SYS_io_destroy, context) == 0 && close(fd) == 0);
}

// One thread submits, another one finds what is completed.
static struct {
    aio_context_t context;
    int fd;
    char out[4][MANY][BLOCK];
    struct iocb blocks[4][MANY];
} shared;

static void *submits(void *number) {
    long n = (long)number;
    for (int i = 0; i < MANY; i++) {
        struct iocb *one = &shared.blocks[n][i];
        *one = block(IOCB_CMD_PWRITE, shared.fd, shared.out[n][i], BLOCK, (n * MANY + i) * BLOCK);
        while (syscall(SYS_io_submit, shared.context, 1, &one) != 1) usleep(50);
    }
    return NULL;
}

static void by_threads(int fd) {
    shared.context = setup(MANY);
    shared.fd = fd;
    fill(shared.out, sizeof shared.out);
    pthread_t threads[4];
    for (long i = 0; i < 4; i++) CHECK(pthread_create(&threads[i], NULL, submits, (void *)i) == 0);
    for (int left = 4 * MANY; left > 0; left--) CHECK(reap(shared.context).res == BLOCK);
    for (int i = 0; i < 4; i++) CHECK(pthread_join(threads[i], NULL) == 0);
    for (int i = 0; i < 4; i++)
        for (int j = 0; j < MANY; j++) EXPECT("aio:PWRITE", BLOCK, DATA(shared.out[i][j], BLOCK));
    CHECK(syscall(SYS_io_destroy, shared.context) == 0);
}

// What is in flight when the context goes, or the process, is written as never completed. A child has
// no context of its parent's.
static void left_behind(int fd) {
    int ends[2];
    CHECK(pipe(ends) == 0);
    aio_context_t context = setup(4);
    struct iocb wait = block(IOCB_CMD_POLL, ends[0], (void *)1, 0, 0);
    submit(context, &wait);
    fflush(stdout);
    pid_t pid = fork();
    if (pid == 0) {
        struct iocb one = block(IOCB_CMD_FSYNC, fd, NULL, 0, 0), *ones = &one;
        CHECK(syscall(SYS_io_submit, context, 1, &ones) < 0);
        aio_context_t own = setup(4);
        submit(own, &one);
        CHECK(reap(own).res == 0);
        EXPECT("aio:FSYNC", 0);
        struct iocb again = block(IOCB_CMD_POLL, ends[0], (void *)1, 0, 0);
        submit(own, &again);
        // This one is completed, but the program never asks.
        static char text[] = "never asked for";
        one = block(IOCB_CMD_PWRITE, fd, text, sizeof text, 0);
        submit(own, &one);
        EXPECT("aio:PWRITE", sizeof text, DATA(text, sizeof text));
        fflush(stdout);
        if (random_word() % 2) raise(SIGKILL);
        _exit(0);
    }
    wait_for(pid);
    CHECK(syscall(SYS_io_destroy, context) == 0);
    EXPECT_COUNT("aio:POLL", 4);
}

static void on_alarm(int signal) { (void)signal; }

// Signals interrupt calls before they are made and while they wait.
static void interrupted(int fd) {
    struct sigaction action = {.sa_handler = on_alarm, .sa_flags = SA_RESTART};
    sigaction(SIGALRM, &action, NULL);
    timer_t timer;
    CHECK(timer_create(CLOCK_MONOTONIC, NULL, &timer) == 0);
    struct itimerspec every = {{0, 200000}, {0, 200000}};
    CHECK(timer_settime(timer, 0, &every, NULL) == 0);
    aio_context_t context = setup(4);
    static char out[8 * BLOCK];
    for (int i = 0; i < 100; i++) {
        fill(out, sizeof out);
        struct iocb one = block(IOCB_CMD_PWRITE, fd, out, sizeof out, 0), *ones = &one;
        long made;
        while ((made = syscall(SYS_io_submit, context, 1, &ones)) < 0 && errno == EINTR) {}
        CHECK(made == 1);
        struct io_event done;
        while ((made = syscall(SYS_io_getevents, context, 1, 1, &done, NULL)) < 0 && errno == EINTR) {}
        CHECK(made == 1 && done.res == sizeof out);
        EXPECT("aio:PWRITE", sizeof out, DATA(out, sizeof out));
    }
    CHECK(timer_delete(timer) == 0);
    CHECK(syscall(SYS_io_destroy, context) == 0);
}

int main(int argc, char **argv) {
    begin(argc, argv);
    int fd = open("data", O_RDWR | O_CREAT | O_TRUNC, 0600);
    CHECK(fd >= 0);
    one_by_one(fd);
    many(fd);
    late();
    late_reads();
    by_threads(fd);
    interrupted(fd);
    left_behind(fd);
    return 0;
}
