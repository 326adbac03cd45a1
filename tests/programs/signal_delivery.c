// How signals come: their order and values, who takes them, on which stack, with what mask, and how
// handlers leave. Each case is a child of its own.
// flags: -pthread
// count: off
#include "expect.h"
#include <poll.h>
#include <pthread.h>
#include <setjmp.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/signalfd.h>
#include <sys/time.h>
#include <ucontext.h>

static volatile sig_atomic_t seen, depth, deepest;
static volatile int order[64], values[64], codes[64];

static void handle(int signal, void (*handler)(int, siginfo_t *, void *), int flags, int masked) {
    struct sigaction action = {.sa_sigaction = handler, .sa_flags = SA_SIGINFO | flags};
    sigemptyset(&action.sa_mask);
    if (masked) sigaddset(&action.sa_mask, masked);
    CHECK(sigaction(signal, &action, NULL) == 0);
}
static sigset_t only(int signal) {
    sigset_t set;
    sigemptyset(&set);
    sigaddset(&set, signal);
    return set;
}
static void block(int signal) {
    sigset_t set = only(signal);
    CHECK(sigprocmask(SIG_BLOCK, &set, NULL) == 0);
}
static void unblock_all(void) {
    sigset_t set;
    sigemptyset(&set);
    CHECK(sigprocmask(SIG_SETMASK, &set, NULL) == 0);
}
static int is_blocked(int signal) {
    sigset_t set;
    CHECK(sigprocmask(SIG_SETMASK, NULL, &set) == 0);
    return sigismember(&set, signal);
}
static void note(int signal, siginfo_t *info, void *context) {
    (void)context;
    order[seen] = signal, values[seen] = info->si_value.sival_int, codes[seen] = info->si_code;
    seen++;
}

// The lowest number first, each in the order of sending, every one with its value.
static void queue_order(void) {
    for (int i = 0; i < 4; i++) handle(SIGRTMIN + i, note, 0, 0), block(SIGRTMIN + i);
    for (int round = 0; round < 3; round++)
        for (int i = 3; i >= 0; i--)
            CHECK(sigqueue(getpid(), SIGRTMIN + i, (union sigval){.sival_int = 10 * i + round}) == 0);
    CHECK(seen == 0);
    unblock_all();
    CHECK(seen == 12);
    // Handlers of several that are let through at once are entered one on top of the other.
    for (int i = 0; i < 12; i++) printf("%d/%d ", order[i] - SIGRTMIN, values[i]);
    printf("code %d\n", codes[0]);
}
// Standard signals do not queue.
static void coalesced(void) {
    handle(SIGUSR1, note, 0, 0), block(SIGUSR1);
    for (int i = 0; i < 5; i++) CHECK(sigqueue(getpid(), SIGUSR1, (union sigval){.sival_int = i}) == 0);
    unblock_all();
    printf("%d value %d\n", seen, values[0]);
}

static volatile sig_atomic_t raises_left = 3;
static void nest(int signal, siginfo_t *info, void *context) {
    (void)info, (void)context;
    if (++depth > deepest) deepest = depth;
    if (raises_left-- > 0) CHECK(raise(signal) == 0);
    seen++, depth--;
}
static void no_defer(void) {
    handle(SIGUSR1, nest, SA_NODEFER, 0);
    CHECK(raise(SIGUSR1) == 0);
    printf("%d deep, %d times\n", deepest, seen);
}
static void deferred(void) {
    handle(SIGUSR1, nest, 0, 0);
    for (int i = 0; i < 6; i++) CHECK(raise(SIGUSR1) == 0);
    printf("%d deep\n", deepest);
}
static void look_at_masks(int signal, siginfo_t *info, void *context) {
    (void)info;
    CHECK(is_blocked(signal) && is_blocked(SIGUSR2) && !is_blocked(SIGHUP));
    CHECK(!sigismember(&((ucontext_t *)context)->uc_sigmask, signal));
    CHECK(raise(SIGUSR2) == 0 && seen == 0);
}
static void masks(void) {
    handle(SIGUSR1, look_at_masks, 0, SIGUSR2), handle(SIGUSR2, note, 0, 0);
    CHECK(raise(SIGUSR1) == 0 && seen == 1 && !is_blocked(SIGUSR1) && !is_blocked(SIGUSR2));
}

