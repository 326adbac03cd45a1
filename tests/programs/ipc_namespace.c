// count: off
// needs: userns
// gaps: not-followed
// A new IPC namespace: the process and its children are recorded. What they exec there may run
// unrecorded, if the trace says so.
#include "expect.h"
#include <sched.h>

int main(int argc, char **argv) {
    begin(argc, argv);
    char bytes[3000];
    fill(bytes, sizeof bytes);
    CHECK(unshare(geteuid() == 0 ? CLONE_NEWIPC : CLONE_NEWIPC | CLONE_NEWUSER) == 0);
    EXPECT("unshare", 0, TEXT("CLONE_NEWIPC"));
    pid_t pid = fork();
    CHECK(pid >= 0);
    if (pid == 0) {
        int fd = open("by-child", O_RDWR | O_CREAT | O_TRUNC, 0600);
        CHECK(fd >= 0 && write(fd, bytes, sizeof bytes) == sizeof bytes);
        for (int i = 0; i < 100; i++) CHECK(syscall(SYS_getpgid, 0) >= 0);
        execl("/bin/sh", "sh", "-c", "echo from the new image > by-image", NULL);
        _exit(1);
    }
    CHECK_CHILD(pid);
    EXPECT("write", sizeof bytes, DATA(bytes, sizeof bytes));
    EXPECT_COUNT("getpgid", 100);
    return 0;
}
