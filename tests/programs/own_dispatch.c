// The program uses Syscall User Dispatch itself, as emulators do.
#include "expect.h"
#include <sys/prctl.h>

#ifndef PR_SET_SYSCALL_USER_DISPATCH
#define PR_SET_SYSCALL_USER_DISPATCH 59
#define PR_SYS_DISPATCH_OFF 0
#define PR_SYS_DISPATCH_ON 1
#endif
#ifndef SYS_USER_DISPATCH
#define SYS_USER_DISPATCH 2
#endif

static volatile char selector;
static volatile sig_atomic_t dispatched;

static void on_sigsys(int signal, siginfo_t *info, void *context) {
    (void)signal;
    selector = 0;
    CHECK(info->si_code == SYS_USER_DISPATCH && info->si_syscall == SYS_getpgid);
    dispatched++;
    ((ucontext_t *)context)->uc_mcontext.gregs[REG_RAX] = 1234;
}

int main(int argc, char **argv) {
    begin(argc, argv);
    struct sigaction action = {.sa_sigaction = on_sigsys, .sa_flags = SA_SIGINFO};
    CHECK(sigaction(SIGSYS, &action, NULL) == 0);
    CHECK(prctl(PR_SET_SYSCALL_USER_DISPATCH, PR_SYS_DISPATCH_ON, 0, 0, &selector) == 0);
    for (int i = 0; i < 30; i++) {
        CHECK(syscall(SYS_getpgid, 0) == getpgid(0));
        selector = 1;
        long got = syscall(SYS_getpgid, 0);
        // The handler put the selector back.
        CHECK(selector == 0 && got == 1234);
    }
    CHECK(dispatched == 30);
    CHECK(prctl(PR_SET_SYSCALL_USER_DISPATCH, PR_SYS_DISPATCH_OFF, 0, 0, 0) == 0);
    selector = 1;
    for (int i = 0; i < 10; i++) CHECK(syscall(SYS_getppid) > 0);
    EXPECT_COUNT("getppid", 10);
    EXPECT("prctl", 0, TEXT("PR_SET_SYSCALL_USER_DISPATCH"));
    return 0;
}
