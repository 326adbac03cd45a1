// Signals: stacks, masks, queues, restarts, and what handlers see.
// flags: -Wno-array-bounds
#include "cases.h"
#include <setjmp.h>
#include <sys/signalfd.h>
#include <ucontext.h>

static volatile sig_atomic_t seen[65];
static volatile sig_atomic_t order[16], ordered;

static void count(int number) { seen[number]++; }
static void note(int number) { order[ordered++] = number; }

static void handle(int number, void (*handler)(int), int flags) {
    struct sigaction action = {.sa_handler = handler, .sa_flags = flags};
    CHECK(sigaction(number, &action, NULL) == 0);
}

static char stack[64 << 10] __attribute__((aligned(16)));
static volatile int depth, on_stack;

static void nest(int number) {
    char here;
    on_stack += &here >= stack && &here < stack + sizeof stack;
    stack_t now;
    CHECK(sigaltstack(NULL, &now) == 0);
    CHECK(now.ss_flags == SS_ONSTACK);
    FAILS(EPERM, sigaltstack(&(stack_t){.ss_flags = SS_DISABLE}, NULL));
    if (++depth < 5) raise(number);
}

static void nested_alt_stack(void) {
    CHECK(sigaltstack(&(stack_t){.ss_sp = stack, .ss_size = sizeof stack}, NULL) == 0);
    handle(SIGUSR1, nest, SA_ONSTACK | SA_NODEFER);
    raise(SIGUSR1);
    CHECK(depth == 5 && on_stack == 5);
    stack_t now;
    CHECK(sigaltstack(NULL, &now) == 0 && now.ss_flags == 0 && now.ss_sp == stack);
}

static void real_time_order(void) {
    sigset_t all;
    sigfillset(&all);
    CHECK(sigprocmask(SIG_BLOCK, &all, NULL) == 0);
    for (int i = 0; i < 3; i++) handle(SIGRTMIN + i, note, 0);
    for (int i = 0; i < 3; i++)
        for (int j = 0; j < 2; j++)
            CHECK(sigqueue(getpid(), SIGRTMIN + 2 - i, (union sigval){.sival_int = j}) == 0);
    sigset_t none;
    sigemptyset(&none);
    CHECK(sigprocmask(SIG_SETMASK, &none, NULL) == 0);
    CHECK(ordered == 6);
    // Each handler is entered over the one before, so the highest runs first.
    for (int i = 0; i < 6; i++) CHECK(order[i] == SIGRTMIN + 2 - i / 2);
}

static void queue_with_values(void) {
    sigset_t set;
    sigemptyset(&set);
    sigaddset(&set, SIGRTMIN + 5);
    CHECK(sigprocmask(SIG_BLOCK, &set, NULL) == 0);
    for (int i = 0; i < 20; i++) CHECK(sigqueue(getpid(), SIGRTMIN + 5, (union sigval){.sival_int = i * 7}) == 0);
    for (int i = 0; i < 20; i++) {
        siginfo_t info;
        CHECK(sigwaitinfo(&set, &info) == SIGRTMIN + 5);
        CHECK(info.si_code == SI_QUEUE && info.si_value.sival_int == i * 7 && info.si_pid == getpid());
    }
    FAILS(EAGAIN, sigtimedwait(&set, NULL, &(struct timespec){0}));
}

static void reset_and_restart(void) {
    handle(SIGUSR1, count, SA_RESETHAND);
    raise(SIGUSR1);
    struct sigaction now;
    CHECK(sigaction(SIGUSR1, NULL, &now) == 0 && now.sa_handler == SIG_DFL && seen[SIGUSR1] == 1);
    // A read goes on after a handler with SA_RESTART, and does not without.
    for (int restart = 0; restart < 2; restart++) {
        int fds[2];
        CHECK(pipe(fds) == 0);
        handle(SIGUSR2, count, restart ? SA_RESTART : 0);
        pid_t parent = getpid(), pid = fork();
        CHECK(pid >= 0);
        if (pid == 0) {
            for (int i = 0; i < 3; i++) {
                usleep(30000);
                kill(parent, SIGUSR2);
            }
            usleep(30000);
            CHECK(write(fds[1], "x", 1) == 1);
            _exit(0);
        }
        char byte;
        int interrupted = 0;
        while (read(fds[0], &byte, 1) < 0) {
            CHECK(errno == EINTR && !restart);
            interrupted++;
        }
        CHECK(byte == 'x' && (restart || interrupted > 0));
        CHECK_CHILD(pid);
    }
}

static sigjmp_buf back;
static void leave(int number) {
    (void)number;
    siglongjmp(back, 1);
}

static void jump_out_of_fault(void) {
    handle(SIGSEGV, leave, 0);
    volatile int faults = 0;
    for (int i = 0; i < 20; i++) {
        if (sigsetjmp(back, 1) == 0) {
            *(volatile int *)16 = 1;
            CHECK(!"reached");
        }
        faults++;
    }
    CHECK(faults == 20);
}

static void step_over(int number, siginfo_t *info, void *context) {
    ucontext_t *user = context;
    CHECK(number == SIGILL && info->si_code == ILL_ILLOPN);
    CHECK(info->si_addr == (void *)user->uc_mcontext.gregs[REG_RIP]);
    user->uc_mcontext.gregs[REG_RIP] += 2;
    seen[SIGILL]++;
}

