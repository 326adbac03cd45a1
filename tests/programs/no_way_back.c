// Filters that do not let signal handlers return, and little else: calls go on from wherever they
// are made, and handlers run, which then leave in other ways. A recorder that catches calls by a
// signal has to come back from it nonetheless.
// flags: -pthread
// gaps: not-followed
// count: off
#include "expect.h"
#include "filter.h"
#include <pthread.h>
#include <setjmp.h>
#include <sys/time.h>
#include <ucontext.h>

#define CALL(nr, a, b, c)                                                                   \
    ({                                                                                      \
        long result_;                                                                       \
        __asm__ volatile("syscall" : "=a"(result_) : "0"((long)(nr)), "D"((long)(a)), "S"((long)(b)), \
                         "d"((long)(c)) : "rcx", "r11", "memory");                          \
        result_;                                                                            \
    })
// The same from places of their own, each of which is met once or twice.
#define FROM_MANY_PLACES(what) what what what what what what what what

static sigjmp_buf back;
static volatile sig_atomic_t seen;
static volatile uint64_t spins;

static void jump_away(int signal) {
    seen += signal;
    siglongjmp(back, 1);
}
static void end_well(int signal) {
    CALL(SYS_exit_group, signal == SIGSEGV ? 11 : 5, 0, 0);
}
static void just_return(int signal) { seen += signal; }

static void handle(int signal, void (*handler)(int), int flags) {
    struct sigaction action = {.sa_handler = handler, .sa_flags = flags};
    CHECK(sigaction(signal, &action, NULL) == 0);
}

// Everything that the child of a separated server may do, and no more.
static void confine(uint32_t answer) {
    INSTALL(ALLOW(SYS_getppid), ALLOW(SYS_write), ALLOW(SYS_exit_group), ALLOW(SYS_getpgid),
            ALLOW(SYS_kill), ALLOW(SYS_read), ALLOW(SYS_setitimer), RETURN(answer));
}

static void make_calls(void) {
    for (int i = 0; i < 20; i++) CHECK(CALL(SYS_getppid, 0, 0, 0) > 0);
    FROM_MANY_PLACES(CHECK(CALL(SYS_getpgid, 0, 0, 0) >= 0);)
}

static void only_calls(void) {
    confine(SECCOMP_RET_KILL_PROCESS);
    make_calls();
}

// The registers of vectors and of the floating-point unit come back from where calls are caught.
static void keep_registers(void) {
    confine(SECCOMP_RET_KILL_PROCESS);
    for (int i = 0; i < 8; i++) {
        double low[2] = {i + 0.5, -i}, got[2];
        long result = SYS_getppid, flags = 0;
        __asm__ volatile("movupd %3, %%xmm9; fldpi; std; syscall; pushf; pop %1; cld; fstp %%st(0); "
                         "movupd %%xmm9, %2"
                         : "+a"(result), "=r"(flags), "=m"(got) : "m"(low) : "rcx", "r11", "xmm9", "memory");
        CHECK(result > 0 && got[0] == low[0] && got[1] == low[1] && (flags & 0x400));
    }
    long a = 0;
    __asm__ volatile("mov $39, %%eax; mov $1, %%ebx; mov $2, %%r12; mov $3, %%r15; mov $110, %%eax;"
                     "syscall; lea (%%rbx, %%r12), %0; add %%r15, %0"
                     : "=r"(a) : : "rax", "rbx", "rcx", "r11", "r12", "r15", "memory");
    CHECK(a == 6);
}

static void leave_handlers(void) {
    handle(SIGUSR1, jump_away, SA_NODEFER);
    pid_t pid = getpid();
    confine(SECCOMP_RET_KILL_PROCESS);
    for (volatile int i = 0; i < 10; i++) {
        if (sigsetjmp(back, 0) == 0) {
            CALL(SYS_kill, pid, SIGUSR1, 0);
            _exit(1);
        }
        CHECK(seen == (i + 1) * SIGUSR1);
        make_calls();
    }
}

static void end_in_handler(void) {
    handle(SIGALRM, end_well, 0);
    struct itimerval soon = {.it_value = {0, 20000}};
    CHECK(setitimer(ITIMER_REAL, &soon, NULL) == 0);
    confine(SECCOMP_RET_KILL_PROCESS);
    for (;;) {
        FROM_MANY_PLACES(CALL(SYS_getppid, 0, 0, 0);)
        for (int i = 0; i < 1000; i++) spins++;
    }
}

// Timers hit calls and everything in between; each handler leaves by a jump.
static void flood(void) {
    handle(SIGALRM, jump_away, SA_NODEFER);
    struct itimerval often = {{0, 1000}, {0, 1000}};
    confine(SECCOMP_RET_KILL_PROCESS);
    // There must be a place to jump to before the first of them.
    if (sigsetjmp(back, 0) == 0) CHECK(CALL(SYS_setitimer, ITIMER_REAL, &often, NULL) == 0);
    while (seen < OFTEN(300, 60) * SIGALRM)
        if (sigsetjmp(back, 0) == 0)
            for (;;) {
                FROM_MANY_PLACES(CALL(SYS_getppid, 0, 0, 0);)
                for (int i = 0; i < 100; i++) spins++;
            }
}

