// Children that ask to be traced, and what their tracer sees: every stop, signal, status and call is
// there, and no other.
// gaps: traced
// count: off
#include "expect.h"
#include <sys/ptrace.h>
#include <sys/reg.h>
#include <sys/user.h>

static volatile sig_atomic_t handled;
static int marker_fd;

static void on_signal(int signal, siginfo_t *info, void *state) {
    (void)info, (void)state;
    handled += signal;
}

static void handle(int signal, int flags) {
    struct sigaction action = {.sa_sigaction = on_signal, .sa_flags = SA_SIGINFO | flags};
    CHECK(sigaction(signal, &action, NULL) == 0);
}

static void be_traced(void) { CHECK(ptrace(PTRACE_TRACEME, 0, 0, 0) == 0); }

static pid_t start(void (*child)(void)) {
    fflush(stdout);
    pid_t pid = fork();
    CHECK(pid >= 0);
    if (pid == 0) {
        be_traced();
        child();
        _exit(99);
    }
    return pid;
}

// Prints what wait tells, and gives the signal of a stop, 0 at the end.
static int next_stop(pid_t pid) {
    int status;
    CHECK(waitpid(pid, &status, __WALL) == pid);
    if (WIFSTOPPED(status)) {
        printf(" stop %d event %d;", WSTOPSIG(status), status >> 16);
        return WSTOPSIG(status);
    }
    if (WIFEXITED(status)) printf(" exit %d\n", WEXITSTATUS(status));
    if (WIFSIGNALED(status)) printf(" killed %d\n", WTERMSIG(status));
    return 0;
}

static void resume(int how, pid_t pid, int signal) { CHECK(ptrace(how, pid, 0, signal) == 0); }

// Lets a child run to its end; every signal goes on to it but SIGSTOP, and the trap of its exec.
static void run_to_end(const char *name, void (*child)(void)) {
    printf("%s:", name);
    pid_t pid = start(child);
    for (int signal; (signal = next_stop(pid));)
        resume(PTRACE_CONT, pid, signal == SIGSTOP || signal == SIGTRAP ? 0 : signal);
}

static void just_exits(void) { _exit(7); }

static void stops(void) {
    raise(SIGSTOP);
    kill(getpid(), SIGSTOP);
    _exit(8);
}

static void is_signalled(void) {
    char memory[SIGSTKSZ > 65536 ? SIGSTKSZ : 65536];
    stack_t stack = {.ss_sp = memory, .ss_size = sizeof memory}, now;
    CHECK(sigaltstack(&stack, NULL) == 0 && sigaltstack(NULL, &now) == 0);
    CHECK(now.ss_sp == memory && now.ss_size == sizeof memory && now.ss_flags == 0);
    handle(SIGUSR1, 0);
    handle(SIGUSR2, SA_ONSTACK | SA_RESETHAND);
    handle(SIGSEGV, 0);
    raise(SIGUSR1);
    raise(SIGUSR2);
    raise(SIGSEGV);
    raise(SIGSYS);
    _exit(100);
}

// Handlers and masks that were there before still are, and are the program's.
static void keeps_handlers(void) {
    struct sigaction action;
    CHECK(sigaction(SIGUSR1, NULL, &action) == 0 && action.sa_sigaction == on_signal);
    CHECK(sigaction(SIGSEGV, NULL, &action) == 0 && action.sa_handler == SIG_DFL);
    CHECK(sigaction(SIGSYS, NULL, &action) == 0 && action.sa_handler == SIG_IGN);
    sigset_t set;
    CHECK(sigprocmask(SIG_SETMASK, NULL, &set) == 0);
    CHECK(sigismember(&set, SIGSYS) == 1 && sigismember(&set, SIGUSR2) == 1);
    CHECK(sigismember(&set, SIGUSR1) == 0);
    handled = 0;
    raise(SIGUSR1);
    raise(SIGUSR2);
    CHECK(handled == SIGUSR1);
    CHECK(sigpending(&set) == 0 && sigismember(&set, SIGUSR2) == 1);
    _exit(9);
}

static void faults(void) {
    volatile int *volatile nowhere = NULL;
    *nowhere = 1;
}

static void executes(void) {
    execl("/bin/sh", "sh", "-c", "exit 5", NULL);
}

