// Looks whether a signal has come, and waits for it if not: the wait ends, also where a recording has the
// signal arrive a little later than it hit.
#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define CHECK(holds) \
    do \
        if (!(holds)) { \
            fprintf(stderr, "line %d: %s does not hold (errno %d)\n", __LINE__, #holds, errno); \
            exit(1); \
        } \
    while (0)

static volatile sig_atomic_t came;
static int ends[2];

static void on_signal(int signal) {
    (void)signal;
    CHECK(write(ends[1], "x", 1) == 1);
    char byte;
    CHECK(read(ends[0], &byte, 1) == 1);
    came = 1;
}

// Two to five milliseconds without a call, in which the timer expires.
static void compute(void) {
    for (uint64_t end = __builtin_ia32_rdtsc() + 9000000; __builtin_ia32_rdtsc() < end && !came;) continue;
}

static long wait_by(int way) {
    char byte;
    struct pollfd one = {.fd = ends[0], .events = POLLIN};
    struct timespec minute = {.tv_sec = 60};
    switch (way) {
    case 0: return read(ends[0], &byte, 1);
    case 1: return poll(&one, 1, -1);
    case 2: return pause();
    default: return nanosleep(&minute, NULL);
    }
}

// The handler has run, whichever call it is that ends.
static void once(timer_t timer, int way) {
    struct itimerspec soon = {{0, 0}, {0, 1000000}}, left;
    came = 0;
    CHECK(timer_settime(timer, 0, &soon, NULL) == 0);
    compute();
    if (!came) CHECK(wait_by(way) == -1 && errno == EINTR);
    CHECK(came);
    CHECK(timer_gettime(timer, &left) == 0 && left.it_value.tv_nsec == 0);
}

int main(void) {
    CHECK(pipe(ends) == 0);
    struct sigaction action = {.sa_handler = on_signal};
    CHECK(sigaction(SIGALRM, &action, NULL) == 0);
    timer_t timer;
    CHECK(timer_create(CLOCK_MONOTONIC, NULL, &timer) == 0);
    for (int way = 0; way < 4; way++)
        for (int i = 0; i < 3; i++) once(timer, way);
    // A handler that has calls restarted ends no read; what comes then is read.
    action.sa_flags = SA_RESTART;
    CHECK(sigaction(SIGALRM, &action, NULL) == 0);
    pid_t child = fork();
    CHECK(child >= 0);
    if (child == 0) {
        struct timespec while_ = {0, 50000000};
        nanosleep(&while_, NULL);
        _exit(write(ends[1], "y", 1) != 1);
    }
    struct itimerspec soon = {{0, 0}, {0, 1000000}};
    came = 0;
    CHECK(timer_settime(timer, 0, &soon, NULL) == 0);
    compute();
    char byte = 0;
    CHECK(read(ends[0], &byte, 1) == 1 && byte == 'y');
    CHECK(waitpid(child, NULL, 0) == child);
    puts("each wait has ended");
    return 0;
}
