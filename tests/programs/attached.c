// Programs that others attach to while they run, wait, are signalled or have threads: what the tracer
// sees of them, and how they go on.
// flags: -pthread
// gaps: traced
// count: off
#include "expect.h"
#include <poll.h>
#include <pthread.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/uio.h>
#include <sys/user.h>

static struct shared {
    volatile int ready, stop, rounds, handled;
    volatile pid_t thread;
} *shared;
static int ends[2];

static void on_signal(int signal) {
    (void)signal;
    shared->handled++;
}

static void spins(void) {
    while (!shared->stop) shared->rounds++;
    _exit(20);
}

static void makes_calls(void) {
    while (!shared->stop) {
        CHECK(syscall(SYS_getppid) > 0);
        CHECK(write(ends[1], "x", 1) == 1 || errno == EAGAIN);
        shared->rounds++;
    }
    _exit(21);
}

static void reads(void) {
    char byte;
    int flags = fcntl(ends[0], F_GETFL);
    CHECK(fcntl(ends[0], F_SETFL, flags & ~O_NONBLOCK) == 0);
    while (read(ends[0], &byte, 1) != 1 || byte != 'q') continue;
    _exit(22);
}

static void sleeps(void) {
    struct timespec time = {.tv_nsec = 300000000};
    CHECK(nanosleep(&time, NULL) == 0);
    _exit(23);
}

static void has_handler(void) {
    struct sigaction action = {.sa_handler = on_signal};
    CHECK(sigaction(SIGUSR1, &action, NULL) == 0);
    shared->ready = 2;
    while (shared->handled < 10) {
        sigset_t set;
        CHECK(sigprocmask(SIG_BLOCK, NULL, &set) == 0 && !sigismember(&set, SIGUSR1));
        poll(NULL, 0, 10);
        shared->rounds++;
    }
    _exit(24);
}

static void *other_thread(void *unused) {
    shared->thread = gettid();
    while (!shared->stop) shared->rounds += syscall(SYS_getppid) > 0;
    return unused;
}

static void has_threads(void) {
    pthread_t thread;
    CHECK(pthread_create(&thread, NULL, other_thread, NULL) == 0);
    while (!shared->thread) usleep(100);
    shared->ready = 2;
    CHECK(pthread_join(thread, NULL) == 0);
    _exit(25);
}

static void forks(void) {
    while (!shared->stop) usleep(1000);
    pid_t pid = fork();
    if (pid == 0) {
        execl("/bin/true", "true", NULL);
        _exit(1);
    }
    CHECK_CHILD(pid);
    _exit(26);
}

static pid_t start(void (*child)(void)) {
    memset((void *)shared, 0, sizeof *shared);
    char bytes[100];
    fcntl(ends[0], F_SETFL, O_NONBLOCK);
    while (read(ends[0], bytes, sizeof bytes) > 0) continue;
    fflush(stdout);
    pid_t pid = fork();
    CHECK(pid >= 0);
    if (pid == 0) {
        shared->ready = 1;
        child();
    }
    while (!shared->ready) usleep(100);
    usleep(3000);
    return pid;
}

static int stop_of(pid_t pid) {
    int status;
    CHECK(waitpid(pid, &status, __WALL) == pid);
    CHECK(WIFSTOPPED(status));
    return status >> 8;
}

static void end_of(pid_t pid, int code) {
    int status;
    CHECK(waitpid(pid, &status, __WALL) == pid);
    CHECK(WIFEXITED(status) && WEXITSTATUS(status) == code);
    printf(" exit %d\n", code);
}

static void attach(pid_t pid) {
    CHECK(ptrace(PTRACE_ATTACH, pid, 0, 0) == 0);
    CHECK(stop_of(pid) == SIGSTOP);
}

static void resume(int how, pid_t pid, int signal) { CHECK(ptrace(how, pid, 0, signal) == 0); }

// Attached to and let go, again and again.
static void comes_and_goes(const char *name, void (*child)(void), int code) {
    printf("%s:", name);
    pid_t pid = start(child);
    for (int i = 0; i < 5; i++) {
        attach(pid);
        struct user_regs_struct regs;
        CHECK(ptrace(PTRACE_GETREGS, pid, 0, &regs) == 0);
        CHECK(ptrace(PTRACE_DETACH, pid, 0, 0) == 0);
        usleep(1000);
    }
    shared->stop = 1;
    CHECK(write(ends[1], "q", 1) == 1 || errno == EAGAIN);
    end_of(pid, code);
}

// Attached to until its end; nothing stops it.
static void stays(const char *name, void (*child)(void), int code, int request) {
    printf("%s:", name);
    pid_t pid = start(child);
    CHECK(ptrace(request, pid, 0, 0) == 0);
    if (request == PTRACE_ATTACH) {
        CHECK(stop_of(pid) == SIGSTOP);
        resume(PTRACE_CONT, pid, 0);
    }
    int before = shared->rounds;
    for (int i = 0; i < 100 && shared->rounds == before; i++) usleep(1000);
    shared->stop = 1;
    CHECK(write(ends[1], "q", 1) == 1 || errno == EAGAIN);
    end_of(pid, code);
}

