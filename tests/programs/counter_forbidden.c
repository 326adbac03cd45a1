// The time stamp counter is forbidden (PR_SET_TSC): reading it is a segmentation fault of the program's,
// with its handler or without; a recorder that reads it too must not make one.
// flags: -pthread
#include "expect.h"
#include <pthread.h>
#include <sys/prctl.h>
#include <x86intrin.h>

static volatile sig_atomic_t seen;
static void count(int signal) { seen += signal; }
static void end_well(int signal) { _exit(signal == SIGSEGV ? 77 : 1); }

static void forbid(void) { CHECK(prctl(PR_SET_TSC, PR_TSC_SIGSEGV) == 0); }
static void block(int signal) {
    sigset_t set;
    sigemptyset(&set);
    sigaddset(&set, signal);
    CHECK(sigprocmask(SIG_BLOCK, &set, NULL) == 0);
}
static void make_calls(void) {
    for (int i = 0; i < 20; i++) CHECK(syscall(SYS_getppid) > 0);
}
static void read_it(void) { seen += (int)(__rdtsc() >> 63); }

static void calls(void) { forbid(), make_calls(); }
static void calls_blocked(void) { forbid(), block(SIGSEGV), make_calls(); }
static void signals(void) {
    CHECK(signal(SIGUSR1, count) != SIG_ERR);
    forbid();
    for (int i = 0; i < 10; i++) CHECK(kill(getpid(), SIGUSR1) == 0 && seen == (i + 1) * SIGUSR1);
}
static void signals_blocked(void) { block(SIGSEGV), signals(), make_calls(); }
static void read_unhandled(void) { forbid(), make_calls(), read_it(); }
static void read_handled(void) {
    CHECK(signal(SIGSEGV, end_well) != SIG_ERR);
    forbid(), make_calls(), read_it();
}
static void read_blocked(void) {
    CHECK(signal(SIGSEGV, end_well) != SIG_ERR);
    forbid(), block(SIGSEGV), make_calls(), read_it();
}
static void allow_again(void) {
    int mode = 0;
    forbid(), make_calls();
    CHECK(prctl(PR_GET_TSC, &mode) == 0 && mode == PR_TSC_SIGSEGV);
    CHECK(prctl(PR_SET_TSC, PR_TSC_ENABLE) == 0 && prctl(PR_GET_TSC, &mode) == 0);
    CHECK(mode == PR_TSC_ENABLE);
    make_calls(), read_it();
    CHECK(prctl(PR_SET_TSC, 7) == -1 && errno == EINVAL);
    make_calls(), read_it();
}
// Long enough that its maker always waits for its end, so that runs make the same calls.
static void *in_thread(void *unused) { return make_calls(), usleep(100000), unused; }
static void threads(void) {
    pthread_t thread;
    forbid(), block(SIGSEGV);
    CHECK(pthread_create(&thread, NULL, in_thread, NULL) == 0 && pthread_join(thread, NULL) == 0);
}
static void children(void) {
    forbid(), block(SIGSEGV);
    pid_t pid = fork();
    if (pid == 0) make_calls(), _exit(0);
    CHECK_CHILD(pid);
}
// Only for its own thread, and the others go on reading it.
static void *forbid_and_call(void *unused) { return forbid(), make_calls(), usleep(100000), unused; }
static void one_thread(void) {
    pthread_t thread;
    CHECK(pthread_create(&thread, NULL, forbid_and_call, NULL) == 0);
    CHECK(pthread_join(thread, NULL) == 0);
    make_calls(), read_it();
}
static void image(void) {
    forbid(), block(SIGSEGV);
    execl("/proc/self/exe", "image", "7", "image", NULL);
    _exit(1);
}

int main(int argc, char **argv) {
    begin(argc, argv);
    if (argc > 2) {
        make_calls();
        return 0;
    }
#define CASE(f) {#f, f}
    static const struct { const char *name; void (*run)(void); } cases[] = {
        CASE(calls), CASE(calls_blocked), CASE(signals), CASE(signals_blocked),
        CASE(read_unhandled), CASE(read_handled), CASE(read_blocked), CASE(allow_again),
        CASE(threads), CASE(children), CASE(one_thread), CASE(image),
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        fflush(stdout);
        pid_t pid = fork();
        if (pid == 0) {
            cases[i].run();
            syscall(SYS_exit_group, 0);
        }
        case_ended(cases[i].name, wait_for(pid));
    }
    return 0;
}