// A handler that returns does what the filter says.
static void return_and_die(void) {
    handle(SIGUSR1, just_return, 0);
    pid_t pid = getpid();
    confine(SECCOMP_RET_KILL_PROCESS);
    CALL(SYS_kill, pid, SIGUSR1, 0);
}
static void return_and_fail(void) {
    handle(SIGUSR1, just_return, 0);
    pid_t pid = getpid();
    confine(SECCOMP_RET_ERRNO | EPERM);
    CALL(SYS_kill, pid, SIGUSR1, 0);
}

static void crash(void) {
    confine(SECCOMP_RET_KILL_PROCESS);
    make_calls();
    *(volatile int *)8 = 1;
}
static void crash_with_errors(void) {
    confine(SECCOMP_RET_ERRNO | EPERM);
    make_calls();
    *(volatile int *)8 = 1;
}
static void crash_handled(void) {
    handle(SIGSEGV, end_well, 0);
    confine(SECCOMP_RET_KILL_PROCESS);
    make_calls();
    *(volatile int *)8 = 1;
}
static void forbidden(void) {
    confine(SECCOMP_RET_KILL_PROCESS);
    CALL(SYS_getsid, 0, 0, 0);
}
static void forbidden_by_signal(void) {
    INSTALL(ALLOW(SYS_rt_sigaction), ALLOW(SYS_exit_group), RETURN(SECCOMP_RET_TRAP));
    CALL(SYS_getsid, 0, 0, 0);
}
static void trapped(int signal, siginfo_t *info, void *context) {
    (void)signal;
    greg_t *regs = ((ucontext_t *)context)->uc_mcontext.gregs;
    CHECK((greg_t)info->si_call_addr == regs[REG_RIP] && info->si_syscall == SYS_getsid);
    make_calls();
    CALL(SYS_exit_group, 6, 0, 0);
}
static void trapped_and_handled(void) {
    struct sigaction action = {.sa_sigaction = trapped, .sa_flags = SA_SIGINFO};
    CHECK(sigaction(SIGSYS, &action, NULL) == 0);
    confine(SECCOMP_RET_TRAP);
    CALL(SYS_getsid, 0, 0, 0);
}

// What the filter refuses is refused, also what a recorder would answer itself.
static void refused(void) {
    confine(SECCOMP_RET_ERRNO | EXDEV);
    stack_t stack = {.ss_flags = SS_DISABLE};
    struct sigaction action = {.sa_handler = SIG_IGN};
    sigset_t set;
    CHECK(sigaltstack(&stack, NULL) == -1 && errno == EXDEV);
    CHECK(sigaction(SIGUSR1, &action, NULL) == -1 && errno == EXDEV);
    CHECK(sigprocmask(SIG_BLOCK, NULL, &set) == -1 && errno == EXDEV);
    CHECK(prctl(PR_SET_NAME, "name") == -1 && errno == EXDEV && fork() == -1 && errno == EXDEV);
    make_calls();
}

// Threads of which one is confined, or all are, while signals hit them.
static volatile int confined;
static void *in_thread(void *unused) {
    while (!confined) CHECK(CALL(SYS_getpgid, 0, 0, 0) >= 0);
    make_calls();
    return unused;
}
static void threads(unsigned int flags) {
    pthread_t thread;
    CHECK(pthread_create(&thread, NULL, in_thread, NULL) == 0);
    make_calls();
    CHECK(INSTALL_WITH(flags, ANSWER(SYS_rt_sigreturn, SECCOMP_RET_KILL_PROCESS),
                       RETURN(SECCOMP_RET_ALLOW)) == 0);
    make_calls();
    confined = 1;
    CHECK(pthread_join(thread, NULL) == 0);
    // Threads and children made afterwards.
    CHECK(pthread_create(&thread, NULL, in_thread, NULL) == 0 && pthread_join(thread, NULL) == 0);
    pid_t pid = fork();
    if (pid == 0) {
        make_calls();
        execl("/bin/true", "true", NULL);
        _exit(1);
    }
    CHECK_CHILD(pid);
}
// A filter is there already, which kills for what a recorder might do while it waits for threads.
static void two_filters(void) {
    INSTALL(ANSWER(SYS_nanosleep, SECCOMP_RET_KILL_PROCESS), RETURN(SECCOMP_RET_ALLOW));
    threads(SECCOMP_FILTER_FLAG_TSYNC);
}
static void one_of_two(void) { threads(0); }
static void all_of_two(void) { threads(SECCOMP_FILTER_FLAG_TSYNC); }

int main(int argc, char **argv) {
    begin(argc, argv);
#define CASE(f) {#f, f}
    static const struct { const char *name; void (*run)(void); } cases[] = {
        CASE(only_calls), CASE(keep_registers), CASE(leave_handlers), CASE(end_in_handler),
        CASE(flood), CASE(return_and_die), CASE(return_and_fail), CASE(crash),
        CASE(crash_with_errors), CASE(crash_handled), CASE(forbidden), CASE(forbidden_by_signal),
        CASE(trapped_and_handled), CASE(refused), CASE(one_of_two), CASE(all_of_two), CASE(two_filters),
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        if (argc > 2 && strcmp(argv[2], cases[i].name) != 0) continue;
        fflush(stdout);
        pid_t pid = fork();
        if (pid == 0) {
            cases[i].run();
            CALL(SYS_exit_group, 0, 0, 0);
        }
        case_ended(cases[i].name, wait_for(pid));
    }
    return 0;
}
