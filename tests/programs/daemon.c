// count: off
// A daemon: two forks, a session of its own, nothing open that was open; it outlives its parents.
#include "expect.h"

int main(int argc, char **argv) {
    begin(argc, argv);
    char bytes[2000];
    fill(bytes, sizeof bytes);
    EXPECT("write", sizeof bytes, DATA(bytes, sizeof bytes));
    EXPECT_COUNT("getppid", 1000);
    EXPECT("setsid", ANY);
    fflush(stdout);
    int done[2];
    CHECK(pipe(done) == 0);
    pid_t pid = fork();
    CHECK(pid >= 0);
    if (pid == 0) {
        CHECK(setsid() == getpid());
        if (fork() > 0) _exit(0);
        int fd = open("written-by-daemon", O_RDWR | O_CREAT | O_TRUNC, 0600);
        for (int other = 0; other < 20; other++)
            if (other != fd && other != done[1]) close(other);
        CHECK(write(fd, bytes, sizeof bytes) == sizeof bytes);
        for (int i = 0; i < 1000; i++) syscall(SYS_getppid);
        CHECK(write(done[1], "d", 1) == 1);
        _exit(0);
    }
    CHECK_CHILD(pid);
    close(done[1]);
    char byte;
    CHECK(read(done[0], &byte, 1) == 1);
    return 0;
}
