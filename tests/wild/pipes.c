// Pipes and FIFOs: sizes, ends, whole writes, and data that moves without being copied.
#include "cases.h"
#include <poll.h>
#include <sys/ioctl.h>

static void sizes(void) {
    int fds[2], waiting;
    CHECK(pipe2(fds, O_CLOEXEC | O_NONBLOCK) == 0);
    CHECK(fcntl(fds[1], F_SETPIPE_SZ, 8192) == 8192 && fcntl(fds[0], F_GETPIPE_SZ) == 8192);
    static char text[4096];
    CHECK(write(fds[1], text, sizeof text) == 4096 && write(fds[1], text, sizeof text) == 4096);
    FAILS(EAGAIN, write(fds[1], text, 1));
    CHECK(ioctl(fds[0], FIONREAD, &waiting) == 0 && waiting == 8192);
    FAILS(EBUSY, fcntl(fds[1], F_SETPIPE_SZ, 4096));
    CHECK(read(fds[0], text, 100) == 100);
    FAILS(EAGAIN, write(fds[1], text, sizeof text));
    CHECK(read(fds[0], text, 3996) == 3996 && write(fds[1], text, 4096) == 4096);
}

static void ends_that_close(void) {
    int fds[2];
    char byte;
    signal(SIGPIPE, SIG_IGN);
    CHECK(pipe(fds) == 0);
    CHECK(write(fds[1], "ab", 2) == 2);
    close(fds[1]);
    CHECK(read(fds[0], &byte, 1) == 1 && read(fds[0], &byte, 1) == 1 && read(fds[0], &byte, 1) == 0);
    close(fds[0]);
    CHECK(pipe(fds) == 0);
    close(fds[0]);
    FAILS(EPIPE, write(fds[1], "x", 1));
    signal(SIGPIPE, SIG_DFL);
    pid_t pid = fork();
    CHECK(pid >= 0);
    if (pid == 0) _exit(write(fds[1], "x", 1) == 1);
    int status = wait_for(pid);
    CHECK(WIFSIGNALED(status) && WTERMSIG(status) == SIGPIPE);
}

static void fifo_by_name(void) {
    CHECK(mkfifo("fifo", 0622) == 0);
    FAILS(EEXIST, mkfifo("fifo", 0600));
    FAILS(ENXIO, open("fifo", O_WRONLY | O_NONBLOCK));
    pid_t pid = fork();
    CHECK(pid >= 0);
    if (pid == 0) {
        int fd = open("fifo", O_WRONLY);
        CHECK(fd >= 0 && write(fd, "through it", 10) == 10);
        _exit(0);
    }
    chmod("fifo", 0644);
    int fd = open("fifo", O_RDONLY);
    char text[20];
    CHECK(fd >= 0 && read(fd, text, 20) == 10 && memcmp(text, "through it", 10) == 0);
    CHECK_CHILD(pid);
    CHECK(read(fd, text, 20) == 0);
    struct stat stat;
    CHECK(fstat(fd, &stat) == 0 && S_ISFIFO(stat.st_mode));
}

static void packets(void) {
    int fds[2];
    char text[10];
    CHECK(pipe2(fds, O_DIRECT) == 0);
    CHECK(write(fds[1], "first", 5) == 5 && write(fds[1], "second", 6) == 6);
    CHECK(read(fds[0], text, 3) == 3 && read(fds[0], text, 10) == 6);
    CHECK(memcmp(text, "second", 6) == 0);
}

static void spliced_from_file(void) {
    int fds[2], in = new_file("in", "0123456789abcdef"), out = new_file("out", "");
    loff_t at = 4;
    CHECK(pipe(fds) == 0);
    CHECK(splice(in, &at, fds[1], NULL, 8, 0) == 8 && at == 12);
    CHECK(splice(fds[0], NULL, out, NULL, 100, 0) == 8);
    must_hold("out", "456789ab");
    FAILS(ESPIPE, splice(in, NULL, fds[1], &at, 8, 0));
    FAILS(EINVAL, splice(in, NULL, out, NULL, 8, 0));
}

static void teed(void) {
    int one[2], two[2];
    char text[20] = "";
    CHECK(pipe(one) == 0 && pipe(two) == 0);
    CHECK(write(one[1], "for both", 8) == 8);
    CHECK(tee(one[0], two[1], 3, 0) == 3 && tee(one[0], two[1], 20, 0) == 8);
    CHECK(read(two[0], text, 20) == 11 && memcmp(text, "forfor both", 11) == 0);
    CHECK(read(one[0], text, 20) == 8);
    FAILS(EAGAIN, tee(one[0], two[1], 20, SPLICE_F_NONBLOCK));
    FAILS(EINVAL, tee(one[0], one[1], 20, 0));
}

