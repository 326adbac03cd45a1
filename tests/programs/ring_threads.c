// io_uring: threads that share one ring. Some submit under a lock, as liburing asks for, others wait for
// completions and take them; and one thread's operation is cancelled by another.
// flags: -pthread
// count: off
#include "expect.h"
#include "ring.h"
#include <pthread.h>

#define BLOCK 512
#define EACH 200
#define SUBMITTERS 3

static struct ring ring;
static pthread_mutex_t asking = PTHREAD_MUTEX_INITIALIZER, taking = PTHREAD_MUTEX_INITIALIZER;
static int file;
static char out[SUBMITTERS][EACH][BLOCK], in[SUBMITTERS][EACH][BLOCK];
static _Atomic int asked, done_count, waits, is_cancelled;

static void *submits(void *which) {
    long number = (long)which;
    for (int i = 0; i < EACH; i++) {
        off_t at = (number * EACH + i) * BLOCK;
        pthread_mutex_lock(&asking);
        next(&ring, IORING_OP_WRITE, file, out[number][i], BLOCK, (uint64_t)at)->flags = IOSQE_IO_LINK;
        next(&ring, IORING_OP_READ, file, in[number][i], BLOCK, (uint64_t)at);
        go(&ring, 2, 0);
        atomic_fetch_add(&asked, 2);
        pthread_mutex_unlock(&asking);
        // Completions have room for so many.
        while (atomic_load(&asked) - atomic_load(&done_count) > 64) usleep(100);
    }
    // What a thread has asked for is cancelled when it ends.
    while (atomic_load(&done_count) < SUBMITTERS * EACH * 2) usleep(100);
    return NULL;
}

static void *takes(void *unused) {
    struct io_uring_cqe done;
    while (atomic_load(&done_count) < SUBMITTERS * EACH * 2) {
        pthread_mutex_lock(&taking);
        int taken = 0;
        while (take(&ring, &done)) {
            CHECK(done.res == BLOCK);
            taken++;
        }
        atomic_fetch_add(&done_count, taken);
        pthread_mutex_unlock(&taking);
        if (!taken) {
            // Another thread may take what this one waits for.
            struct __kernel_timespec wait = {.tv_nsec = 1000000};
            struct io_uring_getevents_arg arg = {.ts = (uint64_t)&wait};
            unsigned flags = IORING_ENTER_GETEVENTS | IORING_ENTER_EXT_ARG;
            long ret = syscall(SYS_io_uring_enter, ring.fd, 0, 1, flags, &arg, sizeof arg);
            CHECK(ret >= 0 || errno == ETIME || errno == EINTR);
        }
    }
    return unused;
}

// What a thread has submitted is cancelled by another one.
static void *waits_for_bytes(void *end) {
    static char bytes[BLOCK];
    next(&ring, IORING_OP_READ, *(int *)end, bytes, BLOCK, (uint64_t)-1)->user_data = 77;
    go(&ring, 1, 0);
    waits = 1;
    while (!is_cancelled) usleep(100);
    return NULL;
}

static void cancelled(void) {
    int ends[2];
    pthread_t thread;
    struct io_uring_cqe done;
    CHECK(pipe(ends) == 0);
    CHECK(pthread_create(&thread, NULL, waits_for_bytes, ends) == 0);
    while (!waits) usleep(100);
    struct io_uring_sync_cancel_reg reg = {.addr = 77, .timeout = {.tv_sec = -1, .tv_nsec = -1}};
    long ret = syscall(SYS_io_uring_register, ring.fd, IORING_REGISTER_SYNC_CANCEL, &reg, 1);
    // Kernels before 6.0 do not have it.
    if (ret < 0) CHECK(errno == EINVAL && write(ends[1], "x", 1) == 1);
    is_cancelled = 1;
    CHECK(pthread_join(thread, NULL) == 0);
    while (!take(&ring, &done)) go(&ring, 0, 1);
    CHECK(done.user_data == 77 && done.res == (ret < 0 ? 1 : -ECANCELED));
    if (ret >= 0) EXPECT_ERRNO("io_uring:READ", ECANCELED);
}

int main(int argc, char **argv) {
    begin(argc, argv);
    if (!has_rings(&ring, 256, 0)) return 0;
    file = open("shared", O_RDWR | O_CREAT | O_TRUNC, 0600);
    CHECK(file >= 0);
    for (int number = 0; number < SUBMITTERS; number++) {
        for (int i = 0; i < EACH; i++) {
            fill(out[number][i], BLOCK);
            EXPECT("io_uring:WRITE", BLOCK, DATA(out[number][i], BLOCK));
            EXPECT("io_uring:READ", BLOCK, DATA(out[number][i], BLOCK));
        }
    }
    fflush(stdout);
    pthread_t threads[SUBMITTERS + 2];
    for (long i = 0; i < SUBMITTERS + 2; i++)
        CHECK(pthread_create(&threads[i], NULL, i < SUBMITTERS ? submits : takes, (void *)i) == 0);
    for (int i = 0; i < SUBMITTERS + 2; i++) CHECK(pthread_join(threads[i], NULL) == 0);
    CHECK(memcmp(in, out, sizeof in) == 0);
    cancelled();
    end(&ring);
    return 0;
}
