// vfork, whose child runs on its parent's stack, then exec or exit.
#include "expect.h"

int main(int argc, char **argv) {
    begin(argc, argv);
    char *args[] = {"true", NULL}, *none[] = {NULL};
    volatile int shared = 0;
    for (int i = 0; i < 20; i++) {
        pid_t pid = vfork();
        if (pid == 0) {
            shared++;
            if (i % 2) _exit(7);
            execve("/bin/true", args, none);
            _exit(1);
        }
        CHECK(pid > 0);
        int status = wait_for(pid);
        CHECK(WIFEXITED(status) && WEXITSTATUS(status) == (i % 2 ? 7 : 0));
    }
    CHECK(shared == 20);
    // A vfork child whose exec fails, and that makes calls of its own before it gives up.
    pid_t pid = vfork();
    if (pid == 0) {
        execve("/nonexistent", args, none);
        syscall(SYS_getppid);
        _exit(9);
    }
    int status = wait_for(pid);
    CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 9);
    EXPECT_COUNT("vfork", 21);
    EXPECT_COUNT("getppid", 1);
    EXPECT_ERRNO("execve", ENOENT, TEXT("/nonexistent"));
    return 0;
}
