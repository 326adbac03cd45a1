// Filters that forbid what a recorder would need: the program, its threads and its children run as
// ever; if its children are not recorded, the trace says so.
// flags: -pthread
// gaps: not-followed
// count: off
#include "expect.h"
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <pthread.h>
#include <stddef.h>
#include <sys/mman.h>
#include <sys/prctl.h>

#define LOAD(field) BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, field))
#define IF(value, yes, no) BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, value, yes, no)
#define RETURN(what) BPF_STMT(BPF_RET | BPF_K, what)
#define INSTALL(filter)                                                                   \
    do {                                                                                  \
        struct sock_fprog program = {sizeof filter / sizeof *filter, filter};             \
        CHECK(prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0);                               \
        CHECK(prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) == 0);                 \
    } while (0)

static void work(void) {
    pid_t pid = fork();
    if (pid == 0) {
        execl("/bin/sh", "sh", "-c", "echo here > by-image", NULL);
        _exit(1);
    }
    CHECK_CHILD(pid);
    CHECK(unlink("by-image") == 0);
    for (int i = 0; i < 20; i++) CHECK(syscall(SYS_getpgid, 0) >= 0);
}

// No prctl that is not the program's own.
static void forbid_dispatch(void) {
    struct sock_filter filter[] = {
        LOAD(nr), IF(SYS_prctl, 0, 3),
        LOAD(args[0]), IF(59, 0, 1), RETURN(SECCOMP_RET_KILL_PROCESS),
        RETURN(SECCOMP_RET_ALLOW),
    };
    INSTALL(filter);
}

// No System V memory.
static void forbid_segments(void) {
    struct sock_filter filter[] = {
        LOAD(nr), IF(SYS_shmat, 0, 1), RETURN(SECCOMP_RET_KILL_PROCESS), RETURN(SECCOMP_RET_ALLOW),
    };
    INSTALL(filter);
}

// No memory that is both writable and executable, and errors for what copies memory.
static void forbid_code(void) {
    struct sock_filter filter[] = {
        LOAD(nr), IF(SYS_process_vm_readv, 0, 1), RETURN(SECCOMP_RET_ERRNO | EPERM),
        IF(SYS_mprotect, 1, 0), IF(SYS_mmap, 0, 4),
        LOAD(args[2]),
        BPF_STMT(BPF_ALU | BPF_AND | BPF_K, PROT_WRITE | PROT_EXEC),
        IF(PROT_WRITE | PROT_EXEC, 0, 1), RETURN(SECCOMP_RET_KILL_PROCESS),
        RETURN(SECCOMP_RET_ALLOW),
    };
    INSTALL(filter);
}

// One that cares where calls come from, and lets them all through.
static void ask_where_from(void) {
    struct sock_filter filter[] = {
        LOAD(instruction_pointer), IF(0, 0, 1), RETURN(SECCOMP_RET_ALLOW), RETURN(SECCOMP_RET_ALLOW),
    };
    INSTALL(filter);
}

// One that the kernel refuses changes nothing.
static void be_refused(void) {
    struct sock_filter filter[] = {LOAD(nr), {0xffff, 0, 0, 0}, RETURN(SECCOMP_RET_KILL_PROCESS)};
    struct sock_fprog program = {3, filter};
    CHECK(prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0);
    CHECK(prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) == -1 && errno == EINVAL);
    CHECK(prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, (void *)8) == -1 && errno == EFAULT);
}

static void be_strict(void) {
    CHECK(prctl(PR_SET_SECCOMP, SECCOMP_MODE_STRICT, 0, 0, 0) == 0);
    char byte = 0;
    int pipe_of_nobody = -1;
    for (int i = 0; i < 20; i++) CHECK(syscall(SYS_write, pipe_of_nobody, &byte, 1) == -1);
    syscall(SYS_exit, 0);
}

int main(int argc, char **argv) {
    begin(argc, argv);
    static void (*const all[])(void) = {forbid_dispatch, forbid_segments, forbid_code, ask_where_from, be_refused, be_strict};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
        fflush(stdout);
        pid_t pid = fork();
        if (pid == 0) {
            all[i]();
            work();
            _exit(0);
        }
        CHECK_CHILD(pid);
        printf("%zu done\n", i);
    }
    return 0;
}