static void asks_twice(void) {
    CHECK(ptrace(PTRACE_TRACEME, 0, 0, 0) == -1 && errno == EPERM);
    _exit(10);
}

static void forks(void) {
    raise(SIGSTOP);
    pid_t pid = fork();
    if (pid == 0) _exit(3);
    int status;
    CHECK(waitpid(pid, &status, 0) == pid);
    _exit(WEXITSTATUS(status) + 1);
}

static void makes_calls(void) {
    raise(SIGSTOP);
    for (int i = 0; i < 6; i++) {
        // Some have been made before, some have not; some fail.
        CHECK(syscall(SYS_getppid) > 0);
        CHECK(write(marker_fd, "x", 1) == 1);
        CHECK(lseek(-1, 0, SEEK_SET) == -1);
        CHECK(umask(i) == (i ? (unsigned)i - 1 : 022));
        struct sigaction action = {.sa_handler = SIG_IGN};
        CHECK(sigaction(SIGUSR2, &action, NULL) == 0);
        sigset_t set;
        sigemptyset(&set);
        CHECK(sigprocmask(SIG_SETMASK, &set, NULL) == 0);
    }
    _exit(11);
}

static void waits(void) {
    raise(SIGSTOP);
    pause();
}

static void sees_calls(void) {
    printf("calls:");
    pid_t pid = start(makes_calls);
    CHECK(next_stop(pid) == SIGSTOP);
    CHECK(ptrace(PTRACE_SETOPTIONS, pid, 0, PTRACE_O_TRACESYSGOOD) == 0);
    int signal = 0, entering = 1;
    for (;;) {
        resume(PTRACE_SYSCALL, pid, signal);
        int status;
        CHECK(waitpid(pid, &status, 0) == pid);
        if (!WIFSTOPPED(status)) {
            printf(" exit %d\n", WEXITSTATUS(status));
            return;
        }
        signal = 0;
        if (WSTOPSIG(status) != (SIGTRAP | 0x80)) {
            signal = WSTOPSIG(status);
            printf(" signal %d;", signal);
            continue;
        }
        struct user_regs_struct regs;
        CHECK(ptrace(PTRACE_GETREGS, pid, 0, &regs) == 0);
        long number = (long)regs.orig_rax, result = (long)regs.rax;
        if (entering) {
            printf(" %ld", number);
            CHECK(result == -ENOSYS);
            if (number == SYS_write) {
                long byte = ptrace(PTRACE_PEEKDATA, pid, regs.rsi, 0) & 0xff;
                CHECK(byte == 'x' && regs.rdx == 1);
            }
        } else if (number == SYS_lseek) {
            CHECK(result == -EBADF);
            // The tracer has the last word.
            regs.rax = (unsigned long)-EINVAL;
            CHECK(ptrace(PTRACE_SETREGS, pid, 0, &regs) == 0);
        }
        entering = !entering;
    }
}

// A call that the tracer has the child make instead of another one.
static void changes_calls(void) {
    printf("changed:");
    pid_t pid = start(waits);
    CHECK(next_stop(pid) == SIGSTOP);
    for (int stop = 0; stop < 20; stop++) {
        resume(PTRACE_SYSCALL, pid, 0);
        int status;
        CHECK(waitpid(pid, &status, 0) == pid);
        if (WIFEXITED(status)) {
            printf(" exit %d\n", WEXITSTATUS(status));
            return;
        }
        struct user_regs_struct regs;
        CHECK(ptrace(PTRACE_GETREGS, pid, 0, &regs) == 0);
        if (regs.orig_rax == SYS_pause) {
            regs.orig_rax = SYS_exit_group;
            regs.rdi = 44;
            CHECK(ptrace(PTRACE_SETREGS, pid, 0, &regs) == 0);
        }
    }
    CHECK(!"it goes on");
}

