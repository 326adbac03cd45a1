// A thread gets what a spawned child has left in the agent: its calls that signals interrupt before
// they are made are counted once, and the recording is complete.
// flags: -pthread
// count: off
#include "expect.h"
#include <pthread.h>
#include <spawn.h>

enum { ROUNDS = OFTEN(15, 6), SIGNALS = 300 };

extern char **environ;
static volatile int enough;

static void on_signal(int signal) { (void)signal; }

static void *makes_calls(void *unused) {
    (void)unused;
    char memory[16384];
    stack_t stack = {.ss_sp = memory, .ss_size = sizeof memory};
    while (!enough) CHECK(sigaltstack(&stack, NULL) == 0);
    stack.ss_flags = SS_DISABLE;
    CHECK(sigaltstack(&stack, NULL) == 0);
    return NULL;
}

static void spawn(const char *program, int wanted) {
    char *argv[] = {"true", NULL};
    pid_t pid;
    int error = posix_spawn(&pid, program, NULL, NULL, argv, environ);
    CHECK(error == wanted);
    if (!error) CHECK_CHILD(pid);
}

int main(int argc, char **argv) {
    begin(argc, argv);
    struct sigaction action = {.sa_handler = on_signal, .sa_flags = SA_RESTART};
    CHECK(sigaction(SIGUSR1, &action, NULL) == 0);
    for (int round = 0; round < ROUNDS; round++) {
        spawn(round % 3 == 2 ? "/nowhere/true" : "/bin/true", round % 3 == 2 ? ENOENT : 0);
        pthread_t thread;
        enough = 0;
        CHECK(pthread_create(&thread, NULL, makes_calls, NULL) == 0);
        for (int i = 0; i < SIGNALS; i++) {
            CHECK(pthread_kill(thread, SIGUSR1) == 0);
            for (volatile int k = 0; k < 300 + i % 977; k++) continue;
        }
        enough = 1;
        CHECK(pthread_join(thread, NULL) == 0);
    }
    return 0;
}
