// Handlers interrupted by other handlers, four deep, each making calls and seeing its own state.
#include "expect.h"

static volatile long calls, deepest, depth;

static void on_signal(int signal, siginfo_t *info, void *context) {
    (void)context;
    CHECK(info->si_signo == signal);
    if (++depth > deepest) deepest = depth;
    for (int i = 0; i < 3; i++) {
        CHECK(syscall(SYS_getppid) > 0);
        __atomic_add_fetch(&calls, 1, __ATOMIC_SEQ_CST);
    }
    if (signal < SIGRTMIN + 3) CHECK(raise(signal + 1) == 0);
    --depth;
}

int main(int argc, char **argv) {
    begin(argc, argv);
    struct sigaction action = {.sa_sigaction = on_signal, .sa_flags = SA_SIGINFO};
    for (int i = 0; i < 4; i++) CHECK(sigaction(SIGRTMIN + i, &action, NULL) == 0);
    for (int i = 0; i < 500; i++) {
        CHECK(kill(getpid(), SIGRTMIN) == 0);
        CHECK(syscall(SYS_getppid) > 0);
        __atomic_add_fetch(&calls, 1, __ATOMIC_SEQ_CST);
    }
    CHECK(deepest == 4);
    EXPECT_COUNT("getppid", calls);
    printf("deepest %ld, calls %ld\n", deepest, calls);
    return 0;
}