static void interrupts(void) {
    printf("interrupted:");
    pid_t pid = start(makes_calls);
    CHECK(ptrace(PTRACE_SEIZE, pid, 0, PTRACE_O_TRACESYSGOOD) == 0);
    CHECK(ptrace(PTRACE_INTERRUPT, pid, 0, 0) == 0);
    CHECK(stop_of(pid) == (SIGTRAP | PTRACE_EVENT_STOP << 8));
    // To the end of a call, if it is in one, with what its recording needs; then only these two, in turns.
    int calls = 0, own = 0, begun = 0;
    for (int i = 0; i < 60; i++) {
        resume(PTRACE_SYSCALL, pid, 0);
        CHECK(stop_of(pid) == (SIGTRAP | 0x80));
        struct user_regs_struct regs;
        CHECK(ptrace(PTRACE_GETREGS, pid, 0, &regs) == 0);
        int is_own = regs.orig_rax == SYS_getppid || regs.orig_rax == SYS_write;
        if (own && !is_own) fprintf(stderr, "stop %d is at call %lld\n", i, (long long)regs.orig_rax);
        CHECK(is_own || !own);
        int is_entry = regs.rax == (unsigned long)-ENOSYS;
        calls += is_entry;
        // The one that it was in may be one of the two.
        begun += is_own && is_entry;
        own = begun > 1;
    }
    CHECK(calls >= 28 && calls <= 32);
    resume(PTRACE_CONT, pid, 0);
    shared->stop = 1;
    end_of(pid, 21);
}

static void stops_as_group(void) {
    printf("stopped:");
    pid_t pid = start(makes_calls);
    CHECK(ptrace(PTRACE_SEIZE, pid, 0, 0) == 0);
    CHECK(kill(pid, SIGSTOP) == 0);
    CHECK(stop_of(pid) == SIGSTOP);
    resume(PTRACE_CONT, pid, SIGSTOP);
    CHECK(stop_of(pid) == (SIGSTOP | PTRACE_EVENT_STOP << 8));
    CHECK(ptrace(PTRACE_LISTEN, pid, 0, 0) == 0);
    CHECK(kill(pid, SIGCONT) == 0);
    CHECK(stop_of(pid) == (SIGTRAP | PTRACE_EVENT_STOP << 8));
    resume(PTRACE_CONT, pid, 0);
    CHECK(stop_of(pid) == SIGCONT);
    shared->stop = 1;
    resume(PTRACE_CONT, pid, SIGCONT);
    end_of(pid, 21);
}

static void passes_signals(int request) {
    printf("signals:");
    pid_t pid = start(has_handler);
    while (shared->ready != 2) usleep(100);
    CHECK(ptrace(request, pid, 0, 0) == 0);
    if (request == PTRACE_ATTACH) {
        CHECK(stop_of(pid) == SIGSTOP);
        resume(PTRACE_CONT, pid, 0);
    }
    for (int i = 0; i < 10; i++) {
        CHECK(kill(pid, SIGUSR1) == 0);
        CHECK(stop_of(pid) == SIGUSR1);
        resume(PTRACE_CONT, pid, SIGUSR1);
        while (shared->handled <= i) usleep(100);
    }
    end_of(pid, 24);
}

static void attaches_to_threads(void) {
    printf("threads:");
    pid_t pid = start(has_threads);
    while (shared->ready != 2) usleep(100);
    attach(shared->thread);
    int before = shared->rounds;
    usleep(5000);
    CHECK(shared->rounds == before);
    resume(PTRACE_CONT, shared->thread, 0);
    while (shared->rounds == before) usleep(100);
    shared->stop = 1;
    // Of a thread that was attached to the end is told, too: its own, or that of all.
    int status;
    CHECK(waitpid(shared->thread, &status, __WALL) == shared->thread && WIFEXITED(status));
    end_of(pid, 25);
}

static void follows_forks(void) {
    printf("forks:");
    pid_t pid = start(forks);
    long options = PTRACE_O_TRACEFORK | PTRACE_O_TRACEEXEC;
    CHECK(ptrace(PTRACE_SEIZE, pid, 0, options) == 0);
    shared->stop = 1;
    int ended = 0, executed = 0;
    while (ended < 2) {
        int status;
        pid_t who = waitpid(-1, &status, __WALL);
        CHECK(who > 0);
        if (!WIFSTOPPED(status)) {
            CHECK(WIFEXITED(status) && WEXITSTATUS(status) == (who == pid ? 26 : 0));
            ended++;
            continue;
        }
        int event = status >> 16, signal = WSTOPSIG(status);
        executed += event == PTRACE_EVENT_EXEC;
        CHECK(event || (who == pid && signal == SIGCHLD));
        resume(PTRACE_CONT, who, event ? 0 : signal);
    }
    CHECK(executed == 1);
    printf(" both ended\n");
}

static void cannot_attach(void) {
    printf("refused:");
    pid_t pid = start(makes_calls);
    CHECK(ptrace(PTRACE_ATTACH, 0x7fffff, 0, 0) == -1 && errno == ESRCH);
    CHECK(ptrace(PTRACE_SEIZE, pid, 1, 0) == -1 && errno == EIO);
    CHECK(ptrace(PTRACE_SEIZE, pid, 0, 0) == 0);
    CHECK(ptrace(PTRACE_ATTACH, pid, 0, 0) == -1 && errno == EPERM);
    shared->stop = 1;
    end_of(pid, 21);
}

int main(int argc, char **argv) {
    begin(argc, argv);
    shared = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    CHECK(shared != MAP_FAILED && pipe2(ends, O_NONBLOCK) == 0);
    comes_and_goes("spins", spins, 20);
    comes_and_goes("calls", makes_calls, 21);
    comes_and_goes("reads", reads, 22);
    comes_and_goes("sleeps", sleeps, 23);
    stays("spins", spins, 20, PTRACE_ATTACH);
    stays("calls", makes_calls, 21, PTRACE_ATTACH);
    stays("calls", makes_calls, 21, PTRACE_SEIZE);
    stays("reads", reads, 22, PTRACE_SEIZE);
    stays("sleeps", sleeps, 23, PTRACE_SEIZE);
    interrupts();
    stops_as_group();
    passes_signals(PTRACE_ATTACH);
    passes_signals(PTRACE_SEIZE);
    attaches_to_threads();
    follows_forks();
    cannot_attach();
    return 0;
}
