// Says who it is and waits for a line, so that others can do things to it meanwhile: attach to it,
// signal it, kill it. SIGINT is answered and counted, SIGTERM ends it with 3.
// count: off
#include "expect.h"

static volatile sig_atomic_t interrupts;

static void on_signal(int signal) {
    if (signal == SIGTERM) _exit(3);
    interrupts++;
    if (write(1, "interrupted\n", 12) != 12) _exit(1);
}

// Those who look at the stack meanwhile find it there.
__attribute__((noinline)) static void wait_for_line(void) {
    char byte;
    while (read(0, &byte, 1) == 1 && byte != '\n') continue;
}

int main(int argc, char **argv) {
    begin(argc, argv);
    struct sigaction action = {.sa_handler = on_signal, .sa_flags = SA_RESTART};
    CHECK(sigaction(SIGINT, &action, NULL) == 0 && sigaction(SIGTERM, &action, NULL) == 0);
    // With a third argument it tells its process id, which differs from run to run.
    char line[100];
    int len = snprintf(line, sizeof line, "ready %d\n", argc > 2 ? getpid() : 0);
    CHECK(write(1, line, (size_t)len) == len);
    wait_for_line();
    for (int i = 0; i < 50; i++) CHECK(syscall(SYS_getppid) > 0);
    EXPECT_COUNT("getppid", 50);
    printf("interrupted %d times\n", interrupts);
    return 0;
}
