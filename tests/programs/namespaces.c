// needs: userns
// Programs that enter new namespaces, whose children are recorded none the less.
#include "expect.h"
#include <sched.h>
#include <sys/mount.h>

static char bytes[3000];

static void work(const char *name) {
    int fd = open(name, O_RDWR | O_CREAT | O_TRUNC, 0600);
    CHECK(fd >= 0);
    CHECK(write(fd, bytes, sizeof bytes) == sizeof bytes);
    for (int i = 0; i < 100; i++) CHECK(syscall(SYS_getppid) >= 0);
    CHECK(close(fd) == 0);
}

static void run_true(void) {
    pid_t pid = fork();
    CHECK(pid >= 0);
    if (pid == 0) {
        work("by-child");
        execl("/bin/true", "true", NULL);
        _exit(1);
    }
    CHECK_CHILD(pid);
}

static void in_new(int flags, const char *what) {
    fflush(stdout);
    pid_t pid = fork();
    CHECK(pid >= 0);
    if (pid == 0) {
        CHECK(unshare(flags) == 0);
        work(what);
        run_true();
        _exit(0);
    }
    CHECK_CHILD(pid);
    printf("%s: done\n", what);
}

int main(int argc, char **argv) {
    begin(argc, argv);
    fill(bytes, sizeof bytes);
    int own = geteuid() == 0 ? 0 : CLONE_NEWUSER;
    in_new(CLONE_NEWUSER, "user");
    in_new(CLONE_NEWPID | own, "pid");
    in_new(CLONE_NEWNS | own, "mount");
    in_new(CLONE_NEWUTS | CLONE_NEWNET | CLONE_NEWCGROUP | own, "rest");
    in_new(CLONE_NEWUSER | CLONE_NEWPID | CLONE_NEWNS, "all");
    // Five of them, each with a child.
    for (int i = 0; i < 10; i++) EXPECT("write", sizeof bytes, DATA(bytes, sizeof bytes));
    EXPECT_COUNT("getppid", 1000);
    EXPECT("unshare", 0, TEXT("CLONE_NEWPID"));
    return 0;
}
