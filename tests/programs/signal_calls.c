// The calls around signals: actions, masks, pending sets, queues and alternate stacks.
#include "expect.h"
#include <sys/mman.h>

static volatile sig_atomic_t value_seen;

static void on_signal(int signal, siginfo_t *info, void *context) {
    (void)signal;
    (void)context;
    value_seen = info->si_value.sival_int;
}

int main(int argc, char **argv) {
    begin(argc, argv);
    struct sigaction action = {.sa_sigaction = on_signal, .sa_flags = SA_SIGINFO}, old;
    sigaddset(&action.sa_mask, SIGUSR2);
    CHECK(sigaction(SIGUSR1, &action, &old) == 0 && old.sa_handler == SIG_DFL);
    EXPECT("rt_sigaction", 0, TEXT("SIGUSR1"), TEXT("SA_SIGINFO"));
    // What was set is what is found.
    CHECK(sigaction(SIGUSR1, NULL, &old) == 0);
    CHECK(old.sa_sigaction == on_signal && (old.sa_flags & SA_SIGINFO) && sigismember(&old.sa_mask, SIGUSR2) == 1);
    uint64_t mask = 1ull << (SIGUSR1 - 1) | 1ull << (SIGTERM - 1), before, pending;
    CHECK(syscall(SYS_rt_sigprocmask, SIG_BLOCK, &mask, &before, 8) == 0);
    EXPECT("rt_sigprocmask", 0, DATA(&mask, 8), DATA(&before, 8), TEXT("SIG_BLOCK"));
    union sigval carried = {.sival_int = (int)random_len(1000000)};
    CHECK(sigqueue(getpid(), SIGUSR1, carried) == 0);
    EXPECT("rt_sigqueueinfo", 0, TEXT("SIGUSR1"));
    CHECK(syscall(SYS_rt_sigpending, &pending, 8) == 0 && pending == 1ull << (SIGUSR1 - 1));
    EXPECT("rt_sigpending", 0, DATA(&pending, 8));
    CHECK(value_seen == 0);
    CHECK(syscall(SYS_rt_sigsuspend, &before, 8) == -1 && errno == EINTR);
    EXPECT_ERRNO("rt_sigsuspend", EINTR);
    CHECK(value_seen == carried.sival_int);
    CHECK(kill(getpid(), SIGTERM) == 0);
    siginfo_t info;
    memset(&info, 0, sizeof info);
    uint64_t wanted = 1ull << (SIGTERM - 1);
    struct timespec limit = {5, 0};
    CHECK(syscall(SYS_rt_sigtimedwait, &wanted, &info, &limit, 8) == SIGTERM);
    CHECK(info.si_pid == getpid());
    EXPECT("rt_sigtimedwait", SIGTERM, DATA(&wanted, 8), DATA(&limit, sizeof limit));
    uint64_t now;
    CHECK(syscall(SYS_rt_sigprocmask, SIG_SETMASK, NULL, &now, 8) == 0 && now == (mask | before));
    EXPECT("rt_sigprocmask", 0, DATA(&now, 8));
    stack_t stack = {.ss_sp = malloc(SIGSTKSZ), .ss_size = (size_t)SIGSTKSZ}, stack_before;
    CHECK(sigaltstack(&stack, &stack_before) == 0 && (stack_before.ss_flags & SS_DISABLE));
    EXPECT("sigaltstack", 0, TEXT("ss_size"));
    static const char nothing[sizeof stack.ss_flags];
    memset(&stack_before, 'x', sizeof stack_before);
    CHECK(sigaltstack(NULL, &stack_before) == 0 && stack_before.ss_sp == stack.ss_sp);
    // Between its fields the kernel leaves nothing behind.
    CHECK(memcmp((char *)&stack_before.ss_flags + sizeof nothing, nothing, sizeof nothing) == 0);
    CHECK(syscall(SYS_rt_sigaction, SIGKILL, &action, NULL, 8) == -1 && errno == EINVAL);
    EXPECT_ERRNO("rt_sigaction", EINVAL);
    CHECK(syscall(SYS_tgkill, getpid(), gettid(), 0) == 0);
    EXPECT("tgkill", 0);
    return 0;
}
