// flags: -pthread
// count: off
// Threads ask whether there is such a call as seccomp, by one that is refused. Others notice nothing
// of that: they change their alternate stacks, and their handlers run there.
#include "expect.h"
#include <linux/seccomp.h>
#include <pthread.h>
#include <stdatomic.h>

enum { ROUNDS = OFTEN(3000, 1000), STACK_BYTES = 64 << 10 };

static atomic_int done;
static _Thread_local char *stack;

static void on_signal(int signal) {
    char here;
    CHECK(signal == SIGUSR1 && &here > stack && &here < stack + STACK_BYTES);
}

static void *handle(void *nothing) {
    stack = malloc(STACK_BYTES);
    CHECK(stack);
    while (!done) {
        stack_t mine = {.ss_sp = stack, .ss_size = STACK_BYTES}, off = {.ss_flags = SS_DISABLE};
        CHECK(sigaltstack(&mine, NULL) == 0);
        CHECK(pthread_kill(pthread_self(), SIGUSR1) == 0);
        CHECK(sigaltstack(&off, NULL) == 0);
    }
    return nothing;
}

int main(int argc, char **argv) {
    begin(argc, argv);
    struct sigaction action = {.sa_handler = on_signal, .sa_flags = SA_ONSTACK | SA_RESTART};
    CHECK(sigaction(SIGUSR1, &action, NULL) == 0);
    pthread_t threads[2];
    for (int i = 0; i < 2; i++) CHECK(pthread_create(&threads[i], NULL, handle, NULL) == 0);
    for (int i = 0; i < ROUNDS; i++) {
        CHECK(syscall(SYS_seccomp, SECCOMP_SET_MODE_STRICT, 1, NULL) == -1 && errno == EINVAL);
        CHECK(syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, 0, NULL) == -1 && errno == EFAULT);
    }
    done = 1;
    for (int i = 0; i < 2; i++) CHECK(pthread_join(threads[i], NULL) == 0);
    EXPECT_COUNT("seccomp", 2 * ROUNDS);
    printf("nobody has noticed\n");
    return 0;
}
