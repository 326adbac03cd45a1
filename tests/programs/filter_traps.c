// count: off
// A filter answers calls with SIGSYS. The handler sees the state that the call was made in, and
// what it puts there is the result; who blocks or ignores the signal dies of it.
// flags: -pthread
#include "expect.h"
#include "filter.h"
#include <pthread.h>
#include <sched.h>
#include <sys/mman.h>
#include <sys/uio.h>
#include <ucontext.h>

static __thread volatile sig_atomic_t trapped;
static volatile long answer;

static void on_sigsys(int signal, siginfo_t *info, void *context) {
    greg_t *regs = ((ucontext_t *)context)->uc_mcontext.gregs;
    CHECK(signal == SIGSYS && info->si_signo == SIGSYS && info->si_code == SYS_SECCOMP);
    CHECK(info->si_errno == 77 && info->si_arch == AUDIT_ARCH_X86_64);
    CHECK((greg_t)info->si_call_addr == regs[REG_RIP] && info->si_syscall == regs[REG_RAX]);
    CHECK(regs[REG_RCX] == regs[REG_RIP] && regs[REG_R11] == regs[REG_EFL]);
    if (info->si_syscall == SYS_getsid)
        CHECK(regs[REG_RDI] == 11 && regs[REG_RSI] == 12 && regs[REG_RDX] == 13 &&
              regs[REG_R10] == 14 && regs[REG_R8] == 15 && regs[REG_R9] == 16);
    trapped++;
    regs[REG_RAX] = answer;
}

// The instruction behind the call is skipped.
static void skip(int signal, siginfo_t *info, void *context) {
    (void)signal;
    greg_t *regs = ((ucontext_t *)context)->uc_mcontext.gregs;
    CHECK((greg_t)info->si_call_addr == regs[REG_RIP]);
    trapped++;
    regs[REG_RIP] += 2;
    regs[REG_RAX] = 0;
}

static void call_again(int signal, siginfo_t *info, void *context) {
    (void)signal, (void)info;
    greg_t *regs = ((ucontext_t *)context)->uc_mcontext.gregs;
    if (trapped++ < 1) CHECK(syscall(SYS_getsid, 11, 12, 13, 14, 15, 16) == 5);
    regs[REG_RAX] = 5;
}

static void handle(void (*handler)(int, siginfo_t *, void *), int flags) {
    struct sigaction action = {.sa_sigaction = handler, .sa_flags = SA_SIGINFO | flags};
    CHECK(sigaction(SIGSYS, &action, NULL) == 0);
}

static long getsid_of_six(void) { return syscall(SYS_getsid, 11, 12, 13, 14, 15, 16); }

static void *in_thread(void *unused) {
    for (int i = 0; i < 10; i++) CHECK(getsid_of_six() == 4321 && trapped == i + 1);
    return unused;
}

// What becomes of a child that makes a trapped call in this state.
static void child_calls(const char *what, void (*prepare)(void)) {
    fflush(stdout);
    pid_t pid = fork();
    if (pid == 0) {
        prepare();
        long result = getsid_of_six();
        _exit(result == 5 ? 5 : 6);
    }
    int status = wait_for(pid);
    printf("%s: %s %d\n", what, WIFSIGNALED(status) ? "signal" : "code",
           WIFSIGNALED(status) ? WTERMSIG(status) : WEXITSTATUS(status));
}

static void block_it(void) {
    sigset_t set;
    sigemptyset(&set);
    sigaddset(&set, SIGSYS);
    CHECK(sigprocmask(SIG_BLOCK, &set, NULL) == 0);
}
static void block_others(void) {
    sigset_t set;
    sigfillset(&set);
    sigdelset(&set, SIGSYS);
    answer = 5;
    CHECK(sigprocmask(SIG_BLOCK, &set, NULL) == 0);
}
static void ignore_it(void) { CHECK(signal(SIGSYS, SIG_IGN) != SIG_ERR); }
static void ignore_and_block(void) { ignore_it(), block_it(); }
static void leave_it(void) { CHECK(signal(SIGSYS, SIG_DFL) != SIG_ERR); }
static void nest(void) { trapped = 0, handle(call_again, 0); }
static void nest_openly(void) { trapped = 0, handle(call_again, SA_NODEFER); }
static void handle_once(void) { trapped = 0, handle(call_again, SA_RESETHAND | SA_NODEFER); }
static void call_in_thread_then(void *(*what)(void *)) {
    pthread_t thread;
    if (pthread_create(&thread, NULL, what, NULL) == 0) pthread_join(thread, NULL);
    _exit(9);
}
static void *blocked_in_thread(void *unused) { return block_it(), getsid_of_six(), unused; }
static void thread_blocks_it(void) { call_in_thread_then(blocked_in_thread); }

