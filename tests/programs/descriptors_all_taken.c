// A program that closes, reuses and fills every descriptor there is: none of ours is among them.
#include "expect.h"
#include <sys/resource.h>

int main(int argc, char **argv) {
    begin(argc, argv);
    // All that a program may close, it closes.
    for (int fd = 3; fd < 1024; fd++) CHECK(close(fd) == 0 || errno == EBADF);
    CHECK(syscall(SYS_close_range, 3, ~0u, 0) == 0);
    CHECK(getppid() > 0);
    struct rlimit limit = {64, 64};
    CHECK(setrlimit(RLIMIT_NOFILE, &limit) == 0);
    for (int fd = 3; fd < 64; fd++) CHECK(open("/dev/null", O_RDWR) == fd);
    CHECK(open("/dev/null", O_RDWR) == -1 && errno == EMFILE);
    EXPECT_ERRNO("openat", EMFILE);
    char bytes[100];
    fill(bytes, sizeof bytes);
    CHECK(write(63, bytes, sizeof bytes) == sizeof bytes);
    EXPECT("write", sizeof bytes, DATA(bytes, sizeof bytes));
    // A child of a full table is followed as well.
    pid_t pid = fork();
    if (pid == 0) {
        fill(bytes, sizeof bytes);
        CHECK(write(30, bytes, sizeof bytes) == sizeof bytes);
        execl("/bin/true", "true", NULL);
        _exit(1);
    }
    int status = wait_for(pid);
    CHECK(WIFEXITED(status));
    printf("child ended with %d\n", WEXITSTATUS(status));
    return 0;
}
