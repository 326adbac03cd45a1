// clone and clone3 with arguments that the kernel refuses, or takes for something else: the same
// errors as ever, and no child; and with odd ones that are fine.
#include "expect.h"
#include <linux/sched.h>
#include <sched.h>
#include <sys/mman.h>

static char stack[64 << 10] __attribute__((aligned(4096)));

struct words {
    uint64_t flags, pidfd, child_tid, parent_tid, exit_signal, stack, stack_size, tls;
    uint64_t set_tid, set_tid_size, cgroup;
    uint64_t later[512];
};

// Makes the call; a child ends at once with 7. Prints what came of it.
static void attempt(const char *what, const void *args, size_t size) {
    long pid = syscall(SYS_clone3, args, size);
    if (pid == 0) syscall(SYS_exit_group, 7);
    if (pid < 0) {
        printf("%s: %s\n", what, strerrorname_np(errno));
        return;
    }
    int status;
    CHECK(waitpid((pid_t)pid, &status, __WALL) == pid);
    printf("%s: child, status %x\n", what, status);
}

#define TRY(what, size, ...)                                        \
    do {                                                            \
        struct words words = {__VA_ARGS__};                         \
        attempt(what, &words, size);                                \
    } while (0)

// The same for clone, whose child goes on on this stack.
static void attempt_old(const char *what, unsigned long flags, void *top) {
    int tid = 0;
    long pid = syscall(SYS_clone, flags, top, &tid, &tid, 0);
    if (pid == 0) syscall(SYS_exit_group, 8);
    if (pid < 0) {
        printf("%s: %s\n", what, strerrorname_np(errno));
        return;
    }
    int status;
    CHECK(waitpid((pid_t)pid, &status, __WALL) == pid);
    printf("%s: child, status %x\n", what, status);
}

static int on_own_stack(void *argument) {
    char *here = __builtin_frame_address(0);
    return here > stack && here < stack + sizeof stack ? *(int *)argument : 1;
}

static volatile sig_atomic_t seen;
static void on_signal(int signal) { (void)signal, seen++; }

