// Threads of a child that asks to be traced: signals for those that were there before, for those that
// it makes afterwards, and for those that are not traced.
// flags: -pthread
// gaps: traced
// count: off
#include "expect.h"
#include <pthread.h>
#include <sys/ptrace.h>

static __thread volatile int handled;
static volatile int enough;

static void on_signal(int signal, siginfo_t *info, void *state) {
    (void)state;
    CHECK(info->si_signo == signal && info->si_code == SI_TKILL);
    handled++;
}

static void *is_signalled(void *argument) {
    char memory[65536];
    stack_t stack = {.ss_sp = memory, .ss_size = sizeof memory};
    if (argument) CHECK(sigaltstack(&stack, NULL) == 0);
    sigset_t before, after;
    CHECK(pthread_sigmask(SIG_SETMASK, NULL, &before) == 0);
    int *told = malloc(sizeof *told);
    while (!enough || handled < 20) usleep(100);
    *told = handled;
    CHECK(pthread_sigmask(SIG_SETMASK, NULL, &after) == 0);
    CHECK(!memcmp(&before, &after, 8));
    stack.ss_flags = SS_DISABLE;
    if (argument) CHECK(sigaltstack(&stack, NULL) == 0);
    return told;
}

static void child(void) {
    struct sigaction action = {.sa_sigaction = on_signal, .sa_flags = SA_SIGINFO | SA_ONSTACK};
    CHECK(sigaction(SIGUSR1, &action, NULL) == 0);
    pthread_t threads[4];
    CHECK(pthread_create(&threads[0], NULL, is_signalled, NULL) == 0);
    CHECK(pthread_create(&threads[1], NULL, is_signalled, &action) == 0);
    usleep(2000);
    CHECK(ptrace(PTRACE_TRACEME, 0, 0, 0) == 0);
    CHECK(pthread_create(&threads[2], NULL, is_signalled, NULL) == 0);
    CHECK(pthread_create(&threads[3], NULL, is_signalled, &action) == 0);
    for (int i = 0; i < 20; i++) {
        for (int t = 0; t < 4; t++) CHECK(pthread_kill(threads[t], SIGUSR1) == 0);
        usleep(500);
    }
    // This one is the tracer's to see.
    raise(SIGUSR1);
    CHECK(handled == 1);
    enough = 1;
    for (int t = 0; t < 4; t++) {
        void *told;
        while (pthread_tryjoin_np(threads[t], &told) == EBUSY) {
            pthread_kill(threads[t], SIGUSR1);
            usleep(100);
        }
        CHECK(*(int *)told >= 20);
    }
    exit(12);
}

int main(int argc, char **argv) {
    begin(argc, argv);
    pid_t pid = fork();
    CHECK(pid >= 0);
    if (pid == 0) child();
    for (;;) {
        int status;
        CHECK(waitpid(pid, &status, 0) == pid);
        if (WIFEXITED(status)) {
            printf("exit %d\n", WEXITSTATUS(status));
            return 0;
        }
        CHECK(WIFSTOPPED(status));
        printf("stop %d\n", WSTOPSIG(status));
        CHECK(ptrace(PTRACE_CONT, pid, 0, WSTOPSIG(status)) == 0);
    }
}
