// A hundred generations, each the child of the one before.
#include "expect.h"

int main(int argc, char **argv) {
    begin(argc, argv);
    for (int generation = 0; generation < 100; generation++) {
        pid_t pid = fork();
        CHECK(pid >= 0);
        if (pid > 0) {
            int status = wait_for(pid);
            CHECK(WIFEXITED(status));
            int code = WEXITSTATUS(status) + 1;
            if (generation > 0) _exit(code);
            CHECK(code == 100);
            EXPECT_COUNT("getppid", 1);
            printf("%d generations\n", code);
            return 0;
        }
    }
    CHECK(syscall(SYS_getppid) > 0);
    int fd = open("last", O_WRONLY | O_CREAT, 0600);
    CHECK(write(fd, "last", 4) == 4);
    _exit(0);
}
