// count: off
// Children that get signals while they execute a program: a handler may run before the call is made,
// and the call is then made again, or another one.
#define _GNU_SOURCE
#include <poll.h>

#include "expect.h"

enum { TIMES = OFTEN(400, 150) };

static void handler(int signal) {
    (void)signal;
}

int main(int argc, char **argv) {
    begin(argc, argv);
    // Ignored by default, as in the new program.
    struct sigaction action = {.sa_handler = handler};
    CHECK(sigaction(SIGURG, &action, NULL) == 0);
    for (int i = 0; i < TIMES; i++) {
        int ends[2];
        CHECK(pipe2(ends, O_CLOEXEC) == 0);
        pid_t pid = fork();
        CHECK(pid >= 0);
        if (pid == 0) {
            for (int failing = 0; failing < i % 4; failing++)
                execl("/nowhere", "nowhere", NULL);
            execl("/bin/true", "true", NULL);
            _exit(1);
        }
        close(ends[1]);
        struct pollfd executed = {.fd = ends[0], .events = POLLIN};
        while (poll(&executed, 1, 0) == 0) {
            CHECK(kill(pid, SIGURG) == 0);
            usleep(i % 10 * 20);
        }
        close(ends[0]);
        int status;
        CHECK(waitpid(pid, &status, 0) == pid);
        CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 0);
    }
    printf("all executed\n");
    EXPECT_COUNT("wait4", TIMES);
    return 0;
}