static void context_changed(void) {
    struct sigaction action = {.sa_sigaction = step_over, .sa_flags = SA_SIGINFO};
    CHECK(sigaction(SIGILL, &action, NULL) == 0);
    for (int i = 0; i < 5; i++) __asm__ volatile("ud2");
    CHECK(seen[SIGILL] == 5);
}

static void mask_while_handling(int number) {
    sigset_t mask;
    CHECK(sigprocmask(SIG_BLOCK, NULL, &mask) == 0);
    CHECK(sigismember(&mask, number) == 1 && sigismember(&mask, SIGUSR2) == 1 && sigismember(&mask, SIGHUP) == 0);
    raise(SIGUSR2);
    CHECK(seen[SIGUSR2] == 0);
    count(number);
}

static void masks_of_handlers(void) {
    struct sigaction action = {.sa_handler = mask_while_handling};
    sigaddset(&action.sa_mask, SIGUSR2);
    CHECK(sigaction(SIGUSR1, &action, NULL) == 0);
    handle(SIGUSR2, count, 0);
    raise(SIGUSR1);
    CHECK(seen[SIGUSR1] == 1 && seen[SIGUSR2] == 1);
    FAILS(EINVAL, sigaction(SIGKILL, &action, NULL));
    FAILS(EINVAL, sigaction(SIGSTOP, &action, NULL));
}

static void signal_descriptor(void) {
    sigset_t set;
    sigemptyset(&set);
    sigaddset(&set, SIGUSR1);
    sigaddset(&set, SIGCHLD);
    CHECK(sigprocmask(SIG_BLOCK, &set, NULL) == 0);
    int fd = signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
    CHECK(fd >= 0);
    struct signalfd_siginfo infos[4];
    FAILS(EAGAIN, read(fd, infos, sizeof infos));
    pid_t pid = fork();
    CHECK(pid >= 0);
    if (pid == 0) _exit(9);
    int status;
    CHECK(waitpid(pid, &status, 0) == pid && WEXITSTATUS(status) == 9);
    CHECK(kill(getpid(), SIGUSR1) == 0);
    CHECK(read(fd, infos, sizeof infos) == 2 * sizeof *infos);
    CHECK(infos[0].ssi_signo == SIGUSR1 && infos[1].ssi_signo == SIGCHLD);
    CHECK(infos[1].ssi_status == 9 && infos[1].ssi_pid == (uint32_t)pid);
}

static void stopped_and_continued(void) {
    int go[2];
    CHECK(pipe(go) == 0);
    pid_t pid = fork();
    CHECK(pid >= 0);
    if (pid == 0) {
        char byte;
        raise(SIGSTOP);
        CHECK(read(go[0], &byte, 1) == 1);
        raise(SIGSTOP);
        CHECK(read(go[0], &byte, 1) == 1);
        _exit(3);
    }
    int status;
    for (int i = 0; i < 2; i++) {
        CHECK(waitpid(pid, &status, WUNTRACED) == pid && WIFSTOPPED(status));
        CHECK(WSTOPSIG(status) == SIGSTOP);
        CHECK(kill(pid, SIGCONT) == 0);
        CHECK(waitpid(pid, &status, WCONTINUED) == pid && WIFCONTINUED(status));
        CHECK(write(go[1], "g", 1) == 1);
    }
    CHECK(waitpid(pid, &status, 0) == pid && WEXITSTATUS(status) == 3);
}

static void suspend_swaps_masks(void) {
    sigset_t blocked, empty;
    sigemptyset(&empty);
    sigemptyset(&blocked);
    sigaddset(&blocked, SIGUSR1);
    CHECK(sigprocmask(SIG_SETMASK, &blocked, NULL) == 0);
    handle(SIGUSR1, count, 0);
    for (int i = 1; i <= 5; i++) {
        CHECK(kill(getpid(), SIGUSR1) == 0);
        CHECK(seen[SIGUSR1] == i - 1);
        FAILS(EINTR, sigsuspend(&empty));
        CHECK(seen[SIGUSR1] == i);
    }
    sigset_t now;
    CHECK(sigprocmask(SIG_BLOCK, NULL, &now) == 0 && sigismember(&now, SIGUSR1) == 1);
}

static void ends_by_signals(void) {
    const int numbers[] = {SIGHUP, SIGINT, SIGKILL, SIGTERM, SIGSYS, SIGPIPE, SIGRTMAX};
    for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++) {
        pid_t pid = fork();
        CHECK(pid >= 0);
        if (pid == 0) {
            signal(numbers[i], SIG_DFL);
            kill(getpid(), numbers[i]);
            _exit(1);
        }
        int status = wait_for(pid);
        CHECK(WIFSIGNALED(status) && WTERMSIG(status) == numbers[i]);
    }
}

CASES(
    {.name = "nested_alt_stack", .function = nested_alt_stack},
    {.name = "real_time_order", .function = real_time_order},
    {.name = "queue_with_values", .function = queue_with_values},
    {.name = "reset_and_restart", .function = reset_and_restart},
    {.name = "jump_out_of_fault", .function = jump_out_of_fault},
    {.name = "context_changed", .function = context_changed},
    {.name = "masks_of_handlers", .function = masks_of_handlers},
    {.name = "signal_descriptor", .function = signal_descriptor},
    {.name = "stopped_and_continued", .function = stopped_and_continued},
    {.name = "suspend_swaps_masks", .function = suspend_swaps_masks},
    {.name = "ends_by_signals", .function = ends_by_signals}, )
