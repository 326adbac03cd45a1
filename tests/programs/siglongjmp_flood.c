// count: off
// 10,000 signals a second, every handler leaving by siglongjmp: calls made are calls recorded.
#include "expect.h"
#include <setjmp.h>
#include <sys/time.h>

// Raw calls that count themselves: the counter rises in the instruction right after the call's, and
// a handler that interrupts in between knows it by the address.
static volatile long made;
extern const char counted_from[], counted_to[];
static sigjmp_buf back;
static volatile sig_atomic_t jumps;

__attribute__((noinline)) static void counted_getppid(void) {
    __asm__ volatile("mov $110, %%eax\n"
                     "syscall\n"
                     ".globl counted_from\n"
                     "counted_from:\n"
                     "lock incq %0\n"
                     ".globl counted_to\n"
                     "counted_to:\n"
                     : "+m"(made)
                     :
                     : "rax", "rcx", "r11", "memory");
}

static void on_alarm(int signal, siginfo_t *info, void *context) {
    (void)signal;
    (void)info;
    const char *at = (const char *)((ucontext_t *)context)->uc_mcontext.gregs[REG_RIP];
    // The call was made but not counted yet.
    if (at >= counted_from && at < counted_to) made++;
    jumps++;
    siglongjmp(back, 1);
}

int main(int argc, char **argv) {
    begin(argc, argv);
    struct sigaction action = {.sa_sigaction = on_alarm, .sa_flags = SA_SIGINFO};
    CHECK(sigaction(SIGALRM, &action, NULL) == 0);
    sigset_t alarm_only;
    sigemptyset(&alarm_only);
    sigaddset(&alarm_only, SIGALRM);
    struct itimerval often = {{0, 100}, {0, 100}}, off = {0};
    // Nobody may jump before there is a place to jump to.
    if (sigsetjmp(back, 1) == 0) CHECK(setitimer(ITIMER_REAL, &often, NULL) == 0);
    while (jumps < OFTEN(5000, 1500))
        for (int i = 0; i < 100; i++) {
            counted_getppid();
            // Some work of its own, so that the trace does not grow beyond reason.
            for (volatile int k = 0; k < 2000; k++) continue;
        }
    CHECK(sigprocmask(SIG_BLOCK, &alarm_only, NULL) == 0);
    CHECK(setitimer(ITIMER_REAL, &off, NULL) == 0);
    EXPECT_COUNT("getppid", made);
    return 0;
}
