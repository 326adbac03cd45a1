// Computes between calls while others want the same CPUs, and says how long, by its own CPU clock. The
// test of CPU times (crates/acceptance/tests/cpu_time.rs) holds the recording against that.
// count: off
#include "expect.h"
#include <sched.h>
#include <sys/wait.h>
#include <time.h>

enum { OTHERS = 2, ROUNDS = 60 };

static uint64_t cpu_ns(void) {
    struct timespec now;
    CHECK(clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now) == 0);
    return now.tv_sec * 1000000000ull + now.tv_nsec;
}

static volatile long sink;

static void compute(long steps) {
    for (long i = 0; i < steps; i++) sink += i;
}

int main(int argc, char **argv) {
    begin(argc, argv);
    int measured = argc > 2;
    cpu_set_t one;
    CPU_ZERO(&one);
    CPU_SET(sched_getcpu(), &one);
    CHECK(sched_setaffinity(0, sizeof one, &one) == 0);
    pid_t others[OTHERS];
    for (int i = 0; i < OTHERS; i++) {
        CHECK((others[i] = fork()) >= 0);
        for (; others[i] == 0;) {}
    }
    int null = open("/dev/null", O_WRONLY);
    CHECK(null >= 0);
    // By now the calls of this loop have been seen.
    uint64_t asked = 0, began = 0;
    for (int i = 0; i < (measured ? ROUNDS : 3); i++) {
        if (i == ROUNDS / 4) began = cpu_ns();
        compute(2000000);
        CHECK(write(null, "x", 1) == 1);
    }
    if (measured) asked = cpu_ns() - began;
    for (int i = 0; i < OTHERS; i++) CHECK(kill(others[i], SIGKILL) == 0 && waitpid(others[i], NULL, 0) == others[i]);
    if (measured) printf("computed %llu\n", (unsigned long long)asked);
    return 0;
}