// Calls that do more than others, none of which is made.
static void special_calls(void) {
    char byte, *page = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    CHECK(page != MAP_FAILED);
    INSTALL(ANSWER(SYS_openat, SECCOMP_RET_TRAP | 77), ANSWER(SYS_clone, SECCOMP_RET_TRAP | 77),
            ANSWER(SYS_clone3, SECCOMP_RET_TRAP | 77), ANSWER(SYS_fork, SECCOMP_RET_TRAP | 77),
            ANSWER(SYS_vfork, SECCOMP_RET_TRAP | 77), ANSWER(SYS_execve, SECCOMP_RET_TRAP | 77),
            ANSWER(SYS_mremap, SECCOMP_RET_TRAP | 77), ANSWER(SYS_readv, SECCOMP_RET_TRAP | 77),
            ANSWER(SYS_unlink, SECCOMP_RET_TRAP | 77), ANSWER(SYS_ppoll, SECCOMP_RET_TRAP | 77),
            ANSWER(SYS_rt_sigpending, SECCOMP_RET_TRAP | 77),
            ANSWER(SYS_rt_sigsuspend, SECCOMP_RET_TRAP | 77), RETURN(SECCOMP_RET_ALLOW));
    answer = 1234;
    struct iovec vector = {&byte, 1};
    uint64_t full = -1, clone_args[8] = {0}, pending = 0;
    for (int i = 0; i < 6; i++) {
        trapped = 0;
        CHECK(syscall(SYS_openat, AT_FDCWD, "file", O_RDWR | O_CREAT, 0600) == 1234);
        CHECK(syscall(SYS_fork) == 1234 && syscall(SYS_clone, SIGCHLD, 0, 0, 0, 0) == 1234);
        CHECK(syscall(SYS_clone, CLONE_VM | SIGCHLD, page + 4096, 0, 0, 0) == 1234);
        CHECK(syscall(SYS_clone3, clone_args, sizeof clone_args) == 1234);
        CHECK(syscall(SYS_vfork) == 1234 && trapped == 6);
        CHECK(syscall(SYS_execve, "/bin/true", NULL, NULL) == 1234);
        CHECK(syscall(SYS_mremap, page, 4096, 8192, MREMAP_MAYMOVE, 0) == 1234);
        CHECK(syscall(SYS_readv, 0, &vector, 1) == 1234 && syscall(SYS_unlink, "file") == 1234);
        CHECK(syscall(SYS_ppoll, NULL, 0, NULL, &full, 8) == 1234);
        CHECK(syscall(SYS_rt_sigpending, &pending, 8) == 1234 && pending == 0);
        CHECK(syscall(SYS_rt_sigsuspend, &full, 8) == 1234 && trapped == 13);
    }
    // One that is asked for with a mask of its own, in which the signal is blocked: the mask counts
    // only once the call is made.
    uint64_t mask;
    CHECK(syscall(SYS_rt_sigprocmask, SIG_SETMASK, NULL, &mask, 8) == 0 && mask == 0);
}

int main(int argc, char **argv) {
    begin(argc, argv);
    handle(on_sigsys, 0);
    INSTALL(ANSWER(SYS_getsid, SECCOMP_RET_TRAP | 77), RETURN(SECCOMP_RET_ALLOW));
    answer = 4321;
    in_thread(NULL);
    pthread_t thread;
    CHECK(pthread_create(&thread, NULL, in_thread, NULL) == 0 && pthread_join(thread, NULL) == 0);

    // The same from a place of the program's own, with registers all over.
    for (int i = 0; i < 10; i++) {
        long result;
        register long a4 __asm__("r10") = 14, a5 __asm__("r8") = 15, a6 __asm__("r9") = 16;
        __asm__ volatile("syscall" : "=a"(result) : "0"((long)SYS_getsid), "D"(11l), "S"(12l),
                         "d"(13l), "r"(a4), "r"(a5), "r"(a6) : "rcx", "r11", "memory");
        CHECK(result == 4321);
    }
    EXPECT_COUNT("getsid", 52);
    handle(skip, 0);
    trapped = 0;
    for (int i = 0; i < 10; i++) {
        long result;
        __asm__ volatile("syscall; ud2" : "=a"(result) : "0"((long)SYS_getsid), "D"(11l)
                         : "rcx", "r11", "memory");
        CHECK(result == 0 && trapped == i + 1);
    }
    handle(on_sigsys, 0);

    child_calls("blocked", block_it);
    child_calls("others blocked", block_others);
    child_calls("ignored", ignore_it);
    child_calls("ignored and blocked", ignore_and_block);
    child_calls("not handled", leave_it);
    child_calls("within its handler", nest);
    child_calls("within its open handler", nest_openly);
    child_calls("handled once", handle_once);
    child_calls("blocked in a thread", thread_blocks_it);

    // One that the program sends itself and that only looks like it is a signal like others.
    siginfo_t fake = {.si_signo = SIGSYS, .si_code = SYS_SECCOMP};
    block_it();
    CHECK(syscall(SYS_rt_sigqueueinfo, getpid(), SIGSYS, &fake) == 0);
    fake.si_code = 2;
    CHECK(syscall(SYS_rt_tgsigqueueinfo, getpid(), syscall(SYS_gettid), SIGSYS, &fake) == 0);
    sigset_t set, pending;
    CHECK(sigpending(&pending) == 0 && sigismember(&pending, SIGSYS) == 1);
    ignore_it();
    sigemptyset(&set);
    CHECK(sigprocmask(SIG_SETMASK, &set, NULL) == 0);

    trapped = 0;
    handle(on_sigsys, 0);
    special_calls();
    return 0;
}
