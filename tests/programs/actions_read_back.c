// What rt_sigaction tells about actions: every flag, mask and restorer as the kernel keeps them, also
// of handlers that were for one signal only, of signals that a recorder may want for itself, and
// of handlers without what is needed to return from them.
#include "expect.h"

// As the kernel has it.
struct action {
    uint64_t handler, flags, restorer, mask;
};

static long change(long signal, const void *new, void *old, long size) {
    return syscall(SYS_rt_sigaction, signal, new, old, size);
}

static const int signals[] = {SIGUSR1, SIGSYS, SIGSEGV, SIGBUS, SIGCHLD, SIGSTKFLT};
static int signal_now;
static uint64_t restorer;

static void on_signal(int signal) {
    struct action now;
    CHECK(signal == signal_now && change(signal, NULL, &now, 8) == 0);
    printf("%d in the handler: %s flags %lx mask %lx\n", signal, now.handler ? "set" : "default",
           now.flags, now.mask);
}

static void end_well(int signal) {
    (void)signal;
    _exit(3);
}

// What becomes of a child that raises a signal with that action.
static void child_raises(const char *what, int signal, struct action action, int other_handled) {
    pid_t pid = fork();
    if (pid == 0) {
        signal_now = signal;
        if (other_handled) CHECK(sigaction(SIGSEGV, &(struct sigaction){.sa_handler = end_well}, NULL) == 0);
        CHECK(change(signal, &action, NULL, 8) == 0);
        raise(signal);
        _exit(4);
    }
    printf("%s: %x\n", what, wait_for(pid));
}

int main(int argc, char **argv) {
    begin(argc, argv);
    struct action now;
    CHECK(signal(SIGUSR2, end_well) != SIG_ERR && change(SIGUSR2, NULL, &now, 8) == 0);
    restorer = now.restorer;
    CHECK(now.flags & 0x04000000 && restorer != 0);

    for (size_t i = 0; i < sizeof signals / sizeof *signals; i++) {
        signal_now = signals[i];
        // Every flag that there may be: those that are not known are forgotten.
        struct action every = {(uint64_t)on_signal, ~0ull, restorer, ~0ull};
        CHECK(change(signal_now, &every, NULL, 8) == 0 && change(signal_now, NULL, &now, 8) == 0);
        printf("%d keeps flags %lx mask %lx\n", signal_now, now.flags, now.mask);
        CHECK(now.handler == (uint64_t)on_signal && now.restorer == restorer);
        for (int bit = 0; bit < 33; bit++) {
            struct action one = {1 /* ignored */, 1ull << bit, 0x1234, bit};
            CHECK(change(signal_now, &one, NULL, 8) == 0 && change(signal_now, NULL, &now, 8) == 0);
            CHECK(now.handler == 1 && now.restorer == 0x1234 && now.mask == (uint64_t)bit);
            printf("%lx ", now.flags);
        }
        printf("\n");
        // For one signal only; what else was asked for stays.
        struct action once = {(uint64_t)on_signal, 0x84000004, restorer, 0x700};
        CHECK(change(signal_now, &once, &now, 8) == 0 && now.handler == 1);
        CHECK(raise(signal_now) == 0 && change(signal_now, NULL, &now, 8) == 0);
        CHECK(now.handler == 0 && now.flags == 0x84000004 && now.mask == 0x600);
        CHECK(now.restorer == restorer);
    }
    struct action plain = {(uint64_t)on_signal, 0x04000000, restorer, 0};
    long bad[] = {0, -1, 65, 64 + 10, SIGKILL, SIGSTOP, (1l << 32) + SIGUSR1};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        int set = change(bad[i], &plain, NULL, 8), set_errno = errno;
        int get = change(bad[i], NULL, &now, 8), get_errno = errno;
        int both = change(bad[i], (void *)8, NULL, 8), both_errno = errno;
        printf("%lx: %d %d, %d %d, %d %d\n", bad[i], set, set ? set_errno : 0, get,
               get ? get_errno : 0, both, both_errno);
    }
    CHECK(change(SIGUSR1, &plain, NULL, 4) == -1 && errno == EINVAL);
    CHECK(change(SIGUSR1, (void *)8, NULL, 16) == -1 && errno == EINVAL);
    CHECK(change(SIGUSR1, (void *)8, NULL, 8) == -1 && errno == EFAULT);
    // The old action cannot be told, the new one counts.
    struct action ignore = {1, 0, 0, 0};
    CHECK(change(SIGUSR1, &ignore, (void *)8, 8) == -1 && errno == EFAULT);
    CHECK(change(SIGUSR1, NULL, &now, 8) == 0 && now.handler == 1);

    fflush(stdout);
    struct action bare = {(uint64_t)on_signal, 0, 0, 0};
    child_raises("no restorer", SIGUSR1, bare, 0);
    child_raises("no restorer, SIGSEGV handled", SIGUSR1, bare, 1);
    child_raises("no restorer for SIGSEGV", SIGSEGV, bare, 0);
    child_raises("no restorer for SIGSYS, SIGSEGV handled", SIGSYS, bare, 1);
    return 0;
}
