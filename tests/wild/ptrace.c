// Tracing: a program that stops, reads, changes and ends another, as debuggers do.
#include "cases.h"
#include <elf.h>
#include <stddef.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/uio.h>
#include <sys/user.h>

static volatile long told = 11;

// A child that is stopped, traced, before `function`.
static pid_t traced(void (*function)(void)) {
    pid_t pid = fork();
    CHECK(pid >= 0);
    if (pid == 0) {
        // Whatever becomes of the tracer, nothing stays behind.
        CHECK(prctl(PR_SET_PDEATHSIG, SIGKILL) == 0 && ptrace(PTRACE_TRACEME, 0, NULL, NULL) == 0);
        raise(SIGSTOP);
        function();
        _exit(7);
    }
    int status;
    CHECK(waitpid(pid, &status, 0) == pid && WIFSTOPPED(status) && WSTOPSIG(status) == SIGSTOP);
    return pid;
}

static void nothing(void) {}
static void pause_for_ever(void) {
    CHECK(prctl(PR_SET_PDEATHSIG, 0) == 0);
    for (;;) pause();
}
static void look_at_told(void) { _exit(told == 22 ? 0 : 1); }
static void signal_itself(void) {
    raise(SIGUSR1);
    raise(SIGWINCH);
}
static void run_true(void) { execl("/bin/true", "true", (char *)NULL); }
static void have_children(void) {
    pid_t pid = fork();
    if (pid == 0) _exit(3);
    _exit(WEXITSTATUS(wait_for(pid)));
}
static void hit_breakpoint(void) { __asm__ volatile("int3"); }

static void goes_on(void) {
    pid_t pid = traced(nothing);
    CHECK(ptrace(PTRACE_CONT, pid, NULL, 0) == 0);
    int status = wait_for(pid);
    CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 7);
    FAILS(ESRCH, ptrace(PTRACE_CONT, pid, NULL, 0));
}

static void words_read_and_changed(void) {
    pid_t pid = traced(look_at_told);
    errno = 0;
    CHECK(ptrace(PTRACE_PEEKDATA, pid, &told, NULL) == 11 && errno == 0);
    CHECK(ptrace(PTRACE_POKEDATA, pid, &told, (void *)22L) == 0);
    FAILS(EIO, ptrace(PTRACE_PEEKDATA, pid, (void *)8, NULL));
    CHECK(ptrace(PTRACE_CONT, pid, NULL, 0) == 0);
    CHECK_CHILD(pid);
}

static void memory_by_file(void) {
    char path[40];
    long value = 22;
    pid_t pid = traced(look_at_told);
    snprintf(path, sizeof path, "/proc/%d/mem", pid);
    int fd = open(path, O_RDWR);
    CHECK(fd >= 0 && pwrite(fd, &value, sizeof value, (off_t)&told) == sizeof value);
    value = 0;
    CHECK(pread(fd, &value, sizeof value, (off_t)&told) == sizeof value && value == 22);
    CHECK(ptrace(PTRACE_DETACH, pid, NULL, 0) == 0);
    CHECK_CHILD(pid);
}

static void signals_told_and_dropped(void) {
    int status;
    pid_t pid = traced(signal_itself);
    CHECK(ptrace(PTRACE_CONT, pid, NULL, 0) == 0);
    CHECK(waitpid(pid, &status, 0) == pid && WIFSTOPPED(status) && WSTOPSIG(status) == SIGUSR1);
    siginfo_t info;
    CHECK(ptrace(PTRACE_GETSIGINFO, pid, NULL, &info) == 0 && info.si_signo == SIGUSR1 && info.si_pid == pid);
    CHECK(ptrace(PTRACE_CONT, pid, NULL, 0) == 0);
    CHECK(waitpid(pid, &status, 0) == pid && WIFSTOPPED(status) && WSTOPSIG(status) == SIGWINCH);
    CHECK(ptrace(PTRACE_CONT, pid, NULL, SIGTERM) == 0);
    status = wait_for(pid);
    CHECK(WIFSIGNALED(status) && WTERMSIG(status) == SIGTERM);
}

static void exec_is_told(void) {
    int status;
    pid_t pid = traced(run_true);
    CHECK(ptrace(PTRACE_SETOPTIONS, pid, NULL, PTRACE_O_TRACEEXEC) == 0 && ptrace(PTRACE_CONT, pid, NULL, 0) == 0);
    CHECK(waitpid(pid, &status, 0) == pid && status >> 8 == (SIGTRAP | PTRACE_EVENT_EXEC << 8));
    CHECK(ptrace(PTRACE_CONT, pid, NULL, 0) == 0);
    CHECK_CHILD(pid);
}

static void forks_are_told(void) {
    int status;
    unsigned long child;
    pid_t pid = traced(have_children);
    CHECK(ptrace(PTRACE_SETOPTIONS, pid, NULL, PTRACE_O_TRACEFORK) == 0 && ptrace(PTRACE_CONT, pid, NULL, 0) == 0);
    CHECK(waitpid(pid, &status, 0) == pid && status >> 8 == (SIGTRAP | PTRACE_EVENT_FORK << 8));
    CHECK(ptrace(PTRACE_GETEVENTMSG, pid, NULL, &child) == 0);
    CHECK(waitpid((pid_t)child, &status, __WALL) == (pid_t)child && WIFSTOPPED(status));
    CHECK(ptrace(PTRACE_DETACH, child, NULL, 0) == 0 && ptrace(PTRACE_CONT, pid, NULL, 0) == 0);
    do CHECK(waitpid(pid, &status, 0) == pid);
    while (WIFSTOPPED(status) && ptrace(PTRACE_CONT, pid, NULL, 0) == 0);
    CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 3);
}

