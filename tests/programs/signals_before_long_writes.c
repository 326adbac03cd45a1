// count: off
// A timer that ticks faster than the input of a call can be copied: the call is made all the same, and recorded whole.
#include "expect.h"
#include <fcntl.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <sys/uio.h>
#include <sys/wait.h>

enum { SIZE = 6 << 20 };

static volatile long ticks;
static char *bytes;

static void on_alarm(int signal) {
    (void)signal;
    ticks++;
}

static void tick(int us) {
    struct itimerval often = {{0, us}, {0, us}};
    CHECK(setitimer(ITIMER_REAL, &often, NULL) == 0);
}

// Reads all that comes, in another process.
static pid_t reader(int from, int other) {
    pid_t child = fork();
    CHECK(child >= 0);
    if (child == 0) {
        static char in[50000];
        size_t at = 0;
        close(other);
        for (ssize_t n; (n = read(from, in, sizeof in)) > 0; at += (size_t)n)
            CHECK(at + (size_t)n <= SIZE && memcmp(in, bytes + at, (size_t)n) == 0);
        _exit(at == SIZE ? 0 : 1);
    }
    close(from);
    return child;
}

static void ended_well(pid_t child) {
    int status;
    while (waitpid(child, &status, 0) == -1) CHECK(errno == EINTR);
    CHECK(status == 0);
}

int main(int argc, char **argv) {
    begin(argc, argv);
    bytes = malloc(SIZE);
    CHECK(bytes);
    fill(bytes, SIZE);
    int fd = open("file", O_RDWR | O_CREAT | O_TRUNC, 0600);
    CHECK(fd >= 0);
    struct sigaction action = {.sa_handler = on_alarm, .sa_flags = SA_RESTART};
    CHECK(sigaction(SIGALRM, &action, NULL) == 0);
    tick(100);
    CHECK(write(fd, bytes, SIZE) == SIZE);
    EXPECT("write", SIZE, DATA(bytes, SIZE));
    CHECK(pwrite(fd, bytes + 1, SIZE - 1, 0) == SIZE - 1);
    EXPECT("pwrite64", SIZE - 1, DATA(bytes + 1, SIZE - 1));
    struct iovec vector[2] = {{bytes, SIZE / 2}, {bytes + SIZE / 2, SIZE / 2}};
    CHECK(pwritev(fd, vector, 2, 10) == SIZE);
    EXPECT("pwritev", SIZE, DATA(bytes, SIZE));

    int ends[2];
    CHECK(pipe(ends) == 0);
    pid_t child = reader(ends[0], ends[1]);
    for (size_t at = 0; at < SIZE;) {
        ssize_t n = write(ends[1], bytes + at, SIZE - at);
        CHECK(n > 0 || errno == EINTR);
        if (n > 0) at += (size_t)n;
    }
    close(ends[1]);
    ended_well(child);

    int pair[2];
    CHECK(socketpair(AF_UNIX, SOCK_STREAM, 0, pair) == 0);
    child = reader(pair[0], pair[1]);
    for (size_t at = 0; at < SIZE;) {
        struct iovec rest = {bytes + at, SIZE - at};
        struct msghdr message = {.msg_iov = &rest, .msg_iovlen = 1};
        ssize_t n = sendmsg(pair[1], &message, 0);
        CHECK(n > 0 || errno == EINTR);
        if (n > 0) at += (size_t)n;
    }
    close(pair[1]);
    ended_well(child);
    struct itimerval off = {0};
    CHECK(setitimer(ITIMER_REAL, &off, NULL) == 0);
    return 0;
}
