// count: off
// Text of a file that is gone, whose name leads to a pipe that nobody writes to, to a link, to
// another file: nobody opens those.
#include "expect.h"
#include <sys/mman.h>

static const char name[] = "library (deleted)";

static void none(void) {}
static void a_pipe(void) {
    CHECK(mkfifo(name, 0666) == 0);
}
static void a_link(void) {
    CHECK(symlink("/dev/tty", name) == 0);
}
static void a_file(void) {
    int fd = open(name, O_RDWR | O_CREAT, 0600);
    CHECK(fd >= 0 && write(fd, name, sizeof name) == sizeof name && close(fd) == 0);
}

// getppid, by a system call of its own.
static const char text[] = "\xb8\x6e\x00\x00\x00\x0f\x05\xc3";

static pid_t parent;

static void with(void (*put_there)(void)) {
    char page[4096];
    memset(page, 0x90, sizeof page);
    memcpy(page + 64, text, sizeof text - 1);
    int fd = open("library", O_CREAT | O_RDWR | O_TRUNC, 0755);
    CHECK(fd >= 0 && write(fd, page, sizeof page) == sizeof page && close(fd) == 0);
    fd = open("library", O_RDONLY);
    char *at = mmap(NULL, sizeof page, PROT_READ | PROT_EXEC, MAP_PRIVATE, fd, 0);
    CHECK(at != MAP_FAILED && close(fd) == 0 && unlink("library") == 0);
    put_there();
    int (*call)(void) = (int (*)(void))(at + 64);
    for (int i = 0; i < 40; i++) CHECK(call() == parent);
    usleep(50000);
    // Others are not held up.
    for (int i = 0; i < 3; i++) {
        pid_t pid = fork();
        if (pid == 0) {
            execl("/bin/true", "true", NULL);
            _exit(1);
        }
        CHECK_CHILD(pid);
    }
    unlink(name);
    CHECK(munmap(at, sizeof page) == 0);
}

int main(int argc, char **argv) {
    begin(argc, argv);
    parent = getppid();
    with(none);
    with(a_pipe);
    with(a_link);
    with(a_file);
    EXPECT_COUNT("getppid", 161);
    return 0;
}
