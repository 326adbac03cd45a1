// count: off
// Children that are killed while they execute a program, at all moments of that: what did not run is
// not missing.
#include "expect.h"

int main(int argc, char **argv) {
    begin(argc, argv);
    int killed = 0;
    for (int i = 0; i < 300; i++) {
        pid_t pid = fork();
        CHECK(pid >= 0);
        if (pid == 0) {
            execl("/bin/true", "true", NULL);
            _exit(1);
        }
        usleep(100 + i * 7 % 2500);
        CHECK(kill(pid, SIGKILL) == 0);
        int status;
        CHECK(waitpid(pid, &status, 0) == pid);
        CHECK(WIFSIGNALED(status) || WEXITSTATUS(status) == 0);
        killed += WIFSIGNALED(status);
    }
    printf("killed, some of them: %d\n", killed > 0);
    EXPECT_COUNT("wait4", 300);
    return 0;
}
