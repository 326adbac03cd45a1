// wait4 and waitid: statuses of children that exit, are killed, stop and go on.
#include "expect.h"
#include <sys/resource.h>

static pid_t child(void) {
    pid_t pid = fork();
    CHECK(pid >= 0);
    return pid;
}

int main(int argc, char **argv) {
    begin(argc, argv);
    for (int code = 0; code < 3; code++) {
        pid_t pid = child();
        if (pid == 0) _exit(code * 40);
        int status;
        struct rusage usage;
        CHECK(wait4(pid, &status, 0, &usage) == pid);
        CHECK(WIFEXITED(status) && WEXITSTATUS(status) == code * 40);
        EXPECT("wait4", pid, DATA(&status, sizeof status), DATA(&usage, sizeof usage));
    }
    int ready[2];
    CHECK(pipe(ready) == 0);
    pid_t pid = child();
    if (pid == 0) {
        CHECK(write(ready[1], "r", 1) == 1);
        for (;;) continue;
    }
    char byte;
    CHECK(read(ready[0], &byte, 1) == 1);
    CHECK(kill(pid, SIGSTOP) == 0);
    EXPECT("kill", 0, TEXT("SIGSTOP"));
    int status;
    CHECK(wait4(pid, &status, WUNTRACED, NULL) == pid && WIFSTOPPED(status));
    EXPECT("wait4", pid, DATA(&status, sizeof status), TEXT("stopped"));
    CHECK(kill(pid, SIGCONT) == 0);
    CHECK(wait4(pid, &status, WCONTINUED, NULL) == pid && WIFCONTINUED(status));
    CHECK(kill(pid, SIGKILL) == 0);
    // Nobody to wait for yet writes nothing: what lay there is no status.
    int gate[2];
    CHECK(pipe(gate) == 0);
    pid_t idle = child();
    if (idle == 0) _exit(read(gate[0], &byte, 1) == 1 ? 0 : 1);
    status = 0x5a5a5a5a;
    CHECK(wait4(idle, &status, WNOHANG, NULL) == 0 && status == 0x5a5a5a5a);
    char untouched[32];
    snprintf(untouched, sizeof untouched, "%lu", (unsigned long)&status);
    EXPECT("wait4", 0, TEXT(untouched), TEXT("WNOHANG"));
    CHECK(write(gate[1], "g", 1) == 1);
    CHECK(wait4(idle, &status, 0, NULL) == idle && status == 0);
    siginfo_t info;
    memset(&info, 0, sizeof info);
    struct rusage usage;
    CHECK(syscall(SYS_waitid, P_PID, pid, &info, WEXITED, &usage) == 0);
    CHECK(info.si_code == CLD_KILLED && info.si_status == SIGKILL);
    EXPECT("waitid", 0, TEXT("P_PID"), TEXT("WEXITED"));
    // How often a wait is interrupted depends on timing: among many calls that hardly counts.
    for (int i = 0; i < 500; i++) CHECK(syscall(SYS_getpgid, 0) >= 0);
    CHECK(wait4(-1, &status, 0, NULL) == -1 && errno == ECHILD);
    EXPECT_ERRNO("wait4", ECHILD);
    return 0;
}
