// flags: -static-pie
// A static program that is loaded anywhere, and relocates itself.
#include "expect.h"

int main(int argc, char **argv) {
    begin(argc, argv);
    char bytes[3000];
    int fd = open("file", O_RDWR | O_CREAT | O_TRUNC, 0600);
    CHECK(fd >= 0);
    for (int i = 0; i < 100; i++) {
        size_t len = random_len(sizeof bytes);
        fill(bytes, len);
        CHECK(pwrite(fd, bytes, len, 0) == (ssize_t)len);
        EXPECT("pwrite64", len, DATA(bytes, len));
    }
    pid_t pid = fork();
    if (pid == 0) {
        execl("/bin/true", "true", NULL);
        _exit(1);
    }
    CHECK_CHILD(pid);
    return 0;
}
