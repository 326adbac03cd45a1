// Calls whose result depends on more than their arguments and files: on what another thread does just
// then, on rights, on what a file system has allocated, on which families of sockets there are.
// flags: -pthread
// count: off
#include "expect.h"
#include <linux/fs.h>
#include <linux/sockios.h>
#include <pthread.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <time.h>

static void *opens_fifo(void *unused) {
    // Waits for the other side, and has its number already.
    int fd = open("fifo", O_RDONLY);
    CHECK(fd >= 0 && close(fd) == 0);
    return unused;
}

static void a_number_that_is_being_opened(void) {
    int next = dup(0);
    CHECK(next >= 0 && close(next) == 0 && mkfifo("fifo", 0600) == 0);
    pthread_t thread;
    CHECK(pthread_create(&thread, NULL, opens_fifo, NULL) == 0);
    int ret;
    // Until the thread has got there, the number is free.
    while ((ret = dup2(0, next)) == next) CHECK(close(next) == 0 && usleep(1000) == 0);
    CHECK(ret == -1 && errno == EBUSY);
    CHECK(dup3(0, next, O_CLOEXEC) == -1 && errno == EBUSY);
    int end = open("fifo", O_WRONLY);
    CHECK(end >= 0 && pthread_join(thread, NULL) == 0 && close(end) == 0);
    CHECK(dup2(0, next) == next && close(next) == 0);
}

static void what_is_allocated(void) {
    int fd = open("file", O_RDWR | O_CREAT | O_TRUNC, 0600);
    CHECK(fd >= 0 && ftruncate(fd, 1 << 20) == 0 && pwrite(fd, "x", 1, 700000) == 1);
    loff_t bytes = -1;
    CHECK(ioctl(fd, FIOQSIZE, &bytes) == 0 && bytes >= 0);
    CHECK(close(fd) == 0);
}

static void sockets(void) {
    for (int family = -1; family < 64; family++) {
        int fd = socket(family, SOCK_STREAM | SOCK_CLOEXEC, 0);
        if (fd < 0) continue;
        // With the right to administer the network: its namespace.
        int name_space = ioctl(fd, SIOCGSKNS, 0);
        if (name_space >= 0) CHECK(close(name_space) == 0);
        CHECK(close(fd) == 0);
    }
    CHECK(close(dup(0)) == 0);
}

static void times_of_devices(void) {
    int fd = open("/dev/null", O_RDWR);
    struct timespec now[2] = {{.tv_nsec = UTIME_NOW}, {.tv_nsec = UTIME_NOW}};
    CHECK(fd >= 0 && (futimens(fd, now) == 0 || errno == EACCES || errno == EPERM || errno == EROFS));
    // With what they have already.
    struct stat is;
    CHECK(fstat(fd, &is) == 0 && (fchmod(fd, is.st_mode & 07777) == 0 || errno == EPERM || errno == EROFS));
    CHECK(chown("/dev/zero", -1, -1) == 0 || errno == EPERM || errno == EROFS);
    CHECK(close(fd) == 0);
}

int main(int argc, char **argv) {
    begin(argc, argv);
    a_number_that_is_being_opened();
    what_is_allocated();
    sockets();
    times_of_devices();
    return 0;
}
