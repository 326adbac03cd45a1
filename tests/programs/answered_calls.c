// count: off
// Calls that the program's own seccomp filters answer: with errors, or by a handler that does something
// else. None of them is made, whatever its arguments; what they return is what the filter or the handler
// says.
// flags: -pthread
#include "expect.h"
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <pthread.h>
#include <stddef.h>
#include <sys/prctl.h>
#include <ucontext.h>

#define LOAD(field) BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, field))
#define IF(value, yes, no) BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, value, yes, no)
#define RETURN(what) BPF_STMT(BPF_RET | BPF_K, what)
#define INSTALL(what, flags)                                                             \
    do {                                                                                 \
        struct sock_fprog program = {sizeof(what) / sizeof *(what), what};               \
        CHECK(syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, flags, &program) == 0);      \
    } while (0)

// What the handler does in place of the calls that are trapped.
static void on_sigsys(int signal, siginfo_t *info, void *context) {
    (void)signal;
    greg_t *registers = ((ucontext_t *)context)->uc_mcontext.gregs;
    switch (info->si_syscall) {
    case SYS_open:
        // Another file than was asked for, by a call that is let through.
        registers[REG_RAX] = syscall(SYS_openat, AT_FDCWD, "other", O_RDWR);
        break;
    case SYS_unlink:
        // It says that it did.
        registers[REG_RAX] = 0;
        break;
    default:
        registers[REG_RAX] = -ENOSYS;
    }
}

static void *in_thread(void *ends) {
    char byte;
    // It would wait for ever.
    CHECK(read(((int *)ends)[0], &byte, 1) == -1 && errno == EDOM);
    CHECK(syscall(SYS_mkdir, "by a thread", 0700) == -1 && errno == EXDEV);
    return NULL;
}

int main(int argc, char **argv) {
    begin(argc, argv);
    int ends[2], more[2];
    CHECK(pipe(ends) == 0);
    int fd = open("other", O_RDWR | O_CREAT, 0600);
    CHECK(fd >= 0 && write(fd, "hello", 5) == 5 && close(fd) == 0);
    CHECK(close(open("stays", O_RDWR | O_CREAT, 0600)) == 0);
    struct sigaction action = {.sa_sigaction = on_sigsys, .sa_flags = SA_SIGINFO | SA_NODEFER};
    CHECK(sigaction(SIGSYS, &action, NULL) == 0);
    CHECK(prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0);
    struct sock_filter errors[] = {
        LOAD(nr),
        IF(SYS_pipe2, 0, 1), RETURN(SECCOMP_RET_ERRNO | EMFILE),
        IF(SYS_mkdir, 0, 1), RETURN(SECCOMP_RET_ERRNO | EXDEV),
        IF(SYS_rename, 0, 1), RETURN(SECCOMP_RET_ERRNO | 0),
        IF(SYS_unlink, 0, 1), RETURN(SECCOMP_RET_TRAP),
        RETURN(SECCOMP_RET_ALLOW),
    };
    INSTALL(errors, SECCOMP_FILTER_FLAG_TSYNC);
    CHECK(syscall(SYS_pipe2, more, 0) == -1 && errno == EMFILE);
    EXPECT_ERRNO("pipe2", EMFILE);
    CHECK(syscall(SYS_mkdir, "none", 0700) == -1 && errno == EXDEV);
    CHECK(syscall(SYS_rename, "stays", "gone") == 0);
    CHECK(syscall(SYS_unlink, "stays") == 0);
    CHECK(access("stays", F_OK) == 0 && access("none", F_OK) == -1);

    // By arguments: reads of this one descriptor, and opening with these flags.
    struct sock_filter by_arguments[] = {
        LOAD(nr),
        IF(SYS_read, 0, 3), LOAD(args[0]), IF(ends[0], 0, 5), RETURN(SECCOMP_RET_ERRNO | EDOM),
        IF(SYS_open, 0, 3), LOAD(args[1]), IF(O_RDWR | O_SYNC, 0, 1), RETURN(SECCOMP_RET_TRAP),
        RETURN(SECCOMP_RET_ALLOW),
    };
    INSTALL(by_arguments, 0);
    char got[8];
    CHECK(read(ends[0], got, 1) == -1 && errno == EDOM);
    fd = syscall(SYS_open, "asked for", O_RDWR | O_SYNC);
    CHECK(fd >= 0 && read(fd, got, sizeof got) == 5 && memcmp(got, "hello", 5) == 0);
    EXPECT("read", 5, DATA("hello", 5));
    CHECK(write(fd, " world", 6) == 6 && close(fd) == 0);
    fd = syscall(SYS_open, "stays", O_RDWR);
    CHECK(fd >= 0 && write(fd, "here", 4) == 4 && close(fd) == 0);

    // Threads and children have the filters as well.
    pthread_t thread;
    CHECK(pthread_create(&thread, NULL, in_thread, ends) == 0 && pthread_join(thread, NULL) == 0);
    pid_t pid = fork();
    CHECK(pid >= 0);
    if (pid == 0) {
        in_thread(ends);
        _exit(0);
    }
    int status;
    CHECK(waitpid(pid, &status, 0) == pid && status == 0);
    return 0;
}
