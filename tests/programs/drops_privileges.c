// needs: root
// A server's start: root at first, then an ordinary user in a directory that is its whole world.
#include "expect.h"
#include <grp.h>

int main(int argc, char **argv) {
    begin(argc, argv);
    char bytes[2000];
    fill(bytes, sizeof bytes);
    CHECK(mkdir("jail", 0755) == 0 && chmod(".", 0755) == 0);
    CHECK(chown("jail", 65534, 65534) == 0);
    pid_t pid = fork();
    if (pid == 0) {
        CHECK(setgroups(0, NULL) == 0 && setresgid(65534, 65534, 65534) == 0);
        CHECK(setresuid(65534, 65534, 65534) == 0);
        CHECK(chdir("jail") == 0);
        int fd = open("by-nobody", O_RDWR | O_CREAT, 0600);
        CHECK(fd >= 0 && write(fd, bytes, sizeof bytes) == sizeof bytes);
        pid_t grandchild = fork();
        if (grandchild == 0) {
            execl("/bin/true", "true", NULL);
            _exit(1);
        }
        CHECK_CHILD(grandchild);
        _exit(0);
    }
    CHECK_CHILD(pid);
    EXPECT("setresuid", 0);
    EXPECT("write", sizeof bytes, DATA(bytes, sizeof bytes));
    pid = fork();
    if (pid == 0) {
        CHECK(chroot("jail") == 0 && chdir("/") == 0);
        CHECK(open("/bin/sh", O_RDONLY) == -1 && errno == ENOENT);
        int fd = open("/by-nobody", O_RDONLY);
        CHECK(fd >= 0 && read(fd, bytes, sizeof bytes) == sizeof bytes);
        for (int i = 0; i < 50; i++) CHECK(syscall(SYS_getppid) > 0);
        _exit(0);
    }
    CHECK_CHILD(pid);
    EXPECT("chroot", 0, TEXT("jail"));
    EXPECT("read", sizeof bytes, DATA(bytes, sizeof bytes));
    EXPECT_COUNT("getppid", 50);
    return 0;
}
