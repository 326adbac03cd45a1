// count: off
// Signals by which faults come are sent to children that have just been made: they end them, or their
// handlers run, as with any other signal.
#include "expect.h"
#include <pthread.h>
#include <sys/resource.h>

static const int sent[] = {SIGSEGV, SIGBUS, SIGILL, SIGFPE, SIGTRAP, SIGSYS, SIGUSR1};
enum { SENT = sizeof sent / sizeof *sent, ROUNDS = 12 };

static volatile sig_atomic_t handled;

static void handle(int signal) {
    handled = signal;
}

static void ends_a_child(int signal) {
    pid_t pid = fork();
    CHECK(pid >= 0);
    if (pid == 0) {
        // Without a call, for some seconds at most.
        for (volatile long i = 0; i < 4000000000; i++) continue;
        _exit(1);
    }
    CHECK(kill(pid, signal) == 0);
    int status;
    CHECK(waitpid(pid, &status, 0) == pid);
    CHECK(WIFSIGNALED(status) && WTERMSIG(status) == signal);
}

static void is_handled_by_a_child(int signal) {
    pid_t pid = fork();
    CHECK(pid >= 0);
    if (pid == 0) {
        for (volatile long i = 0; i < 4000000000 && handled == 0; i++) continue;
        _exit(handled);
    }
    CHECK(kill(pid, signal) == 0);
    int status;
    CHECK(waitpid(pid, &status, 0) == pid);
    CHECK(WIFEXITED(status) && WEXITSTATUS(status) == signal);
}

static void *waits(void *unused) {
    for (volatile long i = 0; i < 4000000000 && handled == 0; i++) continue;
    return unused;
}

static void is_handled_by_a_thread(int signal) {
    handled = 0;
    pthread_t thread;
    CHECK(pthread_create(&thread, NULL, waits, NULL) == 0);
    CHECK(pthread_kill(thread, signal) == 0);
    CHECK(pthread_join(thread, NULL) == 0);
    CHECK(handled == signal);
    handled = 0;
}

int main(int argc, char **argv) {
    begin(argc, argv);
    struct rlimit none = {0, 0};
    CHECK(setrlimit(RLIMIT_CORE, &none) == 0);
    for (int round = 0; round < ROUNDS; round++)
        for (int i = 0; i < SENT; i++) ends_a_child(sent[i]);
    struct sigaction action = {.sa_handler = handle};
    for (int i = 0; i < SENT; i++) CHECK(sigaction(sent[i], &action, NULL) == 0);
    for (int round = 0; round < ROUNDS; round++) {
        for (int i = 0; i < SENT; i++) is_handled_by_a_child(sent[i]);
        for (int i = 0; i < SENT; i++)
            // That one is the agent's own as well: see docs/limits.md.
            if (sent[i] != SIGSYS) is_handled_by_a_thread(sent[i]);
    }
    printf("%d signals\n", ROUNDS * (3 * SENT - 1));
    EXPECT_COUNT("kill", 2 * ROUNDS * SENT);
    return 0;
}