int main(int argc, char **argv) {
    begin(argc, argv);
    const uint64_t at = (uint64_t)stack;
    TRY("plain", 64, .exit_signal = SIGCHLD);
    TRY("newest size", 88, .exit_signal = SIGCHLD);
    TRY("too short", 63, .exit_signal = SIGCHLD);
    TRY("no size", 0, .exit_signal = SIGCHLD);
    TRY("longer, zeros", 200, .exit_signal = SIGCHLD);
    TRY("a page, zeros", 4096, .exit_signal = SIGCHLD);
    TRY("longer, not zero", 200, .later[10] = 1, .exit_signal = SIGCHLD);
    TRY("far behind, not zero", 4096, .later[500] = 1, .exit_signal = SIGCHLD);
    TRY("more than a page", 4097, .exit_signal = SIGCHLD);
    TRY("stack, no size", 88, .stack = at, .exit_signal = SIGCHLD);
    TRY("stack, no size, longer", 4096, .stack = at, .exit_signal = SIGCHLD);
    TRY("size, no stack", 88, .stack_size = sizeof stack, .exit_signal = SIGCHLD);
    TRY("stack beyond memory", 88, .stack = at, .stack_size = -at, .exit_signal = SIGCHLD);
    TRY("stack that wraps", 88, .stack = at, .stack_size = -1, .exit_signal = SIGCHLD);
    TRY("stack of the kernel", 88, .stack = 0xffff800000000000, .stack_size = 4096, .exit_signal = SIGCHLD);
    TRY("stack and bad tail", 4096, .stack = at, .stack_size = sizeof stack, .later[500] = 1, .exit_signal = SIGCHLD);
    TRY("stack and bad signal", 88, .stack = at, .stack_size = sizeof stack, .exit_signal = 65);
    TRY("bad signal", 88, .exit_signal = 0x1000);
    TRY("signal in the flags", 88, .flags = SIGCHLD);
    TRY("detached", 88, .flags = CLONE_DETACHED, .exit_signal = SIGCHLD);
    TRY("unknown flag", 88, .flags = 1ull << 50, .exit_signal = SIGCHLD);
    TRY("thread alone", 88, .flags = CLONE_THREAD);
    TRY("handlers without memory", 88, .flags = CLONE_SIGHAND, .exit_signal = SIGCHLD);
    TRY("thread with signal", 88, .flags = CLONE_THREAD | CLONE_SIGHAND | CLONE_VM, .exit_signal = SIGCHLD);
    TRY("cleared and shared", 88, .flags = CLONE_SIGHAND | CLONE_VM | CLONE_CLEAR_SIGHAND, .exit_signal = SIGCHLD);
    TRY("ids without pointer", 88, .set_tid_size = 1, .exit_signal = SIGCHLD);
    TRY("ids that cannot be read", 88, .set_tid = 8, .set_tid_size = 1, .exit_signal = SIGCHLD);
    TRY("too many ids", 88, .set_tid = at, .set_tid_size = 100, .exit_signal = SIGCHLD);
    TRY("pidfd nowhere", 88, .flags = CLONE_PIDFD, .pidfd = 8, .exit_signal = SIGCHLD);
    TRY("group that is none", 88, .flags = CLONE_INTO_CGROUP, .cgroup = 1 << 20, .exit_signal = SIGCHLD);
    TRY("new and shared", 88, .flags = CLONE_NEWNS | CLONE_FS, .exit_signal = SIGCHLD);
    attempt("nowhere", NULL, 88);
    attempt("nowhere, too short", NULL, 8);
    attempt("nowhere, too long", NULL, 5000);
    attempt("of the kernel", (void *)0xffff800000000000, 88);

    // The arguments end with the memory, as those of old programs and of new ones may.
    char *pages = mmap(NULL, 8192, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    CHECK(pages != MAP_FAILED && munmap(pages + 4096, 4096) == 0);
    struct words words = {.exit_signal = SIGCHLD};
    memcpy(pages + 4096 - 64, &words, 64);
    attempt("at the end of memory", pages + 4096 - 64, 64);
    attempt("beyond the end of memory", pages + 4096 - 64, 88);
    words.stack = at, words.stack_size = 0;
    memcpy(pages + 4096 - 64, &words, 64);
    attempt("no size at the end of memory", pages + 4096 - 64, 64);

    attempt_old("clone", SIGCHLD, NULL);
    attempt_old("clone without signal", 0, NULL);
    attempt_old("clone with a signal of no meaning", 200, NULL);
    attempt_old("clone with upper bits", 0xffffffff00000000 | SIGCHLD, NULL);
    attempt_old("clone handlers without memory", CLONE_SIGHAND | SIGCHLD, NULL);
    attempt_old("clone thread without handlers", CLONE_THREAD | CLONE_VM | SIGCHLD, NULL);
    attempt_old("clone thread without memory", CLONE_THREAD | CLONE_SIGHAND | SIGCHLD, NULL);
    attempt_old("clone two ids in one place", CLONE_PIDFD | CLONE_PARENT_SETTID | SIGCHLD, NULL);
    attempt_old("clone detached pidfd", CLONE_PIDFD | CLONE_DETACHED | SIGCHLD, NULL);
    attempt_old("clone old file systems", CLONE_FS | CLONE_NEWNS | SIGCHLD, NULL);

    // What is fine: a stack of its own, with and without common memory, also as one odd size.
    int code = 9;
    for (int round = 0; round < 3; round++) {
        pid_t pid = clone(on_own_stack, stack + sizeof stack, SIGCHLD, &code);
        int status = wait_for(pid);
        CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 9);
        pid = clone(on_own_stack, stack + sizeof stack, CLONE_VM | CLONE_VFORK | SIGCHLD, &code);
        status = wait_for(pid);
        CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 9);
    }

    // Handlers that the child is to be without, in memory of its own: its calls go on all the same.
    CHECK(signal(SIGUSR1, on_signal) != SIG_ERR && signal(SIGUSR2, SIG_IGN) != SIG_ERR);
    CHECK(signal(SIGSEGV, on_signal) != SIG_ERR && signal(SIGBUS, SIG_IGN) != SIG_ERR);
    struct words cleared = {.flags = CLONE_CLEAR_SIGHAND, .exit_signal = SIGCHLD};
    long pid = syscall(SYS_clone3, &cleared, 88);
    if (pid == 0) {
        struct sigaction now;
        CHECK(sigaction(SIGUSR1, NULL, &now) == 0 && now.sa_handler == SIG_DFL);
        CHECK(sigaction(SIGUSR2, NULL, &now) == 0 && now.sa_handler == SIG_IGN);
        CHECK(sigaction(SIGSEGV, NULL, &now) == 0 && now.sa_handler == SIG_DFL && !now.sa_flags);
        CHECK(sigaction(SIGBUS, NULL, &now) == 0 && now.sa_handler == SIG_IGN);
        for (int i = 0; i < 10; i++) CHECK(syscall(SYS_getppid) > 0);
        raise(SIGUSR2), raise(SIGBUS), raise(SIGUSR1);
        _exit(1);
    }
    int status = wait_for((pid_t)pid);
    CHECK(WIFSIGNALED(status) && WTERMSIG(status) == SIGUSR1);
    return 0;
}