static void registers(void) {
    struct user_regs_struct regs;
    int status;
    pid_t pid = traced(hit_breakpoint);
    CHECK(ptrace(PTRACE_CONT, pid, NULL, 0) == 0);
    CHECK(waitpid(pid, &status, 0) == pid && WIFSTOPPED(status) && WSTOPSIG(status) == SIGTRAP);
    CHECK(ptrace(PTRACE_GETREGSET, pid, NT_PRSTATUS, &(struct iovec){&regs, sizeof regs}) == 0);
    errno = 0;
    long code = ptrace(PTRACE_PEEKTEXT, pid, (void *)(regs.rip - 1), NULL);
    CHECK(errno == 0 && (code & 0xff) == 0xcc);
    CHECK(ptrace(PTRACE_SETREGS, pid, NULL, &regs) == 0);
    CHECK((unsigned long)ptrace(PTRACE_PEEKUSER, pid, offsetof(struct user_regs_struct, rip), NULL) == regs.rip);
    CHECK(ptrace(PTRACE_CONT, pid, NULL, 0) == 0);
    status = wait_for(pid);
    CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 7);
}

static void seized_and_interrupted(void) {
    int status;
    pid_t pid = fork();
    CHECK(pid >= 0);
    if (pid == 0) for (;;) pause();
    CHECK(ptrace(PTRACE_SEIZE, pid, NULL, 0) == 0 && ptrace(PTRACE_INTERRUPT, pid, NULL, 0) == 0);
    CHECK(waitpid(pid, &status, 0) == pid && status >> 8 == (SIGTRAP | PTRACE_EVENT_STOP << 8));
    CHECK(ptrace(PTRACE_CONT, pid, NULL, 0) == 0 && kill(pid, SIGHUP) == 0);
    CHECK(waitpid(pid, &status, 0) == pid && WIFSTOPPED(status) && WSTOPSIG(status) == SIGHUP);
    CHECK(ptrace(PTRACE_DETACH, pid, NULL, SIGHUP) == 0);
    status = wait_for(pid);
    CHECK(WIFSIGNALED(status) && WTERMSIG(status) == SIGHUP);
}

static void attached(void) {
    int status;
    pid_t pid = fork();
    CHECK(pid >= 0);
    if (pid == 0) for (;;) pause();
    CHECK(ptrace(PTRACE_ATTACH, pid, NULL, NULL) == 0);
    CHECK(waitpid(pid, &status, 0) == pid && WIFSTOPPED(status) && WSTOPSIG(status) == SIGSTOP);
    FAILS(EPERM, ptrace(PTRACE_ATTACH, pid, NULL, NULL));
    CHECK(ptrace(PTRACE_DETACH, pid, NULL, 0) == 0 && kill(pid, SIGKILL) == 0);
    status = wait_for(pid);
    CHECK(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
}

static void end_with_tracer(void) {
    int fds[2];
    char byte;
    CHECK(pipe(fds) == 0);
    pid_t tracer = fork();
    CHECK(tracer >= 0);
    if (tracer == 0) {
        close(fds[0]);
        pid_t pid = traced(pause_for_ever);
        CHECK(ptrace(PTRACE_SETOPTIONS, pid, NULL, PTRACE_O_EXITKILL) == 0);
        CHECK(ptrace(PTRACE_CONT, pid, NULL, 0) == 0);
        _exit(0);
    }
    close(fds[1]);
    CHECK(read(fds[0], &byte, 1) == 0);
    CHECK_CHILD(tracer);
}

static void wrong_uses(void) {
    FAILS(ESRCH, ptrace(PTRACE_ATTACH, 4100000, NULL, NULL));
    FAILS(EPERM, ptrace(PTRACE_ATTACH, getpid(), NULL, NULL));
    FAILS(ESRCH, ptrace(PTRACE_PEEKDATA, getppid(), &told, NULL));
    pid_t pid = traced(nothing);
    FAILS(EINVAL, ptrace(PTRACE_SETOPTIONS, pid, NULL, 1 << 30));
    FAILS(EIO, ptrace(PTRACE_CONT, pid, NULL, 999));
    CHECK(ptrace(PTRACE_KILL, pid, NULL, NULL) == 0);
    int status = wait_for(pid);
    CHECK(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
}

CASES(
    {.name = "goes_on", .function = goes_on, .gaps = "traced"},
    {.name = "words_read_and_changed", .function = words_read_and_changed, .gaps = "traced"},
    {.name = "memory_by_file", .function = memory_by_file, .gaps = "traced"},
    {.name = "signals_told_and_dropped", .function = signals_told_and_dropped, .gaps = "traced"},
    {.name = "exec_is_told", .function = exec_is_told, .gaps = "traced"},
    {.name = "forks_are_told", .function = forks_are_told, .gaps = "traced"},
    {.name = "registers", .function = registers, .gaps = "traced"},
    {.name = "seized_and_interrupted", .function = seized_and_interrupted, .gaps = "traced"},
    {.name = "attached", .function = attached, .gaps = "traced"},
    {.name = "end_with_tracer", .function = end_with_tracer, .gaps = "traced"},
    {.name = "wrong_uses", .function = wrong_uses, .gaps = "traced"}, )
