// io_uring: a wait ends when all is there, or by a signal of the program, however busy it is.
// count: off
#include "expect.h"
#include "ring.h"
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>

#define TOGETHER 64
#define ROUNDS 240
#define CHILDREN 3
#define BYTES 4096

static char bytes[TOGETHER][BYTES];
static volatile sig_atomic_t alarms;

static void on_alarm(int signal) {
    (void)signal;
    alarms++;
}

static long now_us(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return now.tv_sec * 1000000 + now.tv_nsec / 1000;
}

// Takes time of its own.
static void compute(void) {
    for (long end = now_us() + 1000; now_us() < end;) memset(bytes[0], 1, 64);
}

static long wait_for_all(struct ring *ring, unsigned submit, unsigned flags, void *arg, size_t len) {
    return syscall(SYS_io_uring_enter, ring->fd, submit, TOGETHER, IORING_ENTER_GETEVENTS | flags, arg, len);
}

// Takes time of the same processors.
static pid_t busy_child(void) {
    pid_t parent = getpid(), child = fork();
    CHECK(child >= 0);
    if (child) return child;
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    while (getppid() == parent)
        for (int i = 0; i < 1000; i++) compute();
    _exit(1);
}

int main(int argc, char **argv) {
    begin(argc, argv);
    struct ring ring;
    if (!has_rings(&ring, TOGETHER, 0)) return 0;
    int file = open("waits", O_RDWR | O_CREAT | O_TRUNC, 0600);
    CHECK(file >= 0);
    fflush(stdout);
    pid_t children[CHILDREN];
    for (int i = 0; i < CHILDREN; i++) children[i] = busy_child();
    uint64_t mask = 1 << (SIGUSR1 - 1);
    struct __kernel_timespec patience = {.tv_sec = 60};
    struct io_uring_getevents_arg timed = {.ts = (uint64_t)&patience};
    for (int i = 0; i < ROUNDS; i++) {
        compute();
        for (int k = 0; k < TOGETHER; k++)
            next(&ring, IORING_OP_WRITE, file, bytes[k], BYTES, (uint64_t)k * BYTES)->flags = IOSQE_ASYNC | IOSQE_IO_LINK;
        long made;
        if (i % 4 == 1)
            made = wait_for_all(&ring, TOGETHER, IORING_ENTER_EXT_ARG, &timed, sizeof timed);
        else if (i % 4 == 3)
            made = wait_for_all(&ring, TOGETHER, 0, &mask, sizeof mask);
        else
            made = wait_for_all(&ring, TOGETHER, 0, NULL, 0);
        CHECK(made == TOGETHER);
        struct io_uring_cqe done;
        for (int k = 0; k < TOGETHER; k++) CHECK(take(&ring, &done) && done.res == BYTES);
    }
    EXPECT_COUNT("io_uring:WRITE", TOGETHER * ROUNDS);

    struct sigaction action = {.sa_handler = on_alarm, .sa_flags = SA_RESTART};
    sigaction(SIGALRM, &action, NULL);
    timer_t timer;
    CHECK(timer_create(CLOCK_MONOTONIC, NULL, &timer) == 0);
    struct itimerspec every = {{0, 2000000}, {0, 2000000}};
    CHECK(timer_settime(timer, 0, &every, NULL) == 0);
    for (int i = 0; i < 20; i++) {
        compute();
        int before = alarms;
        CHECK(wait_for_all(&ring, 0, 0, NULL, 0) == -1 && errno == EINTR && alarms > before);
    }
    CHECK(timer_delete(timer) == 0);
    for (int i = 0; i < CHILDREN; i++) CHECK(kill(children[i], SIGKILL) == 0 && waitpid(children[i], NULL, 0) > 0);
    close(file);
    end(&ring);
    return 0;
}
