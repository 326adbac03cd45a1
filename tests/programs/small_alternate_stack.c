// count: off
// flags: -Wl,-z,now
// Handlers on the smallest alternate stack that the kernel accepts, making calls from there.
#include "expect.h"
#include <sys/auxv.h>
#include <sys/mman.h>
#include <sys/time.h>

enum { PAGE = 4096 };
static volatile sig_atomic_t runs;
static char *stack_low, *stack_high;

static void on_signal(int signal, siginfo_t *info, void *context) {
    (void)info;
    (void)context;
    char here;
    CHECK(&here > stack_low && &here < stack_high);
    CHECK(syscall(SYS_getppid) > 0);
    runs++;
    (void)signal;
}

int main(int argc, char **argv) {
    begin(argc, argv);
    size_t least = getauxval(AT_MINSIGSTKSZ);
    if (least < 2048) least = MINSIGSTKSZ;
    // What the kernel needs for its frame, and one kilobyte for the handler's own.
    size_t size = least + 1024;
    size_t room = (size + PAGE - 1) / PAGE * PAGE;
    // A page without access below: an overflow is fatal rather than silent.
    char *memory = mmap(NULL, room + PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    CHECK(memory != MAP_FAILED && mprotect(memory, PAGE, PROT_NONE) == 0);
    stack_low = memory + PAGE;
    stack_high = stack_low + size;
    stack_t stack = {.ss_sp = stack_low, .ss_size = size};
    CHECK(sigaltstack(&stack, NULL) == 0);
    struct sigaction action = {.sa_sigaction = on_signal, .sa_flags = SA_ONSTACK | SA_SIGINFO};
    CHECK(sigaction(SIGUSR1, &action, NULL) == 0 && sigaction(SIGALRM, &action, NULL) == 0);
    for (int i = 0; i < 500; i++) CHECK(raise(SIGUSR1) == 0);
    CHECK(runs == 500);
    struct itimerval often = {{0, 500}, {0, 500}}, off = {0};
    CHECK(setitimer(ITIMER_REAL, &often, NULL) == 0);
    long calls = 0;
    while (runs < OFTEN(800, 600)) {
        CHECK(syscall(SYS_getpgid, 0) > 0);
        calls++;
    }
    CHECK(setitimer(ITIMER_REAL, &off, NULL) == 0);
    EXPECT_COUNT("getpgid", calls);
    EXPECT_COUNT("getppid", runs);
    return 0;
}