static void sees_forks(void) {
    printf("forks:");
    pid_t pid = start(forks), child = 0;
    CHECK(next_stop(pid) == SIGSTOP);
    long options = PTRACE_O_TRACEFORK | PTRACE_O_TRACEEXIT | PTRACE_O_EXITKILL;
    CHECK(ptrace(PTRACE_SETOPTIONS, pid, 0, options) == 0);
    resume(PTRACE_CONT, pid, 0);
    int ended = 0, stopped_child = 0;
    while (ended < 2) {
        int status;
        pid_t who = waitpid(-1, &status, __WALL);
        CHECK(who > 0);
        if (!WIFSTOPPED(status)) {
            CHECK(WIFEXITED(status) && WEXITSTATUS(status) == (who == pid ? 4 : 3));
            ended++;
            continue;
        }
        int event = status >> 16, signal = WSTOPSIG(status);
        if (event == PTRACE_EVENT_FORK) {
            unsigned long told;
            CHECK(ptrace(PTRACE_GETEVENTMSG, who, 0, &told) == 0);
            CHECK(!child || child == (pid_t)told);
            child = (pid_t)told;
        } else if (event == 0 && who != pid) {
            CHECK(signal == SIGSTOP);
            stopped_child++;
        } else if (event == 0) {
            CHECK(signal == SIGCHLD);
        } else {
            CHECK(event == PTRACE_EVENT_EXIT);
        }
        resume(PTRACE_CONT, who, event || signal == SIGSTOP ? 0 : signal);
    }
    CHECK(child && stopped_child == 1);
    printf(" both ended\n");
}

static void sees_siginfo(void) {
    printf("siginfo:");
    pid_t pid = start(waits);
    CHECK(next_stop(pid) == SIGSTOP);
    resume(PTRACE_CONT, pid, 0);
    union sigval value = {.sival_int = 77};
    CHECK(sigqueue(pid, SIGTERM, value) == 0);
    CHECK(next_stop(pid) == SIGTERM);
    siginfo_t info;
    CHECK(ptrace(PTRACE_GETSIGINFO, pid, 0, &info) == 0);
    CHECK(info.si_code == SI_QUEUE && info.si_value.sival_int == 77 && info.si_pid == getpid());
    // It never gets that one, but another.
    resume(PTRACE_CONT, pid, SIGUSR1);
    CHECK(next_stop(pid) == 0);
}

static void is_killed(void) {
    printf("kill:");
    pid_t pid = start(waits);
    CHECK(next_stop(pid) == SIGSTOP);
    resume(PTRACE_CONT, pid, 0);
    CHECK(kill(pid, SIGKILL) == 0);
    CHECK(next_stop(pid) == 0);
}

// The tracer lets go: the child runs on alone.
static void is_let_go(void) {
    printf("detach:");
    pid_t pid = start(stops);
    CHECK(next_stop(pid) == SIGSTOP);
    CHECK(ptrace(PTRACE_DETACH, pid, 0, 0) == 0);
    int status;
    CHECK(waitpid(pid, &status, WUNTRACED) == pid && WIFSTOPPED(status));
    CHECK(kill(pid, SIGCONT) == 0);
    CHECK(next_stop(pid) == 0);
}

// With its own answer to SIGCHLD.
static void is_told_of_children(void) {
    handled = 0;
    handle(SIGCHLD, SA_RESTART);
    run_to_end("told", just_exits);
    printf("told %d times\n", handled / SIGCHLD);
    signal(SIGCHLD, SIG_DFL);
}

int main(int argc, char **argv) {
    begin(argc, argv);
    umask(022);
    marker_fd = open("marks", O_WRONLY | O_CREAT | O_TRUNC, 0600);
    CHECK(marker_fd >= 0);
    run_to_end("exit", just_exits);
    run_to_end("stops", stops);
    run_to_end("signals", is_signalled);
    run_to_end("fault", faults);
    run_to_end("exec", executes);
    run_to_end("twice", asks_twice);
    handle(SIGUSR1, SA_RESTART);
    signal(SIGSYS, SIG_IGN);
    sigset_t set;
    sigemptyset(&set);
    sigaddset(&set, SIGSYS);
    sigaddset(&set, SIGUSR2);
    CHECK(sigprocmask(SIG_BLOCK, &set, NULL) == 0);
    run_to_end("handlers", keeps_handlers);
    CHECK(sigprocmask(SIG_UNBLOCK, &set, NULL) == 0);
    signal(SIGSYS, SIG_DFL);
    signal(SIGUSR1, SIG_DFL);
    sees_calls();
    changes_calls();
    sees_forks();
    sees_siginfo();
    is_killed();
    is_let_go();
    is_told_of_children();
    return 0;
}