static sigjmp_buf back;
static void jump(int signal, siginfo_t *info, void *context) {
    (void)info, (void)context;
    siglongjmp(back, signal);
}
static void jump_out(void) {
    handle(SIGUSR1, jump, 0, SIGUSR2), handle(SIGSEGV, jump, SA_ONSTACK, 0);
    static char alt[1 << 16];
    CHECK(sigaltstack(&(stack_t){.ss_sp = alt, .ss_size = sizeof alt}, NULL) == 0);
    for (volatile int i = 0; i < 20; i++) {
        if (sigsetjmp(back, 1) == 0) raise(SIGUSR1), _exit(1);
        CHECK(!is_blocked(SIGUSR1) && !is_blocked(SIGUSR2));
        stack_t now;
        if (sigsetjmp(back, 1) == 0) *(int *volatile)8 = 1;
        CHECK(sigaltstack(NULL, &now) == 0 && now.ss_flags == 0);
    }
}

static volatile char *page;
static void make_readable(int signal, siginfo_t *info, void *context) {
    (void)context;
    CHECK(signal == SIGSEGV && info->si_code == SEGV_ACCERR && (volatile char *)info->si_addr >= page);
    CHECK(mprotect((void *)page, 4096, PROT_READ | PROT_WRITE) == 0);
    seen++;
}
static void fault_and_go_on(void) {
    handle(SIGSEGV, make_readable, 0, 0);
    page = mmap(NULL, 4096, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    CHECK(page != MAP_FAILED);
    for (int i = 0; i < 10; i++) {
        page[i] = (char)i;
        CHECK(seen == i + 1 && mprotect((void *)page, 4096, PROT_NONE) == 0);
        // A call that is given such memory fails, and raises nothing.
        CHECK(read(-1, (void *)page, 1) == -1 && getcwd((char *)page, 4096) == NULL && errno == EFAULT && seen == i + 1);
    }
}
static void overflow(volatile char *below);
static void (*volatile once_more)(volatile char *) = overflow;
static void overflow(volatile char *below) {
    volatile char room[4096];
    room[0] = below ? below[0] : 1;
    once_more(room);
    room[1] = room[0];
}
static void stack_overflow(void) {
    static char alt[1 << 16];
    CHECK(setrlimit(RLIMIT_STACK, &(struct rlimit){1 << 20, 1 << 20}) == 0);
    CHECK(sigaltstack(&(stack_t){.ss_sp = alt, .ss_size = sizeof alt}, NULL) == 0);
    handle(SIGSEGV, jump, SA_ONSTACK, 0);
    for (volatile int i = 0; i < 3; i++)
        if (sigsetjmp(back, 1) == 0) overflow(NULL);
}
// An alternate stack that is too small for a frame is the end; so is one that is used up.
static void small_stack(void) {
    static char alt[8192];
    CHECK(sigaltstack(&(stack_t){.ss_sp = alt, .ss_size = 2047}, NULL) == -1 && errno == ENOMEM);
    CHECK(sigaltstack(&(stack_t){.ss_sp = alt, .ss_flags = 77, .ss_size = 8192}, NULL) == -1 && errno == EINVAL);
    CHECK(sigaltstack((void *)8, NULL) == -1 && errno == EFAULT);
    CHECK(sigaltstack(&(stack_t){.ss_sp = alt, .ss_size = 2048}, NULL) == 0);
    handle(SIGUSR1, note, SA_ONSTACK, 0);
    raise(SIGUSR1);
}
static void use_up(int signal, siginfo_t *info, void *context) {
    (void)info, (void)context;
    raise(signal);
}
static void used_up_stack(void) {
    static char alt[1 << 15];
    CHECK(sigaltstack(&(stack_t){.ss_sp = alt, .ss_size = sizeof alt}, NULL) == 0);
    handle(SIGUSR1, use_up, SA_ONSTACK | SA_NODEFER, 0);
    raise(SIGUSR1);
}
static void look_at_stack(int signal, siginfo_t *info, void *context) {
    (void)signal, (void)info;
    stack_t now, other = {.ss_sp = (void *)page, .ss_size = 1 << 16};
    CHECK(sigaltstack(NULL, &now) == 0 && now.ss_flags == SS_ONSTACK);
    CHECK(sigaltstack(&other, NULL) == -1 && errno == EPERM);
    CHECK(((ucontext_t *)context)->uc_stack.ss_size == 1 << 16);
    seen++;
}
static void stack_in_use(void) {
    page = mmap(NULL, 1 << 16, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    CHECK(sigaltstack(&(stack_t){.ss_sp = (void *)page, .ss_size = 1 << 16}, NULL) == 0);
    handle(SIGUSR1, look_at_stack, SA_ONSTACK, 0);
    for (int i = 0; i < 6; i++) CHECK(raise(SIGUSR1) == 0 && seen == i + 1);
}

// Signals that are waited for.
static void wait_for_info(void) {
    siginfo_t info;
    sigset_t set = only(SIGRTMIN + 1);
    sigaddset(&set, SIGUSR1);
    block(SIGRTMIN + 1), block(SIGUSR1);
    CHECK(sigtimedwait(&set, &info, &(struct timespec){0, 1000000}) == -1 && errno == EAGAIN);
    CHECK(sigqueue(getpid(), SIGRTMIN + 1, (union sigval){.sival_int = 5}) == 0 && raise(SIGUSR1) == 0);
    CHECK(sigwaitinfo(&set, &info) == SIGUSR1 && info.si_code <= 0);
    CHECK(sigwaitinfo(&set, &info) == SIGRTMIN + 1 && info.si_value.sival_int == 5 && info.si_code == SI_QUEUE);
}
static void through_descriptor(void) {
    sigset_t set = only(SIGUSR1);
    sigaddset(&set, SIGRTMIN);
    CHECK(sigprocmask(SIG_BLOCK, &set, NULL) == 0);
    int fd = signalfd(-1, &set, SFD_NONBLOCK);
    struct signalfd_siginfo got[4];
    CHECK(fd >= 0 && read(fd, got, sizeof got) == -1 && errno == EAGAIN);
    CHECK(sigqueue(getpid(), SIGRTMIN, (union sigval){.sival_int = 9}) == 0 && kill(getpid(), SIGUSR1) == 0);
    CHECK(read(fd, got, sizeof got) == 2 * sizeof *got && got[0].ssi_signo == SIGUSR1);
    CHECK(got[1].ssi_signo == (uint32_t)SIGRTMIN && got[1].ssi_int == 9);
}
static void suspended(void) {
    handle(SIGUSR1, note, 0, 0), block(SIGUSR1);
    sigset_t none;
    sigemptyset(&none);
    for (int i = 0; i < 6; i++) {
        CHECK(raise(SIGUSR1) == 0 && seen == 2 * i);
        CHECK(sigsuspend(&none) == -1 && errno == EINTR && seen == 2 * i + 1 && is_blocked(SIGUSR1));
        CHECK(raise(SIGUSR1) == 0);
        CHECK(ppoll(NULL, 0, NULL, &none) == -1 && errno == EINTR && seen == 2 * i + 2 && is_blocked(SIGUSR1));
    }
}

// Timers, and calls that they interrupt or do not.
static void timers(void) {
    timer_t timer;
    sigset_t none;
    sigemptyset(&none);
    handle(SIGRTMIN, note, 0, 0), block(SIGRTMIN);
    struct sigevent event = {.sigev_notify = SIGEV_SIGNAL, .sigev_signo = SIGRTMIN, .sigev_value.sival_int = 33};
    CHECK(timer_create(CLOCK_MONOTONIC, &event, &timer) == 0);
    struct itimerspec soon = {.it_value = {0, 5000000}};
    for (int i = 0; i < 3; i++) {
        CHECK(timer_settime(timer, 0, &soon, NULL) == 0);
        while (seen == i) CHECK(sigsuspend(&none) == -1 && errno == EINTR);
        CHECK(values[i] == 33 && codes[i] == SI_TIMER);
    }
}
static void restarted(void) {
    int ends[2];
    char byte;
    CHECK(pipe(ends) == 0);
    handle(SIGCHLD, note, SA_RESTART, 0);
    pid_t first = fork();
    if (first == 0) _exit(0);
    pid_t second = fork();
    if (second == 0) usleep(50000), (void)!write(ends[1], "x", 1), _exit(0);
    CHECK(read(ends[0], &byte, 1) == 1);
    CHECK_CHILD(first);
    CHECK_CHILD(second);
    handle(SIGALRM, note, 0, 0);
    CHECK(setitimer(ITIMER_REAL, &(struct itimerval){{0, 20000}, {0, 20000}}, NULL) == 0);
    CHECK(read(ends[0], &byte, 1) == -1 && errno == EINTR);
}

// To others: a thread, a process by its descriptor, with values of one's own; and stops.
static volatile int ready;
static void *take(void *tid) {
    *(volatile long *)tid = syscall(SYS_gettid);
    while (!ready) usleep(1000);
    return NULL;
}
static __thread volatile int mine;
static volatile long taker;
static void who(int signal, siginfo_t *info, void *context) {
    (void)signal, (void)info, (void)context;
    taker = syscall(SYS_gettid);
    mine++, ready = 1;
}
static void to_thread(void) {
    pthread_t thread;
    volatile long tid = 0;
    handle(SIGUSR1, who, 0, 0);
    CHECK(pthread_create(&thread, NULL, take, (void *)&tid) == 0);
    while (tid == 0) usleep(1000);
    CHECK(syscall(SYS_tgkill, getpid(), tid, SIGUSR1) == 0 && pthread_join(thread, NULL) == 0);
    CHECK(taker == tid && mine == 0);
    CHECK(syscall(SYS_tgkill, getpid(), tid + 100000, 0) == -1 && errno == ESRCH);
}
static void by_descriptor(void) {
    handle(SIGUSR1, note, 0, 0), block(SIGUSR1);
    pid_t pid = fork();
    if (pid == 0) {
        sigset_t none;
        sigemptyset(&none);
        while (!seen) sigsuspend(&none);
        _exit(values[0]);
    }
    int fd = (int)syscall(SYS_pidfd_open, pid, 0);
    siginfo_t info = {.si_signo = SIGUSR1, .si_code = SI_QUEUE, .si_value.sival_int = 21};
    CHECK(fd >= 0 && syscall(SYS_pidfd_send_signal, fd, SIGUSR1, &info, 0) == 0);
    CHECK(WEXITSTATUS(wait_for(pid)) == 21);
    CHECK(syscall(SYS_pidfd_send_signal, fd, 0, NULL, 0) == -1 && errno == ESRCH);
    info.si_code = SI_KERNEL;
    CHECK(syscall(SYS_rt_sigqueueinfo, getppid(), SIGUSR1, &info) == -1 && errno == EPERM);
}
static void stopped(void) {
    int ends[2];
    char byte;
    CHECK(pipe(ends) == 0);
    pid_t pid = fork();
    if (pid == 0) {
        handle(SIGCONT, note, SA_RESTART, 0);
        for (int i = 0; i < 3; i++) {
            raise(SIGSTOP);
            CHECK(seen == i + 1);
            // Who stops again at once was never seen to go on.
            CHECK(read(ends[0], &byte, 1) == 1);
        }
        _exit(8);
    }
    int status;
    for (int i = 0; i < 3; i++) {
        CHECK(waitpid(pid, &status, WUNTRACED) == pid && WIFSTOPPED(status) && WSTOPSIG(status) == SIGSTOP);
        CHECK(kill(pid, SIGCONT) == 0);
        int flags = WCONTINUED;
        CHECK(waitpid(pid, &status, flags) == pid && WIFCONTINUED(status));
        CHECK(write(ends[1], "x", 1) == 1);
    }
    CHECK(WEXITSTATUS(wait_for(pid)) == 8);
}
// Handlers go with an exec, what is ignored and blocked stays; signals come in the middle of it.
static void *exec_soon(void *unused) {
    (void)unused;
    usleep(5000);
    execl("/proc/self/exe", "image", "7", "image", NULL);
    _exit(1);
}
static void exec_under_fire(void) {
    handle(SIGALRM, note, SA_RESTART, 0);
    CHECK(signal(SIGUSR2, SIG_IGN) != SIG_ERR);
    block(SIGUSR1);
    pthread_t thread;
    CHECK(pthread_create(&thread, NULL, exec_soon, NULL) == 0);
    for (;;) raise(SIGUSR1), seen = 0;
}

int main(int argc, char **argv) {
    begin(argc, argv);
    if (argc > 2) {
        struct sigaction now;
        sigset_t pending;
        CHECK(sigaction(SIGALRM, NULL, &now) == 0 && now.sa_handler == SIG_DFL);
        CHECK(sigaction(SIGUSR2, NULL, &now) == 0 && now.sa_handler == SIG_IGN);
        CHECK(sigpending(&pending) == 0 && is_blocked(SIGUSR1));
        return 12;
    }
    CHECK(setrlimit(RLIMIT_CORE, &(struct rlimit){0, 0}) == 0);
#define CASE(f) {#f, f}
    static const struct { const char *name; void (*run)(void); } cases[] = {
        CASE(queue_order), CASE(coalesced), CASE(no_defer), CASE(deferred), CASE(masks),
        CASE(jump_out), CASE(fault_and_go_on), CASE(stack_overflow), CASE(small_stack),
        CASE(used_up_stack), CASE(stack_in_use), CASE(wait_for_info), CASE(through_descriptor),
        CASE(suspended), CASE(timers), CASE(restarted), CASE(to_thread), CASE(by_descriptor),
        CASE(stopped), CASE(exec_under_fire),
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        run_case(cases[i].name, cases[i].run);
    }
    return 0;
}
