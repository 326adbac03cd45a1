// clone in the forms that libraries do not use: shared memory without a thread, clone3, shared tables.
#include "expect.h"
#include <linux/sched.h>
#include <sched.h>
#include <sys/mman.h>

static volatile int shared;
static char *stack_top(void) {
    char *stack = mmap(NULL, 65536, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    CHECK(stack != MAP_FAILED);
    return stack + 65536;
}

static int child(void *name) {
    shared++;
    for (int i = 0; i < 50; i++) syscall(SYS_getppid);
    int fd = open(name, O_WRONLY | O_CREAT, 0600);
    if (write(fd, name, strlen(name)) != (ssize_t)strlen(name)) return 1;
    return 0;
}

int main(int argc, char **argv) {
    begin(argc, argv);
    pid_t pid = clone(child, stack_top(), CLONE_VM | SIGCHLD, "with-memory");
    CHECK_CHILD(pid);
    CHECK(shared == 1);
    EXPECT("write", 11, DATA("with-memory", 11));
    pid = clone(child, stack_top(), CLONE_VM | CLONE_FILES | CLONE_FS | SIGCHLD, "with-tables");
    CHECK_CHILD(pid);
    CHECK(shared == 2);
    pid = clone(child, stack_top(), CLONE_VM | CLONE_VFORK | SIGCHLD, "as-vfork");
    CHECK_CHILD(pid);
    CHECK(shared == 3);
    pid = clone(child, stack_top(), CLONE_FILES | SIGCHLD, "own-memory");
    CHECK_CHILD(pid);
    CHECK(shared == 3);
    EXPECT("write", 10, DATA("own-memory", 10));
    int pidfd = -1, ctid = 0;
    struct clone_args args = {.flags = CLONE_PIDFD | CLONE_CHILD_SETTID, .exit_signal = SIGCHLD,
                              .pidfd = (uint64_t)&pidfd, .child_tid = (uint64_t)&ctid};
    pid = (pid_t)syscall(SYS_clone3, &args, sizeof args);
    CHECK(pid >= 0);
    if (pid == 0) {
        CHECK(ctid == getpid());
        for (int i = 0; i < 50; i++) syscall(SYS_getppid);
        _exit(0);
    }
    CHECK_CHILD(pid);
    CHECK(pidfd >= 0);
    EXPECT("clone3", pid, TEXT("CLONE_PIDFD"));
    CHECK(syscall(SYS_clone3, &args, 3) == -1 && errno == EINVAL);
    EXPECT_ERRNO("clone3", EINVAL);
    EXPECT_COUNT("getppid", 250);
    return 0;
}
