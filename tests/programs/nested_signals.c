// Signals that interrupt the return from each other's handlers by siglongjmp: their frames lie deep in a stack
// that has not been so deep before.
#include "expect.h"
#include <setjmp.h>

enum { DEPTH = 400 };

static sigjmp_buf back;
static volatile int depth;

static void on_alarm(int signal) {
    // Blocked here, so it comes when siglongjmp restores the mask.
    if (++depth < DEPTH) CHECK(kill(getpid(), signal) == 0);
    siglongjmp(back, 1);
}

int main(int argc, char **argv) {
    begin(argc, argv);
    CHECK(signal(SIGALRM, on_alarm) != SIG_ERR);
    if (sigsetjmp(back, 1) == 0) CHECK(kill(getpid(), SIGALRM) == 0);
    CHECK(depth == DEPTH);
    EXPECT_COUNT("kill", DEPTH);
    return 0;
}
