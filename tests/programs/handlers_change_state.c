// Handlers that change what they return to: a fault is stepped over, a result is replaced.
#include "expect.h"

static volatile sig_atomic_t faults, traps;

static void on_fault(int signal, siginfo_t *info, void *context) {
    (void)signal;
    CHECK(info->si_addr == (void *)24);
    greg_t *registers = ((ucontext_t *)context)->uc_mcontext.gregs;
    registers[REG_RIP] += 3; // mov (%rax),%rbx
    registers[REG_RBX] = 4711;
    faults++;
    CHECK(syscall(SYS_getppid) > 0);
}

static void on_trap(int signal, siginfo_t *info, void *context) {
    (void)signal;
    (void)info;
    ((ucontext_t *)context)->uc_mcontext.gregs[REG_RBX] = 815;
    traps++;
}

int main(int argc, char **argv) {
    begin(argc, argv);
    struct sigaction action = {.sa_sigaction = on_fault, .sa_flags = SA_SIGINFO};
    CHECK(sigaction(SIGSEGV, &action, NULL) == 0);
    action.sa_sigaction = on_trap;
    CHECK(sigaction(SIGTRAP, &action, NULL) == 0);
    for (int i = 0; i < 100; i++) {
        long got;
        __asm__ volatile(".byte 0x48, 0x8b, 0x18" : "=b"(got) : "a"(24L)); // mov (%rax),%rbx
        CHECK(got == 4711);
        __asm__ volatile("int3" : "=b"(got));
        CHECK(got == 815);
    }
    CHECK(faults == 100 && traps == 100);
    EXPECT_COUNT("getppid", 100);
    return 0;
}