static void chain_of_children(void) {
    enum { LENGTH = 6, BYTES = 100000 };
    int in = -1, fds[2];
    for (int i = 0; i < LENGTH; i++) {
        CHECK(pipe(fds) == 0);
        pid_t pid = fork();
        CHECK(pid >= 0);
        if (pid == 0) {
            static unsigned char text[5000];
            close(fds[0]);
            if (i == 0) {
                for (int sent = 0; sent < BYTES; sent += sizeof text) CHECK(write(fds[1], text, sizeof text) == sizeof text);
                _exit(0);
            }
            for (ssize_t len; (len = read(in, text, sizeof text)) > 0;) {
                for (ssize_t j = 0; j < len; j++) text[j]++;
                CHECK(write(fds[1], text, (size_t)len) == len);
            }
            _exit(0);
        }
        close(fds[1]);
        if (in >= 0) close(in);
        in = fds[0];
    }
    int total = 0;
    unsigned char text[3000];
    for (ssize_t len; (len = read(in, text, sizeof text)) > 0; total += (int)len)
        for (ssize_t j = 0; j < len; j++) CHECK(text[j] == LENGTH - 1);
    CHECK(total == BYTES);
    while (wait(NULL) > 0) {}
}

static void polled(void) {
    int fds[2];
    CHECK(pipe(fds) == 0);
    struct pollfd polls[] = {{fds[0], POLLIN, 0}, {fds[1], POLLOUT, 0}, {-1, POLLIN, 0}};
    CHECK(poll(polls, 3, 0) == 1 && polls[0].revents == 0 && polls[1].revents == POLLOUT);
    CHECK(write(fds[1], "x", 1) == 1);
    CHECK(poll(polls, 3, -1) == 2 && polls[0].revents == POLLIN);
    close(fds[1]);
    polls[1].fd = -1;
    CHECK(poll(polls, 3, 0) == 1 && polls[0].revents == (POLLIN | POLLHUP));
    polls[1].fd = 99;
    CHECK(poll(polls, 3, 0) == 2 && polls[1].revents == POLLNVAL);
}

static void opened_by_link(void) {
    int fds[2];
    char path[40], byte;
    CHECK(pipe(fds) == 0);
    snprintf(path, sizeof path, "/proc/self/fd/%d", fds[0]);
    int again = open(path, O_WRONLY | O_NONBLOCK);
    CHECK(again >= 0);
    close(fds[1]);
    CHECK(write(again, "x", 1) == 1 && read(fds[0], &byte, 1) == 1);
    close(again);
    CHECK(read(fds[0], &byte, 1) == 0);
}

static void both_ends_of_fifo(void) {
    CHECK(mkfifo("fifo", 0600) == 0);
    int fd = open("fifo", O_RDWR), reader = open("fifo", O_RDONLY | O_NONBLOCK);
    char text[10];
    CHECK(fd >= 0 && reader >= 0);
    FAILS(EAGAIN, read(reader, text, 1));
    CHECK(write(fd, "abc", 3) == 3 && read(reader, text, 2) == 2 && read(fd, text, 9) == 1);
    CHECK(rename("fifo", "moved") == 0 && write(fd, "z", 1) == 1 && unlink("moved") == 0);
    CHECK(read(reader, text, 9) == 1 && text[0] == 'z');
}

// What a program writes that gains rights as it starts: nobody records it.
static void from_one_not_followed(void) {
    char text[200] = "";
    int fds[2], len = 0;
    CHECK(pipe(fds) == 0);
    pid_t pid = fork();
    CHECK(pid >= 0);
    if (pid == 0) {
        CHECK(dup2(fds[1], 1) == 1);
        execl("/bin/mount", "mount", "--version", (char *)NULL);
        _exit(9);
    }
    close(fds[1]);
    for (ssize_t got; (got = read(fds[0], text + len, sizeof text - 1 - (size_t)len)) > 0;) len += (int)got;
    CHECK_CHILD(pid);
    CHECK(strncmp(text, "mount", 5) == 0);
}

CASES(
    {.name = "sizes", .function = sizes},
    {.name = "ends_that_close", .function = ends_that_close},
    {.name = "fifo_by_name", .function = fifo_by_name},
    {.name = "packets", .function = packets},
    {.name = "spliced_from_file", .function = spliced_from_file},
    {.name = "teed", .function = teed},
    {.name = "chain_of_children", .function = chain_of_children},
    {.name = "polled", .function = polled},
    {.name = "opened_by_link", .function = opened_by_link},
    {.name = "both_ends_of_fifo", .function = both_ends_of_fifo},
    {.name = "from_one_not_followed", .function = from_one_not_followed, .needs = "user",
     .gaps = "not-followed"}, )
