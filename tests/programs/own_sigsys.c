// The program uses SIGSYS for itself: sets it, raises it, blocks it, waits for it, dies of it.
#include "expect.h"

static volatile sig_atomic_t seen, code;

static void on_sigsys(int signal, siginfo_t *info, void *context) {
    (void)context;
    CHECK(signal == SIGSYS && info->si_signo == SIGSYS);
    code = info->si_code;
    seen++;
    CHECK(syscall(SYS_getppid) > 0);
}

int main(int argc, char **argv) {
    begin(argc, argv);
    struct sigaction old, action = {.sa_sigaction = on_sigsys, .sa_flags = SA_SIGINFO};
    CHECK(sigaction(SIGSYS, NULL, &old) == 0 && old.sa_handler == SIG_DFL && old.sa_flags == 0);
    CHECK(sigaction(SIGSYS, &action, &old) == 0 && old.sa_handler == SIG_DFL);
    CHECK(raise(SIGSYS) == 0 && seen == 1 && code == SI_TKILL);
    CHECK(kill(getpid(), SIGSYS) == 0 && seen == 2 && code == SI_USER);
    CHECK(sigaction(SIGSYS, NULL, &old) == 0 && old.sa_sigaction == on_sigsys);
    sigset_t only, pending;
    sigemptyset(&only);
    sigaddset(&only, SIGSYS);
    CHECK(sigprocmask(SIG_BLOCK, &only, NULL) == 0);
    CHECK(raise(SIGSYS) == 0 && seen == 2);
    // Calls go on while SIGSYS is blocked and pending.
    for (int i = 0; i < 20; i++) CHECK(getppid() > 0);
    CHECK(sigpending(&pending) == 0 && sigismember(&pending, SIGSYS) == 1);
    CHECK(sigprocmask(SIG_UNBLOCK, &only, NULL) == 0 && seen == 3);
    action.sa_handler = SIG_IGN;
    action.sa_flags = 0;
    CHECK(sigaction(SIGSYS, &action, NULL) == 0 && raise(SIGSYS) == 0 && seen == 3);
    for (int i = 0; i < 20; i++) CHECK(getppid() > 0);
    EXPECT_COUNT("getppid", 43);
    pid_t pid = fork();
    if (pid == 0) {
        signal(SIGSYS, SIG_DFL);
        raise(SIGSYS);
        _exit(0);
    }
    int status = wait_for(pid);
    CHECK(WIFSIGNALED(status) && WTERMSIG(status) == SIGSYS);
    return 0;
}
