// Queued signals, each with its own value: none is lost, none comes twice, all are in order.
#include "expect.h"

enum { MANY = 400 };
static volatile int received, values[MANY];

static void on_signal(int signal, siginfo_t *info, void *context) {
    (void)signal;
    (void)context;
    if (received < MANY) values[received] = info->si_value.sival_int;
    received++;
}

int main(int argc, char **argv) {
    begin(argc, argv);
    struct sigaction action = {.sa_sigaction = on_signal, .sa_flags = SA_SIGINFO};
    CHECK(sigaction(SIGRTMIN, &action, NULL) == 0);
    sigset_t only;
    sigemptyset(&only);
    sigaddset(&only, SIGRTMIN);
    CHECK(sigprocmask(SIG_BLOCK, &only, NULL) == 0);
    for (int i = 0; i < MANY; i++) CHECK(sigqueue(getpid(), SIGRTMIN, (union sigval){.sival_int = i * 3}) == 0);
    CHECK(received == 0);
    CHECK(sigprocmask(SIG_UNBLOCK, &only, NULL) == 0);
    CHECK(received == MANY);
    for (int i = 0; i < MANY; i++) CHECK(values[i] == i * 3);
    EXPECT_COUNT("rt_sigqueueinfo", MANY);
    return 0;
}
