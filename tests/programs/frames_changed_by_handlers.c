// Handlers that change what they return to, or protect it: registers, masks, alternate stacks, and
// frames that can only be read when they are returned from.
#include "expect.h"
#include <sys/mman.h>
#include <ucontext.h>

static char first[64 << 10] __attribute__((aligned(4096)));
static char second[64 << 10] __attribute__((aligned(4096)));
static volatile sig_atomic_t seen;

static stack_t stack_at(char *at, size_t size) { return (stack_t){.ss_sp = at, .ss_size = size}; }

static void handle(int signal, void (*handler)(int, siginfo_t *, void *), int flags) {
    struct sigaction action = {.sa_sigaction = handler, .sa_flags = SA_SIGINFO | flags};
    CHECK(sigaction(signal, &action, NULL) == 0);
}

// The frame lies on this stack: nobody can write it any more.
static void protect_frame(int signal, siginfo_t *info, void *context) {
    (void)signal, (void)info, (void)context;
    seen++;
    CHECK(mprotect(first, sizeof first, PROT_READ) == 0);
}

static void change_registers(int signal, siginfo_t *info, void *context) {
    (void)signal, (void)info;
    ucontext_t *uc = context;
    CHECK(uc->uc_mcontext.gregs[REG_RAX] == 0);
    uc->uc_mcontext.gregs[REG_RAX] = 4711;
    uc->uc_mcontext.gregs[REG_RBX] = 1234;
    uc->uc_mcontext.fpregs->_xmm[7].element[0] = 99;
}

static void change_mask(int signal, siginfo_t *info, void *context) {
    (void)signal, (void)info;
    ucontext_t *uc = context;
    CHECK(sigismember(&uc->uc_sigmask, SIGUSR2) == 0);
    sigaddset(&uc->uc_sigmask, SIGUSR2);
    sigaddset(&uc->uc_sigmask, SIGSYS);
    sigaddset(&uc->uc_sigmask, SIGKILL);
}

static void change_stack(int signal, siginfo_t *info, void *context) {
    (void)signal, (void)info;
    ucontext_t *uc = context;
    CHECK(uc->uc_stack.ss_sp == first && uc->uc_stack.ss_size == sizeof first);
    uc->uc_stack = stack_at(second, sizeof second);
}

// What the kernel refuses as an alternate stack it does not take from a frame either.
static void change_stack_badly(int signal, siginfo_t *info, void *context) {
    (void)signal, (void)info;
    ((ucontext_t *)context)->uc_stack = stack_at(first, 100);
}

static void look_at_mask(int signal, siginfo_t *info, void *context) {
    (void)info;
    ucontext_t *uc = context;
    sigset_t now;
    CHECK(sigprocmask(SIG_SETMASK, NULL, &now) == 0 && sigismember(&now, signal) == 1);
    // The word of old programs has the mask too.
    unsigned long old_mask = uc->uc_mcontext.gregs[REG_OLDMASK], mask;
    memcpy(&mask, &uc->uc_sigmask, sizeof mask);
    CHECK(old_mask == mask && sigismember(&uc->uc_sigmask, SIGHUP) == 1);
    seen++;
}

// A return from a frame whose floating-point state is nowhere is a segmentation fault.
static void lose_floating_point(int signal, siginfo_t *info, void *context) {
    (void)signal, (void)info;
    ((ucontext_t *)context)->uc_mcontext.fpregs = (void *)8;
}

static void end_well(int signal) {
    CHECK(signal == SIGSEGV);
    _exit(5);
}

int main(int argc, char **argv) {
    begin(argc, argv);
    stack_t ours = stack_at(first, sizeof first), now;
    for (int round = 0; round < 6; round++) {
        CHECK(sigaltstack(&ours, NULL) == 0);
        handle(SIGUSR1, protect_frame, SA_ONSTACK);
        CHECK(kill(getpid(), SIGUSR1) == 0 && seen == round + 1);
        CHECK(mprotect(first, sizeof first, PROT_READ | PROT_WRITE) == 0);
        CHECK(sigaltstack(NULL, &now) == 0 && now.ss_sp == first && now.ss_flags == 0);
    }

    handle(SIGUSR1, change_registers, 0);
    for (int round = 0; round < 6; round++) {
        long result = SYS_kill, other = 0, low = 0;
        __asm__ volatile("xor %%ebx, %%ebx; pxor %%xmm7, %%xmm7; syscall; mov %%rbx, %1; movq %%xmm7, %2"
                         : "+a"(result), "=&r"(other), "=&r"(low)
                         : "D"((long)getpid()), "S"((long)SIGUSR1)
                         : "rbx", "rcx", "r11", "xmm7", "memory");
        CHECK(result == 4711 && other == 1234 && (low & 0xffffffff) == 99);
    }

    handle(SIGUSR1, change_mask, 0);
    CHECK(raise(SIGUSR1) == 0);
    sigset_t mask;
    CHECK(sigprocmask(SIG_SETMASK, NULL, &mask) == 0 && sigismember(&mask, SIGUSR2) == 1);
    CHECK(sigismember(&mask, SIGSYS) == 1 && sigismember(&mask, SIGKILL) == 0);
    CHECK(sigismember(&mask, SIGUSR1) == 0);
    for (int i = 0; i < 10; i++) CHECK(syscall(SYS_getppid) > 0);
    sigemptyset(&mask);
    CHECK(sigprocmask(SIG_SETMASK, &mask, NULL) == 0);

    handle(SIGUSR1, change_stack, 0);
    CHECK(raise(SIGUSR1) == 0);
    CHECK(sigaltstack(NULL, &now) == 0 && now.ss_sp == second && now.ss_size == sizeof second);
    handle(SIGUSR1, change_stack_badly, 0);
    CHECK(raise(SIGUSR1) == 0);
    CHECK(sigaltstack(NULL, &now) == 0 && now.ss_sp == second);
    sigaddset(&mask, SIGHUP);
    CHECK(sigprocmask(SIG_SETMASK, &mask, NULL) == 0);
    handle(SIGUSR1, look_at_mask, 0);
    seen = 0;
    for (int i = 0; i < 6; i++) CHECK(raise(SIGUSR1) == 0 && seen == i + 1);

    pid_t pid = fork();
    if (pid == 0) {
        handle(SIGUSR1, lose_floating_point, 0);
        CHECK(signal(SIGSEGV, end_well) != SIG_ERR);
        raise(SIGUSR1);
        _exit(1);
    }
    int status = wait_for(pid);
    CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 5);
    pid = fork();
    if (pid == 0) {
        CHECK(signal(SIGSEGV, end_well) != SIG_ERR);
        __asm__ volatile("xor %%esp, %%esp; syscall" : : "a"((long)SYS_rt_sigreturn) : "memory");
        _exit(1);
    }
    // Its handler has no stack to run on.
    status = wait_for(pid);
    CHECK(WIFSIGNALED(status) && WTERMSIG(status) == SIGSEGV);
    return 0;
}
